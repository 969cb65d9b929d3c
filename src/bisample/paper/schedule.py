"""Running tasks on all cores, remembering what is done, and saying how long it will take.

Every finished task is appended to one file at once. A run that was stopped, or a later run with more
repetitions, one mechanism more or another figure, finds there what it need not do again. What is
stored is named by all that it depends on, so nothing stale is ever found.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Protocol, Self, TypeVar

import numpy as np

from bisample.analysis.solve import Floats
from bisample.errors import FileError

from .contestants import Contestant
from .experiments import Experiment, Point
from .runs import BLOCK, Errors, Results, Task, simulate

__all__ = ["Store", "Workers", "run_experiments"]

# Raise it when a change of the code changes what is drawn.
_DRAWS_VERSION = 2


class _HasCost(Protocol):
    @property
    def cost(self) -> float: ...


T = TypeVar("T", bound=_HasCost)
R = TypeVar("R")


class Store:
    """Errors by name, in a file of JSON lines that only grows; a torn last line is done again.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store(Path(folder, "runs.jsonl")) as store:
    ...         store.put("a", Errors(np.array([0.5, np.nan]), None))
    ...     with Store(Path(folder, "runs.jsonl")) as store:
    ...         print(store.get("a"), store.get("b"))
    Errors(mean=array([0.5, nan]), missing_rate=None) None
    """

    def __init__(self, path: Path) -> None:
        self._known: dict[str, Errors] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._read(path)
            self._file: IO[str] = path.open("a", encoding="utf-8")
        except FileError:
            raise
        except UnicodeDecodeError as problem:
            raise FileError(f"{path} is not what an earlier run wrote: delete it") from problem
        except OSError as problem:
            raise FileError(
                f"{path} cannot be written: {problem.strerror}; choose another --out"
            ) from problem

    def _read(self, path: Path) -> None:
        if not path.exists():
            return
        text = path.read_text(encoding="utf-8")
        if text and not text.endswith("\n"):  # the process was stopped while it wrote
            text = text[: text.rfind("\n") + 1]
            path.write_text(text, encoding="utf-8")
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                rate = entry["missing_rate"]
                errors = Errors(_from_json(entry["mean"]), None if rate is None else _from_json(rate))
                self._known[entry["key"]] = errors
            except (ValueError, KeyError, TypeError) as problem:
                raise FileError(f"{path} is not what an earlier run wrote: delete it") from problem

    def get(self, key: str) -> Errors | None:
        return self._known.get(key)

    def put(self, key: str, errors: Errors) -> None:
        rate = errors.missing_rate
        entry = {
            "key": key,
            "mean": _to_json(errors.mean),
            "missing_rate": None if rate is None else _to_json(rate),
        }
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()
        self._known[key] = errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _to_json(values: Floats) -> list[float | None]:
    return [None if np.isnan(v) else float(v) for v in values]


def _from_json(values: list[float | None]) -> Floats:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def _progress(label: str, total: float) -> Any:
    """A bar of the work done and the time left on a terminal; silence elsewhere."""
    from tqdm import tqdm  # a command line's, and slow to import

    shape = "{desc} {percentage:3.0f}% |{bar}| {elapsed}, {remaining} left"
    return tqdm(total=total, desc=label, disable=None, leave=False, bar_format=shape, dynamic_ncols=True)


class Workers:
    """Some processes that stay for a whole run; with one job, no process but this.

    >>> with Workers(1) as workers:
    ...     workers.run(len, [], "nothing", print)
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def run(
        self, work: Callable[[T], R], tasks: Sequence[T], label: str, done: Callable[[T, R], None]
    ) -> None:
        """Run `work` on every task, the costliest first; `done` gets each result, in this process."""
        if not tasks:
            return
        ordered = sorted(tasks, key=lambda task: -task.cost)
        with _progress(label, sum(task.cost for task in tasks)) as bar:
            for task, result in self._results(work, ordered):
                done(task, result)
                bar.update(task.cost)

    def _results(self, work: Callable[[T], R], tasks: Sequence[T]) -> Iterator[tuple[T, R]]:
        if self._jobs == 1:
            yield from ((task, work(task)) for task in tasks)
            return
        if self._pool is None:
            # Spawned, not forked: the same on every system, and safe whatever threads the caller has.
            self._pool = ProcessPoolExecutor(
                self._jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_leave_ctrl_c
            )
        pending = {self._pool.submit(work, task): task for task in tasks}
        while pending:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                yield pending.pop(future), future.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _leave_ctrl_c() -> None:
    """Ctrl-C stops the run in the first process; the others finish their task, without a word."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_experiments(
    chosen: Iterable[Experiment], store: Store, *, seed: int, repeats: int, workers: Workers
) -> dict[tuple[Point, str], Errors]:
    """All repetitions of all points, from the store where they are there; by point and contestant."""
    wanted = _tasks(chosen, seed, repeats)
    missing: list[Task] = []
    for task in wanted:
        absent = tuple(c for c in task.contestants if store.get(_key(task, c)) is None)
        if absent:
            missing.append(replace(task, contestants=absent))

    def keep(task: Task, results: Results) -> None:
        for c in task.contestants:
            store.put(_key(task, c), results[c.name])

    workers.run(simulate, missing, "simulating people", keep)
    collected: dict[tuple[Point, str], list[Errors]] = {}
    for task in wanted:
        for c in task.contestants:
            errors = store.get(_key(task, c))
            assert errors is not None
            collected.setdefault((task.point, c.name), []).append(errors)
    return {key: _join(parts) for key, parts in collected.items()}


def _tasks(chosen: Iterable[Experiment], seed: int, repeats: int) -> list[Task]:
    """One task for each point and block of repetitions; experiments that share a point share it."""
    at: dict[Point, dict[str, Contestant]] = {}
    for experiment in chosen:
        for panel in experiment.panels:
            for point in panel.points:
                at.setdefault(point, {}).update({c.name: c for c in experiment.contestants})
    return [
        Task(point, tuple(contestants.values()), seed, first, min(first + BLOCK, repeats))
        for point, contestants in at.items()
        for first in range(0, repeats, BLOCK)
    ]


def _key(task: Task, contestant: Contestant) -> str:
    return f"v{_DRAWS_VERSION} seed={task.seed} {task.point.name} {contestant.name} {task.first}-{task.last}"


def _join(parts: list[Errors]) -> Errors:
    rates = [part.missing_rate for part in parts if part.missing_rate is not None]
    return Errors(np.concatenate([part.mean for part in parts]), np.concatenate(rates) if rates else None)
