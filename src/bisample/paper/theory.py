"""What the errors should be: formulas for figures 4 to 6, fakes and all.

The data set is given; who declines, the fakes and the reports are random. Three cases:

- Harmony, PM, HM with fakes: the estimate is an average of n reports, so its error is normal with a
  known bias, (1 - A)(mean of the fakes - m), and a known variance.
- A table with refusals: the mean is a ratio S / A of two estimates that are jointly normal. The paper's
  V / n is the first term of its spread; here the ratio is integrated, which also holds where the
  estimated answer rate is as uncertain as a fifth of itself. Beyond that the ratio has no useful
  moments (now and then its denominator is next to 0), and there is no formula: `why` says so.
- PrivKV with its authors' estimator: a biased mean, clipped to [-1, 1]. For virtual iterations there
  is no formula.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bisample.analysis.solve import Floats, variances
from bisample.analysis.variance import row_shares, targets
from bisample.protocol.mechanism import Mechanism
from bisample.simulation.preferences import true_answer_rate
from bisample.simulation.privkvm import PrivKVM

from .contestants import Collector, Contestant, KeyValueCollector, RealCollector, TableCollector, Unwilling
from .experiments import Point, Quantity

__all__ = ["Expected", "Moments", "answer_rate", "expected", "moments"]

# An answer rate whose standard error is a larger part of it than this: the ratio's moments are not usable.
LARGEST_SPREAD = 0.2
_FEWEST_ANSWERS = 100


@dataclass(frozen=True)
class Expected:
    """Mean squared and mean absolute error by formula; None where there is none, and why."""

    mse: float | None
    ae: float | None
    why: str = ""


@dataclass(frozen=True)
class Moments:
    """All that the formulas use of a data set; `rows` are the shares of a table's anchors."""

    mean: float
    square: float
    values: Floats

    @property
    def variance(self) -> float:
        return self.square - self.mean**2


def moments(values: Floats) -> Moments:
    """The moments of a data set in [-1, 1].

    >>> moments(np.array([-1.0, 1.0])).variance
    1.0
    """
    return Moments(float(values.mean()), float(np.square(values).mean()), values)


def answer_rate(point: Point) -> float:
    """The chance that a person of this point answers truly (figure 3, or what figures 5 and 6 set).

    >>> from .data import DATASETS
    >>> answer_rate(Point(DATASETS[0], n=100, epsilon=5.0))
    0.5
    """
    return true_answer_rate(point.epsilon) if point.missing_rate is None else 1 - point.missing_rate


def expected(contestant: Contestant, point: Point, data: Moments, quantity: Quantity) -> Expected:
    """The errors that a contestant should have at a point.

    >>> from .contestants import all_contestants
    >>> from .data import DATASETS
    >>> point = Point(DATASETS[1], n=100_000, epsilon=1.0, missing_rate=0.3)
    >>> e = expected(all_contestants()[0], point, moments(DATASETS[1].values(seed=1)), "missing_rate")
    >>> round(100_000 * e.mse, 2)  # V of the missing rate, 4.26 in the theory's table
    4.26
    """
    collector, rate = contestant.at(point.epsilon), answer_rate(point)
    if quantity == "missing_rate":
        return _rate_error(collector, data, rate, point.n)
    if isinstance(collector, KeyValueCollector):
        return _key_value_mean(collector.estimator, data, rate, point.n)
    if isinstance(collector, TableCollector) and collector.mechanism.domain.refusal:
        return _ratio_mean(collector.mechanism, data, rate, point.n)
    if isinstance(collector, (TableCollector, RealCollector)):
        return _faked_mean(collector, contestant.unwilling, data, rate, point.n)
    return Expected(None, None, "no formula")


def _faked_mean(
    collector: TableCollector | RealCollector, way: Unwilling, data: Moments, rate: float, n: int
) -> Expected:
    """Harmony, PM, HM: unbiased for what people say, some of which is fake."""
    mean_fake, square_fake = (1.0, 1.0) if way is Unwilling.TOP else (0.0, 1 / 3)
    said_square = rate * data.square + (1 - rate) * square_fake
    bias = (1 - rate) * (mean_fake - data.mean)
    # The variance of one report is linear in the value's square (c^2 - v^2, and PM's), so a single value
    # with the average square stands for all.
    noise = collector.mechanism.variance(np.array([math.sqrt(said_square)]), realised=True).mean
    assert noise is not None
    # What a person says is random too: E over the data of Var(said | value).
    said_mean_square = (
        rate**2 * data.square + 2 * rate * (1 - rate) * data.mean * mean_fake + ((1 - rate) * mean_fake) ** 2
    )
    variance = (noise + said_square - said_mean_square) / n
    return Expected(bias**2 + variance, float(_folded(np.array(bias), math.sqrt(variance))))


def _covariance(mechanism: Mechanism, data: Moments, rate: float) -> Floats:
    """n times the covariance of the estimated sum and answer rate, for this data set.

    The library's is for people drawn from a population; a given data set takes rate^2 Var(v), the
    spread of what people are expected to add to the sum, away.
    """
    shares = row_shares(mechanism.domain, data.values, rate)
    covariance = variances(mechanism.table, shares, targets(mechanism.domain)).copy()
    covariance[0, 0] -= rate**2 * data.variance
    return covariance


def _ratio_mean(mechanism: Mechanism, data: Moments, rate: float, n: int) -> Expected:
    """E|S/A - m| and E(S/A - m)^2 for S and A jointly normal, by integration over A."""
    covariance = _covariance(mechanism, data, rate) / n
    sd = math.sqrt(covariance[1, 1])
    if sd > LARGEST_SPREAD * rate:
        return Expected(
            None, None, f"the estimated answer rate is only {rate / sd:.1f} standard errors above 0"
        )
    if n * rate < _FEWEST_ANSWERS:
        return Expected(None, None, f"about {n * rate:.0f} people answer: too few for a normal law")
    slope = covariance[0, 1] / covariance[1, 1]
    rest = math.sqrt(max(0.0, covariance[0, 0] - slope * covariance[0, 1]))
    a, weights = _normal_grid(rate, sd)
    a, weights = a[a > rate / 20], weights[a > rate / 20]
    weights /= weights.sum()
    centre, spread = (data.mean * rate + slope * (a - rate)) / a - data.mean, rest / a
    return Expected(float(weights @ (centre**2 + spread**2)), float(weights @ _folded(centre, spread)))


def _rate_error(collector: Collector, data: Moments, rate: float, n: int) -> Expected:
    """The missing rate is linear in the tally: normal, without bias, around the realised rate."""
    if isinstance(collector, KeyValueCollector):
        p1, _ = _keep(collector.estimator)
        present = rate * p1 + (1 - rate) * (1 - p1)
        noise = present * (1 - present) / (2 * p1 - 1) ** 2 - rate * (1 - rate)
    elif isinstance(collector, TableCollector) and collector.mechanism.domain.refusal:
        covariance = _covariance(collector.mechanism, data, rate)
        noise = float(covariance[1, 1]) - rate * (1 - rate)
    else:
        return Expected(None, None, "no formula")
    return Expected(noise / n, math.sqrt(2 / math.pi * noise / n))


def _key_value_mean(estimator: PrivKVM, data: Moments, rate: float, n: int) -> Expected:
    """Plain PrivKV: m drawn towards 0 by the fakes' alpha, then clipped to [-1, 1]."""
    if estimator.virtual or estimator.rounds > 1:
        return Expected(None, None, "no formula for virtual iterations")
    p1, p2 = _keep(estimator)
    present = rate * p1 + (1 - rate) * (1 - p1)
    centre = data.mean * rate * p1 / present
    # m = (n+ - n-) / (N (2 p2 - 1)): each of the N signs has variance 1 - (its mean)^2; minus the spread of
    # what people are expected to add, as above.
    variance = (1 / (2 * p2 - 1) ** 2 - centre**2) / present - (rate * p1 / present) ** 2 * data.variance
    estimates, weights = _normal_grid(centre, math.sqrt(variance / n))
    error = np.clip(estimates, -1, 1) - data.mean
    return Expected(float(weights @ error**2), float(weights @ np.abs(error)))


def _keep(estimator: PrivKVM) -> tuple[float, float]:
    """The probabilities with which the first round keeps the key, and the value's sign."""
    key, value = estimator.budgets[0]
    return 1 / (1 + math.exp(-key)), 1 / (1 + math.exp(-value))


def _normal_grid(mean: float, sd: float) -> tuple[Floats, Floats]:
    """Points within eight standard deviations, and their normal weights, which sum to 1."""
    z = np.linspace(-8, 8, 4001)
    weights = np.exp(-(z**2) / 2)
    return mean + sd * z, weights / weights.sum()


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _folded(mean: Floats, sd: Floats | float) -> Floats:
    """E|X| of a normal X."""
    z = np.abs(mean) / sd
    folded: Floats = sd * math.sqrt(2 / math.pi) * np.exp(-(z**2) / 2) + np.abs(mean) * _erf(z / math.sqrt(2))
    return folded
