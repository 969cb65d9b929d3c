"""Comparison and recommendation: computed, never below the bounds, and every recommendation can be built."""

import re

import pytest

from bisample.errors import ParameterError
from bisample.planning.compare import (
    POPULATIONS,
    best_mean_variance,
    best_rate_variance,
    compare,
    recommend,
    short,
)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 2.0, 4.0, 8.0, 20.0])
def test_a_recommendation_is_the_least_variance_and_can_be_built(epsilon):
    for objective in ("mean", "missing", "worst"):
        advice = recommend(epsilon, objective)
        assert advice.variance <= 1.01 * min(advice.runners_up.values())
        mechanism = advice.build(lower=0, upper=10)
        assert mechanism.name == advice.mechanism
        assert mechanism.table.satisfies(epsilon)
        assert (mechanism.domain.lower, mechanism.domain.upper) == (0, 10)


def test_small_epsilon_recommends_bisample_and_large_the_dithered_response():
    assert recommend(0.1).mechanism == "bisample"
    assert recommend(4.0).mechanism == "dithered"
    assert recommend(20.0).mechanism == "dithered"
    assert recommend(4.0, "missing").mechanism == "three-state"


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 3.0, 6.0])
@pytest.mark.parametrize("population", POPULATIONS)
def test_what_is_recommended_stands_in_the_table_with_its_parameters(epsilon, population):
    advice = recommend(epsilon, population=population)
    parameters = ", ".join(f"{k}={v}" for k, v in advice.parameters.items() if k != "epsilon")
    rows = [r for r in compare(epsilon, population=population).rows if r.mechanism == advice.mechanism]
    found = [r for r in rows if r.note.startswith(parameters)]
    assert len(found) == 1
    assert found[0].mean == pytest.approx(advice.variance)
    if advice.mechanism == "dithered":
        assert sum("the default" in r.note for r in rows) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"epsilon": 1, "objective": "best"}, "objective must be"),
        ({"epsilon": 0}, "epsilon must be"),
        ({"epsilon": 1, "answer_rate": 0}, "answer_rate must be"),
        ({"epsilon": 1, "answer_rate": "x"}, "answer_rate must be"),
        ({"epsilon": 1, "population": "martian"}, "population must be one of gauss"),
        ({"epsilon": 1, "population": ["gauss"]}, "population must be one of gauss"),
        ({"epsilon": 1, "expect": 0.5}, "expect must be a mean from -1 to 1 and a spread"),
        ({"epsilon": 1, "expect": (0.5, -1)}, "expect must be"),
        ({"epsilon": 1, "expect": (2, 0.1)}, "expect must be"),
        ({"epsilon": 1, "expect": ("a", "b")}, "expect must be"),
        ({"epsilon": 1, "expect": (0.5, 0.1), "population": "gauss"}, "give one of the two"),
    ],
)
def test_a_recommendation_refuses_nonsense(arguments, says):
    with pytest.raises(ParameterError, match=says):
        recommend(**arguments)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_nothing_in_the_comparison_beats_the_bounds(epsilon):
    found = compare(epsilon)
    for row in found.rows:
        if row.missing_rate is not None:
            assert row.mean >= 0.999 * best_mean_variance(epsilon)
            assert row.missing_rate >= 0.999 * best_rate_variance(epsilon)


def test_the_bound_is_not_shown_for_a_population_it_was_not_computed_for():
    assert compare(2.0).best_mean is not None
    assert compare(2.0, answer_rate=0.5).best_mean is None
    assert compare(2.0, population="uniform").best_mean is None
    assert best_mean_variance(19) is None


def test_the_table_shows_every_row_and_no_exponent():
    found = compare(0.01)
    printed = str(found)
    assert all(short(row.mean) in printed for row in found.rows)
    assert "e+" not in printed


def test_a_guess_is_offered_the_focused_response_where_it_helps_and_told_what_it_may_cost():
    for epsilon, even, most in ((2, 1.155, 2.3), (3, 1.25, 2.9), (4, 1.66, 3.6), (6, 4.28, 11.5)):
        advice = recommend(epsilon, expect=(0.5, 0.1))
        assert advice.mechanism == "focused"
        assert advice.variance < 0.99 * advice.runners_up["dithered"]
        said = [float(x) for x in re.findall(r"([\d.]+) times", advice.why)]
        assert said[0] == pytest.approx(even, rel=0.03)
        assert said[0] <= said[1] <= 1.01 * most
        mechanism = advice.build(lower=0, upper=100)
        assert mechanism.provenance.parameters["mean"] == "75"
        assert mechanism.provenance.parameters["spread"] == "5"


def test_a_guess_brings_nothing_at_small_epsilon_or_for_the_missing_rate():
    assert recommend(0.5, expect=(0.5, 0.1)).mechanism == "bisample"
    assert recommend(1.5, expect=(0.5, 0.1)).mechanism != "focused"
    assert recommend(4, "missing", expect=(0.5, 0.1)).mechanism == "three-state"
