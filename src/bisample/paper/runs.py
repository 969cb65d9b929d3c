"""Simulating people: one task is one point, some repetitions and some contestants.

In each repetition everybody is there: a value, a preferred epsilon (or a coin for a given missing
rate), perhaps a fake, and one report drawn by the real mechanism. People come in batches, because
reports add up and a batch stays in the cache; so memory does not grow with their number.

Errors are raw, in the scaled domain [-1, 1]. The mean is compared with that of all values of the
data set, those of people who decline included: it is what an analyst wants, it is the same for
everyone, and willingness here is independent of values. So who happens to answer is part of the
error. The missing rate is compared with the share of those who declined in that repetition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from bisample.analysis.solve import Floats
from bisample.simulation.preferences import fake_random, fake_top, preferences, prepare_values

from .contestants import Collector, Contestant, Totals, Unwilling
from .data import stream
from .experiments import Point

__all__ = ["BLOCK", "Errors", "Results", "Task", "simulate"]

# Repetitions in one task: small enough to share the largest points among processes.
BLOCK = 10
_BATCH = 32_768


@dataclass(frozen=True)
class Task:
    """Repetitions `first` to `last` - 1 of one point, for some of its contestants."""

    point: Point
    contestants: tuple[Contestant, ...]
    seed: int
    first: int
    last: int

    @property
    def cost(self) -> float:
        """About how long it takes, in units of one person's report."""
        return float((self.last - self.first) * self.point.n * (2 + len(self.contestants)))


@dataclass(frozen=True)
class Errors:
    """Estimate minus truth, one entry a repetition; NaN where the estimate is undefined.

    `missing_rate` is None for contestants that have none.
    """

    mean: Floats
    missing_rate: Floats | None


Results: TypeAlias = dict[str, Errors]


def simulate(task: Task) -> Results:
    """Errors of each contestant, by name. The same whoever else is in the task.

    >>> from .contestants import all_contestants
    >>> from .data import DATASETS
    >>> point = Point(DATASETS[1], n=50_000, epsilon=2.0, missing_rate=0.3)
    >>> errors = simulate(Task(point, all_contestants()[:1], seed=1, first=0, last=3))["bisample"]
    >>> bool(np.abs(errors.mean).max() < 0.05), len(errors.missing_rate)
    (True, 3)
    """
    values = task.point.data.values(task.seed, task.point.n)
    truth = float(values.mean())
    collectors = {c.name: c.at(task.point.epsilon) for c in task.contestants}
    asked = [
        _ask_everybody(task, collectors, repetition, values) for repetition in range(task.first, task.last)
    ]
    declined = np.array([share for _, share in asked])
    errors: Results = {}
    for c in task.contestants:
        means, rates = collectors[c.name].estimates(np.array([totals[c.name] for totals, _ in asked]))
        errors[c.name] = Errors(means - truth, rates - declined if c.counts_refusals else None)
    return errors


def _ask_everybody(
    task: Task, collectors: dict[str, Collector], repetition: int, values: Floats
) -> tuple[dict[str, Totals], float]:
    """All reports of one repetition, added up for each contestant, and the share who declined."""
    point = task.point

    def rng(role: str) -> np.random.Generator:
        return stream(task.seed, point.name, repetition, role)

    people, fakes = rng("people"), rng("fakes")
    generators = {c.name: rng(c.name) for c in task.contestants}
    needed = {c.unwilling for c in task.contestants}
    totals: dict[str, Totals] = {}
    declined = 0
    for start in range(0, len(values), _BATCH):
        batch = values[start : start + _BATCH]
        prepared = _prepare(point, batch, people)
        declined += int(np.isnan(prepared).sum())
        held = {Unwilling.DECLINE: prepared}
        if Unwilling.TOP in needed:
            held[Unwilling.TOP] = fake_top(prepared)
        if Unwilling.RND in needed:
            held[Unwilling.RND] = fake_random(prepared, fakes)
        for c in task.contestants:
            part = collectors[c.name].collect(held[c.unwilling], generators[c.name])
            totals[c.name] = totals[c.name] + part if c.name in totals else part
    return totals, declined / len(values)


def _prepare(point: Point, batch: Floats, people: np.random.Generator) -> Floats:
    """The values of those who answer truly; NaN for the others."""
    if point.missing_rate is None:
        return prepare_values(batch, point.epsilon, preferences(len(batch), people))
    prepared: Floats = np.where(people.random(len(batch)) < point.missing_rate, np.nan, batch)
    return prepared
