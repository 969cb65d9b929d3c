"""From errors to numbers: both of the paper's metrics at every point, with bands and theory beside.

AE is the mean absolute error; what the paper calls Var is the mean squared error. Each comes with a
95 % band for what infinitely many repetitions would give. Undefined estimates are counted, and left out
of the averages.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from bisample.analysis.solve import Floats

from .contestants import Contestant
from .experiments import Experiment, Metric, Panel, Point, Quantity
from .runs import Errors
from .theory import Moments, expected, moments

__all__ = ["Measure", "Measures", "measure", "write_csv"]

_Z = 1.959964  # 95 %


@dataclass(frozen=True)
class Measure:
    """One contestant's error of one quantity at one point: a row of a figure's CSV."""

    experiment: str
    panel: str
    data: str
    n: int
    epsilon: float
    missing_rate: float | None
    quantity: Quantity
    contestant: str
    x: float
    repeats: int
    undefined: int
    ae: float | None
    ae_low: float | None
    ae_high: float | None
    mse: float | None
    mse_low: float | None
    mse_high: float | None
    bias: float | None
    bias_error: float | None
    theory_ae: float | None
    theory_mse: float | None
    theory_note: str

    def value(self, metric: Metric) -> float | None:
        """The measured AE or MSE."""
        return self.ae if metric == "ae" else self.mse

    def band(self, metric: Metric) -> tuple[float, float] | None:
        """The 95 % band of that metric."""
        low, high = (self.ae_low, self.ae_high) if metric == "ae" else (self.mse_low, self.mse_high)
        return None if low is None or high is None else (low, high)

    def theory(self, metric: Metric) -> float | None:
        """What the formula says it should be."""
        return self.theory_ae if metric == "ae" else self.theory_mse


@dataclass(frozen=True)
class Measures:
    """All rows, with the few ways in which figures and claims look for them.

    >>> Measures(()).line("figure-4", "EXP", "bisample", "mean")
    []
    """

    rows: tuple[Measure, ...]

    def line(self, experiment: str, panel: str, contestant: str, quantity: Quantity) -> list[Measure]:
        """One contestant's points in one panel, along the axis."""
        wanted = (experiment, panel, contestant, quantity)
        found = [r for r in self.rows if (r.experiment, r.panel, r.contestant, r.quantity) == wanted]
        return sorted(found, key=lambda row: row.x)

    def panels(self, experiment: str) -> list[str]:
        """The panels of an experiment, in order; none if it was not run."""
        return list(dict.fromkeys(row.panel for row in self.rows if row.experiment == experiment))

    def of(self, experiment: str) -> list[Measure]:
        """All rows of an experiment."""
        return [row for row in self.rows if row.experiment == experiment]


def measure(chosen: Iterable[Experiment], errors: dict[tuple[Point, str], Errors], seed: int) -> Measures:
    """The rows of all chosen experiments."""
    known: dict[tuple[str, int], Moments] = {}
    rows: list[Measure] = []
    for experiment in chosen:
        for panel in experiment.panels:
            for point in panel.points:
                key = (point.data.name, point.n)
                if key not in known:
                    known[key] = moments(point.data.values(seed, point.n))
                for contestant in experiment.contestants:
                    found = errors[point, contestant.name]
                    rows += [
                        _row(experiment, panel, point, contestant, quantity, drawn, known[key])
                        for quantity in experiment.quantities
                        if (drawn := found.mean if quantity == "mean" else found.missing_rate) is not None
                    ]
    return Measures(tuple(rows))


def _row(
    experiment: Experiment,
    panel: Panel,
    point: Point,
    contestant: Contestant,
    quantity: Quantity,
    drawn: Floats,
    data: Moments,
) -> Measure:
    theory = expected(contestant, point, data, quantity)
    defined = drawn[~np.isnan(drawn)]
    ae, mse, bias = (_average(part) for part in (np.abs(defined), defined**2, defined))
    return Measure(
        experiment=experiment.name,
        panel=panel.title,
        data=point.data.name,
        n=point.n,
        epsilon=point.epsilon,
        missing_rate=point.missing_rate,
        quantity=quantity,
        contestant=contestant.name,
        x=experiment.x(point),
        repeats=len(drawn),
        undefined=len(drawn) - len(defined),
        ae=ae[0],
        ae_low=ae[1],
        ae_high=ae[2],
        mse=mse[0],
        mse_low=mse[1],
        mse_high=mse[2],
        bias=bias[0],
        bias_error=None if bias[0] is None or bias[2] is None else (bias[2] - bias[0]) / _Z,
        theory_ae=theory.ae,
        theory_mse=theory.mse,
        theory_note=theory.why,
    )


def _average(parts: Floats) -> tuple[float | None, float | None, float | None]:
    """An average with its 95 % band over repetitions."""
    if not len(parts):
        return None, None, None
    mean = float(parts.mean())
    if len(parts) < 2:
        return mean, None, None
    half = _Z * float(parts.std(ddof=1)) / math.sqrt(len(parts))
    return mean, mean - half, mean + half


def write_csv(path: Path, rows: Sequence[Any]) -> None:
    """Dataclass rows as CSV, one column a field; None is empty.

    >>> import tempfile
    >>> from .claims import Claim
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_csv(Path(folder, "claims.csv"), [Claim("s", "figure 4", "holds", "f", "t", "n")])
    ...     Path(folder, "claims.csv").read_text().split()[0]
    'sentence,where,verdict,finding,test,numbers'
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if rows:
            names = [field.name for field in fields(rows[0])]
            writer.writerow(names)
            writer.writerows([_cell(getattr(row, name)) for name in names] for row in rows)


def _cell(value: object) -> object:
    # Nine digits are more than any repetition can tell, and the same on every machine.
    return f"{value:.9g}" if isinstance(value, float) else value
