"""Who is compared: each contestant is a mechanism, and what people do who would rather decline.

A contestant turns a batch of people's values into something that adds up (a tally, or a sum), and
that into estimates; people are simulated one by one, and the real mechanisms draw their reports.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from bisample.analysis.solve import Floats, solve
from bisample.analysis.variance import targets
from bisample.catalogue import CATALOGUE, BiSample, DitheredResponse, Entry, Harmony, ThreeState
from bisample.protocol.mechanism import Mechanism
from bisample.simulation.piecewise import Hybrid, Piecewise
from bisample.simulation.privkvm import PrivKVM

__all__ = [
    "Collector",
    "Contestant",
    "KeyValueCollector",
    "RealCollector",
    "TableCollector",
    "Totals",
    "Unwilling",
    "all_contestants",
]

Origin: TypeAlias = Literal["paper", "added", "ours"]
Totals: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class Unwilling(Enum):
    """What people do whose preferred epsilon is below the one offered (section 5 of the paper)."""

    DECLINE = "decline"  # a refusal, NaN, which the mechanism privatizes
    TOP = "TOP"  # fake the largest value
    RND = "RND"  # fake a uniform value


class Collector(Protocol):
    """A mechanism at one epsilon, as the simulation uses it."""

    def collect(self, values: Floats, rng: np.random.Generator) -> Totals:
        """Everybody's reports, in a form in which batches add up."""

    def estimates(self, totals: Totals) -> tuple[Floats, Floats]:
        """Means, in [-1, 1], and missing rates, each of one row of totals; NaN where there is none."""


@dataclass(frozen=True)
class TableCollector:
    """A mechanism that is a table, with the general estimator.

    Points only: what a tally's own estimate takes its time for is its intervals.

    >>> m = BiSample(epsilon=2)
    >>> totals = TableCollector(m).collect(np.full(1000, 0.5), np.random.default_rng(1))
    >>> means, rates = TableCollector(m).estimates(totals[None])
    >>> e = m.estimate(m.tally_of(totals))
    >>> bool(abs(means[0] - e.mean) < 1e-9), bool(abs(rates[0] - e.missing_rate) < 1e-9)
    (True, True)
    """

    mechanism: Mechanism

    def collect(self, values: Floats, rng: np.random.Generator) -> Totals:
        return _collect(self.mechanism, values, rng)

    def estimates(self, totals: Totals) -> tuple[Floats, Floats]:
        solution = solve(self.mechanism.table, totals, targets(self.mechanism.domain))
        sums, answered = solution.values.T
        return sums / np.where(answered > 0, answered, np.nan), 1 - answered


@dataclass(frozen=True)
class KeyValueCollector:
    """PrivKV's reports with the estimator of its authors, clipping and bias included."""

    estimator: PrivKVM

    def collect(self, values: Floats, rng: np.random.Generator) -> Totals:
        return _collect(self.estimator.mechanism, values, rng)

    def estimates(self, totals: Totals) -> tuple[Floats, Floats]:
        found = [self.estimator.estimate(self.estimator.mechanism.tally_of(counts)) for counts in totals]
        means, rates = np.array([(e.mean, e.missing_rate) for e in found], dtype=np.float64).T
        return means, rates  # None has become NaN


@dataclass(frozen=True)
class RealCollector:
    """Piecewise or Hybrid: reports are real numbers, and their mean is the estimate."""

    mechanism: Piecewise | Hybrid

    def collect(self, values: Floats, rng: np.random.Generator) -> Totals:
        return np.array([self.mechanism.privatize(values, rng=rng).sum(), len(values)])

    def estimates(self, totals: Totals) -> tuple[Floats, Floats]:
        sums, people = totals.T
        return sums / people, np.full(len(totals), np.nan)


@dataclass(frozen=True)
class Contestant:
    """One line in the figures: a name, a mechanism for every epsilon, and what unwilling people do.

    >>> bisample = all_contestants()[0]
    >>> bisample.name, bisample.label, bisample.counts_refusals
    ('bisample', 'BiSample-MD', True)
    """

    name: str
    label: str
    at: Callable[[float], Collector]
    unwilling: Unwilling = Unwilling.DECLINE
    origin: Origin = "paper"  # ours: a mechanism of this library; added: of others, but not in the paper

    @property
    def counts_refusals(self) -> bool:
        """Whether it estimates a missing rate."""
        return self.unwilling is Unwilling.DECLINE


def _collect(mechanism: Mechanism, values: Floats, rng: np.random.Generator) -> Totals:
    """How many reports have each code: a tally's counts, without the tally around them."""
    return np.bincount(mechanism.privatize(values, rng=rng), minlength=mechanism.table.width)


def _table(builder: Callable[[float], Mechanism], epsilon: float) -> TableCollector:
    return TableCollector(builder(epsilon))


def _key_value(virtual: int, epsilon: float) -> KeyValueCollector:
    return KeyValueCollector(PrivKVM(epsilon, virtual=virtual))


def _real(kind: type[Piecewise | Hybrid], epsilon: float) -> RealCollector:
    return RealCollector(kind(epsilon))


def _faking(
    name: str, label: str, at: Callable[[float], Collector], origin: Origin = "paper"
) -> list[Contestant]:
    return [
        Contestant(f"{name}-{way.value.lower()}", f"{label}-{way.value}", at, way, origin)
        for way in (Unwilling.TOP, Unwilling.RND)
    ]


# A new line here is a new line in every figure.
_NAMED = (
    Contestant("bisample", "BiSample-MD", partial(_table, BiSample)),
    Contestant("privkvm", "PrivKVM (1 real + 5 virtual)", partial(_key_value, 5)),
    Contestant("privkv", "PrivKV", partial(_key_value, 0)),
    *_faking("harmony", "Harmony", partial(_table, Harmony)),
    *_faking("piecewise", "PM", partial(_real, Piecewise)),
    *_faking("hybrid", "HM", partial(_real, Hybrid), origin="added"),
    Contestant("three-state", "Three-state", partial(_table, ThreeState), origin="added"),
    Contestant("dithered", "Dithered", partial(_table, DitheredResponse), origin="ours"),
)


# Without a guess it is the dithered response, and the guess would be ours.
_LEFT_OUT = {"focused"}


def all_contestants() -> tuple[Contestant, ...]:
    """Those named here, and every other mechanism of the catalogue for numbers with refusals.

    >>> [c.label for c in all_contestants() if c.origin != "paper"][:3]
    ['HM-TOP', 'HM-RND', 'Three-state']
    """
    named = {c.name for c in _NAMED} | _LEFT_OUT
    others = [
        Contestant(name, name.capitalize(), partial(_table, entry.builder), origin="added")
        for name, entry in sorted(CATALOGUE.items())
        if name not in named and entry.domain == "range" and entry.refusal and _needs_epsilon_alone(entry)
    ]
    return (*_NAMED, *others)


def _needs_epsilon_alone(entry: Entry) -> bool:
    """Whether epsilon is all that must be known: what else a builder needs, no experiment says."""
    parameters = inspect.signature(entry.builder).parameters.values()
    return [p.name for p in parameters if p.default is p.empty] == ["epsilon"]
