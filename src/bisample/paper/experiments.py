"""The experiments as declarations: data x contestants x a varying axis x quantities -> a figure.

What the paper leaves open is decided here, once, and the report says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

from .contestants import Contestant, all_contestants
from .data import DATASETS, DataSet

__all__ = ["Axis", "Experiment", "Metric", "Panel", "Point", "Quantity", "experiments"]

Axis: TypeAlias = Literal["epsilon", "missing_rate", "n"]
Quantity: TypeAlias = Literal["mean", "missing_rate"]
Metric: TypeAlias = Literal["ae", "mse"]

# T in the paper; everything else is an average over as many repetitions.
REPETITIONS = 100


@dataclass(frozen=True)
class Point:
    """One place on the axes: whose values, how many people, which epsilon, and who declines.

    >>> Point(DATASETS[0], n=10_000, epsilon=0.1, missing_rate=0.3).name
    'EXP n=10000 epsilon=0.1 missing=0.3'
    """

    data: DataSet
    n: int
    epsilon: float
    missing_rate: float | None = None  # None: whose preferred epsilon is below the one offered

    @property
    def name(self) -> str:
        """Names the point in seeds and in the store, so it holds all that the people depend on."""
        who = "preferences" if self.missing_rate is None else f"missing={self.missing_rate:g}"
        return f"{self.data.name} n={self.n} epsilon={self.epsilon:g} {who}"


@dataclass(frozen=True)
class Panel:
    """One column of a figure: all its points share everything but the axis."""

    title: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper.

    `epsilon`, `missing_rate` and `n` list the values of each; `axis` is the one along x, the product
    of the others makes the panels. No missing rate means that people decline by preference, no n that
    data sets have their own size.
    """

    name: str
    title: str
    axis: Axis
    data: tuple[DataSet, ...]
    epsilon: tuple[float, ...]
    quantities: tuple[Quantity, ...]
    metric: Metric  # the one the paper draws; the other is drawn beside it
    contestants: tuple[Contestant, ...]
    missing_rate: tuple[float | None, ...] = (None,)
    n: tuple[int | None, ...] = (None,)
    note: str = ""

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The panels, each with its points along the axis."""
        made: dict[tuple[object, ...], list[Point]] = {}
        for data, epsilon, rate, n in product(self.data, self.epsilon, self.missing_rate, self.n):
            # A panel is named by what does not vary inside it.
            key = (
                data.name,
                None if self.axis == "epsilon" else epsilon,
                None if self.axis == "missing_rate" else rate,
                None if self.axis == "n" else n,
            )
            made.setdefault(key, []).append(Point(data, n or data.size, epsilon, rate))
        return tuple(Panel(self._title(points[0]), tuple(points)) for points in made.values())

    def _title(self, point: Point) -> str:
        parts = [point.data.name]
        if self.axis != "epsilon":
            parts.append(rf"$\epsilon$ = {point.epsilon:g}")
        if self.axis != "missing_rate" and point.missing_rate is not None:
            parts.append(f"missing rate {point.missing_rate:g}")
        return ", ".join(parts)

    def x(self, point: Point) -> float:
        """Where the point lies along the axis."""
        value = getattr(point, self.axis)
        assert value is not None
        return float(value)


def experiments(extra: tuple[DataSet, ...] = (), *, quick: bool = False) -> tuple[Experiment, ...]:
    """Figures 4, 5 and 6. `quick` only leaves out the largest n; what `extra` adds joins figure 4.

    >>> [(e.name, sum(len(panel.points) for panel in e.panels)) for e in experiments()]
    [('figure-4', 48), ('figure-5', 36), ('figure-6', 6)]
    """
    everyone = all_contestants()
    counting = tuple(c for c in everyone if c.counts_refusals)
    exp, gauss = DATASETS[:2]
    sizes = (10_000, 31_623, 100_000, 316_228, 1_000_000, 3_162_278)
    return (
        Experiment(
            name="figure-4",
            title="Error of the mean against epsilon, preferences N(5, 1.5)",
            axis="epsilon",
            data=(*DATASETS, *extra),
            epsilon=(0.1, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
            quantities=("mean",),
            metric="ae",
            contestants=everyone,
            note=(
                "On GAUSS the lines of TOP and RND lie on each other: its mean is as far from 1, the mean of"
                " TOP's fakes, as from 0, the mean of RND's."
            ),
        ),
        Experiment(
            name="figure-5",
            title="Error against the missing rate",
            axis="missing_rate",
            data=(exp, gauss),
            epsilon=(0.1, 1.0),
            missing_rate=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
            quantities=("missing_rate", "mean"),
            metric="mse",
            contestants=counting,
        ),
        Experiment(
            name="figure-6",
            title="Error against the number of people, epsilon = 0.1",
            axis="n",
            data=(exp,),
            epsilon=(0.1,),
            missing_rate=(0.3,),
            n=sizes[:-1] if quick else sizes,
            quantities=("mean", "missing_rate"),
            metric="mse",
            # HM is Harmony itself at epsilon = 0.1 (Wang et al., theorem 3).
            contestants=tuple(c for c in everyone if not c.name.startswith("hybrid")),
            note=(
                "Data set and missing rate are our choice. Preferences N(5, 1.5) cannot be meant:"
                " at epsilon = 0.1 only 0.05 % would decline, and fakes would bias nothing."
            ),
        ),
    )
