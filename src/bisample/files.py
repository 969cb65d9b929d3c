"""Columns of answers in, columns of reports out: CSV and Parquet files, read and written in pieces.

Beside a file of reports lies a small JSON file that says how they were made, so that whoever
estimates need not be told epsilon and the range a second time, and cannot be told them wrongly.
"""

from __future__ import annotations

import csv
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from .errors import AnswerError, FileError, MissingExtraError, ReportError
from .mechanism import Mechanism
from .mechanisms import from_description

__all__ = ["REPORT_COLUMN", "Note", "ReportWriter", "numbers_from_text", "read_column", "read_note"]

REPORT_COLUMN = "report"
_FORMAT = "bisample-reports/1"
_ROWS = 131_072
_PARQUET = {".parquet", ".pq"}
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
    # The errors are raised outside of the handlers: what Python attaches to an error raised inside one can
    # hold the bytes that were read.
    try:
        if path.suffix.lower() in _PARQUET:
            yield from _read_parquet(path, column, progress)
        else:
            yield from _read_csv(path, column, progress, answers)
    except FileError:
        raise
    except FileNotFoundError:
        problem = f"there is no file {path}"
    except UnicodeDecodeError:
        problem = f"{path} is not UTF-8 text: save it as UTF-8 CSV, or as Parquet"
    except csv.Error as broken:
        problem = f"{path} is not a CSV file: {broken}"
    except OSError as failed:
        problem = f"{path} cannot be read: {failed.strerror or type(failed).__name__}"
    else:
        return
    raise FileError(problem)


def _read_csv(path: Path, column: str, progress: Progress, answers: Collection[str]) -> Iterator[list[Any]]:
    size = max(1, path.stat().st_size)
    with path.open("rb") as raw, _text(raw) as text:
        rows = csv.reader(text)
        names = next(rows, [])
        at = _position(path, column, names)
        piece: list[Any] = []
        empty_line = 0
        for row in rows:
            if not row:
                # With one column an empty line is an empty cell: a refusal, as some programs write it.
                if len(names) == 1:
                    piece.append(None)
                empty_line = rows.line_num
                continue
            if empty_line and len(names) > 1:
                raise FileError(f"line {empty_line} of {path} is empty: remove it, or fill in its commas")
            if len(row) != len(names):
                raise FileError(
                    f"line {rows.line_num} of {path} has {len(row)} cells and the header has {len(names)}:"
                    " is there a comma in a number or a text without quotes?"
                )
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
    except OSError:
        raise
    except Exception:  # noqa: BLE001 - Arrow has many
        source = None
    if source is None:
        raise FileError(f"{path} is not a Parquet file")
    with source:
        schema = source.schema_arrow
        kind = schema.field(_position(path, column, schema.names)).type
        if not _is_plain(kind):
            raise FileError(
                f"column {column!r} of {path} holds {kind}: convert it to numbers, texts or booleans"
            )
        total, done = max(1, source.metadata.num_rows), 0
        for batch in source.iter_batches(batch_size=_ROWS, columns=[column]):
            yield batch.column(0).to_pylist()
            done += batch.num_rows
            progress(done / total)


def _is_plain(kind: Any) -> bool:
    """Whether a column of this Arrow type turns into Python's numbers, texts and booleans."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = ("boolean", "integer", "floating", "decimal", "string", "large_string", "null")
    return any(getattr(pa.types, f"is_{test}")(kind) for test in tests)


def _position(path: Path, column: str, names: list[str]) -> int:
    if names.count(column) == 1:
        return names.index(column)
    if column in names:
        raise FileError(f"{path} has {names.count(column)} columns {column!r}: give them different names")

    def bare(name: str) -> str:
        return "".join(filter(str.isalnum, name)).lower()

    # A name is shown only where it is the one asked for but for case, spaces and signs: in a file without
    # a header the first line is somebody's answers.
    alike = [name for name in names if bare(name) and bare(name) == bare(column)]
    if alike:
        hint = f"did you mean {alike[0]!r}?"
    elif len(names) == 1 and any(sign in names[0] for sign in ";\t"):
        hint = "its columns seem to be separated by other signs than commas: save it with commas"
    else:
        hint = "does its first line name the columns?"
    raise FileError(f"{path} has no column {column!r}: {hint}")


def numbers_from_text(piece: list[Any], first_row: int = 1) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A piece of a CSV column as numbers, NaN where it is missing. The error names the row, not the entry.

    >>> numbers_from_text(["31", None])
    array([31., nan])
    >>> numbers_from_text(["31", "thirty"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    bisample.errors.AnswerError: row 2 (the header not counted) is not a number: ...
    """
    texts = ["nan" if entry is None else entry for entry in piece]
    try:
        return np.array(texts, dtype=object).astype(np.float64)
    except ValueError:
        # Raised below: what Python attaches to an error raised here would hold the entry.
        wrong = next(
            (row for row, text in enumerate(texts, start=first_row) if not _is_number(text)), first_row
        )
    raise AnswerError(
        f"row {wrong} (the header not counted) is not a number: correct it (a decimal point, not a comma)"
        " or leave it empty to decline"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class ReportWriter(ABC):
    """Writes reports to a file that appears only once it is complete, with the note of how they were made.

    >>> import tempfile
    >>> from bisample import BiSample
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "reports.csv"
    ...     with ReportWriter.open(path, BiSample(epsilon=1), simulated=False) as writer:
    ...         writer.write(np.array([0, 3], dtype=np.uint8))
    ...     path.read_text().split(), read_note(path).mechanism
    (['report', '0', '3'], BiSample(epsilon=1.0, lower=-1.0, upper=1.0))
    """

    def __init__(self, path: Path, mechanism: Mechanism, simulated: bool) -> None:
        self._path = path
        self._unfinished = path.with_name(path.name + ".unfinished")
        self._mechanism = mechanism
        self._simulated = simulated
        self.n = 0

    @staticmethod
    def open(
        path: str | Path, mechanism: Mechanism, *, simulated: bool, answers: str | Path | None = None
    ) -> ReportWriter:
        """A writer for CSV, or for Parquet where the name ends in .parquet; never over the `answers`."""
        path = Path(path)
        if path.exists() and not path.is_file():
            raise FileError(f"{path} cannot be written: it is a folder or a device; name a file")
        if answers is not None and path.exists() and Path(answers).exists() and path.samefile(answers):
            raise FileError(f"{path} is the file of answers itself: name another one for the reports")
        kind = _ParquetWriter if path.suffix.lower() in _PARQUET else _CsvWriter
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
            "simulated": self._simulated,
            "reports": self.n,
        }
        note_path = _note_path(self._path)
        unfinished_note = note_path.with_name(note_path.name + ".unfinished")
        try:
            unfinished_note.write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
            # Both are there, complete, before either takes the place of an older file.
            os.replace(unfinished_note, note_path)  # noqa: PTH105 - as the next line
            os.replace(self._unfinished, self._path)  # noqa: PTH105 - atomic, and over an older file
        finally:
            unfinished_note.unlink(missing_ok=True)


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


@dataclass(frozen=True)
class Note:
    """What the note beside a file of reports says: what made them, how many, and whether in earnest."""

    mechanism: Mechanism
    reports: int
    simulated: bool


def read_note(path: str | Path) -> Note | None:
    """The note beside a file of reports, or None if there is none."""
    path = Path(path)
    if path.is_dir():
        raise FileError(f"{path} is a folder, and no file of reports")
    note_path = _note_path(path)
    try:
        note = json.loads(note_path.read_text(encoding="utf-8"))
        described, digest = note["mechanism"], note["table"]
        reports, simulated = int(note["reports"]), bool(note["simulated"])
        known = note["format"] == _FORMAT
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise FileError(
            f"{note_path} is not a note of bisample's: remove it, and say how {path} was made"
        ) from None
    mechanism = from_description(described)
    if not known or mechanism.table.digest != digest:
        raise ReportError(
            f"{note_path} was written for another table: use the version of bisample that made it"
        )
    return Note(mechanism, reports, simulated)


def _note_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _pyarrow_parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("reading and writing Parquet", "parquet") from None
    return pyarrow.parquet
