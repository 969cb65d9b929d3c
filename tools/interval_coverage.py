"""How often do intervals hold the truth, and how wide are they, among how many reports of what mechanism?

    python tools/interval_coverage.py --repetitions 4000 --jobs 2 --json coverage.json

A cell is a mechanism, epsilon, number of reports, answer rate, population and functional. People are
drawn anew in each repetition and their codes with them, as one multinomial tally. Equal tallies are
computed once: among few reports most are equal.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from bisample import BiSample, DitheredResponse, KRandomizedResponse, Mechanism, Options, ThreeState
from bisample.analysis.intervals import EVERYBODY, fieller, intervals
from bisample.analysis.solve import solve, variances
from bisample.analysis.variance import row_shares
from bisample.analysis.variance import targets as all_targets

EPSILONS = (1.0, 2.0, 4.0, 8.0)
REPORTS = (10, 30, 100, 500, 20_000)
RATES = (0.1, 0.5, 0.9, 1.0)
# Shares of the options among those who answer; which of them are looked at.
CHOICES: dict[str, tuple[tuple[float, ...], tuple[int, ...]]] = {
    "even": ((0.5, 0.5), (0,)),
    "10 %": ((0.9, 0.1), (1,)),
    "1 %": ((0.99, 0.01), (1,)),
    "3 even": ((1 / 3, 1 / 3, 1 / 3), (0,)),
    "3 of 10 %": ((0.7, 0.2, 0.1), (0, 1, 2)),
    "3 of 1 %": ((0.9, 0.09, 0.01), (0, 1, 2)),
    "50, spread": ((0.1, 0.01, *[0.89 / 48] * 48), (0, 1)),
    "50, one in front": ((0.1, 0.01, 0.6, *[0.29 / 47] * 47), (0, 1, 2)),
}
ALPHA = 0.001  # the chance that a family of cells is blamed for nothing
Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Job:
    """One population asked through one table; a cell for each functional of it."""

    mechanism: str
    epsilon: float
    reports: int
    rate: float
    population: str


@dataclass(frozen=True)
class Cell:
    """What was found for one functional."""

    job: Job
    functional: str
    truth: float
    coverage: float
    closed_coverage: float
    width: float
    closed_width: float
    distinct: int  # tallies
    certain: bool  # the rate is over 4 of its standard errors above 0
    near_end: bool  # the truth is within 2 standard errors of an end of the range: one side never misses
    beside: float  # share of tallies whose estimate, moved into the bounds, is not in the interval


def mechanisms() -> Iterator[tuple[str, float, Mechanism]]:
    """Every mechanism at every epsilon."""
    for epsilon in EPSILONS:
        yield "bisample", epsilon, BiSample(epsilon)
        yield "three-state", epsilon, ThreeState(epsilon)
        yield "dithered", epsilon, DitheredResponse(epsilon)
        for count in (2, 3, 50):
            yield (
                f"k-rr {count}",
                epsilon,
                KRandomizedResponse(epsilon, [f"option {i}" for i in range(count)]),
            )


@cache
def mechanism_of(name: str, epsilon: float) -> Mechanism:
    """One of `mechanisms()`."""
    return next(m for other, e, m in mechanisms() if (other, e) == (name, epsilon))


def populations(mechanism: Mechanism) -> dict[str, np.ndarray[Any, Any]]:
    """Shares of the rows if everybody answers, by name."""
    domain = mechanism.domain
    if isinstance(domain, Options):
        count = len(domain.options)
        return {name: np.r_[s, 0] for name, (s, _) in CHOICES.items() if len(s) == count}
    quantiles = (np.arange(1000) + 0.5) / 1000
    values = {
        "all 1": np.ones(1),
        "1 % at 1": np.r_[np.ones(1), -np.ones(99)],
        "all -0.8": np.array([-0.8]),
        "even": 2 * quantiles - 1,
        "normal": np.array([NormalDist(0.5, 0.1).inv_cdf(q) for q in quantiles]),
    }
    return {name: row_shares(domain, held, 1.0) for name, held in values.items()}


def functionals(mechanism: Mechanism, population: str) -> tuple[Any, Any, Any, list[str]]:
    """Targets, pairs and bounds for `intervals`, and their names."""
    targets = all_targets(mechanism.domain)
    if not isinstance(mechanism.domain, Options):
        return targets, np.array([[0, 1], [1, EVERYBODY]]), np.array([[-1.0, 1], [0, 1]]), ["mean", "rate"]
    looked = CHOICES[population][1]
    targets = targets[[*looked, -1]]
    pairs = np.array([*([i, len(looked)] for i in range(len(looked))), [len(looked), EVERYBODY]])
    return targets, pairs, np.array([[0.0, 1]] * len(pairs)), [*(f"option {i}" for i in looked), "rate"]


def closed_intervals(solution: Any, pairs: Any, bounds: Any) -> np.ndarray[Any, Any]:
    """Fieller's sets as they were used before: whole where they are not one bounded interval."""
    found = fieller(solution, pairs, Z)
    cut = np.clip(found, bounds[:, :1], bounds[:, 1:])
    empty = (found[:, :, 1] < bounds[:, 0]) | (found[:, :, 0] > bounds[:, 1])
    kept = np.where(empty[:, :, None], found, cut)
    return np.where(np.isnan(found), bounds, kept)


def measure(task: tuple[Job, int]) -> list[Cell]:
    """Draw tallies for one population and see how often its functionals are held."""
    job, repetitions = task
    mechanism = mechanism_of(job.mechanism, job.epsilon)
    table = mechanism.table
    shares = job.rate * populations(mechanism)[job.population]
    shares[-1] = 1 - job.rate
    rng = np.random.default_rng(zlib.crc32(repr(job).encode()))
    drawn = rng.multinomial(job.reports, shares @ table.matrix, size=repetitions)
    counts, times = np.unique(drawn, axis=0, return_counts=True)
    targets, pairs, bounds, names = functionals(mechanism, job.population)
    solution = solve(table, counts, targets)
    found = intervals(table, counts, targets, pairs, bounds, Z, solution)
    closed = closed_intervals(solution, pairs, bounds)
    assert (found[:, :, 0] >= bounds[:, 0]).all()
    assert (found[:, :, 1] <= bounds[:, 1]).all()
    assert (found[:, :, 0] <= found[:, :, 1]).all()
    weight = times / repetitions
    noise = variances(table, shares, targets) / job.reports
    rate_error = np.sqrt(noise[-1, -1])
    cells = []
    for i, (name, (top, bottom)) in enumerate(zip(names, pairs, strict=True)):
        truth = float(targets[top] @ shares / (1 if bottom == EVERYBODY else targets[bottom] @ shares))
        v = noise[top, top]
        if bottom != EVERYBODY:
            v = v - 2 * truth * noise[top, bottom] + truth**2 * noise[bottom, bottom]
            v = v / (targets[bottom] @ shares) ** 2
        below = np.nan if bottom == EVERYBODY else solution.values[:, bottom]
        below = np.where(np.isnan(below), 1.0, below)
        with np.errstate(divide="ignore", invalid="ignore"):
            estimate = np.clip(solution.values[:, top] / below, *bounds[i])
        width = bounds[i, 1] - bounds[i, 0]
        away = (estimate < found[:, i, 0] - 1e-3 * width) | (estimate > found[:, i, 1] + 1e-3 * width)

        def held(x: np.ndarray[Any, Any], truth: float = truth) -> float:
            return float(weight @ ((x[:, 0] <= truth + 1e-9) & (truth - 1e-9 <= x[:, 1])))

        cells.append(
            Cell(
                job=job,
                functional=name,
                truth=truth,
                coverage=held(found[:, i]),
                closed_coverage=held(closed[:, i]),
                width=float(weight @ np.diff(found[:, i])[:, 0]),
                closed_width=float(weight @ np.diff(closed[:, i])[:, 0]),
                distinct=len(counts),
                certain=bool(job.rate > 4 * rate_error),
                near_end=bool(np.abs(bounds[i] - truth).min() < 2 * np.sqrt(v)),
                beside=float(weight @ (away & (below > 0))),
            )
        )
    return cells


def jobs(args: argparse.Namespace) -> list[Job]:
    """All of them, or a seventh that has every mechanism, epsilon and number of reports in it."""
    every = [
        Job(name, epsilon, reports, rate, population)
        for name, epsilon, mechanism in mechanisms()
        for reports, rate, population in product(REPORTS, RATES, populations(mechanism))
    ]
    some = [
        j for j in every if j.mechanism in (args.only or j.mechanism) and j.reports in (args.n or REPORTS)
    ]
    return some[::7] if args.thin else some


def chance(share: float, repetitions: int, cells: int, alpha: float = ALPHA) -> tuple[float, float]:
    """Between what a coverage of `share` comes out in all of so many cells, but for a chance of alpha.

    >>> chance(0.92, 400, 1000)
    (0.8475, 0.975)
    """
    k = np.arange(repetitions + 1)
    factorials = np.array([math.lgamma(i + 1) for i in range(repetitions + 1)])
    choose = factorials[-1] - factorials - factorials[::-1]
    below = np.cumsum(np.exp(choose + k * math.log(share) + k[::-1] * math.log1p(-share)))
    least, most = np.searchsorted(below, [alpha / cells, 1 - alpha / cells]) / repetitions
    return float(least), float(most)


def shortfalls(cells: list[Cell], repetitions: int) -> dict[str, list[Cell]]:
    """Cells outside what is required, chance allowed for: at least .92, and .93 to .97 where all is clear."""
    low, _ = chance(0.92, repetitions, len(cells))
    least, most = chance(0.93, repetitions, len(cells))[0], chance(0.97, repetitions, len(cells))[1]
    clear = [c for c in cells if c.certain and c.job.reports >= 500 and not c.near_end]
    return {
        "below .92": [c for c in cells if c.coverage < low],
        "below .93 where clear": [c for c in clear if c.coverage < least],
        "above .97 where clear": [c for c in clear if c.coverage > most],
    }


def summary(cells: list[Cell], repetitions: int) -> str:
    """A table in Markdown: a line for each number of reports, then the cells that are short."""
    lines = [
        "| n | cells | before, lowest / mean | now, lowest / mean | width to before, median | below .92 |",
        "|---|---|---|---|---|---|",
    ]
    for n in sorted({c.job.reports for c in cells}):
        some = [c for c in cells if c.job.reports == n]
        coverage, before = ([getattr(c, x) for c in some] for x in ("coverage", "closed_coverage"))
        width = np.median([c.width / c.closed_width for c in some if c.closed_width > 0])
        lines.append(
            f"| {n:,} | {len(some)} | {min(before):.3f} / {np.mean(before):.3f}"
            f" | {min(coverage):.3f} / {np.mean(coverage):.3f} | {width:.3f}"
            f" | {sum(x < 0.92 for x in coverage)} |"
        )
    clear = [c.coverage for c in cells if c.certain and c.job.reports >= 500 and not c.near_end]
    if clear:
        lines.append(
            f"\nClear cells (n >= 500, the rate over 4 standard errors above 0, the truth not near an end of"
            f" the range): {len(clear)}, coverage {min(clear):.3f} to {max(clear):.3f},"
            f" mean {np.mean(clear):.4f}."
        )
    lines.append(f"\n{repetitions:,} repetitions; chance is allowed for with alpha = {ALPHA} over all cells.")
    for name, short in shortfalls(cells, repetitions).items():
        lines.append(f"\nSignificantly {name}: {len(short)}\n")
        lines += [line_of(c) for c in sorted(short, key=lambda c: c.coverage)]
    return "\n".join(lines)


def line_of(cell: Cell) -> str:
    """One cell in one line."""
    j = cell.job
    return (
        f"- {j.mechanism}, epsilon {j.epsilon:g}, n {j.reports:,}, rate {j.rate:g}, {j.population}:"
        f" {cell.functional} {cell.coverage:.3f} (before {cell.closed_coverage:.3f},"
        f" width {cell.width / max(cell.closed_width, 1e-300):.2f})"
    )


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    summary_line = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary_line)
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--thin", action="store_true", help="a seventh of the populations")
    parser.add_argument("--n", type=int, nargs="*", help="only these numbers of reports")
    parser.add_argument("--only", nargs="*", help="only these mechanisms")
    parser.add_argument("--json", type=Path, help="write all cells to this file")
    return parser.parse_args(words)


def main() -> int:
    """Measure, and print what was found."""
    args = arguments()
    tasks = [(job, args.repetitions) for job in jobs(args)]
    if args.jobs > 1:
        with ProcessPoolExecutor(args.jobs) as pool:
            found = list(pool.map(measure, tasks, chunksize=8))
    else:
        found = [measure(task) for task in tasks]
    cells = [cell for group in found for cell in group]
    if args.json:
        args.json.write_text(json.dumps([asdict(c) for c in cells], indent=1))
    print(summary(cells, args.repetitions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
