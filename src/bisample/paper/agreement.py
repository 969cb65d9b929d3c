"""Theory against simulation, with enough repetitions to see 10 %.

With T = 100 repetitions a mean squared error is itself known to 14 % only, so the figures cannot show
whether a formula is right to 10 %. Here each point is repeated some thousand times by a shorter way to
the same distribution: people who hold (nearly) the same value are drawn together, as counts.

Values are sorted into strata of width 2/64 and stand for their stratum's mean; that takes the variance
within a stratum, at most 2e-5 of a scaled unit squared, out of what a report's noise of order 1 to 400
adds up to. How many decline is binomial; which code or which piece of PM's density they send is
multinomial. Only the place inside a piece of PM's density, a sum of very many uniforms, is drawn by its
normal limit. A test compares this route with the person by person simulation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bisample.analysis.solve import Floats, Ints
from bisample.protocol.domain import Range
from bisample.protocol.table import Table
from bisample.simulation.piecewise import Piecewise

from .contestants import Contestant, RealCollector, TableCollector, Unwilling
from .data import DataSet, stream
from .experiments import Point, Quantity
from .runs import Errors
from .theory import Expected, answer_rate, expected, moments

__all__ = ["Agreement", "AgreementTask", "can_be_checked", "check", "draw_errors"]

STRATA = 64
_REPETITIONS_AT_ONCE = 500


@dataclass(frozen=True)
class AgreementTask:
    """One contestant at one point, to be repeated many times."""

    point: Point
    contestant: Contestant
    seed: int
    repeats: int

    @property
    def cost(self) -> float:
        return float(self.repeats)


@dataclass(frozen=True)
class Agreement:
    """Simulated over theoretical error; None where there is no formula, and why."""

    point: Point
    contestant: str
    quantity: Quantity
    repeats: int
    undefined: int
    simulated_mse: float
    simulated_ae: float
    theory: Expected

    @property
    def ratio_mse(self) -> float | None:
        return None if self.theory.mse is None else self.simulated_mse / self.theory.mse

    @property
    def ratio_ae(self) -> float | None:
        return None if self.theory.ae is None else self.simulated_ae / self.theory.ae


def can_be_checked(contestant: Contestant) -> bool:
    """Whether there is a short way to the contestant's estimates: linear ones from a tally, and PM.

    >>> from .contestants import all_contestants
    >>> [c.name for c in all_contestants() if can_be_checked(c)][:2]
    ['bisample', 'harmony-top']
    """
    collector = contestant.at(1.0)
    if isinstance(collector, TableCollector):
        return _is_linear(collector.mechanism.table)
    return isinstance(collector, RealCollector) and isinstance(collector.mechanism, Piecewise)


def _is_linear(table: Table) -> bool:
    """Whether the weights of the estimator do not depend on the tally: no more codes than rows need."""
    return table.width - len(table.blocks) + 1 <= table.height


def check(task: AgreementTask) -> list[Agreement]:
    """Repeat, and compare with the formulas."""
    errors = draw_errors(task)
    data = moments(task.point.data.values(task.seed, task.point.n))
    quantities: list[tuple[Quantity, Floats | None]] = [
        ("mean", errors.mean),
        ("missing_rate", errors.missing_rate),
    ]
    return [
        Agreement(
            task.point,
            task.contestant.name,
            quantity,
            task.repeats,
            int(np.isnan(drawn).sum()),
            float(np.nanmean(drawn**2)),
            float(np.nanmean(np.abs(drawn))),
            expected(task.contestant, task.point, data, quantity),
        )
        for quantity, drawn in quantities
        if drawn is not None
    ]


def draw_errors(task: AgreementTask) -> Errors:
    """Errors of many repetitions, by counts.

    >>> from .contestants import all_contestants
    >>> from .data import DATASETS
    >>> point = Point(DATASETS[1], n=100_000, epsilon=2.0, missing_rate=0.3)
    >>> errors = draw_errors(AgreementTask(point, all_contestants()[0], seed=1, repeats=200))
    >>> bool(abs(errors.mean.std() * 100_000**0.5 / 3.41**0.5 - 1) < 0.2)  # V = 3.41
    True
    """
    point = task.point
    rng = stream(task.seed, "agreement", point.name, task.contestant.name)
    sizes, centres, truth = _strata(point.data, task.seed, point.n)
    collector = task.contestant.at(point.epsilon)
    parts: list[tuple[Floats, Floats]] = []
    for start in range(0, task.repeats, _REPETITIONS_AT_ONCE):
        count = min(_REPETITIONS_AT_ONCE, task.repeats - start)
        unwilling = rng.binomial(sizes, 1 - answer_rate(point), (count, len(sizes)))
        said = _Said(centres, sizes - unwilling, unwilling.sum(axis=1), task.contestant.unwilling)
        if isinstance(collector, TableCollector):
            mean, rate = _from_table(collector, said, rng)
        else:
            assert isinstance(collector, RealCollector)
            mean, rate = _piecewise_sums(point.epsilon, said, rng) / point.n, np.full(count, np.nan)
        parts.append((mean - truth, rate - said.unwilling / point.n))
    means = np.concatenate([mean for mean, _ in parts])
    rates = np.concatenate([rate for _, rate in parts])
    return Errors(means, rates if task.contestant.counts_refusals else None)


@dataclass(frozen=True)
class _Said:
    """What people say in some repetitions: counts of the true answers by stratum, and of the others."""

    values: Floats  # of the strata
    answers: Ints  # repetitions x strata
    unwilling: Ints  # repetitions
    way: Unwilling


def _from_table(collector: TableCollector, said: _Said, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Mean and missing rate of each repetition, from tallies drawn as counts."""
    table, domain = collector.mechanism.table, collector.mechanism.domain
    assert isinstance(domain, Range)
    anchors = domain.scaled
    rows = table.matrix[: len(anchors)]
    # A value between two anchors sends the mix of their rows.
    codes = np.array([np.interp(said.values, anchors, column) for column in rows.T]).T
    tallies = rng.multinomial(said.answers, codes / codes.sum(axis=1, keepdims=True)).sum(axis=1)
    if said.way is Unwilling.DECLINE:
        fakes = table.matrix[-1]
    elif said.way is Unwilling.TOP:
        fakes = rows[-1]
    else:  # a uniform value is rounded to an anchor as often as the gaps beside it are wide
        gaps = np.diff(anchors)
        share = np.append(gaps, 0) + np.append(0, gaps)
        fakes = share / share.sum() @ rows
    tallies += rng.multinomial(said.unwilling, fakes / fakes.sum())
    return collector.estimates(tallies)


def _piecewise_sums(epsilon: float, said: _Said, rng: np.random.Generator) -> Floats:
    """The sum of all PM reports of each repetition (Wang et al., algorithm 2), piece by piece."""
    values, counts = said.values, said.answers
    if said.way is Unwilling.TOP:
        values, counts = np.append(values, 1.0), np.column_stack([counts, said.unwilling])
    else:
        assert said.way is Unwilling.RND
        middles = (np.arange(STRATA) + 0.5) / STRATA * 2 - 1
        fakes = rng.multinomial(said.unwilling, np.full(STRATA, 1 / STRATA))
        values, counts = np.append(values, middles), np.column_stack([counts, fakes])
    z = math.exp(epsilon / 2)
    c = (z + 1) / (z - 1)
    left = (c + 1) / 2 * values - (c - 1) / 2
    right = left + c - 1
    near = rng.binomial(counts, z / (z + 1))
    low = rng.binomial(counts - near, np.clip((left + c) / (c + 1), 0, 1))
    high = counts - near - low
    sums = np.zeros(len(counts))
    variance = np.zeros(len(counts))
    for number, start, end in ((near, left, right), (low, -c, left), (high, right, c)):
        sums += number @ ((start + end) / 2 * np.ones(len(values)))
        variance += number @ ((end - start) ** 2 / 12)
    drawn: Floats = sums + rng.standard_normal(len(counts)) * np.sqrt(variance)
    return drawn


# The tasks of one point come one after the other.
@lru_cache(maxsize=4)
def _strata(data: DataSet, seed: int, n: int) -> tuple[Ints, Floats, float]:
    """How many people each stratum has, the mean of their values, and the mean of all."""
    values = data.values(seed, n)
    stratum = np.minimum(((values + 1) / 2 * STRATA).astype(np.intp), STRATA - 1)
    sizes = np.bincount(stratum, minlength=STRATA)
    sums = np.bincount(stratum, weights=values, minlength=STRATA)
    kept = sizes > 0
    return sizes[kept], sums[kept] / sizes[kept], float(values.mean())
