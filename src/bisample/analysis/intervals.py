"""Intervals of shares and ratios: by normal errors where they are as good, by the score elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .scores import score_intervals
from .solve import Floats, Ints, Solution, solve

if TYPE_CHECKING:
    from bisample.protocol.table import Table

__all__ = ["EVERYBODY", "fieller", "intervals"]

EVERYBODY = -1  # the denominator of a share of all respondents, whether they answer or not


def intervals(
    table: Table,
    counts: Ints,
    targets: Floats,
    pairs: Ints,
    bounds: Floats,
    z: float,
    solution: Solution | None = None,
) -> Floats:
    """(R, M, 2): for each of R tallies the intervals of M ratios, each a pair of rows of `targets`.

    `pairs` (M x 2) holds the rows of numerator and denominator, `EVERYBODY` for a share of all; `bounds`
    (M x 2) what is possible. An interval never leaves its bounds, is never empty, and is all of them where
    nothing is known: no reports, a target that the table does not tell, a denominator that is estimated
    at 0 or less or not at all. A numerator that has no estimate because blocks of the coin are empty does
    have an interval. `solution` is what `solve` makes of the same counts and targets, if it is at hand.

    >>> from bisample import BiSample
    >>> counts = np.array([[300, 200, 260, 240]])
    >>> targets = np.array([[-1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])  # the sum of the answers, how many there are
    >>> pairs, bounds = np.array([[0, 1], [1, EVERYBODY]]), np.array([[-1.0, 1.0], [0.0, 1.0]])
    >>> mean, rate = intervals(BiSample(epsilon=1).table, counts, targets, pairs, bounds, 1.96)[0]
    >>> mean.round(2), rate.round(2)
    (array([0.05, 0.43]), array([0.61, 0.87]))
    """
    if solution is None:
        solution = solve(table, counts, targets)
    top, bottom = pairs.T
    tops = targets[top]
    bottoms = np.where((bottom == EVERYBODY)[:, None], 1.0, targets[bottom])
    normal = fieller(solution, pairs, z)
    low, high = bounds.T
    centre = normal.mean(axis=2)
    # An estimate outside the range is the score's business: cut there, this would be too short or empty.
    inside = (low <= centre) & (centre <= high)
    cheap = np.where(inside[:, :, None], np.clip(normal, bounds[:, :1], bounds[:, 1:]), np.nan)
    found = score_intervals(table, counts, tops, bottoms, bounds, z, cheap)
    # Where the denominator's own estimate is not above 0, there is no estimate to put an interval around.
    nowhere = (bottom != EVERYBODY) & ~(solution.values[:, bottom] > 0)
    return np.where(nowhere[:, :, None], bounds, found)


def fieller(solution: Solution, pairs: Ints, z: float) -> Floats:
    """(R, M, 2): Fieller's sets {t : (S - tA)^2 <= z^2 (V_S - 2tC + t^2 V_A)}, nan where not bounded.

    They keep their level where A is small, which the delta method does not; for a share of all respondents
    they are the normal interval. They are not cut to what is possible.

    >>> from bisample import RandomizedResponse
    >>> counts, share = np.array([[60, 40]]), np.array([[0.0, 1.0]])
    >>> found = solve(RandomizedResponse(epsilon=1).table, counts, share)
    >>> fieller(found, np.array([[0, EVERYBODY]]), 1.96).round(3)
    array([[[0.076, 0.491]]])
    """
    top, bottom = pairs.T
    everybody = bottom == EVERYBODY
    s, v_s = solution.values[:, top], solution.covariance[:, top, top]
    a = np.where(everybody, 1.0, solution.values[:, bottom])
    v_a = np.where(everybody, 0.0, solution.covariance[:, bottom, bottom])
    c = np.where(everybody, 0.0, solution.covariance[:, top, bottom])
    square, cross, rest = a * a - z * z * v_a, s * a - z * z * c, s * s - z * z * v_s
    square = np.where((a > 0) & (square > 0), square, np.nan)
    root = np.sqrt(np.maximum(cross * cross - square * rest, 0))
    return np.stack([(cross - root) / square, (cross + root) / square], axis=2)
