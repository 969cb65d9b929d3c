"""The arithmetic under the privacy claim: enclosed, rounded towards privacy, and by a second route."""

import decimal
import fractions
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisample import ParameterError
from bisample.protocol.exact import (
    EPSILON_MAX,
    EPSILON_MIN,
    TOTAL,
    check_epsilon,
    exp_bounds,
    log_above,
    real,
    whole,
)


@given(st.fractions(0, 40))
def test_exp_bounds_enclose_the_exponential(x):
    low, high = exp_bounds(x)
    with localcontext() as context:
        context.prec = 110
        truth = (Decimal(x.numerator) / Decimal(x.denominator)).exp()
        slack = truth * Decimal(10) ** -100
        assert Decimal(low.numerator) / Decimal(low.denominator) <= truth + slack
        assert Decimal(high.numerator) / Decimal(high.denominator) >= truth - slack
    assert low < high
    assert (high - low) / low < Fraction(1, 2**200)


def test_exp_bounds_refuses_what_it_is_not_made_for():
    with pytest.raises(ParameterError, match="x >= 0"):
        exp_bounds(Fraction(-1))


@given(one=st.integers(1, TOTAL), other=st.integers(1, TOTAL))
def test_log_above_is_above_and_the_float_below_it_is_not(one, other):
    ratio = Fraction(max(one, other), min(one, other))
    x = log_above(ratio)
    with localcontext() as context:
        context.prec = 100
        truth = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
        assert Decimal(x) >= truth
        assert x == 0 or Decimal(math.nextafter(x, 0)) < truth


def test_log_above_of_one_is_zero_and_below_one_is_refused():
    assert log_above(Fraction(1)) == 0.0
    with pytest.raises(ParameterError, match="ratios >= 1"):
        log_above(Fraction(1, 2))


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0),
        (-0.5, -0.5),
        (np.float32(0.5), 0.5),
        (np.int8(3), 3.0),
        (Fraction(1, 4), 0.25),
        (Decimal("0.1"), 0.1),
        (math.inf, math.inf),
    ],
    ids=repr,
)
def test_a_real_number_of_any_type_is_a_float(value, number):
    assert type(real(value)) is float
    assert real(value) == number


NO_REALS = ["1", b"1", None, True, np.True_, 1j, [1.0], 10**400, Fraction(10**400), Decimal("sNaN"), math.nan]


@pytest.mark.parametrize("value", NO_REALS, ids=lambda v: f"{type(v).__name__} {v!s:.10}")
def test_what_is_no_real_number_is_nan(value):
    assert math.isnan(real(value))


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_a_whole_number_of_any_type_is_an_int(value):
    assert type(whole(value, 3, "it")) is int
    assert whole(value, 3, "it") == 3


@pytest.mark.parametrize("value", [2, -3, 3.0, "3", None, True, np.True_, [3], np.timedelta64(3, "D"), 1j])
def test_what_is_no_whole_number_is_refused_by_name(value):
    with pytest.raises(ParameterError, match="the count must be an integer from 3, not"):
        whole(value, 3, "the count")


@pytest.mark.parametrize(
    "epsilon", [EPSILON_MIN, EPSILON_MAX, 1, np.float32(1), fractions.Fraction(1), decimal.Decimal(1)]
)
def test_both_ends_of_the_range_are_epsilons(epsilon):
    assert type(check_epsilon(epsilon)) is float
    assert check_epsilon(epsilon) == float(epsilon)


@pytest.mark.parametrize(
    "epsilon", [math.nextafter(EPSILON_MIN, 0), math.nextafter(EPSILON_MAX, math.inf), 0, -1, math.nan, "1"]
)
def test_beyond_them_is_none(epsilon):
    with pytest.raises(ParameterError, match="from 1e-06 to 20"):
        check_epsilon(epsilon)
