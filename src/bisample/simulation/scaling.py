"""Answers as the simulations take them: numbers moved to [-1, 1], NaN where one is missing."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from bisample.device.answers import read_numbers
from bisample.errors import AnswerError
from bisample.protocol.domain import Range

__all__ = ["Floats", "scaled"]

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


def scaled(answers: object, domain: Range) -> Floats:
    """Every answer moved to [-1, 1]; one out of range is an error, and so is a refusal where there is none.

    >>> scaled([17, None, 53.5], Range(17, 90))
    array([-1., nan,  0.])
    >>> scaled([17, None], Range(17, 90, refusal=False))
    Traceback (most recent call last):
    bisample.errors.AnswerError: the answer at index 1 is missing, and this mechanism has no report for a \
refusal: leave it out, or fake it as `preferences` does
    """
    held = read_numbers(answers)
    # In an array of single precision an end of the range may lie a rounding outside of it.
    least, most = held.nearest(domain.lower), held.nearest(domain.upper)
    values = held.to_floats()
    if not domain.refusal and (missing := np.isnan(values)).any():
        raise AnswerError(
            "is missing, and this mechanism has no report for a refusal: leave it out, or fake it as"
            " `preferences` does",
            int(missing.argmax()),
        )
    if (outside := (values < least) | (values > most)).any():
        raise AnswerError(
            f"lies outside [{domain.lower:.15g}, {domain.upper:.15g}]: widen lower and upper",
            int(outside.argmax()),
        )
    # In place: large simulations live from it.
    np.clip(values, domain.lower, domain.upper, out=values)
    values -= domain.lower
    values *= 2
    values /= domain.upper - domain.lower
    values -= 1
    return values
