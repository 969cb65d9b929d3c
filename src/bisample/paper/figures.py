"""The pictures: figures 3 to 6, as PNG and SVG.

A contestant has the same colour and marker in every figure. Markers differ in shape and filling, so
that a grey print can be read; what is not the paper's is black or dark, with a marker of many corners.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bisample.errors import MissingExtraError
from bisample.simulation.preferences import (
    PREFERRED_MEAN,
    PREFERRED_SD,
    preferences,
    true_answer_rate,
)

from .contestants import Contestant
from .data import stream
from .experiments import Axis, Experiment, Metric, Quantity
from .measures import Measure, Measures

__all__ = ["PreferenceRate", "draw_experiment", "draw_preferences", "preference_rates", "style"]

_AXIS_LABEL: dict[Axis, str] = {
    "epsilon": r"privacy budget $\epsilon$",
    "missing_rate": "missing rate",
    "n": "number of people $n$",
}
_METRIC_LABEL: dict[Metric, str] = {"ae": "mean absolute error", "mse": "mean squared error"}
_QUANTITY_LABEL: dict[Quantity, str] = {"mean": "mean", "missing_rate": "missing rate"}

_RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "lines.markersize": 4.5,
    # The same run gives the same file.
    "svg.hashsalt": "bisample",
}


@dataclass(frozen=True)
class Style:
    """How a contestant is drawn."""

    colour: str
    marker: str
    filled: bool = True
    size: float = 4.5


_STYLES = {
    "bisample": Style("#0047ab", "o", size=5),
    "privkvm": Style("#d55e00", "s"),
    "privkv": Style("#e69f00", "s", filled=False),
    # These lie on each other where fakes rule: a large, a middle and a small marker show all three.
    "harmony-top": Style("#00775a", "^", size=8),
    "harmony-rnd": Style("#00775a", "^", filled=False, size=8),
    "piecewise-top": Style("#b48be0", "v", size=5.5),
    "piecewise-rnd": Style("#8e5bc0", "v", filled=False, size=5.5),
    "hybrid-top": Style("#222222", "+", size=5.5),
    "hybrid-rnd": Style("#222222", "x", size=4.5),
    "three-state": Style("#000000", "*", size=7),
}
# For other mechanisms of the catalogue, in the order of their names.
_SPARE = (Style("#c2005f", "H", size=6), Style("#5a3d00", "X", size=6), Style("#003c46", "8", size=6))


def style(contestant: Contestant, everyone: Sequence[Contestant]) -> Style:
    """The contestant's own style, the same in every figure.

    >>> from .contestants import all_contestants
    >>> style(all_contestants()[0], all_contestants()).marker
    'o'
    """
    if contestant.name in _STYLES:
        return _STYLES[contestant.name]
    later = [c.name for c in everyone if c.name not in _STYLES]
    return _SPARE[later.index(contestant.name) % len(_SPARE)]


@contextmanager
def _canvas(width: float, height: float, path: Path) -> Iterator[Any]:
    """A figure that is saved as PNG and SVG."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise MissingExtraError("drawing the paper's figures", "paper") from problem
    # Without pyplot: no window, no state.
    with mpl.rc_context(_RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        figure.savefig(path.with_suffix(".png"), dpi=200)
        figure.set_layout_engine("none")  # once is enough, and it is half of the work
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def draw_experiment(experiment: Experiment, measures: Measures, metric: Metric, path: Path) -> None:
    """One figure with a panel for each column and quantity of the experiment."""
    cells = [(panel, quantity) for quantity in experiment.quantities for panel in experiment.panels]
    columns = len(experiment.panels) if len(experiment.quantities) > 1 else 2
    columns = max(columns, 2)
    rows = -(-len(cells) // columns)
    width = 7.2 if columns == 2 else 2.35 * columns
    with _canvas(width, 2.6 * rows + 0.85, path) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
        for axes, letter, (panel, quantity) in zip(grid.flat, "abcdefghijklmnop", cells, strict=False):
            for contestant in experiment.contestants:
                line = measures.line(experiment.name, panel.title, contestant.name, quantity)
                _draw_line(axes, line, metric, style(contestant, experiment.contestants), contestant.label)
            axes.set_yscale("log")
            if experiment.axis == "n":
                axes.set_xscale("log")
            _at_least_two_decades(axes)
            axes.set_title(f"({letter}) {panel.title}")
            last_row = axes.get_subplotspec().rowspan.stop == rows
            if last_row:
                axes.set_xlabel(_AXIS_LABEL[experiment.axis])
            first_column = axes.get_subplotspec().colspan.start == 0
            if first_column or len(experiment.panels) == 1:
                axes.set_ylabel(f"{_METRIC_LABEL[metric]}\nof the {_QUANTITY_LABEL[quantity]}")
        for axes in grid.flat[len(cells) :]:
            axes.remove()
        _legend(figure, experiment, columns)


def _at_least_two_decades(axes: Any) -> None:
    """Widen a narrow log axis: noise should look like noise, and two ticks at least have a label."""
    low, high = np.log10(axes.get_ylim())
    if high - low < 1.5:
        low, high = (low + high) / 2 - 1, (low + high) / 2 + 1
    if np.floor(high) - np.ceil(low) < 1:  # one power of ten inside: go on to the nearer of its neighbours
        below, above = np.floor(low), np.ceil(high)
        low, high = (below, high) if low - below < above - high else (low, above)
    axes.set_ylim(10**low, 10**high)
    axes.yaxis.set_minor_formatter("")


def _draw_line(axes: Any, line: Sequence[Measure], metric: Metric, look: Style, label: str) -> None:
    """Measured: markers on a light line, with a band. Theory: dashed, broken where there is no formula."""
    shown = [row for row in line if row.value(metric) is not None]
    if not shown:
        return
    x = np.array([row.x for row in shown])
    y = np.array([row.value(metric) for row in shown], dtype=np.float64)
    bands = [row.band(metric) for row in shown]
    if all(band is not None for band in bands):
        low, high = np.array(bands, dtype=np.float64).T
        # A band of a few repetitions can reach below 0, which has no logarithm.
        axes.fill_between(x, np.maximum(low, y / 10), high, color=look.colour, alpha=0.15, linewidth=0)
    axes.plot(x, y, color=look.colour, linewidth=0.8, alpha=0.55)
    axes.plot(
        x,
        y,
        linestyle="none",
        marker=look.marker,
        markersize=look.size,
        color=look.colour,
        markerfacecolor=look.colour if look.filled else "white",
        markeredgewidth=0.8,
        label=label,
    )
    theory = np.array([np.nan if (t := row.theory(metric)) is None else t for row in line], dtype=np.float64)
    axes.plot([row.x for row in line], theory, color=look.colour, linewidth=1.1, linestyle=(0, (4, 2)))


def _legend(figure: Any, experiment: Experiment, columns: int) -> None:
    """Below the panels, so that it covers nothing: the paper's contestants first, ours after them."""
    from matplotlib.lines import Line2D

    def handle(contestant: Contestant) -> Any:
        look = style(contestant, experiment.contestants)
        return Line2D(
            [],
            [],
            color=look.colour,
            linewidth=0.8,
            marker=look.marker,
            markersize=look.size,
            markerfacecolor=look.colour if look.filled else "white",
            label=contestant.label + ("" if contestant.origin == "paper" else f" ({contestant.origin})"),
        )

    entries = [handle(c) for c in sorted(experiment.contestants, key=lambda c: c.origin != "paper")]
    entries.append(Line2D([], [], color="#444444", linewidth=1.1, linestyle=(0, (4, 2)), label="theory"))
    figure.legend(handles=entries, loc="outside lower center", ncols=4 if columns == 2 else 5)


@dataclass(frozen=True)
class PreferenceRate:
    """Figure 3b: the share of simulated people who answer truly at an epsilon, and the formula's."""

    epsilon: float
    share: float
    theory: float


def _drawn_preferences(seed: int) -> Any:
    return preferences(100_000, stream(seed, "figure-3"))


def preference_rates(seed: int) -> list[PreferenceRate]:
    """The rate of true answers against epsilon, of 100,000 simulated people.

    >>> rates = preference_rates(seed=1)
    >>> max(abs(rate.share - rate.theory) for rate in rates) < 0.01
    True
    """
    held = np.sort(_drawn_preferences(seed))
    # Who accepts exactly the epsilon offered answers: PV, algorithm 3.
    return [
        PreferenceRate(
            float(epsilon),
            1 - float(np.searchsorted(held, epsilon, side="left")) / len(held),
            true_answer_rate(float(epsilon)),
        )
        for epsilon in (0.1, *np.arange(0.5, 10.01, 0.5))
    ]


def draw_preferences(seed: int, path: Path) -> None:
    """Figure 3: how preferred epsilons are distributed, and who answers truly."""
    rates = preference_rates(seed)
    with _canvas(7.2, 2.7, path) as figure:
        left, right = figure.subplots(1, 2)
        drawn = _drawn_preferences(seed)
        left.hist(
            drawn,
            bins=np.arange(-2, 12.01, 0.25).tolist(),
            density=True,
            color="#9db8dd",
            label="100,000 people",
        )
        x = np.linspace(-1, 11, 241)
        density = np.exp(-(((x - PREFERRED_MEAN) / PREFERRED_SD) ** 2) / 2) / (
            PREFERRED_SD * np.sqrt(2 * np.pi)
        )
        left.plot(x, density, color="#0047ab", linestyle=(0, (4, 2)), label="N(5, 1.5)")
        left.set(
            title="(a) preferred privacy budgets",
            xlabel=r"preferred budget $\epsilon_u$",
            ylabel="density",
            xlim=(-1, 11),
            ylim=(0, 0.34),
        )
        left.legend(loc="upper right")
        epsilons = [rate.epsilon for rate in rates]
        right.plot(
            epsilons,
            [rate.share for rate in rates],
            linestyle="none",
            marker="o",
            color="#0047ab",
            label="simulated",
        )
        fine = np.linspace(0.1, 10, 200)
        right.plot(
            fine,
            [true_answer_rate(float(e)) for e in fine],
            color="#444444",
            linestyle=(0, (4, 2)),
            label="theory",
        )
        right.set(
            title="(b) who answers truly",
            xlabel=_AXIS_LABEL["epsilon"],
            ylabel="rate of true answers",
            ylim=(-0.03, 1.03),
        )
        right.legend(loc="upper right")
