"""All experiments, or some, into a folder: what `bisample paper` does once its options are read."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bisample.errors import FileError, MissingExtraError, ParameterError
from bisample.protocol.exact import whole

from .agreement import Agreement, AgreementTask, can_be_checked, check
from .claims import Claim, judge
from .data import DATASETS, DataSet, from_file
from .experiments import REPETITIONS, Experiment, Metric, experiments
from .measures import Measures, measure, write_csv
from .schedule import Store, Workers, run_experiments

__all__ = ["Outcome", "Settings", "run", "run_paper"]

_FIGURES = (3, 4, 5, 6)
_QUICK_REPETITIONS = 10
# Enough for 10 % to be four and a half standard errors of a mean squared error.
_CHECKS, _QUICK_CHECKS = 4000, 200


@dataclass(frozen=True)
class Settings:
    """What a run is asked for. `checks` are repetitions of the theory's check, `extra` are more data sets."""

    out: Path
    figures: tuple[int, ...] = _FIGURES
    repeats: int = REPETITIONS
    checks: int = _CHECKS
    quick: bool = False
    seed: int = 1
    jobs: int = 1
    extra: tuple[DataSet, ...] = ()

    def __post_init__(self) -> None:
        if not self.figures or not set(self.figures) <= set(_FIGURES):
            raise ParameterError(
                f"figures must be some of {', '.join(map(str, _FIGURES))}, not"
                f" {', '.join(map(str, self.figures)) or 'none'}"
            )
        for name, least in (("repeats", 2), ("checks", 2), ("seed", 0), ("jobs", 1)):
            object.__setattr__(self, name, whole(getattr(self, name), least, name))


@dataclass(frozen=True)
class Outcome:
    """What a run found."""

    measures: Measures
    claims: list[Claim]
    agreements: list[Agreement]


def run(
    *,
    figures: tuple[int, ...] = _FIGURES,
    repeats: int | None = None,
    quick: bool = False,
    seed: int = 1,
    jobs: int | None = None,
    out: Path = Path("bisample-paper"),
    data: Path | None = None,
    column: str | None = None,
    readme: Path | None = None,
) -> None:
    """Run the experiments, write the report into the folder `out`, and print a verdict on each claim.

    `repeats` is the paper's 100, or 10 if `quick`; `jobs` is the number of processes, by default one a
    core. `data` and `column` add a column of a CSV or Parquet file to table 2 and figure 4; `readme` is a
    file whose part between two markers becomes figure 4 and the claims.

    >>> run(figures=(7,))
    Traceback (most recent call last):
    bisample.errors.ParameterError: figures must be some of 3, 4, 5, 6, not 7
    """
    if (data is None) != (column is None):
        raise ParameterError(
            "data and column go together (--data, --column): a file, and the name of the column to take"
        )
    usual = _QUICK_REPETITIONS if quick else REPETITIONS
    settings = Settings(
        out=out,
        figures=figures,
        repeats=usual if repeats is None else repeats,
        checks=_QUICK_CHECKS if quick else _CHECKS,
        quick=quick,
        seed=seed,
        jobs=_cores() if jobs is None else jobs,
        extra=() if data is None or column is None else (from_file(data, column),),
    )
    if readme is not None and set(figures) != set(_FIGURES):
        raise ParameterError("readme needs all figures: leave figures (--figure) out")
    start = time.monotonic()
    outcome = run_paper(settings)
    if readme is not None:
        from .report import update_readme

        update_readme(readme, settings.out, outcome.claims, settings.repeats)
    for claim in outcome.claims:
        if claim.verdict != "not run":
            print(f"{claim.verdict:<14} {claim.where:<10} {claim.sentence}")
    print(f"{settings.out / 'report.html'} ({time.monotonic() - start:.0f} s)")


def _cores() -> int:
    """Those this process may use, which in a container can be fewer than the machine has."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def run_paper(settings: Settings) -> Outcome:
    """Simulate, measure, judge, draw and report; nothing is printed but the progress."""
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
