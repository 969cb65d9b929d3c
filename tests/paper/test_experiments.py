"""The machinery: data, seeds, the store, the same numbers from any number of processes."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bisample.catalogue import CATALOGUE, BiSample, DitheredResponse, Entry, Harmony, KRandomizedResponse
from bisample.errors import AnswerError, BisampleError, FileError, ParameterError
from bisample.paper.agreement import AgreementTask, can_be_checked, draw_errors
from bisample.paper.contestants import Contestant, TableCollector, Unwilling, all_contestants
from bisample.paper.data import DATASETS, adult_ages, from_file, load_column
from bisample.paper.experiments import Experiment, Point, experiments
from bisample.paper.figures import style
from bisample.paper.measures import measure
from bisample.paper.runs import Errors, Task, simulate
from bisample.paper.schedule import Store, Workers, run_experiments
from bisample.paper.theory import expected, moments
from bisample.protocol.domain import Range
from bisample.protocol.mechanism import Mechanism

EXP, GAUSS, UNIFORM, ADULT = DATASETS
BY_NAME = {c.name: c for c in all_contestants()}


def small(repeats_axis=(0.2, 0.6), names=("bisample", "harmony-rnd")):
    return Experiment(
        name="small",
        title="a small one",
        axis="missing_rate",
        data=(ADULT,),
        epsilon=(1.0,),
        missing_rate=repeats_axis,
        quantities=("mean", "missing_rate"),
        metric="mse",
        contestants=tuple(BY_NAME[name] for name in names),
    )


def run(tmp_path, experiment, jobs=1, repeats=12, seed=1):
    with Workers(jobs) as workers, Store(tmp_path / "runs.jsonl") as store:
        return run_experiments([experiment], store, seed=seed, repeats=repeats, workers=workers)


def same(a, b):
    assert a.keys() == b.keys()
    for key, errors in a.items():
        np.testing.assert_array_equal(errors.mean, b[key].mean)
        if errors.missing_rate is not None:
            np.testing.assert_array_equal(errors.missing_rate, b[key].missing_rate)


@pytest.mark.parametrize(
    ("data", "mean"), [(EXP, -0.831), (GAUSS, 0.499), (UNIFORM, -0.001), (ADULT, -0.409)]
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_data_sets_have_the_means_of_table_2(data, mean, seed):
    values = data.values(seed)
    assert values.min() >= -1
    assert values.max() <= 1
    # EXP's depends on its largest draw; UNIFORM's own standard error is 0.0018.
    tolerance = {"EXP": 0.03, "UNIFORM": 0.007}.get(data.name, 0.002)
    assert abs(values.mean() - mean) < tolerance
    assert data.paper_mean == mean


def test_adult_is_all_of_uci_adult():
    ages = adult_ages()
    assert len(ages) == 32_561
    assert ages.mean() == pytest.approx(38.5816, abs=1e-4)
    with pytest.raises(ParameterError, match="32561 rows"):
        ADULT.values(1, 100)


def test_own_column_from_csv_and_parquet(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    csv = tmp_path / "own.csv"
    csv.write_text("x,y\n1,2\n3,\n5,4\n")
    parquet.write_table(pa.table({"y": [2.0, None, 4.0]}), tmp_path / "own.parquet")
    assert load_column(csv, "x").tolist() == [1, 3, 5]
    assert load_column(csv, "y").tolist() == load_column(tmp_path / "own.parquet", "y").tolist() == [2, 4]
    assert from_file(csv, "x").values(1).tolist() == [-1, 0, 1]
    assert from_file(csv, "x").name != from_file(csv, "y").name
    # A copy in another process is the same data set, so that its cache is of use.
    assert pickle.loads(pickle.dumps(from_file(csv, "x"))) == from_file(csv, "x")


def test_own_column_that_cannot_be_used(tmp_path):
    csv = tmp_path / "own.csv"
    csv.write_text("x,y,z\n1,secret,7\n2,,7\n")
    with pytest.raises(FileError, match="no column"):
        load_column(csv, "w")
    with pytest.raises(AnswerError) as caught:
        load_column(csv, "y")
    assert "secret" not in str(caught.value)
    with pytest.raises(AnswerError, match="equal"):
        from_file(csv, "z").values(1)
    with pytest.raises(BisampleError):
        load_column(tmp_path / "none.csv", "x")


def test_the_same_numbers_from_any_number_of_processes(tmp_path):
    same(run(tmp_path / "one", small()), run(tmp_path / "two", small(), jobs=2))


def test_the_same_numbers_whoever_else_runs_and_another_seed_others(tmp_path):
    both = run(tmp_path / "both", small())
    alone = run(tmp_path / "alone", small(names=("harmony-rnd",)))
    same(alone, {key: errors for key, errors in both.items() if key[1] == "harmony-rnd"})
    other = run(tmp_path / "other", small(), seed=2)
    assert all((errors.mean != other[key].mean).any() for key, errors in both.items())


def test_a_stopped_run_goes_on_and_repeats_nothing(tmp_path, monkeypatch):
    whole = run(tmp_path / "whole", small(), repeats=25)
    asked = []

    def counted(task, stop_at=3):
        if len(asked) == stop_at:
            raise KeyboardInterrupt
        asked.append((task.point.name, task.first))
        return simulate(task)

    monkeypatch.setattr("bisample.paper.schedule.simulate", counted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, small(), repeats=25)
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"key": "torn')  # as if it had been stopped while writing
    monkeypatch.setattr("bisample.paper.schedule.simulate", partial(counted, stop_at=99))
    same(run(tmp_path, small(), repeats=25), whole)
    assert len(asked) == len(set(asked)) == 6
    run(tmp_path, small(), repeats=25)
    assert len(asked) == 6
    run(tmp_path, small(), repeats=35)  # more repetitions: only those that are new
    assert len(asked) == 10


def test_a_store_that_is_something_else_says_so(tmp_path):
    (tmp_path / "runs.jsonl").write_text("hello\n")
    with pytest.raises(FileError, match="delete it"):
        Store(tmp_path / "runs.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="--out"):
        Store(tmp_path / "file" / "runs.jsonl")


def test_a_new_mechanism_is_one_line_of_the_catalogue(tmp_path, monkeypatch):
    new = {
        "toy": Entry("toy", BiSample, "range", True, "BiSample once more"),
        "needs-more": Entry(
            "needs-more", lambda epsilon, centre: BiSample(epsilon - centre), "range", True, ""
        ),
        "no-refusal": Entry("no-refusal", Harmony, "range", False, ""),
    }
    monkeypatch.setattr("bisample.paper.contestants.CATALOGUE", {**CATALOGUE, **new})
    everyone = all_contestants()
    assert {c.name for c in everyone} - set(BY_NAME) == {"toy"}
    toy = next(c for c in everyone if c.name == "toy")
    experiment = replace(small(), contestants=(*small().contestants, toy))
    errors = run(tmp_path, experiment)
    rows = measure([experiment], errors, 1).rows
    assert {row.contestant for row in rows} == {"bisample", "harmony-rnd", "toy"}
    drawn = [style(c, experiment.contestants) for c in experiment.contestants]
    assert len({(look.colour, look.marker) for look in drawn}) == 2 + 1


def test_every_contestant_has_a_look_of_its_own():
    everyone = all_contestants()
    looks = [style(c, everyone) for c in everyone]
    assert len({(look.marker, look.filled) for look in looks}) == len(everyone)  # readable in grey


def test_undefined_estimates_are_counted(tmp_path):
    hard = replace(small(), missing_rate=(0.98,), epsilon=(0.1,))
    errors = run(tmp_path, hard)
    row = next(
        r for r in measure([hard], errors, 1).rows if r.contestant == "bisample" and r.quantity == "mean"
    )
    assert row.undefined == np.isnan(errors[hard.panels[0].points[0], "bisample"].mean).sum() > 0
    assert row.repeats == 12
    assert row.theory_ae is None
    assert "standard errors above 0" in row.theory_note
    nothing = {key: Errors(e.mean * np.nan, e.missing_rate) for key, e in errors.items()}
    assert any(row.ae is None and row.undefined == 12 for row in measure([hard], nothing, 1).rows)


def test_the_declared_experiments_are_the_papers():
    four, five, six = experiments()
    assert [panel.title for panel in four.panels] == ["EXP", "GAUSS", "UNIFORM", "ADULT"]
    assert (min(four.epsilon), max(four.epsilon)) == (0.1, 10)
    assert {c.name for c in four.contestants} >= {
        "bisample", "privkvm", "privkv", "harmony-top", "harmony-rnd", "piecewise-top", "piecewise-rnd",
        "hybrid-top", "hybrid-rnd", "three-state",
    }  # fmt: skip
    assert len(five.panels) == 4
    assert [point.missing_rate for point in five.panels[0].points] == [i / 10 for i in range(1, 10)]
    assert [point.n for point in six.panels[0].points][0::5] == [10_000, 3_162_278]
    assert all(c.counts_refusals for c in five.contestants)


@pytest.mark.slow
@pytest.mark.parametrize("name", [c.name for c in all_contestants() if can_be_checked(c)])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_drawing_by_counts_is_simulating_persons(name, epsilon):
    # The first two moments of both routes' errors, and the theory's. alpha = 1e-4 for each comparison:
    # 3.9 standard errors, at which a variance off by 25 % is found with a power above 0.99.
    point = Point(ADULT, n=ADULT.size, epsilon=epsilon, missing_rate=0.4)
    contestant, repeats = BY_NAME[name], 600
    persons = simulate(Task(point, (contestant,), seed=1, first=0, last=repeats))[name]
    counts = draw_errors(AgreementTask(point, contestant, seed=1, repeats=20 * repeats))
    pairs = [("mean", persons.mean, counts.mean)]
    if contestant.counts_refusals:
        pairs.append(("missing_rate", persons.missing_rate, counts.missing_rate))
    data = moments(ADULT.values(1))
    for quantity, a, b in pairs:
        spread = np.sqrt(a.var() / len(a) + b.var() / len(b))
        assert abs(a.mean() - b.mean()) < 3.9 * spread
        assert abs(a.var() / b.var() - 1) < 3.9 * np.sqrt(2 / len(a) + 2 / len(b))
        theory = expected(contestant, point, data, quantity)
        assert theory.mse == pytest.approx((b**2).mean(), rel=0.06)
        assert theory.ae == pytest.approx(np.abs(b).mean(), rel=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["privkv", "hybrid-top", "hybrid-rnd"])
def test_the_other_formulas(name):
    point = Point(ADULT, n=ADULT.size, epsilon=1.0, missing_rate=0.2)
    errors = simulate(Task(point, (BY_NAME[name],), seed=1, first=0, last=800))[name]
    theory = expected(BY_NAME[name], point, moments(ADULT.values(1)), "mean")
    assert theory.mse == pytest.approx((errors.mean**2).mean(), rel=3.9 * np.sqrt(2 / 800))
    assert theory.ae == pytest.approx(np.abs(errors.mean).mean(), rel=3.9 * np.sqrt(0.571 / 800))


ANCHORS = {"even": (0, 1, 2, 3, 4), "uneven": (0, 1, 2, 5, 12)}


@pytest.mark.slow
@pytest.mark.parametrize("anchors", ANCHORS.values(), ids=ANCHORS)
def test_a_mechanism_with_many_anchors_has_formulas_as_well(anchors):
    # alpha = 1e-4 for each comparison, 3.9 standard errors: 6 % of a squared error.
    def five(epsilon):
        table = DitheredResponse(epsilon, levels=5, steps=1).table  # 6-ary randomized response
        return TableCollector(Mechanism(table, Range(-1, 1, anchors)))

    contestant = Contestant("five", "Five anchors", five, origin="added")
    assert can_be_checked(contestant)
    point = Point(EXP, n=EXP.size, epsilon=2.0, missing_rate=0.3)
    errors = draw_errors(AgreementTask(point, contestant, seed=1, repeats=8000))
    data = moments(EXP.values(1))
    for quantity, drawn in (("mean", errors.mean), ("missing_rate", errors.missing_rate)):
        theory = expected(contestant, point, data, quantity)
        assert theory.mse == pytest.approx((drawn**2).mean(), rel=3.9 * np.sqrt(2 / 8000))
        assert theory.ae == pytest.approx(np.abs(drawn).mean(), rel=3.9 * np.sqrt(0.571 / 8000))


def test_uniform_fakes_are_uniform_between_uneven_anchors_too():
    # Fakes have mean 0, so that the error's is -0.4 of the truth. alpha = 1e-4; fakes that take every anchor
    # equally often would have mean -2/9, some hundred standard errors away.
    table = KRandomizedResponse(1.0, ["a", "b"]).table
    collector = TableCollector(Mechanism(table, Range(-1, 1, (0, 1, 6), refusal=False)))
    faker = Contestant("faker", "Faker", lambda _: collector, Unwilling.RND)
    point = Point(EXP, n=EXP.size, epsilon=1.0, missing_rate=0.4)
    errors = draw_errors(AgreementTask(point, faker, seed=1, repeats=200)).mean
    assert abs(errors.mean() + 0.4 * EXP.values(1).mean()) < 3.9 * errors.std() / np.sqrt(200)
