"""Whatever is in vectors/ is run here: good cases give what they say, bad ones are refused."""

import json
import math
from pathlib import Path

import make_vectors
import pytest

from bisample import BisampleError, ParameterError, ReportError, Table, from_description
from bisample.mechanism import registered
from bisample.randomness import Replay

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "vectors").glob("*.json"))
DATA = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FILES}
CASES = [
    pytest.param(case, id=f"{name}-{case['description']['epsilon']}-{i}")
    for name, data in DATA.items()
    for i, case in enumerate(data["cases"])
]


def _refused(kind, bad, call):
    """The call must raise this error of ours, and no other."""
    try:
        call()
    except kind:
        return
    except Exception as error:  # noqa: BLE001
        pytest.fail(f"{bad['why']}: {type(error).__name__}: {error}")
    pytest.fail(f"accepted: {bad}")


def test_every_registered_mechanism_has_a_file():
    assert set(DATA) == set(registered())


@pytest.mark.parametrize("name", DATA)
def test_files_say_what_they_are_and_hold_good_and_bad_cases(name):
    data = DATA[name]
    assert data["format"] == 1
    assert data["mechanism"] == name
    assert data["cases"]
    assert len(data["bad_tables"]) > 10
    for case in data["cases"]:
        kinds = ("draws", "batches", "bad_draws", "tallies", "bad_tallies", "reports", "bad_reports")
        assert all(case[kind] for kind in kinds)
        assert case["description"]["mechanism"] == name
        assert all(bad["why"] for kind in kinds if kind.startswith("bad") for bad in case[kind])


@pytest.mark.parametrize("name", DATA)
def test_integers_are_below_two_to_the_53(name):
    def walk(value):
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for part in value:
                walk(part)
        elif isinstance(value, int):
            assert abs(value) < 2**53

    walk(DATA[name])


@pytest.mark.parametrize("name", DATA)
def test_generating_again_gives_the_same_file(name):
    _assert_alike(json.loads(make_vectors.text_of(name)), DATA[name])


def _assert_alike(made, stored, in_estimate=False):
    """The same to the letter, but for the last digits of estimates: they are LAPACK's and the processor's."""
    if isinstance(stored, dict):
        assert list(made) == list(stored)
        for key, value in stored.items():
            _assert_alike(made[key], value, in_estimate or key == "estimate")
    elif isinstance(stored, list):
        assert len(made) == len(stored)
        for one, other in zip(made, stored, strict=True):
            _assert_alike(one, other, in_estimate)
    elif in_estimate and isinstance(stored, float):
        assert abs(made - stored) <= 1e-6 * max(1, abs(stored))
    else:
        assert (type(made), made) == (type(stored), stored)


@pytest.mark.parametrize("case", CASES)
def test_table_and_its_epsilon(case):
    mechanism = from_description(case["description"])
    assert mechanism.table.to_dict() == case["table"]
    assert Table.from_dict(case["table"]) == mechanism.table
    assert mechanism.table.digest == case["digest"]
    ratio = mechanism.table.worst_pair.ratio
    assert [ratio.numerator, ratio.denominator] == case["worst_ratio"]
    assert math.isclose(mechanism.epsilon_upper, case["epsilon_upper"], rel_tol=1e-15)
    assert mechanism.describe() == case["description"]


@pytest.mark.parametrize("case", CASES)
def test_given_bytes_give_the_code_and_are_used_up(case):
    mechanism = from_description(case["description"])
    for draw in case["draws"]:
        source = Replay(bytes.fromhex(draw["bytes"]))
        assert mechanism.privatize(draw["answer"], rng=source) == draw["code"], draw["note"]
        assert source.left == 0, draw["note"]


@pytest.mark.parametrize("case", CASES)
def test_batches(case):
    mechanism = from_description(case["description"])
    for batch in case["batches"]:
        source = Replay(bytes.fromhex(batch["bytes"]))
        assert mechanism.privatize(batch["answers"], rng=source).tolist() == batch["codes"]
        assert source.left == 0


@pytest.mark.parametrize("case", CASES)
def test_draws_cover_every_code_and_ties(case):
    codes = range(len(case["table"]["codes"]))
    if len(codes) <= 8:
        assert {draw["code"] for draw in case["draws"]} == set(codes)
    lengths = {len(draw["bytes"]) for draw in case["draws"]}
    assert len(lengths) == 2  # with a tie and without
    assert all(len(draw["bytes"]) < 24 for draw in case["draws"])


@pytest.mark.parametrize("case", CASES)
def test_bad_draws_are_refused_without_saying_the_answer(case):
    mechanism = from_description(case["description"])
    for bad in case["bad_draws"]:
        with pytest.raises(BisampleError) as caught:
            mechanism.privatize(bad["answer"], rng=Replay(bytes.fromhex(bad["bytes"])))
        assert str(caught.value), bad["why"]
        if isinstance(bad["answer"], str):
            assert bad["answer"] not in str(caught.value)


@pytest.mark.parametrize("case", CASES)
def test_tallies_give_the_estimates(case):
    mechanism = from_description(case["description"])
    for tally in case["tallies"]:
        expected = tally["estimate"]
        got = mechanism.estimate(tally["counts"], level=expected["level"]).to_dict()
        assert sorted(got["undefined"]) == expected["undefined"], tally["counts"]
        lower, upper = got.get("lower", 0), got.get("upper", 1)
        for name, value in expected.items():
            if name == "undefined":
                continue
            found = got[name]
            if name.startswith("proportions"):
                assert list(found) == [str(option) for option in case["description"]["options"]]
                found = list(found.values())
            unit = 1.0
            if name.startswith("mean"):
                unit = upper - lower
            elif name.startswith("total"):
                unit = expected["n"] * (upper - lower + abs(lower))
            _assert_close(found, value, unit, tally.get("tolerance", 1e-9), (tally["counts"], name))


def _assert_close(found, expected, unit, tolerance, what):
    if isinstance(expected, list):
        assert len(found) == len(expected), what
        for one, other in zip(found, expected, strict=True):
            _assert_close(one, other, unit, tolerance, what)
    elif expected is None:
        assert found is None, what
    else:
        assert abs(found - expected) <= tolerance * max(unit, abs(expected)), (what, found, expected)


@pytest.mark.parametrize("case", CASES)
def test_bad_tallies_are_refused(case):
    mechanism = from_description(case["description"])
    for bad in case["bad_tallies"]:
        _refused(ReportError, bad, lambda bad=bad: mechanism.estimate(bad["counts"]))


@pytest.mark.parametrize("case", CASES)
def test_reports_are_counted(case):
    mechanism = from_description(case["description"])
    for good in case["reports"]:
        assert mechanism.tally(good["reports"]).tolist() == good["counts"]


@pytest.mark.parametrize("case", CASES)
def test_bad_reports_are_refused(case):
    mechanism = from_description(case["description"])
    for bad in case["bad_reports"]:
        _refused(ReportError, bad, lambda bad=bad: mechanism.tally(bad["reports"]))


@pytest.mark.parametrize("name", DATA)
def test_bad_tables_are_refused(name):
    for bad in DATA[name]["bad_tables"]:
        if "epsilon" in bad:
            table = Table.from_dict(bad["table"])
            assert not table.satisfies(bad["epsilon"]), bad["why"]
            assert table.certificate(bad["epsilon"])["holds"] is False
            assert table.epsilon_upper > bad["epsilon"]
            continue
        _refused(ParameterError, bad, lambda bad=bad: Table.from_dict(bad["table"]))


@pytest.mark.parametrize("name", DATA)
def test_bad_descriptions_are_refused(name):
    for bad in DATA[name]["bad_descriptions"]:
        _refused(ParameterError, bad, lambda bad=bad: from_description(bad["description"]))
