"""The house: dependencies point one way, everything public is documented, nothing is imported in vain."""

import ast
import doctest
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bisample

SOURCE = Path(bisample.__file__).resolve().parent
# The core, from the ground up: a module may import from lines above its own, and never from its own.
LAYERS = [
    {"errors"},
    {"exact", "randomness"},
    {"table", "sampler"},
    {"answers", "solve"},
    {"estimate"},
    {"mechanism"},
    {"mechanisms"},
    {"piecewise", "privkvm", "preference", "plan"},
]
CORE = set().union(*LAYERS)
# One step inside a layer: a table draws with its sampler, and the sampler knows no table.
WITHIN = {("table", "sampler")}
FOREIGN = {"pandas", "polars", "pyarrow", "narwhals", "matplotlib", "argparse", "sqlite3", "http"}


def _modules():
    return sorted(
        path.relative_to(SOURCE).with_suffix("").as_posix()
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py"
    )


def _tree(module):
    return ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8"))


def _imports(module):
    """(what is imported: "bisample.x" or a foreign name, line) wherever in the module it stands."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split("/")[: -node.level] if "/" in module else []
                parts = ["bisample", *above, *([base] if base else [])]
                if base:
                    yield ".".join(parts), node.lineno
                else:
                    for alias in node.names:
                        yield ".".join([*parts, alias.name]), node.lineno
            else:
                yield base, node.lineno


def _own(module):
    return {name.split(".")[1] for name, _ in _imports(module) if name.startswith("bisample.")}


def test_the_core_is_where_the_layers_say():
    assert set(_modules()) >= CORE


@pytest.mark.parametrize("module", sorted(CORE))
def test_the_core_imports_only_what_lies_below_it(module):
    level = next(i for i, layer in enumerate(LAYERS) if module in layer)
    below = set().union(*LAYERS[:level])
    allowed = below | {other for one, other in WITHIN if one == module}
    assert _own(module) <= allowed


@pytest.mark.parametrize("module", sorted(CORE))
def test_the_core_knows_no_terminal_no_dataframes_and_no_network(module):
    foreign = {name.partition(".")[0] for name, _ in _imports(module)} - {"bisample"}
    assert not foreign & FOREIGN
    assert foreign <= set(sys.stdlib_module_names) | {"numpy", "cryptography", "__future__"}
    called = {
        node.func.id
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"print", "input", "open", "eval", "exec", "__import__"}


def test_there_are_no_cycles():
    graph = {module: _own(module) & CORE for module in CORE}
    done = set()
    while graph:
        ready = {module for module, needs in graph.items() if needs <= done}
        assert ready, f"a cycle among {sorted(graph)}"
        done |= ready
        graph = {module: needs for module, needs in graph.items() if module not in ready}


@pytest.mark.parametrize("module", _modules())
def test_randomness_is_passed_in_and_never_global(module):
    for name, line in _imports(module):
        assert name.partition(".")[0] not in {"random", "secrets"}, f"{module}:{line}"
        assert not name.startswith("numpy.random"), f"{module}:{line}"
    for node in ast.walk(_tree(module)):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "random"
            and isinstance(node.value.value, ast.Name)
            and node.value.value.id in {"np", "numpy"}
        ):
            # Classes hold a state of their own; RandomState is the old one, and all else is the global one.
            allowed = node.attr == "default_rng" or inspect.isclass(getattr(np.random, node.attr))
            assert allowed, f"{module}:{node.lineno}"
            assert node.attr != "RandomState", f"{module}:{node.lineno}"


@pytest.mark.parametrize("module", sorted(CORE))
def test_modules_are_of_a_size_to_be_read(module):
    assert len((SOURCE / f"{module}.py").read_text(encoding="utf-8").splitlines()) <= 520


def test_there_are_no_drawers_for_odds_and_ends():
    for module in _modules():
        assert module.rpartition("/")[2] not in {"utils", "util", "helpers", "common", "misc", "base"}


@pytest.mark.parametrize("module", [m for m in _modules() if not m.endswith("__main__")])
def test_modules_say_what_they_are_and_what_is_public(module):
    loaded = importlib.import_module("bisample." + module.replace("/", "."))
    assert inspect.getdoc(loaded)
    for name in loaded.__all__:
        assert hasattr(loaded, name), name
    assert list(loaded.__all__) == sorted(loaded.__all__, key=lambda n: (n.lower(), n)) or len(
        set(loaded.__all__)
    ) == len(loaded.__all__)


def _members():
    for module in sorted(CORE):
        loaded = importlib.import_module(f"bisample.{module}")
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


# What has no example of its own: errors, abstract kinds and what estimate() returns piecemeal.
NO_EXAMPLE = {
    "AnswerError",
    "BisampleError",
    "ChoiceMechanism",
    "FileError",
    "Mechanism",
    "MissingExtraError",
    "NumberMechanism",
    "ParameterError",
    "ReportError",
    "Variance",
}


@pytest.mark.parametrize("name", bisample.__all__)
def test_everything_in_the_package_has_a_docstring_and_an_example(name):
    member = getattr(bisample, name)
    assert inspect.getdoc(member)
    if name not in NO_EXAMPLE:
        examples = doctest.DocTestFinder(recurse=False).find(member, name)
        assert any(test.examples for test in examples)


@pytest.mark.parametrize("name", [n for n in bisample.__all__ if inspect.isclass(getattr(bisample, n))])
def test_public_methods_are_documented(name):
    for method, member in inspect.getmembers(getattr(bisample, name)):
        if not method.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            assert inspect.getdoc(member), f"{name}.{method}"


def test_the_package_exports_what_it_lists_and_nothing_else_is_found():
    assert len(set(bisample.__all__)) == len(bisample.__all__)
    for name in bisample.__all__:
        assert getattr(bisample, name) is not None
    with pytest.raises(AttributeError):
        bisample.no_such_name  # noqa: B018


def _loaded_after(code):
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_importing_the_package_loads_nothing_that_only_some_need():
    with_numpy = _loaded_after("import numpy")
    loaded = _loaded_after("import bisample") - with_numpy
    tops = {name.partition(".")[0] for name in loaded}
    assert not tops & {"cryptography", "statistics", "random", "argparse", "csv", "tomllib", *FOREIGN}
    for module in ("cli", "demo", "files", "paper", "piecewise", "privkvm", "plan", "preference", "solve"):
        assert f"bisample.{module}" not in loaded


def test_a_single_report_needs_no_cipher_and_no_estimator():
    """A device that sends one report stays small."""
    loaded = _loaded_after("import bisample\nbisample.BiSample(epsilon=1).privatize(0.5)")
    assert "cryptography" not in loaded
    assert "bisample.solve" not in loaded
    assert "statistics" not in loaded


def test_a_column_is_privatized_without_importing_its_library():
    code = (
        "import bisample\n"
        "class Column:\n"
        "    def to_numpy(self):\n"
        "        import numpy\n"
        "        return numpy.array([0.5, float('nan')])\n"
        "assert len(bisample.BiSample(epsilon=1).privatize(Column())) == 2\n"
        "assert len(bisample.KRandomizedResponse(1, ['a', 'b']).privatize(['a', None])) == 2"
    )
    assert not {name.partition(".")[0] for name in _loaded_after(code)} & FOREIGN
