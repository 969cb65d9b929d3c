"""The whole command: `--quick` against the expected numbers, claims on made-up numbers, the report."""

from __future__ import annotations

import csv
import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bisample.errors import FileError, MissingExtraError, ParameterError
from bisample.paper.claims import judge
from bisample.paper.command import run
from bisample.paper.measures import Measure, Measures
from bisample.paper.report import BEGIN, END

EXPECTED = json.loads(Path(__file__).with_name("expected.json").read_text("utf-8"))


def read(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    pytest.importorskip("matplotlib")
    out = tmp_path_factory.mktemp("quick")
    readme = out / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    run(quick=True, jobs=2, out=out, readme=readme)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXPECTED["files"]))
def test_quick_gives_the_expected_numbers(quick, name):
    """Every number, to the tolerance stated beside it: NumPy may change what a generator draws."""
    expected = EXPECTED["files"][name]
    rows = {tuple(row[k] for k in expected["key"]): row for row in read(quick / name)}
    assert len(rows) >= len(expected["rows"])
    for *key, column, value, tolerance in expected["rows"]:
        assert float(rows[tuple(key)][column]) == pytest.approx(value, **tolerance), (key, column)


@pytest.mark.slow
def test_quick_writes_everything(quick):
    written = {path.name for path in quick.iterdir()}
    for name in ("figure-3", "figure-4", "figure-5", "figure-6"):
        assert {f"{name}.csv", f"{name}.png", f"{name}.svg"} <= written
        assert (quick / f"{name}.png").stat().st_size > 10_000
    assert {"table-2.csv", "claims.csv", "agreement.csv", "report.html", "report.md"} <= written
    page = (quick / "report.html").read_text("utf-8")
    assert page.count("data:image/svg+xml;base64,") == 4
    assert "src=" not in page.replace('src="data:', "")  # nothing is loaded from elsewhere
    assert "Undefined estimates" in page
    assert all(
        claim["sentence"] in (quick / "report.md").read_text("utf-8") for claim in read(quick / "claims.csv")
    )


@pytest.mark.slow
def test_readme_gets_the_claims_between_its_markers(quick):
    text = (quick / "README.md").read_text("utf-8")
    assert text.startswith(f"before\n{BEGIN}\n![")
    assert text.endswith(f"{END}\nafter\n")
    assert "\nold\n" not in text
    assert (quick / "docs" / "figure-4.png").exists()
    claims = read(quick / "claims.csv")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(claims) == 10
    for (sentence, where, verdict, finding), claim in zip(rows, claims, strict=True):
        assert (sentence, where, verdict) == (claim["sentence"], claim["where"], f"**{claim['verdict']}**")
        assert finding == claim["finding"]
        assert finding.count(". ") == 0  # one sentence
        assert finding.endswith(".")
        assert len(finding) < 200
        assert claim["numbers"] not in text


@pytest.mark.slow
def test_theory_holds_at_every_point_of_the_quick_run(quick):
    # 200 repetitions: AE's standard error is 5.3 %. At 4.2 of them alpha is 1.5 % for all 550 together.
    for row in read(quick / "agreement.csv"):
        if row["theory_ae"]:
            assert float(row["simulated_ae"]) == pytest.approx(float(row["theory_ae"]), rel=0.225), row


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"repeats": 1}, "repeats must be an integer from 2"),
        ({"repeats": 2.5}, "repeats must be an integer from 2"),
        ({"seed": -1}, "seed must be an integer from 0"),
        ({"jobs": 0}, "jobs must be an integer from 1"),
        ({"figures": (4, 7)}, "figures must be some of 3, 4, 5, 6, not 4, 7"),
        ({"figures": ()}, "figures must be some of"),
        ({"data": Path("x.csv")}, "data and column"),
        ({"column": "x"}, "data and column"),
        ({"figures": (4,), "readme": Path("README.md")}, "readme needs all figures"),
    ],
    ids=str,
)
def test_options_that_make_no_sense(tmp_path, wrong, named):
    with pytest.raises(ParameterError, match=named):
        run(**wrong, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="--out"):
        run(figures=(3,), out=tmp_path / "file")


def test_the_parameters_are_what_the_command_line_passes():
    parameters = inspect.signature(run).parameters.values()
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters)
    assert {p.name: p.default for p in parameters} == {
        "figures": (3, 4, 5, 6), "repeats": None, "quick": False, "seed": 1, "jobs": None,
        "out": Path("bisample-paper"), "data": None, "column": None, "readme": None,
    }  # fmt: skip


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"bisample\[paper\]"):
        run(figures=(3,), out=tmp_path)


def test_one_figure_alone(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    own = tmp_path / "own.csv"
    own.write_text("height\n" + "\n".join(str(150 + i % 50) for i in range(3000)) + "\n")
    run(figures=(3,), jobs=1, out=tmp_path / "out", data=own, column="height")
    printed = capsys.readouterr()
    assert "report.html" in printed.out
    assert not printed.err  # no bar where nobody looks
    assert [row["instances"] for row in read(tmp_path / "out" / "table-2.csv")][-2:] == ["32561", "3000"]
    assert {claim["verdict"] for claim in read(tmp_path / "out" / "claims.csv")} == {"not run"}


def test_nothing_below_loads_the_paper():
    code = (
        "import sys, bisample.catalogue, bisample.files;"
        "from bisample.simulation import piecewise, preferences, privkvm;"
        "assert not any('bisample.paper' in name or 'matplotlib' in name for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_ages_need_no_matplotlib_and_no_bar():
    code = "import sys, bisample.paper.data; assert not {'matplotlib', 'tqdm', 'click'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def measure(experiment, contestant, x, error, quantity="mean", bias=0.0, data="EXP"):
    """A made-up row, known to one percent."""
    return Measure(
        experiment=experiment, panel=data, data=data, n=int(x) if x > 100 else 1000, epsilon=x,
        missing_rate=None,
        quantity=quantity, contestant=contestant, x=x, repeats=100, undefined=0,
        ae=error, ae_low=0.99 * error, ae_high=1.01 * error,
        mse=error**2, mse_low=0.99 * error**2, mse_high=1.01 * error**2,
        bias=bias, bias_error=0.01, theory_ae=None, theory_mse=None, theory_note="",
    )  # fmt: skip


def verdict(rows, sentence):
    return next(c for c in judge(Measures(tuple(rows))) if sentence in c.sentence and c.verdict != "not run")


def test_verdicts_follow_the_numbers():
    def both(ratio):
        return [
            measure("figure-4", name, x, error)
            for x, r in zip((4.0, 10.0), ratio, strict=True)
            for name, error in (("bisample", 0.1), ("privkvm", 0.1 * r))
        ]

    holds = verdict(both((2, 3)), "better than PrivKVM")
    assert (holds.verdict, holds.finding) == ("holds", "At all 2 points its error is the smaller one.")
    fails = verdict(both((0.5, 0.6)), "better than PrivKVM")
    assert fails.verdict == "does not hold"
    assert fails.finding.startswith(
        "At none of 2 points its error is the smaller one; PrivKVM's mean is shrunk"
    )
    partly = verdict(both((2, 0.5)), "better than PrivKVM")
    assert partly.verdict == "holds in part"
    assert partly.finding.startswith("At 1 of 2 points its error is the smaller one; ")
    assert "1 of 2 points" in partly.numbers
    assert "EXP, epsilon 10: 0.5" in partly.numbers


def test_flat_and_falling_lines():
    sizes = (1e4, 1e5, 1e6)
    falling = [
        measure("figure-6", name, n, n**-0.5, quantity)
        for n in sizes
        for name in ("bisample", "privkvm")
        for quantity in ("mean", "missing_rate")
    ]
    assert verdict(falling, "fall as n grows").verdict == "holds"
    assert verdict(falling, "no clear difference").verdict == "holds"
    flat = [measure("figure-6", "harmony-top", n, 0.5) for n in sizes]
    assert verdict(flat, "stay flat").verdict == "holds"
    assert verdict([replace(row, mse=1 / row.n) for row in flat], "stay flat").verdict == "does not hold"


def test_fakes_that_hurt_and_fakes_that_do_not():
    biased = [measure("figure-4", "harmony-top", 5.0, 0.5, bias=0.49)]
    assert verdict(biased, "hurt").verdict == "holds"
    assert verdict([replace(row, bias=0.01) for row in biased], "hurt").verdict == "does not hold"
    uniform = [measure("figure-4", "harmony-rnd", 5.0, 0.5, data="UNIFORM")]
    assert verdict(uniform, "UNIFORM").verdict == "holds"
