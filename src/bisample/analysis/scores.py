"""Intervals that hold with few reports, for any table: a score test with corrected limits, inverted.

The ratio T.pi / B.pi is asked for; B is 1 in every row for a share of everybody, and 1 where there is
an answer for a share of those. A value t is kept unless the tally speaks against it. With h = T - t B it
is right where h.pi = 0, and then

1. the shares pi that fit best under h.pi = 0 say how reports fall (`_Tallies.look`, `_tilted`);
2. the score adds up g = g_T - t g_B over the reports, less its mean, in each block of the coin by itself
   (`_Tallies.look`): that gives its value, its standard error and its skewness;
3. it is compared with the quantiles of a gamma variable of this skewness (`_limits`).

The ends of what is kept are sought from the estimate outwards, for all tallies, ratios and ends at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .solve import Floats, Ints, blocks_of, fit, system

if TYPE_CHECKING:
    from bisample.protocol.table import Table

__all__ = ["score_intervals"]

Indices: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]
Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

# The method. Coverage was measured with these (tools/interval_coverage.py), and does not hang on their last
# digits.
_WIDENING = 0.2  # of the limits, times |skewness|: counts are whole numbers, and a gamma variable is not
_MOST_SKEWED = 3.0  # for the quantiles: beyond it they are those of a single rare report anyway
_TRUST = 1.0  # in a block's known mass, in reports: a block without reports is then no special case
_PRIOR = 4.0  # reports of equal shares mixed into fits: expectation maximization is slow to leave 0
_BEYOND = 1.0  # an estimate that lies further outside the range, in standard errors, is moved to here
_STEPS = 8  # of a restricted fit, on from the nearest fit there is
# Where the score is so nearly symmetric, and a code has so many reports on average, a normal error does.
_SYMMETRIC = 0.05
_ENOUGH = 8.0
_TOLERANCE = 0.03  # standard errors off the limit; the last step goes on from there without a look
_ROUNDS = 12
_FAR = 2.0  # times z: a denominator that many standard errors above 0 will not be 0
_BALANCE = 1e-4  # how far a fit may be from h.pi = 0, as a part of |h|.pi
_NEWTON_STEPS = 12
_MARGIN = 1e-7  # of the range: at its very end no row may be left on one side of 0
_TINY = 1e-200  # a variance that is above 0, and whose power 3/2 is
_CHUNK = 1 << 16  # numbers in the largest array of a step: it stays in the cache


def score_intervals(
    table: Table,
    counts: Ints,
    tops: Floats,
    bottoms: Floats,
    bounds: Floats,
    z: float,
    cheap: Floats | None = None,
) -> Floats:
    """(R, M, 2): for each of R tallies the interval of each of M ratios tops[i].pi / bottoms[i].pi.

    `counts` is R x codes, `tops` and `bottoms` are M x rows, no bottom below 0; `bounds` (M x 2) are the
    ends of what is possible. No interval is empty or leaves them. It is all that is possible where there
    are no reports, where the table does not tell the ratio, or where the denominator's estimate is not
    above 0. `z` is the normal quantile of the level.

    `cheap` (R, M, 2) may offer intervals that rest on normal errors, nan where there is none: they are
    taken where the score says that they are as good.

    >>> from bisample import ThreeState
    >>> table = ThreeState(epsilon=8).table
    >>> everybody, answered = np.ones((1, 3)), np.array([[1.0, 1.0, 0.0]])
    >>> counts = np.array([[0, 1, 0], [5, 4, 1], [0, 0, 0]])
    >>> score_intervals(table, counts, answered, everybody, np.array([[0.0, 1.0]]), 1.96)[:, 0].round(2)
    array([[0.08, 1.  ],
           [0.6 , 0.99],
           [0.  , 1.  ]])
    """
    numerous = max(1, _CHUNK // (2 * len(tops) * max(table.matrix.shape)))
    result = np.tile(bounds.astype(np.float64), (len(counts), 1, 1))
    for first in range(0, len(counts), numerous):
        part = slice(first, first + numerous)
        tallies = _Tallies(table, counts[part].astype(np.float64), tops, bottoms)
        _fill(result[part], tallies, z, None if cheap is None else cheap[part])
    return result


@dataclass(frozen=True)
class _Look:
    """What the score says at one value of each problem, and the fit that a look nearby can start from."""

    value: Floats  # above 0 where the estimate is above the value
    error: Floats
    skewness: Floats
    shares: Floats
    tilt: Floats


class _Tallies:
    """Tallies with what does not depend on the value t that is asked about: fits, weights, balance."""

    def __init__(self, table: Table, counts: Floats, tops: Floats, bottoms: Floats) -> None:
        self.matrix, self.blocks = table.matrix, blocks_of(table)
        self.counts, self.tops, self.bottoms = counts, tops, bottoms
        self.n = counts.sum(axis=1)
        some = np.maximum(self.n, 1)[:, None]
        self.frequencies = counts / some
        equal = self.matrix.mean(axis=0)
        smoothed = (counts + _PRIOR * equal) / (self.n[:, None] + _PRIOR)
        self.shares, self.fitted = fit(self.matrix, smoothed)
        equations = system(table, (), np.vstack([tops, bottoms]))
        weights = equations.least_variance(self.fitted)
        if len(weights) < len(counts):  # the table leaves no choice: the same for all tallies
            weights = np.broadcast_to(weights, (len(counts), *weights.shape[1:]))
        self.g_tops, self.g_bottoms = weights[:, : len(tops)], weights[:, len(tops) :]
        self.known = equations.known[: len(tops)] & equations.known[len(tops) :]
        # What a report of each block counts, so that the block counts for its mass and not for how many
        # the coin sent there; one without reports counts nothing, and one with few hardly too much.
        mass, self.in_block = self.blocks.mass, self.blocks.sums(counts)
        trusted = mass / (self.in_block + _TRUST * mass) * (some + _TRUST) / some
        self.balance = np.where(self.in_block > 0, trusted, 0)

    def estimates(self, r: Indices, m: Indices) -> tuple[Floats, Floats]:
        """Numerators and denominators of ratio m in tally r."""
        seen = (self.balance[:, self.blocks.of_code] * self.counts)[r]
        return (seen * self.g_tops[r, m]).sum(axis=1), (seen * self.g_bottoms[r, m]).sum(axis=1)

    def clear(self, r: Indices, m: Indices, z: float) -> Bools:
        """Whether a denominator is so far above 0 that what is kept is surely in one piece."""
        blocks, g = self.blocks, self.g_bottoms[r, m]
        within = (self.fitted / blocks.mass[blocks.of_code])[r]
        g = g - blocks.sums(within * g)[:, blocks.of_code]
        spread = blocks.sums(within * g * g)
        variance = (self.balance[r] ** 2 * self.in_block[r] * spread).sum(axis=1)
        far: Bools = self.estimates(r, m)[1] > _FAR * z * np.sqrt(variance)
        return far

    def look(self, r: Indices, m: Indices, t: Floats, shares: Floats, tilt: Floats) -> _Look:
        """The score of the value t for ratio m in tally r, from shares and a tilt found nearby."""
        h = self.tops[m] - t[:, None] * self.bottoms[m]
        part = (_PRIOR / (self.n[r] + _PRIOR))[:, None]
        shares, tilt = _tilted((1 - part) * shares + part / shares.shape[1], h, tilt)
        frequencies, p = self.frequencies[r], shares @ self.matrix
        for _ in range(_STEPS):
            shares, tilt = _tilted(shares * ((frequencies / p) @ self.matrix.T), h, tilt)
            p = shares @ self.matrix
        blocks, balance = self.blocks, self.balance[r]
        within = p / blocks.mass[blocks.of_code]
        g = self.g_tops[r, m] - t[:, None] * self.g_bottoms[r, m]
        g = g - blocks.sums(within * g)[:, blocks.of_code]
        squares = within * g * g
        reports = balance * balance * self.in_block[r]
        value = (balance * blocks.sums(self.counts[r] * g)).sum(axis=1)
        error = np.sqrt(np.maximum((reports * blocks.sums(squares)).sum(axis=1), _TINY))
        skewness = (reports * balance * blocks.sums(squares * g)).sum(axis=1) / error**3
        return _Look(value, error, skewness, shares, tilt)


def _tilted(shares: Floats, h: Floats, tilt: Floats) -> tuple[Floats, Floats]:
    """shares / (1 + tilt * h) with the tilt at which h.shares = 0: the fit's own step under the restriction.

    With P and N the parts of h.shares above and below 0, Newton on 1/P - 1/N: a straight line in the tilt
    where h has two values. A problem that is in balance stays as it is, whatever the others need.
    """
    low, high = -1 / h.max(axis=1), -1 / h.min(axis=1)
    edge = 1e-12 * (high - low)
    tilt = np.clip(tilt, low + edge, high - edge)
    leaning = shares * h
    upper = np.maximum(leaning, 0)
    for _ in range(_NEWTON_STEPS):
        shrink = 1 / np.maximum(1 + tilt[:, None] * h, 1e-100)
        up, both = upper * shrink, leaning * shrink
        above, over = up.sum(axis=1), both.sum(axis=1)
        below = above - over
        balanced = np.abs(over) <= _BALANCE * (above + below)
        if balanced.all():
            break
        bent = h * shrink
        steep = (up * bent).sum(axis=1)
        flat = (both * bent).sum(axis=1) - steep
        low, high = np.where(over > 0, tilt, low), np.where(over > 0, high, tilt)
        above, below = np.maximum(above, 1e-150), np.maximum(below, 1e-150)
        new = tilt - (1 / above - 1 / below) / (steep / above**2 + flat / below**2 + 1e-300)
        new = np.where((new > low) & (new < high), new, (low + high) / 2)
        tilt = np.where(balanced, tilt, new)
    shares = shares / np.maximum(1 + tilt[:, None] * h, 1e-100)
    return shares / shares.sum(axis=1, keepdims=True), tilt


def _limits(skewness: Floats, z: float) -> tuple[Floats, Floats]:
    """Wilson and Hilferty's quantiles of a standardised gamma variable of this skewness, widened."""
    g = np.clip(skewness, -_MOST_SKEWED, _MOST_SKEWED)
    g = np.where(np.abs(g) < 1e-4, 1e-4, g)  # their limit is the normal quantile
    low, high = (2 / g * (np.maximum(1 + g * x / 6 - g * g / 36, 0) ** 3 - 1) for x in (-z, z))
    wider = _WIDENING * np.abs(skewness)
    return low - wider, high + wider


def _excess(look: _Look, moved: Floats, sign: Floats, z: float) -> Floats:
    """By how many standard errors a value is beyond the lower (sign -1) or the upper end (sign 1)."""
    least, most = _limits(look.skewness, z)
    standardised = (look.value - moved) / look.error
    excess: Floats = np.where(sign < 0, standardised - most, least - standardised)
    return excess


def _attainable(tallies: _Tallies, bounds: Floats) -> tuple[Floats, Floats]:
    """The part of the bounds that ratios of shares can reach at all."""
    tops, bottoms = tallies.tops, tallies.bottoms
    ends = np.where(tops == 0, 0, np.copysign(np.inf, tops))
    ratios = np.divide(tops, bottoms, out=ends, where=bottoms > 0)
    nothing = (bottoms <= 0) & (tops == 0)  # such rows have no part in the ratio
    low, high = np.where(nothing, np.inf, ratios).min(axis=1), np.where(nothing, -np.inf, ratios).max(axis=1)
    return np.maximum(bounds[:, 0], low), np.minimum(bounds[:, 1], high)


def _fill(result: Floats, tallies: _Tallies, z: float, cheap: Floats | None) -> None:
    """Put the intervals into `result` (R, M, 2), which holds the bounds."""
    lowest, highest = _attainable(tallies, result[0])
    r, m = (x.ravel() for x in np.indices(result.shape[:2]))
    top, bottom = tallies.estimates(r, m)
    usable = (tallies.n[r] > 0) & tallies.known[m] & (bottom > 0)
    certain = usable & (lowest == highest)[m]  # by the table: everybody answers, say
    result[r[certain], m[certain]] = lowest[m[certain], None]
    usable &= (lowest < highest)[m]
    r, m, top, bottom = r[usable], m[usable], top[usable], bottom[usable]
    if not len(r):
        return
    margin = _MARGIN * (highest - lowest)[m]
    low, high = lowest[m] + margin, highest[m] - margin
    start = np.clip(top / bottom, low, high)
    look = tallies.look(r, m, start, tallies.shares[r], np.zeros(len(r)))
    if cheap is not None:
        served = (np.abs(look.skewness) < _SYMMETRIC) & (tallies.n[r] >= _ENOUGH * tallies.counts.shape[1])
        served &= ~np.isnan(cheap[r, m]).any(axis=1)
        result[r[served], m[served]] = cheap[r[served], m[served]]
        left = ~served
        r, m, bottom, low, high, start = (x[left] for x in (r, m, bottom, low, high, start))
        look = _Look(*(x[left] for x in vars(look).values()))
    lower, upper = _ends(tallies, r, m, start, low, high, bottom, look, z)
    # The margin was for the search alone.
    result[r, m, 0] = np.where(lower <= low, lowest[m], lower)
    result[r, m, 1] = np.where(upper >= high, highest[m], upper)


def _ends(
    tallies: _Tallies,
    r: Indices,
    m: Indices,
    start: Floats,
    low: Floats,
    high: Floats,
    slope: Floats,
    look: _Look,
    z: float,
) -> tuple[Floats, Floats]:
    """The outermost values that are kept, by secants from `start`; the score falls by `slope`."""
    sign = np.repeat([-1.0, 1.0], len(r))
    r, m, start, slope = (np.r_[x, x] for x in (r, m, start, slope))
    room = np.r_[start[: len(low)] - low, high - start[: len(low)]]
    look = _Look(*(np.concatenate([x, x]) for x in vars(look).values()))
    # Never empty: what is within `_BEYOND` of the start, and so the start itself, is not far off.
    least, most = _limits(look.skewness, z)
    near = np.clip(look.value / look.error, np.maximum(-_BEYOND, least / 2), np.minimum(_BEYOND, most / 2))
    moved = look.value - near * look.error
    # All are distances from the start. The end lies between `kept` and `lost`; what the latter exceeds
    # is not known before a value has been rejected.
    kept, kept_excess = np.zeros(len(r)), _excess(look, moved, sign, z)
    lost, lost_excess = room.copy(), np.full(len(r), np.nan)
    end = np.minimum(-kept_excess * look.error / slope, room)
    # Where the denominator may be 0, values at the other end of the range can be kept though some in
    # between are not. Then all up to there are: the first look is at the very end.
    end = np.where(tallies.clear(r, m, z), end, room)
    shares, tilt = look.shares, look.tilt
    i = np.flatnonzero(room > 0)
    for k in range(_ROUNDS):
        if not len(i):
            break
        at = end[i]
        look = tallies.look(r[i], m[i], start[i] + sign[i] * at, shares[i], tilt[i])
        shares[i], tilt[i] = look.shares, look.tilt
        excess = _excess(look, moved[i], sign[i], z)
        rejected = excess > 0
        other = np.where(rejected, kept[i], lost[i])
        other_excess = np.where(rejected, kept_excess[i], lost_excess[i])
        difference = np.where(excess == other_excess, 1, excess - other_excess)
        secant = np.clip(at - excess * (at - other) / difference, kept[i], lost[i])
        # Exact where error and limit do not change with the value.
        onward = np.minimum(at - excess * look.error / slope[i], room[i])
        end[i] = np.where(np.isnan(other_excess), onward, secant)
        # Illinois: in a search that drags on, the side that stays counts for half.
        half = 0.5 if k > 2 else 1.0
        kept_excess[i] = np.where(rejected, kept_excess[i] * half, excess)
        lost_excess[i] = np.where(rejected, excess, lost_excess[i] * half)
        kept[i], lost[i] = np.where(rejected, kept[i], at), np.where(rejected, at, lost[i])
        i = i[(np.abs(excess) > _TOLERANCE) & (rejected | (at < room[i]))]
    lower, upper = (start + sign * end).reshape(2, -1)
    return lower, upper
