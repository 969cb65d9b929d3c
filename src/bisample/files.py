"""Columns of CSV and Parquet files, read in pieces: answers, or reports.

What is misread is answers lost or people made up, so that whatever is doubtful is an error: one that
names the row or the line, and never shows what stands there. The path "-" is standard input.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import IO, Any, TextIO, TypeAlias

import numpy as np

from bisample.errors import AnswerError, BisampleError, FileError, MissingExtraError

__all__ = [
    "PARQUET",
    "STANDARD",
    "FilePath",
    "Progress",
    "bytes_of",
    "called",
    "named_rows",
    "numbers_from_text",
    "pyarrow_parquet",
    "read_column",
    "row_name",
]

FilePath: TypeAlias = str | Path
Progress: TypeAlias = Callable[[float], None]

STANDARD = "-"  # as a text; Path("-") is a file of that name
PARQUET = {".parquet", ".pq"}

_ROWS = 131_072
_LONGEST_LINE = 1 << 24  # what has no line ends, such as a device, must not fill the memory
_OTHER_FORMATS = (b"PK\3\4", b"PAR1")  # xlsx, ods and other archives; Parquet under another name
_MISSING_TEXTS = frozenset({"", "na", "n/a", "nan", "nat", "null", "none", "<na>"})


# --- Columns ----------------------------------------------------------------------------------------


def read_column(
    path: FilePath, column: str, progress: Progress = lambda _: None, answers: Collection[str] = ()
) -> Iterator[list[Any]]:
    r"""Pieces of one column: texts of a CSV file, values of a Parquet file. None is a missing entry.

    `progress` is told the part of the file that has been read, from 0 to 1. `answers` are texts that are
    answers even where they read like a missing entry, such as an option "none". In a file of one column
    an empty line is a missing entry, unless it is the file's last line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "people.csv"
    ...     _ = path.write_text("name,age\nA,31\nB,\n")
    ...     list(read_column(path, "age"))
    [['31', None]]
    """
    # The errors are raised outside of the handlers: what Python attaches to an error raised inside one can
    # hold the bytes that were read.
    try:
        if path != STANDARD and Path(path).suffix.lower() in PARQUET:
            yield from _read_parquet(Path(path), column, progress, answers)
        else:
            yield from _read_csv(path, column, progress, answers)
    except BisampleError:
        raise
    except FileNotFoundError:
        problem = f"there is no file {path}"
    except UnicodeDecodeError:
        problem = f"{called(path)} is not UTF-8 text: save it as UTF-8 CSV, or as Parquet"
    except OSError as failed:
        problem = f"{called(path)} cannot be read: {failed.strerror or type(failed).__name__}"
    else:
        return
    raise FileError(problem)


def called(path: FilePath) -> str:
    """What to call a path in a message.

    >>> called("people.csv"), called(STANDARD)
    ('people.csv', 'standard input')
    """
    return "standard input" if path == STANDARD else str(path)


def bytes_of(stream: TextIO | None, name: str) -> IO[bytes]:
    """The bytes below a standard stream, which is None where the process was started without one.

    >>> bytes_of(None, "standard input")
    Traceback (most recent call last):
    bisample.errors.FileError: standard input is closed: name a file instead
    """
    if stream is None:
        raise FileError(f"{name} is closed: name a file instead")
    return stream.buffer


def _read_csv(
    path: FilePath, column: str, progress: Progress, answers: Collection[str]
) -> Iterator[list[Any]]:
    with _opened(path) as (raw, size), _text(raw) as text:
        if isinstance(raw, io.BufferedReader) and raw.peek(4).startswith(_OTHER_FORMATS):
            raise FileError(
                f"{called(path)} is no CSV text: save it as CSV (UTF-8), or as Parquet (.parquet)"
            )
        cells = _cells(path, column, text)
        while piece := _entries(islice(cells, _ROWS), answers):
            yield piece
            if size:
                progress(raw.tell() / size)


@contextmanager
def _opened(path: FilePath) -> Iterator[tuple[IO[bytes], int]]:
    """The bytes of a file, and how many they are; 0 where that is not known."""
    if path == STANDARD:
        yield bytes_of(sys.stdin, called(path)), 0
    else:
        with Path(path).open("rb") as raw:
            yield raw, os.fstat(raw.fileno()).st_size


@contextmanager
def _text(raw: IO[bytes]) -> Iterator[io.TextIOWrapper]:
    text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
    try:
        yield text
    finally:
        text.detach()  # who opened the bytes closes them


def _cells(path: FilePath, column: str, text: io.TextIOWrapper) -> Iterator[str]:
    """The cells of one column of a CSV file, as they stand there."""
    # Strict, because otherwise a quote that is left open takes in all the people after it.
    reader = csv.reader(_lines(path, text), strict=True)
    row, empty = -1, 0
    try:
        names = next(reader, None)
        if names is None:
            raise FileError(f"{called(path)} is empty: its first line must name the columns")
        at, width, row = _position(path, column, names), len(names), 0
        for cells in reader:
            if len(cells) != width:
                if cells:
                    raise FileError(
                        f"line {reader.line_num} of {called(path)} has {len(cells)} cells and the header has"
                        f" {width}: is there a comma in a number or a text without quotes?"
                    )
                _check_empty_line(path, reader.line_num, text.newlines)
                empty += 1
                continue
            if empty:
                if width > 1:
                    raise FileError(
                        f"{called(path)} has an empty line before line {reader.line_num}: remove it, or fill"
                        " in its commas"
                    )
                yield from repeat("", empty)
                row, empty = row + empty, 0
            row += 1
            yield cells[at]
        if width == 1:
            # The last line of a file may be empty, and nobody stands there; those before it are people.
            yield from repeat("", empty - 1)
    except csv.Error as broken:  # it quotes nothing of the file
        problem = str(broken)
    else:
        return
    where = "the header" if row < 0 else row_name(row + empty + 1)
    raise FileError(f"{called(path)} is not a CSV file: {problem}, in {where}: is a quote left open?")


def _lines(path: FilePath, text: io.TextIOWrapper) -> Iterator[str]:
    for number, line in enumerate(iter(partial(text.readline, _LONGEST_LINE), ""), start=1):
        if len(line) == _LONGEST_LINE:
            raise FileError(
                f"line {number} of {called(path)} has {_LONGEST_LINE:,} characters or more: is it CSV text?"
            )
        yield line


def _check_empty_line(path: FilePath, line: int, line_ends: str | tuple[str, ...] | None) -> None:
    """Refuse an empty line that may be half of a line end: each would be taken for a person who declines."""
    if isinstance(line_ends, tuple) and "\r" in line_ends:
        raise FileError(
            f"line {line} of {called(path)} is empty, and the file mixes line ends (such as \\r\\r\\n):"
            " save it again with one kind of them"
        )


def _entries(cells: Iterable[str], answers: Collection[str]) -> list[str | None]:
    """Texts as they are to be read: None where one says that there is no answer."""
    return [
        None if text.lower() in _MISSING_TEXTS and text not in answers else text
        for text in map(str.strip, cells)
    ]


def _read_parquet(
    path: Path, column: str, progress: Progress, answers: Collection[str]
) -> Iterator[list[Any]]:
    parquet = pyarrow_parquet()
    if path.stat().st_size == 0 and path.is_file():
        raise FileError(f"{path} is empty: it is no Parquet file")
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
        kind = schema.field(
            _position(path, column, schema.names, f"name one of the {len(schema.names)} it has")
        ).type
        textual = _is_of(kind, "string", "large_string")
        if not (textual or _is_of(kind, "boolean", "integer", "floating", "decimal", "null")):
            raise FileError(
                f"column {column!r} of {path} holds {kind}: convert it to numbers, texts or booleans"
            )
        total, done = max(1, source.metadata.num_rows), 0
        for batch in source.iter_batches(batch_size=_ROWS, columns=[column]):
            cells = batch.column(0)
            if _is_of(kind, "float16", "float32"):  # as NumPy's, which know how coarse they are
                held = list(cells.to_numpy(zero_copy_only=False))
            else:
                held = cells.to_pylist()
            yield _entries(["" if text is None else text for text in held], answers) if textual else held
            done += batch.num_rows
            progress(done / total)


def _is_of(kind: Any, *tests: str) -> bool:
    """Whether a column of this Arrow type holds one of these kinds, in a dictionary or not."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(getattr(pa.types, f"is_{test}")(kind) for test in tests)


def _position(
    path: FilePath, column: str, names: list[str], hint: str = "does its first line name the columns?"
) -> int:
    if names.count(column) == 1:
        return names.index(column)
    if column in names:
        raise FileError(
            f"{called(path)} has {names.count(column)} columns {column!r}: give them different names"
        )

    def bare(name: str) -> str:
        return "".join(filter(str.isalnum, name)).lower()

    # A name is shown only where it is the one asked for but for case, spaces and signs: in a file without
    # a header the first line is somebody's answers.
    alike = [name for name in names if bare(name) and bare(name) == bare(column)]
    if alike:
        hint = f"did you mean {alike[0]!r}?"
    elif len(names) == 1 and any(sign in names[0] for sign in ";\t"):
        hint = "its columns seem to be separated by other signs than commas: save it with commas"
    raise FileError(f"{called(path)} has no column {column!r}: {hint}")


# --- Entries ----------------------------------------------------------------------------------------


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
        if _is_plain_decimal("".join(texts)):
            return np.array(texts, dtype=object).astype(np.float64)
    except (TypeError, ValueError):
        pass  # raised below: what Python attaches to an error raised here would hold the entry
    row = next(row for row, text in enumerate(texts, start=first_row) if not _is_number(text))
    raise AnswerError(
        f"{row_name(row)} is not a number: correct it (digits and a decimal point, no comma), or leave it"
        " empty to decline"
    )


def _is_plain_decimal(text: str) -> bool:
    """Whether a text has neither of the two kinds of digits that `float` reads beyond ASCII decimals."""
    return text.isascii() and "_" not in text


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return isinstance(text, str) and _is_plain_decimal(text)


@contextmanager
def named_rows(first_row: int) -> Iterator[None]:
    """Makes an error about an answer in a piece of a column name its row in the file, from 1.

    >>> with named_rows(101):
    ...     raise AnswerError("lies outside [0, 100]", index=2)
    Traceback (most recent call last):
    bisample.errors.AnswerError: row 103 (the header not counted) lies outside [0, 100]
    """
    try:
        yield
    except AnswerError as problem:
        if problem.index is None:
            raise
        named = AnswerError(f"{row_name(first_row + problem.index)} {problem.problem}")
    else:
        return
    raise named


def row_name(row: int) -> str:
    """What to call a row of a file in a message.

    >>> row_name(734112)
    'row 734,112 (the header not counted)'
    """
    return f"row {row:,} (the header not counted)"


def pyarrow_parquet() -> Any:
    """The module, or an error with the command that installs it.

    >>> pyarrow_parquet().__name__
    'pyarrow.parquet'
    """
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("reading and writing Parquet", "parquet") from None
    return pyarrow.parquet
