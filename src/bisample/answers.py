"""Answers as people hold them, and what they may be: a range, or a few options.

A scalar, a list, an array or a column is read into one form, with what is missing marked.

Missing is a value here: None, NaN, NaT, pandas' NA, masked entries and the nulls of Arrow and Polars
all mean "no answer", and every one of them gets a report. Columns are recognised by what they can
do, so that no dataframe library is imported. No message contains an answer.
"""

from __future__ import annotations

import decimal
import math
import numbers
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from .errors import AnswerError, ParameterError
from .exact import real
from .table import NO_ANSWER

__all__ = [
    "Array",
    "Mask",
    "Numbers",
    "Options",
    "check_options",
    "check_range",
    "is_missing",
    "read_numbers",
    "read_options",
]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, repr=False)
class Numbers:
    """Numbers in one dimension; NaN is missing, and so is what the mask marks.

    There is no repr on purpose: answers must not reach a log.
    """

    values: Array
    missing: Mask | None
    scalar: bool

    def __len__(self) -> int:
        return len(self.values)

    def to_floats(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """A copy in double precision, with NaN for whatever is missing."""
        values = np.array(self.values, dtype=np.float64)
        if self.missing is not None:
            values[self.missing] = np.nan
        return values


@dataclass(frozen=True, repr=False)
class Options:
    """Option numbers in one dimension; `len(options)` stands for a missing answer."""

    rows: np.ndarray[Any, np.dtype[np.uint8]]
    scalar: bool

    def __len__(self) -> int:
        return len(self.rows)


def read_numbers(answers: object) -> Numbers:
    """Read a scalar, list, array or column of numbers; float64 arrays are not copied.

    >>> column = read_numbers([31, None, float("nan")])
    >>> column.values, column.scalar
    (array([31., nan, nan]), False)
    """
    if answers is None or isinstance(answers, (float, int)):
        return Numbers(np.array([np.nan if answers is None else _float(answers)]), None, True)
    if isinstance(answers, (numbers.Real, decimal.Decimal)):
        return Numbers(np.array([_number(answers)], dtype=np.float64), None, True)  # None becomes NaN
    array, missing = _as_array(answers)
    if array.dtype.kind == "O":
        array = _numbers_from_objects(array)
    if array.dtype.kind not in "fiub":
        raise AnswerError(f"answers must be numbers, not {_what(array)}: convert the column first")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        with np.errstate(over="ignore", invalid="ignore"):  # becomes infinite, and is refused as such
            array = array.astype(np.float64)
    return Numbers(*_one_dimension(array, missing))


def read_options(answers: object, options: tuple[Hashable, ...]) -> Options:
    """Read answers that are options of a choice, as their positions; missing is `len(options)`.

    >>> read_options(["tea", None, "coffee"], ("coffee", "tea")).rows
    array([1, 2, 0], dtype=uint8)
    """
    position = {option: i for i, option in enumerate(options)}
    if answers is None or isinstance(answers, (str, bytes, numbers.Real)):
        return Options(_positions([answers], position), True)
    if _is_categorical(answers):
        return Options(_from_categories(answers, position), False)
    if any(_is_inexact(option) for option in options):
        # Columns turn whole numbers with a null among them into floats, which cannot hold such options.
        listed = getattr(answers, "to_pylist", None) or getattr(answers, "to_list", None)
        if listed is not None:
            return Options(_positions(listed(), position), False)
    array, missing = _as_array(answers)
    array, missing, scalar = _one_dimension(array, missing)
    if array.dtype.kind in "fiub" and all(map(_is_exact, options)):
        return Options(_numeric_positions(array, missing, options), scalar)
    held = array.tolist()
    if missing is not None:
        held = [None if absent else value for value, absent in zip(held, missing.tolist(), strict=True)]
    return Options(_positions(held, position), scalar)


def _is_exact(option: Any) -> bool:
    """Whether a float holds this number, and no other whole number: 2**53 + 1 is no float."""
    if not isinstance(option, numbers.Real):
        return False
    number: Any = option
    return bool(-(2**53) < number < 2**53 and float(number) == number)


def _is_inexact(option: Any) -> bool:
    return isinstance(option, numbers.Real) and not _is_exact(option)


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
    if isinstance(answers, (str, bytes, bytearray, Mapping)) or not isinstance(answers, Iterable):
        raise AnswerError(f"answers must be numbers or options, not {type(answers).__name__}")
    # One object each: NumPy would turn [1, "2"] into text and [[1], [2, 3]] into an error of its own.
    listed = list(answers)
    boxed = np.empty(len(listed), dtype=object)
    boxed[:] = listed
    return boxed, None


def _column_as_array(column: Any, convert: Any) -> Array:
    """The `to_numpy` of pandas, Polars and Arrow, whose arguments differ."""
    dtype = getattr(column, "dtype", None)
    if hasattr(dtype, "na_value") and getattr(dtype, "kind", "O") in "fiub":  # pandas' nullable numbers
        return np.asarray(convert(dtype=np.float64, na_value=np.nan))
    for arguments in ({}, {"zero_copy_only": False}):
        try:
            return np.asarray(convert(**arguments))
        except (TypeError, ValueError):
            continue
        except Exception as problem:
            # Arrow's own error says "needs copy" and is no ValueError in every version.
            if type(problem).__module__.partition(".")[0] != "pyarrow":
                raise
    raise AnswerError("this column cannot be turned into a NumPy array: convert it to numbers or text first")


def _one_dimension(array: Array, missing: Mask | None) -> tuple[Array, Mask | None, bool]:
    if array.ndim == 0:
        return array.reshape(1), None if missing is None else missing.reshape(1), True
    if array.ndim > 1:
        raise AnswerError(
            f"answers must have one dimension, not {array.ndim}: privatize one question (column) at a time"
        )
    return array, missing, False


def is_missing(value: object) -> bool:
    """Whether a single object says "no answer": None, a masked entry, or a value unequal to itself."""
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, decimal.Decimal):
        return value.is_nan()  # a signalling NaN cannot be compared
    try:
        return bool(value != value)  # noqa: PLR0124 - NaN, NaT
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"  # pandas' NA has no truth value


def _numbers_from_objects(array: Array) -> Array:
    """An object array of numbers and missing entries as float64; text is refused, even "42"."""
    values = array.reshape(-1).tolist()
    if not set(map(type, values)) <= _PLAIN:
        values = [_number(value) for value in values]
    try:
        return np.array(values, dtype=np.float64).reshape(array.shape)  # None becomes NaN
    except OverflowError:
        raise _too_large() from None


_PLAIN = {float, int, bool, type(None)}


def _number(value: Any) -> float | None:
    if is_missing(value):
        return None
    # NumPy calls a duration a whole number.
    if not isinstance(value, np.timedelta64) and isinstance(value, (numbers.Real, decimal.Decimal, np.bool_)):
        return _float(value)
    raise AnswerError("answers must be numbers; one is text or another type: convert the column first")


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise _too_large() from None


def _too_large() -> AnswerError:
    return AnswerError("an answer is too large for a number in double precision")


def _positions(values: list[Any], position: Mapping[Hashable, int]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    rows = np.empty(len(values), dtype=np.uint8)
    absent = len(position)
    for i, value in enumerate(values):
        try:
            found = position.get(value)
        except (TypeError, ValueError):  # not hashable, so no option
            found = None
        if found is None:
            if not is_missing(value):
                raise _unknown_option()
            found = absent
        rows[i] = found
    return rows


def _numeric_positions(
    array: Array, missing: Mask | None, options: tuple[Hashable, ...]
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Positions of numbers among a few numeric options, in blocks that stay in the cache."""
    known = np.array([float(option) for option in options])  # type: ignore[arg-type]  # Real, by the caller
    order = np.argsort(known)
    known = known[order]
    order = np.concatenate([order, [len(options)]]).astype(np.uint8)
    rows = np.empty(len(array), dtype=np.uint8)
    # Options that are near to each other as whole numbers are found by index, others by bisection.
    low, span = known[0], known[-1] - known[0]
    by_index = bool(np.all(known == np.floor(known))) and span < 4096
    if by_index:
        slot = np.full(int(span) + 1, -1, dtype=np.int16)
        slot[(known - low).astype(np.intp)] = np.arange(len(known))
    for start in range(0, len(array), _BLOCK):
        with np.errstate(invalid="ignore", over="ignore"):
            block = array[start : start + _BLOCK].astype(np.float64)
        absent = np.isnan(block)
        if missing is not None:
            absent |= missing[start : start + _BLOCK]
        block[absent] = low
        if by_index:
            np.clip(block, low, known[-1], out=block)
            at = slot[(block - low).astype(np.intp)]
        else:
            at = np.minimum(np.searchsorted(known, block), len(known) - 1).astype(np.int16)
        with np.errstate(invalid="ignore", over="ignore"):
            wrong = (at < 0) | (known[at] != array[start : start + _BLOCK])
        if np.any(wrong & ~absent):
            raise _unknown_option()
        at[absent] = len(known)
        rows[start : start + _BLOCK] = order[at]
    return rows


_BLOCK = 65_536


def _is_categorical(answers: object) -> bool:
    return hasattr(answers, "cat") and hasattr(getattr(answers, "cat", None), "categories")


def _from_categories(answers: Any, position: Mapping[Hashable, int]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """pandas' categoricals: look up each category once. A category nobody chose need not be an option."""
    codes = np.asarray(answers.cat.codes)
    used = np.unique(codes[codes >= 0])
    rows = np.full(len(answers.cat.categories) + 1, len(position), dtype=np.uint8)
    rows[used] = _positions([answers.cat.categories[i] for i in used], position)
    found: np.ndarray[Any, np.dtype[np.uint8]] = rows[codes]  # -1, a missing entry, is the last
    return found


def _unknown_option() -> AnswerError:
    return AnswerError(
        "an answer is not among the options: add it to options=[...], or replace it by None to decline"
    )


def _what(array: Array) -> str:
    kinds = {"U": "text", "S": "bytes", "T": "text", "M": "dates", "m": "durations", "c": "complex numbers"}
    return kinds.get(array.dtype.kind, f"{array.dtype.name} values")


def check_range(lower: float, upper: float) -> tuple[float, float]:
    """lower and upper as floats, or an error that says what is wrong with them.

    >>> check_range(90, 17)
    Traceback (most recent call last):
    bisample.errors.ParameterError: lower must be less than upper, and both finite numbers: not 90 and 17
    """
    low, high = real(lower), real(upper)
    if not -math.inf < low < high < math.inf:
        raise ParameterError(
            f"lower must be less than upper, and both finite numbers: not {lower!r} and {upper!r}"
        )
    size = max(abs(low), abs(high))
    if not (1e-9 * size < high - low < 1e300 and high - low > 1e-280):
        raise ParameterError(
            "upper - lower is too small or too large for double precision: shift or scale the values"
        )
    return low, high


def check_options(options: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """The options as a tuple, or an error that says what is wrong with them.

    >>> check_options(["tea", "coffee"])
    ('tea', 'coffee')
    """
    if isinstance(options, (str, bytes, AbstractSet, Mapping)):  # a set has another order in every process
        raise ParameterError(
            f"options must be a list such as ['yes', 'no'], in an order, not a {type(options).__name__}"
        )
    try:
        # NumPy's scalars become Python's, so that a mechanism's description survives JSON.
        listed = tuple(o.item() if isinstance(o, np.generic) else o for o in options)
    except TypeError:
        listed = (object,)
    if not all(is_missing(o) or isinstance(o, (str, int, float)) for o in listed):
        raise ParameterError("options must be a list of texts, numbers or booleans")
    if not 2 <= len(listed) <= 255:
        raise ParameterError(f"a choice has 2 to 255 options, not {len(listed)}")
    texts = {str(o) for o in listed}
    if len(texts) < len(listed) or len(set(listed)) < len(listed) or any(map(is_missing, listed)):
        raise ParameterError(
            "options must differ, also as text, and none may be None or NaN: declining needs no option"
        )
    if NO_ANSWER in texts:
        raise ParameterError(f"an option may not be called {NO_ANSWER!r}: declining needs no option")
    return listed
