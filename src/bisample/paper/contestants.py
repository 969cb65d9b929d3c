"""Who is compared: each contestant is a mechanism, and what people do who would rather decline.

A contestant turns a batch of people's values into something that adds up (a tally, or a sum), and
that into estimates; people are simulated one by one, and the real mechanisms draw their reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from bisample.mechanism import NumberMechanism, registered
from bisample.mechanisms import BiSample, DitheredResponse, Harmony, PrivKV, ThreeState
from bisample.piecewise import Hybrid, Piecewise
from bisample.privkvm import PrivKVM
from bisample.solve import Floats

__all__ = ["Collector", "Contestant", "Unwilling", "all_contestants"]

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

    def estimate(self, totals: Totals) -> tuple[float | None, float | None]:
        """Mean and missing rate; None where the mechanism has none or it is undefined."""


@dataclass(frozen=True)
class TableCollector:
    """A mechanism that is a table, with the general estimator.

    >>> collector = TableCollector(BiSample(epsilon=2))
    >>> totals = collector.collect(np.full(1000, 0.5), np.random.default_rng(1))
    >>> int(totals.sum()), len(collector.estimate(totals))
    (1000, 2)
    """

    mechanism: NumberMechanism

    def collect(self, values: Floats, rng: np.random.Generator) -> Totals:
        return self.mechanism.tally(self.mechanism.privatize(values, rng=rng))

    def estimate(self, totals: Totals) -> tuple[float | None, float | None]:
        result = self.mechanism.estimate(totals)
        return result.mean, result.missing_rate if self.mechanism.table.refusal else None


@dataclass(frozen=True)
class KeyValueCollector:
    """PrivKV's reports with the estimator of its authors, clipping and bias included."""

    mechanism: PrivKV
    estimator: PrivKVM

    def collect(self, values: Floats, rng: np.random.Generator) -> Totals:
        return self.mechanism.tally(self.mechanism.privatize(values, rng=rng))

    def estimate(self, totals: Totals) -> tuple[float | None, float | None]:
        result = self.estimator.estimate(totals)
        return result.mean, result.missing_rate


@dataclass(frozen=True)
class RealCollector:
    """Piecewise or Hybrid: reports are real numbers, and their mean is the estimate."""

    mechanism: Piecewise | Hybrid

    def collect(self, values: Floats, rng: np.random.Generator) -> Totals:
        return np.array([self.mechanism.privatize(values, rng=rng).sum(), len(values)])

    def estimate(self, totals: Totals) -> tuple[float | None, float | None]:
        return float(totals[0] / totals[1]), None


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


def _table(kind: type[NumberMechanism], epsilon: float) -> TableCollector:
    return TableCollector(kind(epsilon))


def _dithered(epsilon: float) -> TableCollector:
    return TableCollector(DitheredResponse.fitting(epsilon))


def _key_value(virtual: int, epsilon: float) -> KeyValueCollector:
    return KeyValueCollector(PrivKV(epsilon), PrivKVM(epsilon, virtual=virtual))


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
    Contestant("dithered", "Dithered", _dithered, origin="ours"),
)
# A mix of two that are there already says nothing new.
_LEFT_OUT = {"mix"}


def all_contestants() -> tuple[Contestant, ...]:
    """Those named here, and every mechanism for numbers with refusals that was registered since.

    >>> [c.label for c in all_contestants() if c.origin != "paper"][:3]
    ['HM-TOP', 'HM-RND', 'Three-state']
    """
    named = {c.name for c in _NAMED} | _LEFT_OUT
    later = [
        Contestant(name, name.capitalize(), partial(_table, kind), origin="added")
        for name, kind in sorted(registered().items())
        # Only the library's own: what a test or a notebook registers should not slow every run down.
        if name not in named
        and issubclass(kind, NumberMechanism)
        and kind.__module__.startswith("bisample.")
        and kind(1.0).table.refusal
    ]
    return (*_NAMED, *later)
