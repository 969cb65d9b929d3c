"""Piecewise and Hybrid (Wang et al., ICDE 2019): for simulations only.

They send a real number, and so are no tables: the low bits of a float can reveal the input (17.5 %
of Piecewise's outputs at epsilon = 1 do). They are here to be compared with; `privatize` wants a
seed or a NumPy generator, so that nobody takes them for protection.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bisample.analysis.estimate import normal_quantile
from bisample.analysis.results import NumberEstimate
from bisample.analysis.tally import SIMULATED
from bisample.analysis.variance import Variance
from bisample.device.randomness import Seed, generator
from bisample.errors import ParameterError, ReportError
from bisample.protocol.domain import Range
from bisample.protocol.exact import check_epsilon

from .scaling import Floats, scaled

__all__ = ["HYBRID_EPSILON", "Hybrid", "Piecewise"]

# The epsilon up to which Hybrid is Harmony alone (Wang et al., theorem 3).
HYBRID_EPSILON = math.log(
    (-5 + 2 * math.cbrt(6353 - 405 * math.sqrt(241)) + 2 * math.cbrt(6353 + 405 * math.sqrt(241))) / 27
)


@dataclass(frozen=True)
class _RealValued(ABC):
    """What mechanisms share whose reports are unbiased real numbers."""

    name: ClassVar[str]

    epsilon: float
    lower: float = -1.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        domain = self._domain
        put = object.__setattr__
        put(self, "epsilon", check_epsilon(self.epsilon))
        put(self, "lower", domain.lower)
        put(self, "upper", domain.upper)

    @property
    def _domain(self) -> Range:
        return Range(self.lower, self.upper, refusal=False)

    def privatize(self, answers: object, *, rng: Seed) -> Floats:
        """One float for each answer, in the scaled domain; a simulation, so `rng` must be given."""
        if rng is None:
            raise ParameterError(
                f"{self.name} is for simulations only, as the low bits of its reports reveal answers:"
                " pass rng= a seed, or use BiSample, ThreeState or Harmony to protect people"
            )
        return self._perturb(scaled(answers, self._domain), generator(rng))

    def estimate(self, reports: object, level: float = 0.95) -> NumberEstimate:
        """The mean with its error and interval, from the reports themselves."""
        values = _real_reports(reports)
        z, n = normal_quantile(level), len(values)
        centre, half = (self.upper + self.lower) / 2, (self.upper - self.lower) / 2
        facts: dict[str, Any] = {"mean_interval": (self.lower, self.upper)}
        if n < 2:
            why = "there are fewer than 2 reports"
            facts["undefined"] = {"mean": why, "total": why}
        else:
            mean = centre + half * float(values.mean())
            error = half * float(values.std(ddof=1)) / math.sqrt(n)
            facts |= {"mean": mean, "mean_error": error, "total": n * mean, "total_error": n * error}
            facts["mean_interval"] = (mean - z * error, mean + z * error)
        low, high = facts["mean_interval"]
        return NumberEstimate(
            mechanism=self.name,
            epsilon=self.epsilon,
            n=n,
            level=level,
            subject=SIMULATED,
            lower=self.lower,
            upper=self.upper,
            total_interval=(n * low, n * high),
            answer_rate=1.0,
            answer_rate_error=0.0,
            answer_rate_interval=(1.0, 1.0),
            missing_rate=0.0,
            missing_rate_error=0.0,
            missing_rate_interval=(0.0, 0.0),
            **facts,
        )

    def variance(self, values: object, *, realised: bool = False) -> Variance:
        """n times the variance of the mean, if people hold these values.

        >>> round(Piecewise(epsilon=1).variance([0.0], realised=True).mean, 3)  # (z+3) / (3 (z-1)^2)
        3.682
        """
        held = scaled(values, self._domain)
        if not len(held):
            raise ParameterError("variance needs at least one value")
        noise = float(np.mean(self._noise(held**2)))
        spread = 0.0 if realised else float(held.var())
        scale = ((self.upper - self.lower) / 2) ** 2
        return Variance(mean=scale * (noise + spread), total=scale * (noise + spread), answer_rate=0.0)

    @abstractmethod
    def _perturb(self, values: Floats, rng: np.random.Generator) -> Floats: ...

    @abstractmethod
    def _noise(self, squares: Floats) -> Floats:
        """The variance of one report, given the squared scaled value."""


class Piecewise(_RealValued):
    """PM: uniform on an interval around the value with a large probability, else on the rest of [-C, C].

    >>> m = Piecewise(epsilon=2, lower=0, upper=10)
    >>> e = m.estimate(m.privatize([3.0] * 20_000, rng=1))
    >>> abs(e.mean - 3) < 4 * e.mean_error
    True
    """

    name = "piecewise"

    def _perturb(self, values: Floats, rng: np.random.Generator) -> Floats:
        # Wang et al., algorithm 2, with z = e^(epsilon/2).
        z = math.exp(self.epsilon / 2)
        c = (z + 1) / (z - 1)
        left = (c + 1) / 2 * values - (c - 1) / 2
        right = left + c - 1
        inside = rng.random(len(values)) < z / (z + 1)
        u = rng.random(len(values))
        outside = -c + u * (c + 1)  # [-C, l) and (r, C] are c + 1 long together
        outside += np.where(outside >= left, right - left, 0.0)
        perturbed: Floats = np.where(inside, left + u * (c - 1), outside)
        return perturbed

    def _noise(self, squares: Floats) -> Floats:
        z = math.exp(self.epsilon / 2)
        noise: Floats = squares / (z - 1) + (z + 3) / (3 * (z - 1) ** 2)
        return noise


class Hybrid(_RealValued):
    """HM: Piecewise with probability 1 - e^(-epsilon/2), else Harmony; up to epsilon* = 0.61 Harmony alone.

    >>> Hybrid(epsilon=0.5).privatize([0.2, 0.4], rng=1).round(3).tolist()
    [4.083, -4.083]
    """

    name = "hybrid"

    @property
    def _piecewise_share(self) -> float:
        return 1 - math.exp(-self.epsilon / 2) if self.epsilon > HYBRID_EPSILON else 0.0

    @property
    def _c(self) -> float:
        return 1 / math.tanh(self.epsilon / 2)  # (e^eps + 1) / (e^eps - 1)

    def _perturb(self, values: Floats, rng: np.random.Generator) -> Floats:
        up = rng.random(len(values)) < 0.5 + values / (2 * self._c)
        harmony = np.where(up, self._c, -self._c)
        if not self._piecewise_share:
            return harmony
        piecewise = Piecewise(self.epsilon)._perturb(values, rng)  # noqa: SLF001 - its own kind
        perturbed: Floats = np.where(rng.random(len(values)) < self._piecewise_share, piecewise, harmony)
        return perturbed

    def _noise(self, squares: Floats) -> Floats:
        share = self._piecewise_share
        piecewise = Piecewise(self.epsilon)._noise(squares)  # noqa: SLF001 - its own kind
        noise: Floats = share * piecewise + (1 - share) * (self._c**2 - squares)
        return noise


def _real_reports(reports: object) -> Floats:
    try:
        values = np.asarray(reports)
    except ValueError:  # ragged
        values = np.empty(())
    if (
        values.dtype.kind not in "fiu"
        or values.ndim != 1
        or not np.isfinite(values).all()
        or np.ma.is_masked(reports)
    ):
        raise ReportError("reports must be finite numbers in one dimension, as privatize() returns them")
    return values.astype(np.float64)
