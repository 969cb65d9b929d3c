"""Exact arithmetic behind the privacy claim: e^epsilon between two fractions, and its logarithm.

No float is compared here. Where something is rounded, its direction is named.
"""

from __future__ import annotations

import math
import numbers
import operator
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

from bisample.errors import ParameterError, shown

__all__ = [
    "EPSILON_MAX",
    "EPSILON_MIN",
    "TOTAL",
    "TOTAL_BITS",
    "bound_text",
    "check_epsilon",
    "exp_bounds",
    "log_above",
    "real",
    "whole",
]

# Every row of a table sums to 2**48: one 16-bit word settles almost every draw and 32 bits more
# settle the rest; weights stay below 2**53, so that JavaScript holds them exactly.
TOTAL_BITS = 48
TOTAL = 1 << TOTAL_BITS

# Outside this range 48 bits are too coarse: the rounding would cost a visible part of epsilon.
EPSILON_MIN = 1e-6
EPSILON_MAX = 20.0

_PRECISION = 256


def real(value: object) -> float:
    """The float nearest to a real number; NaN for whatever is none (text, bytes, a truth value, None).

    >>> real(Fraction(1, 2)), real("0.5"), real(True)
    (0.5, nan, nan)
    """
    if isinstance(value, bool) or not isinstance(value, (numbers.Real, Decimal)):
        return math.nan
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return math.nan


def whole(value: Any, least: int, label: str) -> int:
    """The value as an int if it is a whole number (NumPy's too) of at least `least`, else an error.

    >>> whole(3.0, 1, "steps")
    Traceback (most recent call last):
    bisample.errors.ParameterError: steps must be an integer from 1, not 3.0
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ParameterError(f"{label} must be an integer from {least}, not {shown(value)}")
    return number


def check_epsilon(epsilon: float) -> float:
    """Return epsilon as a float, or say what is wrong with it.

    >>> check_epsilon(1)
    1.0
    >>> check_epsilon(-1)
    Traceback (most recent call last):
    bisample.errors.ParameterError: epsilon must be a number from 1e-06 to 20, not -1: people accept 0.5 to 4
    """
    value = real(epsilon)
    if not EPSILON_MIN <= value <= EPSILON_MAX:
        raise ParameterError(
            f"epsilon must be a number from {EPSILON_MIN:g} to {EPSILON_MAX:g}, not {shown(epsilon)}:"
            " people accept 0.5 to 4"
        )
    return value


@lru_cache(maxsize=1024)
def exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """Two fractions with low <= e**x <= high, for x >= 0, that agree to about 2**-200.

    >>> low, high = exp_bounds(Fraction(1))
    >>> low < high, float(low), high - low < Fraction(1, 2**200)
    (True, 2.718281828459045, True)
    """
    if x < 0:
        raise ParameterError("exp_bounds is made for x >= 0")
    # Halve x until it is below 1/2, sum the series in fixed point, then square back.
    halvings = max(0, math.ceil(x).bit_length() + 1)
    one = 1 << _PRECISION
    # y_low <= x / 2**halvings * one <= y_low + 1
    y_low = (x.numerator << _PRECISION) // (x.denominator << halvings)
    low, term, k = one, one, 0
    while term:
        k += 1
        term = term * y_low // (one * k)  # each floor loses less than one unit
        low += term
    # Above: what the floors lost (below k units a term that follows), what rounding y lost (below
    # e**y * 1 < 2 units) and the rest of the series (below the last unit, as y < 1/2).
    high = low + 4 * k + 4
    for _ in range(halvings):
        low = low * low >> _PRECISION
        high = -(-high * high >> _PRECISION)
    return Fraction(low, one), Fraction(high, one)


def bound_text(bound: float) -> str:
    """An upper bound to print: four digits, rounded up, because below it would be no bound.

    >>> bound_text(0.9999999999), bound_text(1.00001), bound_text(0.71902), bound_text(1.5e-14)
    ('1', '1.001', '0.7191', '1.5e-14')
    """
    with localcontext() as context:
        context.prec, context.rounding = 4, ROUND_CEILING
        return f"{float(+Decimal(bound)):.4g}"


def log_above(ratio: Fraction) -> float:
    """The smallest float x found with e**x >= ratio proven, for ratio >= 1.

    >>> log_above(Fraction(1))
    0.0
    >>> 0 <= log_above(Fraction(3)) - math.log(3) < 1e-15
    True
    """
    if ratio < 1:
        raise ParameterError("log_above is made for ratios >= 1")
    if ratio == 1:
        return 0.0
    # log1p keeps its precision where the ratio is close to 1; the proof below does not rely on it.
    x = math.log1p(float(ratio - 1))
    for _ in range(3):
        x = math.nextafter(x, 0.0)
    while exp_bounds(Fraction(x))[0] < ratio:
        x = math.nextafter(x, math.inf)
    return x
