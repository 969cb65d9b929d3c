"""Could such a tally have come from this mechanism at all? Two p-values, neither of which cries wolf.

The coin: whether the reports spread over the blocks of a public coin as the coin would. The region: whether
the reports within blocks lie near what the table can produce, whatever people hold.

Deviances of counts are chi-squared only where no count is small, and a warning is needed among few
reports as well. There n KL (half the deviance) is bounded by a gamma variable of as many degrees: its moment
generating function is never larger (Agrawal, Finite-sample concentration of the multinomial in relative
entropy, 2020), so that p <= exp(-x) (e x / degrees)^degrees holds for every n and every table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .solve import Floats, Ints, blocks_of, fit

if TYPE_CHECKING:
    from bisample.protocol.table import Table

__all__ = ["Plausibility", "chi_squared_tail", "plausibility", "warnings_of"]

_WARN = 1e-4
_EXPECTED = 20.0  # reports of each code from which on the deviance is taken for chi-squared
_ALARMING = 0.01  # a p-value from which on it is worth knowing the best fit exactly
_STEPS = 1000  # for that, with a look at the p-value after every so many:
_ROUND = 100
_CLOSE = 1.0  # a log-likelihood this near the best is the best
_CHUNK = 1 << 16  # numbers in the largest array of a step


@dataclass(frozen=True)
class Plausibility:
    """P-values of R tallies; they are upper bounds, so that a small one means something."""

    coin: Floats  # (R,); nan where the table has no public coin
    region: Floats  # (R,)


def plausibility(table: Table, counts: Ints) -> Plausibility:
    """How well each of R tallies (R x codes) goes with the table; 1 where there are no reports.

    >>> from bisample import BiSample
    >>> table = BiSample(epsilon=1).table
    >>> found = plausibility(table, np.array([[300, 200, 260, 240], [0, 0, 500, 500], [500, 0, 500, 0]]))
    >>> found.coin < 1e-4, found.region < 1e-4
    (array([False,  True, False]), array([False, False,  True]))
    """
    coin, region = np.full(len(counts), np.nan), np.ones(len(counts))
    step = max(1, _CHUNK // max(table.matrix.shape))
    for first in range(0, len(counts), step):
        part = slice(first, first + step)
        some = counts[part].astype(np.float64)
        if len(table.blocks) > 1:
            coin[part] = _coin(table, some)
        region[part] = _region(table, some)
    return Plausibility(coin, region)


def warnings_of(table: Table, counts: Ints) -> list[tuple[str, ...]]:
    """For each of R tallies the sentences that should stand under its estimate: mostly none.

    >>> from bisample import BiSample
    >>> warnings_of(BiSample(epsilon=1).table, np.array([[300, 200, 260, 240], [0, 0, 500, 500]]))[0]
    ()
    """
    found = plausibility(table, counts)
    return [
        (
            *[f"the public coin is not fair (p = {coin:.0e}): these reports are not what devices drew"]
            * bool(coin < _WARN),
            *[f"no answers lead to such counts (p = {region:.0e}): {_SUSPECTS}"] * bool(region < _WARN),
        )
        for coin, region in zip(found.coin, found.region, strict=True)
    ]


_SUSPECTS = "reports of another mechanism, or of people who send codes of their own choice"


def chi_squared_tail(x: float, degrees: float) -> float:
    """The probability that a chi-squared variable is above x: the regularised incomplete gamma function.

    >>> round(chi_squared_tail(3.841458820694124, 1), 12)
    0.05
    """
    a, half = degrees / 2, x / 2
    if half <= 0:
        return 1.0
    front = math.exp(a * math.log(half) - half - math.lgamma(a))
    if half < a + 1:
        term = total = 1 / a
        k = a
        while term > total * 1e-17:
            k += 1
            term *= half / k
            total += term
        return max(0.0, 1 - front * total)
    # Lentz's continued fraction; the series would be subtracted from 1 where little is left.
    b = half + 1 - a
    c, d = math.inf, 1 / b
    fraction = d
    for k in range(1, 10_000):
        numerator = -k * (k - a)
        b += 2
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction


def _coin(table: Table, counts: Floats) -> Floats:
    blocks = blocks_of(table)
    seen, n = blocks.sums(counts), counts.sum(axis=1)
    expected = n[:, None] * blocks.mass
    return _tail(_half_deviance(seen, expected), expected, n[:, None], len(blocks.mass) - 1)


def _region(table: Table, counts: Floats) -> Floats:
    """The smaller of two p-values, doubled: the distance to the best fit, and single codes.

    The second sees what the first, which has as many degrees as there are codes, has to let pass: that
    everybody sends the same one of 51 codes.
    """
    p = np.minimum(_distance_tail(table, counts), _single_code_tail(table, counts))
    doubled: Floats = np.minimum(1, 2 * p)
    return doubled


def _distance_tail(table: Table, counts: Floats) -> Floats:
    """For the deviance from the best fit. The truth fits no better: its degrees are those of no fit."""
    blocks, matrix = blocks_of(table), table.matrix
    degrees = counts.shape[1] - len(blocks.mass)
    in_block, n = blocks.sums(counts), counts.sum(axis=1)
    p = np.ones(len(counts))
    i = np.flatnonzero((n > 0) & (degrees > 0))
    frequencies = counts[i] / n[i, None]
    shares, fitted = fit(matrix, frequencies)
    for step in range(_STEPS + 1):
        slopes = (frequencies / fitted) @ matrix.T
        if step % _ROUND == 0:
            totals = in_block[i]
            expected = totals[:, blocks.of_code] * fitted / blocks.mass[blocks.of_code]
            half = _half_deviance(counts[i], expected)
            # By so much the best fit can be better than this one, which stopped early (the likelihood
            # is concave): what is not reached yet must not speak against the tally.
            gap = n[i] * np.log(np.maximum(1, slopes.max(axis=1)))
            p[i] = _tail(np.maximum(0, half - gap), expected, totals, degrees)
            unsettled = (_tail(half, expected, totals, degrees) < _ALARMING) & (gap > _CLOSE)
            i, frequencies, shares, slopes = (x[unsettled] for x in (i, frequencies, shares, slopes))
            if not len(i):
                break
        shares = shares * slopes
        fitted = shares @ matrix
    return p


def _single_code_tail(table: Table, counts: Floats) -> Floats:
    """For a code sent more, or less, often than any row sends it: Chernoff's bound, times codes and sides."""
    blocks = blocks_of(table)
    conditional = table.matrix / blocks.mass[blocks.of_code]
    in_block = blocks.sums(counts)[:, blocks.of_code]
    share = counts / np.maximum(in_block, 1)
    possible = np.clip(share, conditional.min(axis=0), conditional.max(axis=0))
    sent, not_sent = counts * np.log(_ratio(share, possible)), in_block - counts
    rest = not_sent * np.log(_ratio(1 - share, 1 - possible))
    tails: Floats = 2 * counts.shape[1] * np.exp(-np.maximum(0, sent + rest).max(axis=1))
    return tails


def _ratio(above: Floats, below: Floats) -> Floats:
    """above / below, and 1 where a term above * log(above / below) is 0 or there is nothing to compare."""
    return np.divide(above, below, out=np.ones_like(above), where=(above > 0) & (below > 0))


def _half_deviance(counts: Floats, expected: Floats) -> Floats:
    """n KL: the sum of counts * log(counts / expected)."""
    half: Floats = (counts * np.log(_ratio(counts, expected))).sum(axis=1)
    return np.maximum(0, half)


def _tail(half: Floats, expected: Floats, totals: Floats, degrees: int) -> Floats:
    """P-values of half deviances: chi-squared where every code is expected often, else Agrawal's bound."""
    p = np.ones(len(half))
    far = half > degrees
    p[far] = np.exp(degrees - half[far] + degrees * np.log(half[far] / degrees))
    for r in np.flatnonzero(expected.min(axis=1) >= _EXPECTED):
        # Bartlett's correction: by so much a deviance of counts is larger on average.
        larger = 1 + ((1 / expected[r]).sum() - (1 / totals[r]).sum()) / (6 * degrees)
        p[r] = chi_squared_tail(2 * float(half[r]) / larger, degrees)
    return p
