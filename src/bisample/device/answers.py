"""Answers as people hold them: a scalar, a list, an array or a column, read into one form.

Missing is a value here: None, NaN, NaT, pandas' NA, masked entries and the nulls of Arrow and Polars
all mean "no answer", and every one of them gets a report. Columns are recognised by what they can do, so
that no dataframe library is imported. No message contains an answer: only its place.
"""

from __future__ import annotations

import decimal
import numbers
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from bisample.errors import AnswerError
from bisample.protocol.canonical import number_of
from bisample.protocol.domain import text_of

__all__ = ["Array", "HeldNumbers", "HeldOptions", "Mask", "is_missing", "read_numbers", "read_options"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Rows: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, repr=False)
class HeldNumbers:
    """Numbers in one dimension; NaN is missing, and so is what the mask marks.

    There is no repr on purpose: answers must not reach a log.
    """

    values: Array
    missing: Mask | None
    scalar: bool

    def __len__(self) -> int:
        return len(self.values)

    def nearest(self, number: float) -> float:
        """The number as the values can hold it: 0.3 in single precision is a little more than 0.3."""
        if self.values.dtype.kind != "f":
            return number
        with np.errstate(over="ignore"):  # an end that half precision cannot reach is infinite there
            return float(self.values.dtype.type(number))

    def to_floats(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """A copy in double precision, with NaN for whatever is missing."""
        values = np.array(self.values, dtype=np.float64)
        if self.missing is not None:
            values[self.missing] = np.nan
        return values


@dataclass(frozen=True, repr=False)
class HeldOptions:
    """The rows of options in one dimension; `len(options)` stands for a missing answer."""

    rows: Rows
    scalar: bool

    def __len__(self) -> int:
        return len(self.rows)


def read_numbers(answers: Any) -> HeldNumbers:
    """Read a scalar, list, array or column of numbers; float64 arrays are not copied.

    >>> column = read_numbers([31, None, float("nan")])
    >>> column.values, column.scalar
    (array([31., nan, nan]), False)
    """
    if answers is None or isinstance(answers, (float, int)):
        return HeldNumbers(np.array([np.nan if answers is None else _float(answers)]), None, True)
    # NumPy's own scalars go on as arrays, which know their precision.
    if not isinstance(answers, np.generic) and isinstance(answers, (numbers.Real, decimal.Decimal)):
        return HeldNumbers(np.array([_number(answers)], dtype=np.float64), None, True)  # None becomes NaN
    array, missing = _as_array(answers)
    if array.dtype.kind == "O":
        array = _numbers_from_objects(array)
    if array.dtype.kind not in "fiub":
        raise AnswerError(f"answers must be numbers, not {_what(array)}: convert the column first")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        with np.errstate(over="ignore", invalid="ignore"):  # becomes infinite, and is refused as such
            array = array.astype(np.float64)
    return HeldNumbers(*_one_dimension(array, missing))


def read_options(answers: object, options: tuple[str, ...]) -> HeldOptions:
    """Read answers that are options of a choice, by their text, as rows; missing is `len(options)`.

    >>> read_options(["tea", None, "2"], ("tea", "2")).rows
    array([0, 2, 1], dtype=uint8)
    >>> read_options(np.array([2.0, np.nan]), ("tea", "2")).rows
    array([1, 2], dtype=uint8)
    """
    rows: dict[str | None, int] = {option: row for row, option in enumerate(options)}
    if answers is None or isinstance(answers, (str, bytes, numbers.Real, decimal.Decimal)):
        return HeldOptions(_rows_of([answers], rows), True)
    if _is_categorical(answers):
        return HeldOptions(_from_categories(answers, rows), False)
    large = any(_is_large(option) for option in options)
    listed = None if isinstance(answers, (np.ndarray, np.generic)) else _lister(answers)
    if listed is not None and (large or getattr(getattr(answers, "dtype", None), "kind", "") == "b"):
        # Columns turn whole numbers and truth values with a null among them into floats, and a float is
        # neither a truth value nor every whole number.
        return HeldOptions(_rows_of(listed(), rows), False)
    array, missing = _as_array(answers)
    array, missing, scalar = _one_dimension(array, missing)
    if array.dtype.kind in "fiub" and not large:
        return HeldOptions(_numeric_rows(array, missing, rows), scalar)
    # tolist() would turn times in nanoseconds into whole numbers.
    held = list(array) if array.dtype.kind in "mM" else array.tolist()
    if missing is not None:
        held = [None if absent else value for value, absent in zip(held, missing.tolist(), strict=True)]
    return HeldOptions(_rows_of(held, rows), scalar)


def is_missing(value: object) -> bool:
    """Whether a single object says "no answer": None, a masked entry, or a value unequal to itself.

    >>> is_missing(None), is_missing(float("nan")), is_missing("")
    (True, True, False)
    """
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, decimal.Decimal):
        return value.is_nan()  # a signalling NaN cannot be compared
    try:
        return bool(value != value)  # noqa: PLR0124 - NaN, NaT
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"  # pandas' NA has no truth value


# --- Containers -------------------------------------------------------------------------------------


def _as_array(answers: object) -> tuple[Array, Mask | None]:
    """A NumPy array of the answers, and a mask where the container has one."""
    if isinstance(answers, np.ma.MaskedArray):
        # What lies under a mask is no answer and may be anything: nothing may look at it.
        mask = None if answers.mask is np.ma.nomask else np.ma.getmaskarray(answers)
        if answers.dtype.kind in "fiub":
            return answers.data, mask
        boxed = answers.data.astype(object)
        if mask is not None:
            boxed[mask] = None
        return boxed, None
    if not hasattr(answers, "__len__") and is_missing(answers):  # a NaT by itself
        return np.array(None, dtype=object), None
    if hasattr(getattr(answers, "type", None), "index_type"):
        # Arrow's dictionaries in chunks lose their nulls in to_numpy(): they become the last entry.
        answers = cast("Any", answers).cast(cast("Any", answers).type.value_type)
    if hasattr(answers, "to_numpy"):
        return _column_as_array(answers, answers.to_numpy), None
    if hasattr(answers, "__array__"):
        return np.asarray(answers), None
    if isinstance(answers, AbstractSet):
        raise AnswerError(
            "answers must be in a list, not in a set: who holds the same as somebody else is lost in a set"
        )
    if isinstance(answers, (str, bytes, bytearray, Mapping)) or not isinstance(answers, Iterable):
        raise AnswerError(f"answers must be numbers or options, not {type(answers).__name__}")
    # One object each: NumPy would turn [1, "2"] into text and [[1], [2, 3]] into an error of its own.
    listed = list(answers)
    boxed = np.empty(len(listed), dtype=object)
    boxed[:] = listed
    return boxed, None


def _lister(column: object) -> Callable[[], list[Any]] | None:
    """The method of Arrow, of Polars and pandas, or of pandas' arrays that gives Python's own values."""
    found = (getattr(column, name, None) for name in ("to_pylist", "to_list", "tolist"))
    return next(filter(None, found), None)


def _column_as_array(column: Any, convert: Any) -> Array:
    """The `to_numpy` of pandas, Polars and Arrow, whose arguments differ."""
    dtype: Any = getattr(column, "dtype", None)
    if hasattr(dtype, "na_value") and getattr(dtype, "kind", "O") in "fiub":  # pandas' nullable numbers
        precision = f"f{getattr(dtype, 'itemsize', 8)}" if dtype.kind == "f" else "f8"
        return np.asarray(convert(dtype=precision, na_value=np.nan))
    for arguments in ({}, {"zero_copy_only": False}):
        try:
            return np.asarray(convert(**arguments))
        except Exception:  # noqa: BLE001, S112 - each library has its own, and its text may hold an answer
            continue
    raise AnswerError("this column cannot be turned into a NumPy array: convert it to numbers or text first")


def _one_dimension(array: Array, missing: Mask | None) -> tuple[Array, Mask | None, bool]:
    if array.ndim == 0:
        return array.reshape(1), None if missing is None else missing.reshape(1), True
    if array.ndim > 1:
        raise AnswerError(
            f"answers must have one dimension, not {array.ndim}: privatize one question (column) at a time"
        )
    return array, missing, False


def _what(array: Array) -> str:
    kinds = {"U": "text", "S": "bytes", "T": "text", "M": "dates", "m": "durations", "c": "complex numbers"}
    return kinds.get(array.dtype.kind, f"{array.dtype.name} values")


# --- Numbers ----------------------------------------------------------------------------------------

_PLAIN = {float, int, bool, type(None)}
_PRECISIONS: dict[frozenset[type], type[np.floating[Any]]] = {
    frozenset({kind}): kind for kind in (np.float16, np.float32)
}


def _numbers_from_objects(array: Array) -> Array:
    """An object array of numbers and missing entries as floats; text is refused, even "42"."""
    values = array.reshape(-1).tolist()
    kinds = set(map(type, values))
    precision = _PRECISIONS.get(frozenset(kinds - {type(None)}), np.float64)
    if not kinds <= _PLAIN:
        values = [_number(value, index) for index, value in enumerate(values)]
    try:
        return np.array(values, dtype=precision).reshape(array.shape)  # None becomes NaN
    except OverflowError:
        pass  # raised below, as always
    for index, value in enumerate(values):
        _float(0 if value is None else value, index)
    raise AnswerError("answers must be numbers in double precision")


def _number(value: Any, index: int | None = None) -> float | None:
    if is_missing(value):
        return None
    # NumPy calls a duration a whole number.
    if not isinstance(value, np.timedelta64) and isinstance(value, (numbers.Real, decimal.Decimal, np.bool_)):
        return _float(value, index)
    if index is None:
        raise AnswerError(f"answers must be numbers, not {type(value).__name__}: convert them first")
    raise AnswerError("is no number but text or another type: convert the column first", index)


def _float(value: Any, index: int | None = None) -> float:
    try:
        return float(value)
    except OverflowError:
        pass  # raised below: what Python attaches to an error raised here could hold the answer
    raise AnswerError("is too large for a number in double precision", index or 0)


# --- Options ----------------------------------------------------------------------------------------


def _rows_of(values: list[Any], rows: Mapping[str | None, int]) -> Rows:
    found = np.empty(len(values), dtype=np.uint8)
    absent = len(rows)
    for i, value in enumerate(values):
        row = rows.get(value if type(value) is str else text_of(value))
        if row is None:
            if not is_missing(value):
                raise _unknown_option(rows, i)
            row = absent
        found[i] = row
    return found


def _numeric_rows(array: Array, missing: Mask | None, rows: Mapping[str | None, int]) -> Rows:
    """Rows of numbers among those options that are numbers, in blocks that stay in the cache."""
    if array.dtype.kind == "b":
        known = {float(truth): rows[text] for truth, text in enumerate(("false", "true")) if text in rows}
    else:
        known = {number: row for text, row in rows.items() if (number := _as_number(text)) is not None}
    ordered = np.array(sorted(known) or [0.0])
    row_of = np.array([known.get(number, -1) for number in ordered] + [len(rows)], dtype=np.int16)
    absent_at = len(ordered)
    # Options that are near to each other as whole numbers are found by index, others by bisection.
    low, span = ordered[0], ordered[-1] - ordered[0]
    by_index = bool(np.all(ordered == np.floor(ordered))) and span < 4096
    if by_index:
        slot = np.full(int(span) + 1, -1, dtype=np.int16)
        slot[(ordered - low).astype(np.intp)] = np.arange(len(ordered))
    found = np.empty(len(array), dtype=np.uint8)
    for start in range(0, len(array), _BLOCK):
        with np.errstate(invalid="ignore", over="ignore"):
            block = array[start : start + _BLOCK].astype(np.float64)
        absent = np.isnan(block)
        if missing is not None:
            absent |= missing[start : start + _BLOCK]
        block[absent] = low
        if by_index:
            np.clip(block, low, ordered[-1], out=block)
            at = slot[(block - low).astype(np.intp)]
        else:
            at = np.minimum(np.searchsorted(ordered, block), len(ordered) - 1).astype(np.int16)
        with np.errstate(invalid="ignore", over="ignore"):
            wrong = (at < 0) | (ordered[at] != array[start : start + _BLOCK]) | (row_of[at] < 0)
        wrong &= ~absent
        if wrong.any():
            raise _unknown_option(rows, start + int(wrong.argmax()))
        at[absent] = absent_at
        found[start : start + _BLOCK] = row_of[at]
    return found


_BLOCK = 65_536


def _is_large(option: str) -> bool:
    """Whether an option is the text of a whole number that not every double tells from its neighbours."""
    digits = option.removeprefix("-")
    return digits.isdecimal() and (len(digits) > 16 or int(digits) >= 2**53)


def _as_number(option: str | None) -> float | None:
    """The number that an option is the text of, if it is one."""
    try:
        return number_of(option)
    except ValueError:
        return None


def _is_categorical(answers: object) -> bool:
    return hasattr(answers, "cat") and hasattr(getattr(answers, "cat", None), "categories")


def _from_categories(answers: Any, rows: Mapping[str | None, int]) -> Rows:
    """pandas' categoricals: look up each category once. A category nobody chose need not be an option."""
    codes = np.asarray(answers.cat.codes)
    used = np.unique(codes[codes >= 0])
    known = np.full(len(answers.cat.categories) + 1, len(rows), dtype=np.uint8)
    for code in used:
        row = rows.get(text_of(answers.cat.categories[code]))
        if row is None:
            raise _unknown_option(rows, int((codes == code).argmax()))
        known[code] = row
    found: Rows = known[codes]  # -1, a missing entry, is the last
    return found


def _unknown_option(rows: Mapping[str | None, int], index: int) -> AnswerError:
    options = ", ".join(map(str, list(rows)[:8])) + ", ..." * (len(rows) > 8)
    return AnswerError(
        f"is not among the options {options}: add it to the options, or replace it by None to decline", index
    )
