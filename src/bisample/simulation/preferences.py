"""Whose answers are withheld at this epsilon, and what people do who fake instead of declining.

Everybody has a preferred epsilon of their own, the largest they accept. It never leaves their side:
where the epsilon offered is larger, they decline (PV, algorithm 3), or, where declining is not
possible, they fake. Fakes bias every estimate; these functions simulate by how much.
"""

from __future__ import annotations

import math

import numpy as np

from bisample.device.answers import read_numbers
from bisample.device.randomness import Seed, generator
from bisample.errors import ParameterError, shown
from bisample.protocol.domain import Range
from bisample.protocol.exact import check_epsilon, real, whole

from .scaling import Floats

__all__ = ["fake_random", "fake_top", "preferences", "prepare_values", "true_answer_rate"]

# Section 5 of the paper: preferred epsilons are N(5, 1.5).
PREFERRED_MEAN = 5.0
PREFERRED_SD = 1.5


def prepare_values(values: object, epsilon: float, preferred: object) -> Floats:
    """PV, algorithm 3: each value if epsilon is at most its owner's preferred one, else NaN (a refusal).

    >>> prepare_values([31, 44, 59], epsilon=2, preferred=[1.5, 2.0, 6.0])
    array([nan, 44., 59.])
    """
    column, accepted = read_numbers(values), read_numbers(preferred)
    if len(accepted) not in (1, len(column)):
        raise ParameterError(
            f"preferred must be one number or {len(column)}, one a value, not {len(accepted)}"
        )
    prepared: Floats = np.where(check_epsilon(epsilon) <= accepted.to_floats(), column.to_floats(), np.nan)
    return prepared


def preferences(n: int, rng: Seed, mean: float = PREFERRED_MEAN, sd: float = PREFERRED_SD) -> Floats:
    """Preferred epsilons of n people, normally distributed as in the paper.

    >>> preferences(3, rng=1).round(2)
    array([5.52, 6.23, 5.5 ])
    """
    drawn: Floats = generator(rng).normal(*_normal(mean, sd), whole(n, 0, "n"))
    return drawn


def true_answer_rate(epsilon: float, mean: float = PREFERRED_MEAN, sd: float = PREFERRED_SD) -> float:
    """The share of people with normal preferences who answer truly at this epsilon: figure 3.

    >>> true_answer_rate(5.0)
    0.5
    """
    centre, spread = _normal(mean, sd)
    offered = real(epsilon)
    if not math.isfinite(offered):
        raise ParameterError(f"epsilon must be a finite number, not {shown(epsilon)}")
    if not spread:
        return float(offered <= centre)
    return 0.5 * math.erfc((offered - centre) / (spread * math.sqrt(2)))


def fake_top(prepared: object, upper: float = 1.0) -> Floats:
    """TOP: those who would decline give the largest value instead.

    >>> fake_top([0.5, float("nan")])
    array([0.5, 1. ])
    """
    values = read_numbers(prepared).to_floats()
    if not math.isfinite(real(upper)):
        raise ParameterError(f"upper must be a finite number, not {shown(upper)}")
    faked: Floats = np.where(np.isnan(values), real(upper), values)
    return faked


def fake_random(prepared: object, rng: Seed, lower: float = -1.0, upper: float = 1.0) -> Floats:
    """RND: those who would decline give a value uniform in [lower, upper] instead.

    >>> bool(abs(fake_random([float("nan")], rng=1)[0]) <= 1)
    True
    """
    values = read_numbers(prepared).to_floats()
    domain = Range(lower, upper)
    fakes = generator(rng).uniform(domain.lower, domain.upper, len(values))
    faked: Floats = np.where(np.isnan(values), fakes, values)
    return faked


def _normal(mean: float, sd: float) -> tuple[float, float]:
    """Mean and standard deviation of a normal law, checked; a standard deviation of 0 is one person's."""
    centre, spread = real(mean), real(sd)
    if not (math.isfinite(centre) and 0 <= spread < math.inf):
        raise ParameterError(
            f"mean must be a finite number and sd one from 0, not {shown(mean)} and {shown(sd)}"
        )
    return centre, spread
