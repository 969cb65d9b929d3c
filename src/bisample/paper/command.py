"""`bisample paper`: all experiments, or some, into a folder."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bisample.errors import BisampleError, FileError, MissingExtraError, ParameterError

from .agreement import Agreement, AgreementTask, can_be_checked, check
from .claims import Claim, judge
from .data import DATASETS, DataSet, from_file
from .experiments import REPETITIONS, Experiment, Metric, experiments
from .measures import Measures, measure, write_csv
from .schedule import Store, Workers, run_experiments

__all__ = ["Outcome", "Settings", "add_arguments", "main", "run", "run_paper"]

_FIGURES = (3, 4, 5, 6)
_QUICK_REPETITIONS = 10
# Enough for 10 % to be four and a half standard errors of a mean squared error.
_CHECKS, _QUICK_CHECKS = 4000, 200


@dataclass(frozen=True)
class Settings:
    """What a run is asked for."""

    out: Path
    figures: tuple[int, ...] = _FIGURES
    repeats: int = REPETITIONS
    checks: int = _CHECKS
    quick: bool = False
    seed: int = 1
    jobs: int = 1
    extra: tuple[DataSet, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What a run found."""

    measures: Measures
    claims: list[Claim]
    agreements: list[Agreement]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bisample paper`.

    >>> parser = argparse.ArgumentParser()
    >>> add_arguments(parser)
    >>> parser.parse_args(["--figure", "4", "--quick"]).figure
    [4]
    """
    parser.add_argument(
        "--figure", type=int, action="append", choices=_FIGURES, help="only this figure; may be repeated"
    )
    parser.add_argument(
        "--repeats", type=int, help=f"repetitions of every point (default {REPETITIONS}, as in the paper)"
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{_QUICK_REPETITIONS} repetitions, without the largest n"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="the same seed gives the same numbers (default 1)"
    )
    parser.add_argument("--jobs", type=int, help="processes (default: all cores)")
    parser.add_argument(
        "--out", type=Path, default=Path("bisample-paper"), help="folder to write to (default bisample-paper)"
    )
    parser.add_argument(
        "--data", type=Path, help="a CSV or Parquet file of your own, for table 2 and figure 4"
    )
    parser.add_argument("--column", help="the column of --data to take")
    parser.add_argument("--readme", type=Path, help="also write figure 4 and the claims into this file")


def run(args: argparse.Namespace) -> int:
    """Run what the options ask for; errors are raised, for the caller to print."""
    settings = _settings(args)
    if args.readme is not None and args.figure:
        raise ParameterError("--readme needs all figures: leave --figure out")
    start = time.monotonic()
    outcome = run_paper(settings)
    if args.readme is not None:
        from .report import update_readme

        update_readme(args.readme, settings.out, outcome.claims, settings.repeats)
    for claim in outcome.claims:
        if claim.verdict != "not run":
            print(f"{claim.verdict:<14} {claim.where:<10} {claim.sentence}")
    print(f"{settings.out / 'report.html'} ({time.monotonic() - start:.0f} s)")
    return 0


def _settings(args: argparse.Namespace) -> Settings:
    repeats = args.repeats
    if repeats is None:
        repeats = _QUICK_REPETITIONS if args.quick else REPETITIONS
    for name, value, least in (("repeats", repeats, 2), ("seed", args.seed, 0), ("jobs", args.jobs, 1)):
        if value is not None and value < least:
            raise ParameterError(f"--{name} must be an integer from {least}, not {value}")
    if (args.data is None) != (args.column is None):
        raise ParameterError("--data needs --column, the name of the column to take, and the other way round")
    return Settings(
        out=args.out,
        figures=tuple(sorted(set(args.figure or _FIGURES))),
        repeats=repeats,
        checks=_QUICK_CHECKS if args.quick else _CHECKS,
        quick=args.quick,
        seed=args.seed,
        jobs=args.jobs or _cores(),
        extra=() if args.data is None else (from_file(args.data, args.column),),
    )


def _cores() -> int:
    """Those this process may use, which in a container can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_paper(settings: Settings) -> Outcome:
    """Simulate, measure, judge, draw and report."""
    _need_matplotlib()  # before minutes of work, not after
    out = settings.out
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileError(f"{out} cannot be made: {problem.strerror}; choose another --out") from problem
    wanted = {f"figure-{number}" for number in settings.figures}
    chosen = [e for e in experiments(settings.extra, quick=settings.quick) if e.name in wanted]
    with Workers(settings.jobs) as workers:
        with Store(out / "runs.jsonl") as store:
            errors = run_experiments(
                chosen, store, seed=settings.seed, repeats=settings.repeats, workers=workers
            )
        measures = measure(chosen, errors, settings.seed)
        outcome = Outcome(measures, judge(measures), _agreements(chosen, settings, workers))
        _write(chosen, outcome, settings, workers)
    return outcome


def _need_matplotlib() -> None:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise MissingExtraError("drawing the paper's figures", "paper")


def _agreements(chosen: Sequence[Experiment], settings: Settings, workers: Workers) -> list[Agreement]:
    """Theory against many repetitions, at every point of the chosen experiments."""
    tasks = dict.fromkeys(
        AgreementTask(point, contestant, settings.seed, settings.checks)
        for experiment in chosen
        for contestant in experiment.contestants
        if can_be_checked(contestant)
        for panel in experiment.panels
        for point in panel.points
    )
    found: dict[AgreementTask, list[Agreement]] = {}
    workers.run(check, list(tasks), "checking the theory", found.__setitem__)
    return [agreement for task in tasks for agreement in found[task]]


@dataclass(frozen=True)
class _Drawing:
    """A picture to be drawn in a process of its own; no experiment means figure 3."""

    experiment: Experiment | None
    measures: Measures
    metric: Metric
    path: Path
    seed: int

    @property
    def cost(self) -> float:
        return 1.0 + len(self.measures.rows)


def _draw(drawing: _Drawing) -> None:
    from .figures import draw_experiment, draw_preferences

    if drawing.experiment is None:
        draw_preferences(drawing.seed, drawing.path)
    else:
        draw_experiment(drawing.experiment, drawing.measures, drawing.metric, drawing.path)


def _write(chosen: Sequence[Experiment], outcome: Outcome, settings: Settings, workers: Workers) -> None:
    from .figures import preference_rates
    from .report import build, data_rows, picture_name, write

    out, measures = settings.out, outcome.measures
    # The paper's own metric first; a quick look needs no more.
    metrics: tuple[Metric, ...] = ("ae", "mse")
    pictures = [
        (e, metric) for e in chosen for metric in (e.metric, *metrics)[: 1 if settings.quick else None]
    ]
    pictures = list(dict.fromkeys(pictures))
    drawings = [
        _Drawing(
            e, Measures(tuple(measures.of(e.name))), metric, out / picture_name(e, metric), settings.seed
        )
        for e, metric in pictures
    ]
    if 3 in settings.figures:
        drawings.append(_Drawing(None, Measures(()), "ae", out / "figure-3", settings.seed))
        write_csv(out / "figure-3.csv", preference_rates(settings.seed))
    workers.run(_draw, drawings, "drawing", lambda _task, _result: None)
    data = data_rows((*DATASETS, *settings.extra), settings.seed)
    write_csv(out / "table-2.csv", data)
    for experiment in chosen:
        # The title of a panel has the figure's mathematics in it.
        rows = measures.of(experiment.name)
        plain = [replace(row, panel=row.panel.replace(r"$\epsilon$", "epsilon")) for row in rows]
        write_csv(out / f"{experiment.name}.csv", plain)
    write_csv(out / "claims.csv", outcome.claims)
    write_csv(out / "agreement.csv", [_flat(a) for a in outcome.agreements])
    blocks = build(
        pictures,
        measures,
        outcome.claims,
        outcome.agreements,
        data,
        preferences=3 in settings.figures,
        seed=settings.seed,
        repeats=settings.repeats,
    )
    write(blocks, out)


@dataclass(frozen=True)
class _AgreementRow:
    """A row of agreement.csv."""

    point: str
    contestant: str
    quantity: str
    repeats: int
    undefined: int
    simulated_ae: float
    theory_ae: float | None
    simulated_mse: float
    theory_mse: float | None
    theory_note: str


def _flat(a: Agreement) -> _AgreementRow:
    return _AgreementRow(
        a.point.name,
        a.contestant,
        a.quantity,
        a.repeats,
        a.undefined,
        a.simulated_ae,
        a.theory.ae,
        a.simulated_mse,
        a.theory.mse,
        a.theory.why,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m bisample.paper`."""
    parser = argparse.ArgumentParser(prog="bisample paper", description="The paper's experiments, run again.")
    add_arguments(parser)
    try:
        return run(parser.parse_args(arguments))
    except BisampleError as problem:
        print(f"bisample paper: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped: the same command goes on from here", file=sys.stderr)
        return 130
