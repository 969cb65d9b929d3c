"""What estimates will cost, before anything is asked: exact variances for a population that is supposed.

Nobody's answers come here: the values are what an owner expects people to hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from bisample.errors import ParameterError, shown
from bisample.protocol.domain import Domain, Options, Range, text_of
from bisample.protocol.exact import real

from .solve import system, variances

if TYPE_CHECKING:
    from bisample.protocol.mechanism import Mechanism

__all__ = ["Variance", "ratio_variance", "row_shares", "targets", "variance"]

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Variance:
    """n times the variance of each estimate, so that variance / n is that of n reports.

    For the total it is that of total / n: the variance of the total itself is n times this.
    """

    mean: float | None = None
    total: float | None = None
    answer_rate: float | None = None
    proportions: Mapping[str, float] | None = None


def targets(domain: Domain) -> Floats:
    """The functionals of a domain's row shares: the sum of the scaled values, or each option; who answers.

    >>> from bisample import Range
    >>> targets(Range(0, 10))
    array([[-1.,  1.,  0.],
           [ 1.,  1.,  0.]])
    """
    answered = np.ones(domain.height)
    if domain.refusal:
        answered[-1] = 0
    if isinstance(domain, Options):
        return np.vstack([np.eye(len(domain.options), domain.height), answered])
    values = np.zeros(domain.height)
    values[: len(domain.anchors)] = domain.scaled
    return np.vstack([values, answered])


def row_shares(domain: Domain, values: object, answer_rate: float | None = None) -> Floats:
    """The shares of a domain's rows, if people hold these values (None or NaN: no answer).

    A number between two anchors counts for each in proportion. With `answer_rate`, the missing entries
    are set aside and this share of people answers.

    >>> from bisample import Range
    >>> row_shares(Range(-1, 1), [0.5, -1.0, None, None])
    array([0.3125, 0.1875, 0.5   ])
    """
    given, missing = _held(domain, values)
    return _shares(domain, given, _rate(domain, len(given), missing, answer_rate))


def _shares(domain: Domain, given: Floats, rate: float) -> Floats:
    if isinstance(domain, Options):
        counts: Floats = np.bincount(given.astype(np.intp), minlength=domain.height).astype(np.float64)
    else:
        anchors = np.array(domain.anchors, dtype=np.float64)
        position = (given - domain.lower) / (domain.upper - domain.lower) * domain.last
        below = np.clip(np.searchsorted(anchors, position, side="right") - 1, 0, len(anchors) - 2)
        above = (position - anchors[below]) / (anchors[below + 1] - anchors[below])
        counts = np.bincount(below, weights=1 - above, minlength=domain.height).astype(np.float64)
        counts += np.bincount(below + 1, weights=above, minlength=domain.height)
    shares: Floats = counts * (rate / len(given))
    if domain.refusal:
        shares[-1] = 1 - rate
    return shares


def variance(
    mechanism: Mechanism, values: object, *, answer_rate: float | None = None, realised: bool = False
) -> Variance:
    """n times the variance of each estimate; see `Mechanism.variance`.

    >>> from bisample import RandomizedResponse
    >>> round(variance(RandomizedResponse(epsilon=1), [True, False]).proportions["true"], 4)
    1.1707
    """
    domain, table = mechanism.domain, mechanism.table
    given, missing = _held(domain, values)
    rate = _rate(domain, len(given), missing, answer_rate)
    shares = _shares(domain, given, rate)
    if not system(table, (), targets(domain)).known.all():
        raise ParameterError(f"{mechanism!r} does not tell answers apart: no number of reports would do")
    covariance = variances(table, shares, targets(domain))
    v_rate = covariance[-1, -1] - realised * rate * (1 - rate)
    answer_rate_variance = float(v_rate) if domain.refusal else 0.0
    if isinstance(domain, Options):
        proportions = shares[: len(domain.options)] / rate
        found = {}
        for i, (option, proportion) in enumerate(zip(domain.options, proportions, strict=True)):
            v = ratio_variance(covariance, i, -1, proportion, rate)
            found[option] = float(v - realised * proportion * (1 - proportion) / rate)
        return Variance(proportions=found, answer_rate=answer_rate_variance)
    centre, half = (domain.upper + domain.lower) / 2, (domain.upper - domain.lower) / 2
    scaled = (given - centre) / half
    mean, spread = float(scaled.mean()), float(scaled.var())
    v_mean = ratio_variance(covariance, 0, -1, mean, rate)
    weights = np.array([half, centre])
    v_total = weights @ covariance @ weights
    if realised:  # what drawing the respondents adds: E[g.report | person] is T of the person
        v_mean -= spread / rate
        middle = centre + half * mean
        v_total -= rate * (half**2 * spread + middle**2) - (rate * middle) ** 2
    return Variance(mean=half**2 * float(v_mean), total=float(v_total), answer_rate=answer_rate_variance)


def ratio_variance(covariance: Floats, top: int, bottom: int, ratio: float, below: float) -> float:
    """The variance of a ratio S / A of two estimates, by the first term of its expansion; A is `below`.

    >>> ratio_variance(np.array([[4.0, 0.0], [0.0, 1.0]]), 0, 1, ratio=0.0, below=0.5)
    16.0
    """
    v = covariance[top, top] - 2 * ratio * covariance[top, bottom] + ratio**2 * covariance[bottom, bottom]
    return float(v) / below**2


def _held(domain: Domain, values: object) -> tuple[Floats, int]:
    """The values given (of options their rows), checked, and how many are missing."""
    given, missing = _options(domain, values) if isinstance(domain, Options) else _numbers(domain, values)
    if not len(given):
        raise ParameterError("at least one value is needed that somebody holds")
    return given, missing


def _options(domain: Options, values: object) -> tuple[Floats, int]:
    alone = isinstance(values, (str, bytes)) or not isinstance(values, Iterable)
    listed = [values] if alone else list(cast("Iterable[object]", values))
    held = [value for value in listed if not _is_missing(value)]
    row_of: dict[str | None, int] = {option: row for row, option in enumerate(domain.options)}
    rows = [row_of.get(text_of(value), -1) for value in held]
    if -1 in rows:
        unknown = held[rows.index(-1)]
        raise ParameterError(f"{shown(unknown)} is not among the options {', '.join(domain.options)}")
    return np.array(rows, dtype=np.float64), len(listed) - len(held)


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))


def _numbers(domain: Range, values: object) -> tuple[Floats, int]:
    held = _floats(values)
    if held is None:
        raise ParameterError("values must be numbers, None where somebody does not answer")
    given = held[~np.isnan(held)]
    if len(given) and not (domain.lower <= given.min() and given.max() <= domain.upper):
        raise ParameterError(f"values must lie in [{domain.lower:.15g}, {domain.upper:.15g}]")
    return given, len(held) - len(given)


def _floats(values: object) -> Floats | None:
    """Numbers in one dimension with NaN where one is missing; None for whatever else NumPy would take."""
    try:
        array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
        kind = array.dtype.kind
        if kind not in "fiubO" or (
            kind == "O" and any(isinstance(part, (str, bytes)) for part in array.flat)
        ):
            return None
        floats: Floats = np.ma.filled(array.astype(np.float64), np.nan).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        return None
    return floats


def _rate(domain: Domain, given: int, missing: int, answer_rate: float | None) -> float:
    rate = given / (given + missing) if answer_rate is None else real(answer_rate)
    if not 0 < rate <= 1:
        raise ParameterError(f"answer_rate must be above 0 and up to 1, not {shown(answer_rate)}")
    if rate < 1 and not domain.refusal:
        raise ParameterError("this mechanism has no code for a refusal: its answer rate is 1")
    return rate
