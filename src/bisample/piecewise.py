"""Piecewise and Hybrid (Wang et al., ICDE 2019): for simulations only.

They send a real number, and so are no tables: the low bits of a float can reveal the input (17.5 %
of Piecewise's outputs at epsilon = 1 do). They are here to be compared with; `privatize` wants a
seed or a NumPy generator, so that nobody takes them for protection.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from .answers import check_range, read_numbers
from .errors import AnswerError, ParameterError, ReportError
from .estimate import Estimate, normal_quantile
from .exact import check_epsilon
from .mechanism import Variance
from .randomness import generator
from .solve import Floats

__all__ = ["HYBRID_EPSILON", "Hybrid", "Piecewise"]

# The epsilon up to which Hybrid is Harmony alone (Wang et al., theorem 3).
HYBRID_EPSILON = math.log(
    (-5 + 2 * math.cbrt(6353 - 405 * math.sqrt(241)) + 2 * math.cbrt(6353 + 405 * math.sqrt(241))) / 27
)


class _RealValued(ABC):
    """What mechanisms share whose reports are unbiased real numbers."""

    name: ClassVar[str]

    def __init__(self, epsilon: float, lower: float = -1.0, upper: float = 1.0) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.lower, self.upper = check_range(lower, upper)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(epsilon={self.epsilon!r}, lower={self.lower!r}, upper={self.upper!r})"

    def privatize(self, answers: object, *, rng: np.random.Generator | int) -> Floats:
        """One float for each answer, in the scaled domain; a simulation, so `rng` must be given."""
        scaled = self._scaled(answers)
        if rng is None:
            raise ParameterError(
                f"{self.name} is for simulations only, as the low bits of its reports reveal answers:"
                " pass rng= a seed, or use BiSample, ThreeState or Harmony to protect people"
            )
        return self._perturb(scaled, generator(rng))

    def _scaled(self, answers: object) -> Floats:
        """The answers moved to [-1, 1]; a missing one or one out of range is an error."""
        values = read_numbers(answers).to_floats()
        if np.isnan(values).any():
            raise AnswerError(f"an answer is missing, and {self.name} has no report for a refusal")
        if not ((values >= self.lower) & (values <= self.upper)).all():
            raise AnswerError(
                f"an answer lies outside [{self.lower:g}, {self.upper:g}]: widen lower and upper"
            )
        scaled: Floats = 2 * (values - self.lower) / (self.upper - self.lower) - 1
        return scaled

    def estimate(self, reports: object, level: float = 0.95) -> Estimate:
        """The mean with its error and interval, from the reports themselves."""
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
        z, n = normal_quantile(level), len(values)
        common: dict[str, Any] = {
            "mechanism": self.name,
            "epsilon": self.epsilon,
            "n": n,
            "level": level,
            "lower": self.lower,
            "upper": self.upper,
            "answer_rate": 1.0,
            "answer_rate_error": 0.0,
            "answer_rate_interval": (1.0, 1.0),
            "missing_rate": 0.0,
            "missing_rate_error": 0.0,
            "missing_rate_interval": (0.0, 0.0),
        }
        if n < 2:
            why = "there are fewer than 2 reports"
            return Estimate(**common, undefined={"mean": why, "total": why})
        centre, half = (self.upper + self.lower) / 2, (self.upper - self.lower) / 2
        mean = centre + half * float(values.mean())
        error = half * float(values.std(ddof=1)) / math.sqrt(n)
        return Estimate(
            **common,
            mean=mean,
            mean_error=error,
            mean_interval=(mean - z * error, mean + z * error),
            total=n * mean,
            total_error=n * error,
            total_interval=(n * (mean - z * error), n * (mean + z * error)),
        )

    def variance(self, values: object, *, realised: bool = False) -> Variance:
        """n times the variance of the mean, if people hold these values.

        >>> round(Piecewise(epsilon=1).variance([0.0], realised=True).mean, 3)  # (z+3) / (3 (z-1)^2)
        3.682
        """
        scaled = self._scaled(values)
        if not len(scaled):
            raise ParameterError("variance needs at least one value")
        noise = float(np.mean(self._noise(scaled**2)))
        spread = 0.0 if realised else float(scaled.var())
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
