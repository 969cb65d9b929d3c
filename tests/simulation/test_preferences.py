"""Who declines and who fakes."""

from __future__ import annotations

import decimal
import math

import numpy as np
import pytest

from bisample.errors import ParameterError
from bisample.simulation.preferences import (
    fake_random,
    fake_top,
    preferences,
    prepare_values,
    true_answer_rate,
)


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 5.0, 8.0])
def test_as_many_answer_as_the_formula_says(epsilon):
    """n = 100,000: alpha = 1e-4 each, 3.9 standard errors, at most 0.6 % of all."""
    n, rate = 100_000, true_answer_rate(epsilon)
    prepared = prepare_values(np.zeros(n), epsilon, preferences(n, rng=1))
    assert abs((~np.isnan(prepared)).mean() - rate) < 3.9 * math.sqrt(rate * (1 - rate) / n)


def test_who_prefers_exactly_what_is_offered_answers():
    assert np.isnan(prepare_values([1.0, 1.0], 2.0, [2.0, math.nextafter(2.0, 0)])).tolist() == [False, True]
    assert true_answer_rate(5.0, sd=0) == 1.0
    assert true_answer_rate(5.0 + 1e-9, sd=0) == 0.0
    assert preferences(2, rng=1, sd=0).tolist() == [5.0, 5.0]


def test_who_has_no_preference_or_no_value_declines():
    assert np.isnan(prepare_values([1.0, 2.0], 1.0, [None, 3.0])).tolist() == [True, False]
    assert np.isnan(prepare_values([1.0, None], 1.0, 3.0)).tolist() == [False, True]


def test_what_is_masked_is_faked_like_any_refusal():
    masked = np.ma.array([0.5, 99.0], mask=[False, True])
    assert fake_top(masked).tolist() == [0.5, 1.0]
    faked = fake_random(masked, rng=1)
    assert faked[0] == 0.5
    assert abs(faked[1]) <= 1
    assert np.isnan(prepare_values(masked, 1.0, 2.0)).tolist() == [False, True]


def test_random_fakes_are_uniform_in_the_range():
    """n = 100,000: Kolmogorov's distance below 2.2 / sqrt(n), alpha = 1.3e-4."""
    n = 100_000
    fakes = np.sort(fake_random(np.full(n, np.nan), rng=2, lower=17, upper=90))
    distance = np.abs((fakes - 17) / 73 - (np.arange(n) + 0.5) / n).max()
    assert distance < 2.2 / math.sqrt(n)


def test_any_real_number_is_taken():
    assert true_answer_rate(decimal.Decimal(5), np.float32(5)) == 0.5
    assert fake_top([None], decimal.Decimal(2)).tolist() == [2.0]


@pytest.mark.parametrize(
    "parameters", [("5",), (math.nan,), (5, None), (5, 5, -1), (5, 5, "1"), (5, 5, math.inf), (math.inf,)]
)
def test_a_true_answer_rate_needs_numbers(parameters):
    with pytest.raises(ParameterError, match="finite number"):
        true_answer_rate(*parameters)


@pytest.mark.parametrize("n", [-1, 1.5, "3", None, True])
def test_a_number_of_people_is_an_integer_from_0(n):
    with pytest.raises(ParameterError, match="n must be an integer from 0"):
        preferences(n, rng=1)


def test_other_parameters_that_make_no_sense():
    for call, named in (
        (lambda: prepare_values([1, 2, 3], 1.0, [1, 2]), "preferred must be one number or 3"),
        (lambda: prepare_values([1], 0, [1]), "epsilon"),
        (lambda: preferences(3, rng=1, sd=-1), "sd"),
        (lambda: preferences(3, rng=1, mean="5"), "mean"),
        (lambda: fake_top([None], "1"), "upper"),
        (lambda: fake_random([None], rng=1, lower=1, upper=-1), "lower must be less than upper"),
    ):
        with pytest.raises(ParameterError, match=named):
            call()
