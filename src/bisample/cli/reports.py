"""Files of reports, and the notes beside them.

A note is a small JSON file with the mechanism that made the reports and the tally of them, so that whoever
estimates need not be told epsilon, the range and the question a second time, and cannot be told them
wrongly: a file whose codes are not those of the tally is not the note's. The path "-" is standard input
and output, which have no note.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

import numpy as np

from bisample.analysis.tally import SIMULATED, Tally
from bisample.errors import BisampleError, FileError, FormatError, ParameterError, ReportError
from bisample.files import (
    PARQUET,
    STANDARD,
    FilePath,
    Progress,
    bytes_of,
    called,
    pyarrow_parquet,
    read_column,
    row_name,
)
from bisample.protocol.canonical import canonical, parse, take
from bisample.protocol.mechanism import Mechanism

__all__ = [
    "REPORT_COLUMN",
    "Note",
    "ReportWriter",
    "read_mechanism",
    "read_note",
    "tally_files",
    "write_reports",
]

Codes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

REPORT_COLUMN = "report"

_FORMAT = "bisample-reports/2"


# --- Writing ----------------------------------------------------------------------------------------


@contextmanager
def write_reports(
    path: FilePath,
    mechanism: Mechanism,
    subject: Mapping[str, str] | None = None,
    *,
    answers: FilePath | None = None,
) -> Iterator[ReportWriter]:
    """A file of reports that appears only once it is complete, with the note of how they were made.

    `subject` says what they are about, as a tally's does. The file is CSV, or Parquet where the name ends
    in .parquet or .pq. It replaces an empty file, or reports with their note, and no other file: neither
    that of `answers`, nor one without a note, nor one in the note's place that is no note.
    What is unfinished lies in a folder of its own beside the file, so that it is in nobody's way, and goes
    away whatever happens.

    >>> from bisample import BiSample
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "reports.csv"
    ...     with write_reports(path, BiSample(epsilon=1), {"question": "age"}) as writer:
    ...         writer.write(np.array([0, 3], dtype=np.uint8))
    ...     path.read_text().split(), read_note(path).tally.counts
    (['report', '0', '3'], array([1, 0, 0, 1]))
    """
    try:
        if path == STANDARD:
            # Nothing is sent on before all is there: who reads a part would not know that it is one.
            sink = bytes_of(sys.stdout, "standard output")
            with tempfile.TemporaryFile() as unfinished:
                yield ReportWriter(_CsvFile(unfinished), mechanism, subject)
                unfinished.seek(0)
                shutil.copyfileobj(unfinished, sink)
                sink.flush()
            return
        target = _target(path)
        with _alone_in(target.parent):  # who publishes there has a file without a note for a moment
            _check_places(target, answers)
        kind = _ParquetFile if target.suffix.lower() in PARQUET else _CsvFile
        with tempfile.TemporaryDirectory(prefix=".bisample-", dir=target.parent) as folder:
            reports, note = Path(folder, "reports"), Path(folder, "note")
            with reports.open("wb") as file, closing(kind(file)) as unpublished:
                writer = ReportWriter(unpublished, mechanism, subject)
                yield writer
            note.write_bytes(_note(mechanism, writer.tally))
            with _alone_in(target.parent):
                _check_places(target, answers)
                # Reports for a moment without a note, never with another one's.
                _note_path(target).unlink(missing_ok=True)
                reports.replace(target)
                note.replace(_note_path(target))
    except (BisampleError, BrokenPipeError):
        raise
    except OSError as failure:
        where = "standard output" if path == STANDARD else path
        raise FileError(f"{where} cannot be written: {failure.strerror or failure}") from None


class ReportWriter:
    """What `write_reports` gives: takes reports, in pieces, and keeps their tally."""

    def __init__(self, file: _ReportFile, mechanism: Mechanism, subject: Mapping[str, str] | None) -> None:
        self.tally = mechanism.tally([], subject)
        self._file = file
        self._mechanism = mechanism

    def write(self, reports: Codes) -> None:
        """Append reports."""
        self.tally += self._mechanism.tally(reports, self.tally.subject)
        self._file.write(reports)


class _ReportFile(Protocol):
    def write(self, reports: Codes) -> None: ...


class _CsvFile:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._file.write(f"{REPORT_COLUMN}\n".encode())
        self._lines = [f"{code}\n".encode() for code in range(256)]

    def write(self, reports: Codes) -> None:
        self._file.write(b"".join(map(self._lines.__getitem__, reports.tobytes())))

    def close(self) -> None:
        self._file.flush()


class _ParquetFile:
    def __init__(self, file: IO[bytes]) -> None:
        parquet = pyarrow_parquet()
        import pyarrow as pa

        self._batch = pa.record_batch
        self._file = parquet.ParquetWriter(file, pa.schema([(REPORT_COLUMN, pa.uint8())]))

    def write(self, reports: Codes) -> None:
        self._file.write_batch(self._batch({REPORT_COLUMN: reports}))

    def close(self) -> None:
        self._file.close()


def _target(path: FilePath) -> Path:
    if os.path.splitext(path)[1].lower() not in {".csv", *PARQUET}:  # noqa: PTH122 - Path drops a last slash
        raise FileError(
            "reports go to a file that ends in .csv, .parquet or .pq, or to - (standard output), not to"
            f" {str(path)!r}"
        )
    return Path(path)


def _check_places(target: Path, answers: FilePath | None) -> None:
    """Refuse to write where something lies that would be missed."""
    note = _note_path(target)
    if target.exists() and not target.is_file():
        raise FileError(f"{target} cannot be written: it is a folder or a device; name a file")
    if answers is not None and answers != STANDARD and _is_same_file(target, Path(answers)):
        raise FileError(f"{target} is the file of answers itself: name another one for the reports")
    if note.exists() and not _is_note(note):
        raise FileError(
            f"{note} is in the place of the note of how the reports were made, and is not one: move it, or"
            " name another file for the reports"
        )
    if target.exists() and target.stat().st_size > 0 and not note.exists():
        raise FileError(
            f"{target} is there already, and no note beside it says that it holds reports: name another file,"
            " or remove it"
        )


def _is_same_file(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Waits for others who publish in this folder, so that a file and a note are of the same run.

    The lock is the system's, on the folder itself: it leaves nothing behind. Where there is none, none is
    waited for.
    """
    with ExitStack() as stack:
        with suppress(ImportError, OSError):
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


# --- Notes ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Note:
    """What the note beside a file of reports says: what made them, and their tally."""

    mechanism: Mechanism
    tally: Tally


def read_note(path: FilePath) -> Note | None:
    """The note beside a file of reports, or None if there is none.

    >>> read_note(STANDARD) is None
    True
    """
    if path == STANDARD:
        return None
    path = Path(path)
    if path.is_dir():
        raise FileError(f"{path} is a folder, and no file of reports")
    if not path.exists():
        raise FileError(f"there is no file {path}")
    note = _note_path(path)
    try:
        return _note_from(parse(note.read_bytes()))
    except FileNotFoundError:
        return None
    except OSError as failed:
        raise FileError(f"{note} cannot be read: {failed.strerror or type(failed).__name__}") from None
    except (FormatError, ParameterError, ReportError) as problem:
        raise FormatError(
            f"{note} is no note of how {path} was made ({problem}): remove it, and name the mechanism instead"
        ) from None


def read_mechanism(path: FilePath) -> Mechanism:
    """The mechanism of a file: its JSON, or the note beside reports that it made.

    >>> from bisample import BiSample
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "mechanism.json"
    ...     _ = path.write_text(BiSample(epsilon=1).to_json())
    ...     read_mechanism(path) == BiSample(epsilon=1)
    True
    """
    try:
        data = parse(
            bytes_of(sys.stdin, called(path)).read() if path == STANDARD else Path(path).read_bytes()
        )
        noted = isinstance(data, dict) and "mechanism" in data
        return _note_from(data).mechanism if noted else Mechanism.from_dict(data)
    except FileError:
        raise
    except OSError as failed:
        raise FileError(
            f"{called(path)} cannot be read: {failed.strerror or type(failed).__name__}"
        ) from None
    except (FormatError, ParameterError, ReportError) as problem:
        raise FormatError(
            f"{called(path)} is neither the JSON of a mechanism nor the note beside reports ({problem}): ask"
            " whoever made it"
        ) from None


def _note_from(data: Any) -> Note:
    if isinstance(data, dict) and data.get("format", _FORMAT) != _FORMAT:
        raise FormatError(f"format must be {_FORMAT!r}, not {data['format']!r}")
    _, described, tally = take(data, "a note", format=str, mechanism=dict, tally=dict)
    mechanism = Mechanism.from_dict(described)
    return Note(mechanism, Tally.from_dict(tally).of(mechanism))


def _note(mechanism: Mechanism, tally: Tally) -> bytes:
    note = {"format": _FORMAT, "mechanism": mechanism.to_dict(), "tally": tally.to_dict()}
    return canonical(note) + b"\n"


def _note_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _is_note(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return re.match(rb'\s*\{\s*"format"\s*:\s*"bisample-reports/', file.read(256)) is not None


# --- Reading ----------------------------------------------------------------------------------------


def tally_files(
    paths: Sequence[FilePath],
    column: str = REPORT_COLUMN,
    *,
    mechanism: Mechanism | None = None,
    simulated: bool = False,
    progress: Progress = lambda _: None,
) -> tuple[Mechanism, Tally]:
    r"""The reports of one file or several, counted and added up, and the mechanism that made them.

    The notes name the mechanism; `mechanism` has to be the same, and is needed where there is no note.
    `simulated` says of reports without a note that they were made with a seed. Files add up where their
    tallies do: of one mechanism, about one subject.

    >>> from bisample import BiSample
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "reports.csv"
    ...     _ = path.write_text("report\n0\n3\n3\n")
    ...     tally_files([path], mechanism=BiSample(epsilon=1))[1].counts
    array([1, 0, 0, 2])
    """
    places = list(map(_place, paths))
    found: tuple[Mechanism, Tally] | None = None
    for i, path in enumerate(paths):
        if places[i] in places[:i]:
            raise ParameterError(
                f"{path} is named twice, perhaps by another name: its reports would count double"
            )
        one = _tally_file(path, column, mechanism, simulated, partial(_overall, progress, i, len(paths)))
        found = _added(paths[0], *found, path, *one) if found else one
    if found is None:
        raise ParameterError("paths must name one file of reports or more")
    return found


def _place(path: FilePath) -> object:
    """What is the same for two names of one file."""
    if path == STANDARD or not Path(path).exists():
        return path
    found = Path(path).stat()
    return found.st_dev, found.st_ino


def _overall(progress: Progress, i: int, files: int, part: float) -> None:
    progress((i + part) / files)


def _tally_file(
    path: FilePath, column: str, given: Mechanism | None, simulated: bool, progress: Progress
) -> tuple[Mechanism, Tally]:
    note = read_note(path)
    mechanism = _made_by(path, note, given)
    if note and simulated:
        raise ParameterError(
            f"--simulated is for reports without a note, and the note of {path} says whether they were made"
            " with a seed: leave it out"
        )
    unnoted = SIMULATED if simulated else {}
    tally = mechanism.tally([], note.tally.subject if note else unnoted)
    for piece in read_column(path, column, progress):
        tally += mechanism.tally(_codes(piece, tally.n + 1, path, mechanism), tally.subject)
    if note and tally != note.tally:
        raise ReportError(
            f"the {tally.n:,} codes of {path} are not the {note.tally.n:,} that its note counts: the file is"
            " not complete, or not the one that the note is about"
        )
    return mechanism, tally


def _made_by(path: FilePath, note: Note | None, given: Mechanism | None) -> Mechanism:
    if note is None:
        if given is None:
            there = "standard input has no note" if path == STANDARD else f"there is no {path}.json"
            raise FileError(
                f"{there} to say how the reports were made: name their mechanism (--mechanism, --epsilon and"
                " the range or options)"
            )
        return given
    if given is not None and given != note.mechanism:
        raise ParameterError(
            f"the reports of {path} were made by {note.mechanism!r}, says their note, and not by {given!r}:"
            " leave the mechanism out"
        )
    return note.mechanism


def _codes(piece: list[Any], first_row: int, path: FilePath, mechanism: Mechanism) -> Codes:
    # A float is refused even if it is whole, and so is a truth value: the column may hold answers.
    whole = set(map(type, piece)) <= {int, type(None)}
    known = {code if whole else str(code): code for code in range(mechanism.table.width)}
    codes = list(map(known.get, piece))
    if None in codes:
        raise ReportError(
            f"{row_name(first_row + codes.index(None))} of {called(path)} is no report of {mechanism.name},"
            f" whose reports are integers from 0 to {mechanism.table.width - 1}: is this a file of answers,"
            " or of another mechanism's reports?"
        )
    return np.array(codes, dtype=np.uint8)


def _added(
    first: FilePath, made_by: Mechanism, total: Tally, path: FilePath, other: Mechanism, tally: Tally
) -> tuple[Mechanism, Tally]:
    """The sum so far with one more file's tally; where they do not add up, the error names both files."""
    one, another = called(first), called(path)
    if made_by != other:
        raise ReportError(
            f"{one} was made by {made_by!r}, and {another} by {other!r}: they do not add up, estimate each"
        )
    try:
        return made_by, total + tally
    except ReportError as problem:
        raise ReportError(f"{one} and {another} do not add up, estimate each: {problem}") from None
