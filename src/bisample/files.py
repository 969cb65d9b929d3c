"""Columns of answers in, columns of reports out: CSV and Parquet files, read and written in pieces.

Beside a file of reports lies a small JSON file that says how they were made, so that whoever
estimates need not be told epsilon and the range a second time, and cannot be told them wrongly.
"""

from __future__ import annotations

import csv
import difflib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from .errors import AnswerError, FileError, MissingExtraError, ReportError
from .mechanism import Mechanism
from .mechanisms import from_description

__all__ = ["REPORT_COLUMN", "ReportWriter", "numbers_from_text", "read_column", "read_note"]

REPORT_COLUMN = "report"
_FORMAT = "bisample-reports/1"
_ROWS = 131_072
_MISSING_TEXTS = frozenset({"", "na", "n/a", "nan", "nat", "null", "none", "<na>"})

Progress = Callable[[float], None]


def read_column(
    path: str | Path, column: str, progress: Progress = lambda _: None, answers: Collection[str] = ()
) -> Iterator[list[Any]]:
    r"""Pieces of one column: texts of a CSV file, values of a Parquet file. None is a missing entry.

    `progress` is told the part of the file that has been read, from 0 to 1. `answers` are texts that are
    answers even where they read like a missing entry, such as an option "none".

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "people.csv"
    ...     _ = path.write_text("name,age\nA,31\nB,\n")
    ...     list(read_column(path, "age"))
    [['31', None]]
    """
    path = Path(path)
    try:
        if path.suffix.lower() in {".parquet", ".pq"}:
            yield from _read_parquet(path, column, progress)
        else:
            yield from _read_csv(path, column, progress, answers)
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"there is no file {path}") from None
    except UnicodeDecodeError:
        raise FileError(f"{path} is not UTF-8 text: save it as UTF-8 CSV, or as Parquet") from None
    except csv.Error as problem:
        raise FileError(f"{path} is not a CSV file: {problem}") from None
    except OSError as problem:
        raise FileError(f"{path} cannot be read: {problem.strerror or type(problem).__name__}") from None


def _read_csv(path: Path, column: str, progress: Progress, answers: Collection[str]) -> Iterator[list[Any]]:
    size = max(1, path.stat().st_size)
    with path.open("rb") as raw, _text(raw) as text:
        rows = csv.reader(text)
        names = next(rows, [])
        at = _position(path, column, names)
        piece: list[Any] = []
        empty_lines = 0
        for row in rows:
            if not row:
                empty_lines += 1
                continue
            if len(names) == 1:
                # There an empty line is an empty cell; at the end of the file it is no respondent.
                piece += [None] * empty_lines
            empty_lines = 0
            if len(row) <= at:
                raise FileError(f"line {rows.line_num} of {path} has {len(row)} columns, not {len(names)}")
            entry = row[at].strip()
            piece.append(None if entry.lower() in _MISSING_TEXTS and entry not in answers else entry)
            if len(piece) >= _ROWS:
                yield piece
                progress(min(1.0, raw.tell() / size))
                piece = []
        yield piece


def _text(raw: IO[bytes]) -> IO[str]:
    import io

    return io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")


def _read_parquet(path: Path, column: str, progress: Progress) -> Iterator[list[Any]]:
    parquet = _pyarrow_parquet()
    if not path.exists():
        raise FileNotFoundError
    try:
        source = parquet.ParquetFile(path)
    except Exception as problem:
        if isinstance(problem, OSError):
            raise
        raise FileError(f"{path} is not a Parquet file") from None
    with source:
        _position(path, column, source.schema_arrow.names)
        total, done = max(1, source.metadata.num_rows), 0
        for batch in source.iter_batches(batch_size=_ROWS, columns=[column]):
            yield batch.column(0).to_pylist()
            done += batch.num_rows
            progress(done / total)


def _position(path: Path, column: str, names: list[str]) -> int:
    if column in names:
        return names.index(column)
    # Only names like the one asked for are shown: in a file without a header the first line is answers.
    close = difflib.get_close_matches(column, names, n=3, cutoff=0.5)
    close = close or [name for name in names if name.strip().lower() == column.strip().lower()]
    hint = f": did you mean {' or '.join(map(repr, close))}?" if close else ": does it have a header line?"
    raise FileError(f"{path} has no column {column!r}{hint}")


def numbers_from_text(piece: list[Any], first_row: int = 1) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A piece of a CSV column as numbers, NaN where it is missing. The error names the row, not the entry.

    >>> numbers_from_text(["31", None])
    array([31., nan])
    >>> numbers_from_text(["31", "thirty"])
    Traceback (most recent call last):
    bisample.errors.AnswerError: row 2 is not a number: correct it, or leave it empty to decline
    """
    try:
        return np.array(["nan" if entry is None else entry for entry in piece], dtype=object).astype(
            np.float64
        )
    except ValueError:
        for row, entry in enumerate(piece, start=first_row):
            try:
                float(entry or 0)
            except ValueError:
                raise AnswerError(
                    f"row {row} is not a number: correct it, or leave it empty to decline"
                ) from None
        raise AnswerError("a row is not a number: correct it, or leave it empty to decline") from None


class ReportWriter(ABC):
    """Writes reports to a file that appears only once it is complete, with the note of how they were made.

    >>> import tempfile
    >>> from bisample import BiSample
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "reports.csv"
    ...     with ReportWriter.open(path, BiSample(epsilon=1), simulated=False) as writer:
    ...         writer.write(np.array([0, 3], dtype=np.uint8))
    ...     path.read_text().split(), read_note(path)
    (['report', '0', '3'], BiSample(epsilon=1.0, lower=-1.0, upper=1.0))
    """

    def __init__(self, path: Path, mechanism: Mechanism, simulated: bool) -> None:
        self._path = path
        self._unfinished = path.with_name(path.name + ".unfinished")
        self._mechanism = mechanism
        self._simulated = simulated
        self.n = 0

    @staticmethod
    def open(path: str | Path, mechanism: Mechanism, *, simulated: bool) -> ReportWriter:
        """A writer for CSV, or for Parquet where the name ends in .parquet."""
        path = Path(path)
        kind = _ParquetWriter if path.suffix.lower() in {".parquet", ".pq"} else _CsvWriter
        if path.is_dir():
            raise FileError(f"{path} cannot be written: it is a folder")
        try:
            return kind(path, mechanism, simulated)
        except OSError as problem:
            raise FileError(f"{path} cannot be written: {problem.strerror}") from None

    @abstractmethod
    def write(self, reports: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        """Append reports."""

    @abstractmethod
    def _close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._close()
            if kind is None:
                self._publish()
        except OSError as failure:
            raise FileError(f"{self._path} cannot be written: {failure.strerror or failure}") from None
        finally:
            self._unfinished.unlink(missing_ok=True)

    def _publish(self) -> None:
        note = {
            "format": _FORMAT,
            "mechanism": self._mechanism.describe(),
            "table": self._mechanism.table.digest,
            "epsilon_upper": self._mechanism.epsilon_upper,
            "randomness": "simulation, not private" if self._simulated else "secure",
            "reports": self.n,
        }
        _note_path(self._path).write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
        os.replace(self._unfinished, self._path)  # noqa: PTH105 - atomic, and over an older file


class _CsvWriter(ReportWriter):
    def __init__(self, path: Path, mechanism: Mechanism, simulated: bool) -> None:
        super().__init__(path, mechanism, simulated)
        self._file = self._unfinished.open("w", encoding="ascii", newline="\n")
        self._file.write(REPORT_COLUMN + "\n")
        self._lines = np.array([f"{code}\n" for code in range(256)], dtype=object)

    def write(self, reports: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        self._file.write("".join(self._lines[reports]))
        self.n += len(reports)

    def _close(self) -> None:
        self._file.close()


class _ParquetWriter(ReportWriter):
    def __init__(self, path: Path, mechanism: Mechanism, simulated: bool) -> None:
        super().__init__(path, mechanism, simulated)
        parquet = _pyarrow_parquet()
        import pyarrow as pa

        self._batch = pa.record_batch
        schema = pa.schema([(REPORT_COLUMN, pa.uint8())])
        self._file = parquet.ParquetWriter(self._unfinished, schema)

    def write(self, reports: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        self._file.write_batch(self._batch({REPORT_COLUMN: reports}))
        self.n += len(reports)

    def _close(self) -> None:
        self._file.close()


def read_note(path: str | Path) -> Mechanism:
    """The mechanism that made a file of reports, from the note beside it."""
    path = Path(path)
    if path.is_dir():
        raise FileError(f"{path} is a folder, and no file of reports")
    note_path = _note_path(path)
    try:
        note = json.loads(note_path.read_text(encoding="utf-8"))
        described, digest = note["mechanism"], note["table"]
        known = note["format"] == _FORMAT
    except FileNotFoundError:
        raise FileError(
            f"there is no {note_path} to say how {path} was made: pass --mechanism, --epsilon and the range"
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise FileError(
            f"{note_path} is not a note of bisample's: pass --mechanism, --epsilon and the range"
        ) from None
    mechanism = from_description(described)
    if not known or mechanism.table.digest != digest:
        raise ReportError(
            f"{note_path} was written for another table: use the version of bisample that made it"
        )
    return mechanism


def _note_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _pyarrow_parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("reading and writing Parquet", "parquet") from None
    return pyarrow.parquet
