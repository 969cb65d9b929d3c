"""Imports point one way, the two sides do not know each other, and nothing is loaded in vain."""

import ast
import doctest
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from handmade import UNEVEN

import bisample

SOURCE = Path(bisample.__file__).resolve().parent
TOOLS = SOURCE.parents[1] / "tools"

# From the ground up: a part may import from parts in lines above its own.
ORDER = [
    ["errors"],
    ["protocol"],
    ["device", "analysis"],
    ["catalogue"],
    ["planning"],
    ["authoring"],
    ["simulation"],
    ["files"],
    ["dataframes", "collector"],
    ["paper"],
    ["cli"],
    ["__main__"],
]
LEVEL = {part: level for level, line in enumerate(ORDER) for part in line}
# Though it lies below: what serves published definitions never loads what perturbs.
NEVER = {("collector", "device"), ("collector", "simulation")}
# What one may ask of the package as a whole: its version.
MAY_NAME_THE_PACKAGE = {"paper", "cli"}

# The only imports upwards, and in which function each stands.
DOORS = {
    ("Mechanism.privatize", "bisample.device.drawing"),
    ("Mechanism.tally", "bisample.analysis.tally"),
    ("Mechanism.tally_of", "bisample.analysis.tally"),
    ("Mechanism.estimate", "bisample.analysis.estimate"),
    ("Mechanism.estimates", "bisample.analysis.estimate"),
    ("Mechanism.variance", "bisample.analysis.variance"),
}
# And those that only a type checker sees.
TYPES = {
    "bisample.analysis.results",
    "bisample.analysis.tally",
    "bisample.analysis.variance",
    "bisample.device.randomness",
}

CORE = {"errors", "protocol", "device", "analysis", "catalogue", "planning", "simulation"}
FOREIGN = {"errors": set(), "device": {"numpy", "cryptography"}}


# --- Reading imports from the source -----------------------------------------------------------------


class Import(NamedTuple):
    """One import: of what, in which function ("" at the level of the module), and whether for types only."""

    target: str
    function: str
    types: bool


def imports_of(source, module, modules):
    """All imports in a source text; a name taken from a package counts as the module that it is."""
    found = []

    def visit(node, function, types):
        found.extend(Import(target, function, types) for target in _targets(node, module, modules))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            function = f"{function}.{node.name}".lstrip(".")
        guarded = node.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) else []
        for child in ast.iter_child_nodes(node):
            visit(child, function, types or child in guarded)

    visit(ast.parse(source), "", False)
    return found


def _targets(node, module, modules):
    """The modules that one statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = [node.module] if node.module else []
    if node.level:
        is_package = any(other.startswith(f"{module}.") for other in modules)
        above = module.split(".")
        base = above[: len(above) - node.level + is_package] + base
    wholes = [".".join([*base, alias.name]) for alias in node.names]
    return [whole if whole in modules else ".".join(base) for whole in wholes]


def _part(module):
    """The part of the package that a module belongs to; "" for the package itself."""
    return [*module.split("."), ""][1]


def breaks_the_order(module, found):
    """Why this import may not stand in this module; None if it may."""
    here, there = _part(module), _part(found.target)
    if found.target.partition(".")[0] != "bisample" or here == there:
        return None
    if not there:
        return None if here in MAY_NAME_THE_PACKAGE else f"{module} imports the package that it is part of"
    if not {here, there} <= LEVEL.keys():
        return f"{here} or {there} has no place in ORDER: give it one"
    below = LEVEL[there] < LEVEL[here] and (here, there) not in NEVER
    door = (found.function, found.target) in DOORS or (found.types and found.target in TYPES)
    if below or (door and module == "bisample.protocol.mechanism"):
        return None
    return f"{module} imports {found.target} in {found.function or 'the module'}, which does not lie below it"


def cycle_in(graph):
    """Modules that need each other to be loaded; empty if there are none."""
    graph = {module: set(needs) for module, needs in graph.items()}
    while ready := [module for module, needs in graph.items() if not needs & graph.keys()]:
        for module in ready:
            del graph[module]
    return sorted(graph)


def _modules():
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(["bisample", *(parts[:-1] if parts[-1] == "__init__" else parts)])
        found[name] = path
    return found


MODULES = _modules()
PARTS = [name for name in MODULES if name != "bisample"]
every_module = pytest.mark.parametrize("module", PARTS)


def _imports(module):
    return imports_of(MODULES[module].read_text(encoding="utf-8"), module, MODULES)


# --- The rules -------------------------------------------------------------------------------------------


@every_module
def test_imports_point_one_way(module):
    assert [why for found in _imports(module) if (why := breaks_the_order(module, found))] == []


def test_the_doors_are_there_and_lead_where_they_say():
    found = _imports("bisample.protocol.mechanism")
    upwards = [i for i in found if LEVEL.get(_part(i.target), 0) > LEVEL["protocol"]]
    assert {(i.function, i.target) for i in upwards if not i.types} == DOORS
    assert {i.target for i in upwards if i.types} == TYPES


def test_no_modules_need_each_other_to_be_loaded():
    graph = {
        module: {i.target for i in _imports(module) if not i.function and not i.types} - {module}
        for module in MODULES
    }
    assert cycle_in(graph) == []


@every_module
def test_the_core_knows_no_terminal_no_dataframes_and_no_network(module):
    if _part(module) not in CORE:
        return
    foreign = {found.target.partition(".")[0] for found in _imports(module)} - {"bisample"}
    own = set(sys.stdlib_module_names) - {"argparse", "sqlite3", "http", "socket", "urllib", "logging", "csv"}
    assert foreign <= own | FOREIGN.get(_part(module), {"numpy"})
    called = {
        node.func.id
        for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"print", "input", "open", "eval", "exec", "__import__"}


# Classes hold a state of their own; RandomState is the old one, and all else of np.random is the global one.
RANDOM = {"Generator", "SeedSequence", "PCG64", "default_rng"}
MAY_BE_RANDOM = {"bisample.device.randomness": RANDOM, "bisample.paper.data": {*RANDOM, "SFC64"}}


def global_randomness(source, allowed):
    """Uses of np.random that are not allowed, with their lines."""
    return [
        (node.attr, node.lineno)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "random"
        and isinstance(node.value.value, ast.Name)
        and node.value.value.id in {"np", "numpy"}
        and node.attr not in allowed
    ]


@every_module
def test_randomness_is_passed_in_and_never_global(module):
    for found in _imports(module):
        assert found.target.partition(".")[0] not in {"random", "secrets", "uuid"}
        assert not found.target.startswith("numpy.random")
    source = MODULES[module].read_text(encoding="utf-8")
    simulates = _part(module) in {"simulation", "paper"} or module == "bisample.cli.demo"
    allowed = MAY_BE_RANDOM.get(module, RANDOM if simulates else set())
    assert global_randomness(source, allowed) == []
    if module != "bisample.device.randomness":
        assert "urandom" not in source


@pytest.mark.parametrize("path", [*MODULES.values(), *sorted(TOOLS.glob("*.py"))], ids=lambda p: p.name)
def test_modules_are_of_a_size_to_be_read(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500


@every_module
def test_there_are_no_drawers_for_odds_and_ends(module):
    assert not {"utils", "util", "helpers", "common", "misc", "base"} & set(module.split("."))


# --- The rules can fail ----------------------------------------------------------------------------------

SAMPLE = """
from __future__ import annotations
import numpy as np
from typing import TYPE_CHECKING
from . import answers
from .randomness import resolve
from ..protocol import table, exact
if TYPE_CHECKING:
    from bisample.analysis.tally import Tally
else:
    from bisample import errors
class Mechanism:
    def privatize(self):
        from bisample.device import drawing
        def inner():
            import bisample.catalogue
"""


def test_imports_are_read_wherever_they_stand():
    assert imports_of(SAMPLE, "bisample.device.sample", MODULES) == [
        Import("__future__", "", False),
        Import("numpy", "", False),
        Import("typing", "", False),
        Import("bisample.device.answers", "", False),
        Import("bisample.device.randomness", "", False),
        Import("bisample.protocol.table", "", False),
        Import("bisample.protocol.exact", "", False),
        Import("bisample.analysis.tally", "", True),
        Import("bisample.errors", "", False),
        Import("bisample.device.drawing", "Mechanism.privatize", False),
        Import("bisample.catalogue", "Mechanism.privatize.inner", False),
    ]
    assert imports_of("from .exact import real", "bisample.protocol", MODULES) == [
        Import("bisample.protocol.exact", "", False)
    ]


@pytest.mark.parametrize(
    ("module", "target", "function", "types"),
    [
        ("bisample.errors", "bisample.protocol.exact", "", False),
        ("bisample.protocol.table", "bisample.device.drawing", "", False),
        ("bisample.protocol.table", "bisample.device.drawing", "privatize", False),
        ("bisample.protocol.table", "bisample.device.drawing", "", True),
        ("bisample.device.drawing", "bisample.analysis.tally", "", False),
        ("bisample.device.drawing", "bisample.analysis.tally", "", True),
        ("bisample.analysis.tally", "bisample.device.answers", "count", False),
        ("bisample.analysis.tally", "bisample.catalogue", "", False),
        ("bisample.catalogue", "bisample.planning.compare", "build", False),
        ("bisample.simulation.privkvm", "bisample.paper.data", "", False),
        ("bisample.paper.data", "bisample.cli.main", "", False),
        ("bisample.collector.routes", "bisample.device.drawing", "", False),
        ("bisample.device.drawing", "bisample", "", False),
        ("bisample.device.drawing", "bisample.unheard.of", "", False),
        ("bisample.protocol.mechanism", "bisample.device.drawing", "", False),
        ("bisample.protocol.mechanism", "bisample.device.drawing", "Mechanism.tally", False),
        ("bisample.protocol.mechanism", "bisample.analysis.solve", "Mechanism.estimate", False),
        ("bisample.protocol.mechanism", "bisample.catalogue", "", True),
    ],
)
def test_an_import_against_the_order_is_found(module, target, function, types):
    assert breaks_the_order(module, Import(target, function, types))


@pytest.mark.parametrize(
    ("module", "target", "function", "types"),
    [
        ("bisample.device.drawing", "bisample.protocol.exact", "", False),
        ("bisample.device.drawing", "bisample.device.answers", "", False),
        ("bisample.catalogue", "bisample.errors", "", False),
        ("bisample.collector.routes", "bisample.analysis.tally", "", False),
        ("bisample.cli.main", "bisample", "", False),
        ("bisample.errors", "pickle", "", False),
        ("bisample.protocol.mechanism", "bisample.analysis.tally", "Mechanism.tally", False),
        ("bisample.protocol.mechanism", "bisample.analysis.tally", "", True),
    ],
)
def test_an_import_along_the_order_is_not(module, target, function, types):
    assert breaks_the_order(module, Import(target, function, types)) is None


def test_cycles_and_global_randomness_are_found():
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == ["a", "b", "c", "d"]
    assert cycle_in({"a": {"b"}, "b": {"c", "numpy"}, "c": set()}) == []
    source = "import numpy as np\nnp.random.seed(1)\nrng = np.random.default_rng(1)\nnp.random.RandomState(1)"
    assert global_randomness(source, RANDOM) == [("seed", 2), ("RandomState", 4)]
    assert global_randomness(source, set()) == [("seed", 2), ("default_rng", 3), ("RandomState", 4)]


# --- What is public --------------------------------------------------------------------------------------


def in_order(names):
    """CONSTANTS, then Classes, then functions, each by the alphabet."""
    return sorted(set(names), key=lambda n: (0 if n.isupper() else 1 if n[0].isupper() else 2, n))


def test_the_order_of_names_can_be_wrong():
    assert in_order(["b", "Bb", "AB", "a", "Ab"]) == ["AB", "Ab", "Bb", "a", "b"]
    for wrong in (["b", "a"], ["a", "A"], ["Ab", "AB"], ["a", "a"]):
        assert wrong != in_order(wrong)


def _exporting():
    return [m for m in MODULES if MODULES[m].name not in {"__init__.py", "__main__.py"}]


@pytest.mark.parametrize("module", ["bisample", *_exporting()])
def test_modules_say_what_they_are_and_what_is_public_in_order(module):
    loaded = importlib.import_module(module)
    assert inspect.getdoc(loaded)
    assert list(loaded.__all__) == in_order(loaded.__all__)
    for name in loaded.__all__:
        assert hasattr(loaded, name), name


def _members():
    for module in _exporting():
        if _part(module) in CORE:
            loaded = importlib.import_module(module)
            for name in loaded.__all__:
                member = getattr(loaded, name)
                if inspect.isclass(member) or inspect.isfunction(member):
                    yield pytest.param(member, id=f"{module}.{name}")


@pytest.mark.parametrize("member", list(_members()))
def test_everything_public_in_the_core_has_a_docstring_of_its_own(member):
    text = member.__doc__
    assert text
    assert len(text) > 20
    # A dataclass without one is given its signature.
    assert not re.match(rf"{member.__name__}\(", text)


# What has no example of its own: errors, and what others return piecemeal.
NO_EXAMPLE = {
    "BisampleError",
    "Estimate",
    "FileError",
    "FormatError",
    "MissingExtraError",
    "ParameterError",
    "ReportError",
    "Variance",
}


@pytest.mark.parametrize("name", bisample.__all__)
def test_everything_in_the_package_has_a_docstring_and_an_example(name):
    member = getattr(bisample, name)
    assert inspect.getdoc(member)
    examples = doctest.DocTestFinder(recurse=False).find(member, name)
    assert any(test.examples for test in examples) is (name not in NO_EXAMPLE)


@pytest.mark.parametrize("name", [n for n in bisample.__all__ if inspect.isclass(getattr(bisample, n))])
def test_public_methods_are_documented(name):
    for method, member in inspect.getmembers(getattr(bisample, name)):
        if not method.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            assert inspect.getdoc(member), f"{name}.{method}"


def test_the_package_exports_what_it_lists_and_nothing_else_is_found():
    for name in bisample.__all__:
        assert getattr(bisample, name) is not None
    assert set(bisample.__all__) <= set(dir(bisample))
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        bisample.no_such_name  # noqa: B018


def test_what_a_type_checker_sees_is_what_is_loaded_when_it_is_asked_for():
    tree = ast.parse(MODULES["bisample"].read_text(encoding="utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    seen = {(f"bisample.{n.module}", alias.name) for n in block.body for alias in n.names}
    for home, name in seen:
        assert getattr(bisample, name) is getattr(importlib.import_module(home), name)
    assert {name for _, name in seen} >= set(bisample.__all__)


# --- What is loaded, in a fresh interpreter ---------------------------------------------------------------


def _loaded_after(code, stdin=""):
    """Modules that a fresh interpreter has after this code, and what the code printed."""
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], input=stdin, capture_output=True, text=True, check=True
    )
    *printed, modules = done.stdout.splitlines()
    return set(json.loads(modules)), printed


def _own(loaded):
    return {name for name in loaded if name.partition(".")[0] == "bisample"}


READ = "from bisample import Mechanism\nm = Mechanism.from_json(sys.stdin.readline())\n"


def test_a_mechanism_from_json_works_where_nobody_built_it():
    """JSON of a table and a domain in; codes, a tally and an estimate out; the catalogue is never loaded."""
    loaded, (codes, tally, estimate) = _loaded_after(
        READ + "codes = m.privatize([5, 13, 44.5, None] * 500, rng=3)\n"
        "tally = m.tally(codes, {'wave': '1'})\n"
        "print(codes.tolist())\n"
        "print(tally.to_json())\n"
        "print(m.estimate(tally).to_json(indent=None))\n",
        UNEVEN.to_json(),
    )
    assert "bisample.catalogue" not in loaded
    expected = UNEVEN.privatize([5, 13, 44.5, None] * 500, rng=3)
    assert json.loads(codes) == expected.tolist()
    assert bisample.Tally.from_json(tally) == UNEVEN.tally(expected, {"wave": "1"})
    assert json.loads(estimate) == UNEVEN.estimate(UNEVEN.tally(expected, {"wave": "1"})).to_dict()


def test_a_device_loads_nothing_that_estimates():
    """Neither for one answer, which needs no cipher either, nor for many."""
    loaded, (code,) = _loaded_after(READ + "print(m.privatize(13.0))", UNEVEN.to_json())
    assert int(code) in range(5)
    assert _own(loaded) == {
        "bisample",
        "bisample.device",
        "bisample.device.answers",
        "bisample.device.drawing",
        "bisample.device.randomness",
        "bisample.errors",
        "bisample.protocol",
        "bisample.protocol.canonical",
        "bisample.protocol.domain",
        "bisample.protocol.exact",
        "bisample.protocol.mechanism",
        "bisample.protocol.table",
    }
    assert "cryptography" not in loaded
    loaded, _ = _loaded_after(READ + "m.privatize([13.0] * 200_000)", UNEVEN.to_json())
    assert "cryptography" in loaded
    assert not {name for name in _own(loaded) if _part(name) not in {"", "device", "errors", "protocol"}}


def test_an_analyst_loads_nothing_that_draws():
    loaded, (n, rate) = _loaded_after(
        READ + "t = m.tally(bytes([0, 1, 4, 4]) * 500) + m.tally_of([500] * 5)\n"
        "print(t.n)\n"
        "print(m.estimate(t).answer_rate_interval[1])\n"
        "m.variance([13.0, None])\n",
        UNEVEN.to_json(),
    )
    assert int(n) == 4500
    assert 0 < float(rate) <= 1
    assert not {name for name in _own(loaded) if _part(name) not in {"", "analysis", "errors", "protocol"}}
    assert "cryptography" not in loaded


def test_importing_the_package_is_light():
    before, _ = _loaded_after("")
    loaded, _ = _loaded_after("import bisample")
    assert _own(loaded) == {"bisample"}
    assert {name.partition(".")[0] for name in loaded - before - {"bisample"}} <= set(sys.stdlib_module_names)
    assert not (loaded - before) & {
        "statistics",
        "random",
        "argparse",
        "csv",
        "tomllib",
        "hashlib",
        "decimal",
    }


def test_building_loads_no_command_line_and_no_simulation():
    loaded, _ = _loaded_after("import bisample\nbisample.BiSample(epsilon=1).privatize(0.5)")
    assert {_part(name) for name in _own(loaded)} == {"", "catalogue", "device", "errors", "protocol"}
    assert not {"click", "tqdm", "cryptography", "statistics", "random"} & loaded


def test_a_column_is_privatized_without_importing_its_library():
    loaded, _ = _loaded_after(
        "import bisample\n"
        "class Column:\n"
        "    def to_numpy(self):\n"
        "        import numpy\n"
        "        return numpy.array([0.5, float('nan')])\n"
        "assert len(bisample.BiSample(epsilon=1).privatize(Column())) == 2\n"
        "assert len(bisample.KRandomizedResponse(1, ['a', 'b']).privatize(['a', None])) == 2"
    )
    libraries = {"pandas", "polars", "pyarrow", "narwhals", "matplotlib"}
    assert not {name.partition(".")[0] for name in loaded} & libraries
