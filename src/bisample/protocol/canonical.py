"""Canonical JSON and its digest: one text for one value, in every language.

A subset of RFC 8785: integers below 2**53, texts without lone surrogates, true and false, lists, and
objects with ASCII keys. There are no other numbers and there is no null. A number that may have a
fraction is a decimal text as JavaScript's `String(number)` writes it, without an exponent, so that two
languages never disagree about a digit.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any, NoReturn

from bisample.errors import FormatError, ParameterError, shown

from .exact import real

__all__ = ["LARGEST_INTEGER", "canonical", "decimal_text", "digest", "number_of", "parse", "take"]

LARGEST_INTEGER = 2**53 - 1  # what a double, and so JavaScript, holds exactly with both neighbours
_LEAST, _LARGEST = 1e-6, 1e21  # between them JavaScript writes no exponent


def canonical(value: Any) -> bytes:
    r"""The canonical bytes of a value: keys sorted, no spaces, UTF-8.

    >>> canonical({"b": [1, True], "a": "é\n"}).decode()
    '{"a":"é\\n","b":[1,true]}'
    >>> canonical({"a": 0.5})
    Traceback (most recent call last):
    bisample.errors.FormatError: canonical JSON has no float: write a number with a fraction as a decimal text
    """
    try:
        _check(value)
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise _too_deep() from None
    return text.encode()


def digest(value: Any) -> str:
    """SHA-256 of the canonical bytes, in hex: what agrees on it agrees on the value.

    >>> digest({})[:16]
    '44136fa355b3678a'
    """
    import hashlib  # slow to import, and who only draws needs none

    return hashlib.sha256(canonical(value)).hexdigest()


def parse(data: str | bytes) -> Any:
    """The value of a JSON text in any layout, if canonical JSON could say it; else an error that says why.

    >>> parse('{"a": [1, "0.5"]}')
    {'a': [1, '0.5']}
    >>> parse('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    bisample.errors.FormatError: the key 'a' stands twice in one object
    """
    if not isinstance(data, (str, bytes, bytearray)):
        raise FormatError(f"JSON is a text or bytes, not a {type(data).__name__}")
    try:
        text = data if isinstance(data, str) else bytes(data).decode()
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_no_float,
            parse_constant=_no_float,
        )
        _check(value)
    except UnicodeDecodeError:
        raise FormatError("not UTF-8 text") from None
    except json.JSONDecodeError as problem:
        raise FormatError(f"not JSON: {problem.msg} in line {problem.lineno}") from None
    except RecursionError:
        raise _too_deep() from None
    return value


def take(value: Any, what: str, /, **kinds: type) -> list[Any]:
    """The fields of an object that has exactly these, each of its type, in the order asked for.

    >>> take({"b": 1, "a": "x"}, "a pair", a=str, b=int)
    ['x', 1]
    >>> take({"a": "x"}, "a pair", a=str, b=int)
    Traceback (most recent call last):
    bisample.errors.FormatError: a pair must have the field 'b'
    """
    if not isinstance(value, dict):
        raise FormatError(f"{what} must be an object, not {_kind(value)}")
    for name, kind in kinds.items():
        if name not in value:
            raise FormatError(f"{what} must have the field {shown(name)}")
        # Python's True is an int; JSON's true is none.
        if not isinstance(value[name], kind) or (kind is int and isinstance(value[name], bool)):
            raise FormatError(f"{shown(name)} of {what} must be {_NAMES[kind]}, not {_kind(value[name])}")
    for name in value:
        if name not in kinds:
            raise FormatError(f"{what} has no field {shown(name)}, only {', '.join(kinds)}")
    return [value[name] for name in kinds]


def decimal_text(value: float, what: str = "a number") -> str:
    """A number as JavaScript writes it: the shortest decimal that is read back as the same double.

    >>> decimal_text(50.0), decimal_text(0.1), decimal_text(-1e20), decimal_text(2**-10)
    ('50', '0.1', '-100000000000000000000', '0.0009765625')
    >>> decimal_text(1e-7)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    bisample.errors.ParameterError: a number must be 0 or from 0.000001 to below 10^21 in size, not 1e-07: ...
    """
    number = real(value)
    if not (number == 0 or _LEAST <= abs(number) < _LARGEST):  # NaN is neither
        raise ParameterError(
            f"{what} must be 0 or from 0.000001 to below 10^21 in size, not {shown(value)}:"
            " choose another unit"
        )
    return _decimal_text(number)


def _decimal_text(number: float) -> str:
    text = format(Decimal(repr(number)), "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def number_of(text: Any, what: str = "a number") -> float:
    """The double that a decimal text stands for; any other way to write it is refused.

    >>> number_of("0.5")
    0.5
    >>> number_of("50.0", "lower")
    Traceback (most recent call last):
    bisample.errors.FormatError: lower must be a decimal text such as "0.5", "50" or "-3", not '50.0'
    """
    try:
        number = float(text) if isinstance(text, str) else math.nan
        if decimal_text(number) == text:
            return number
    except ValueError:
        pass
    raise FormatError(f'{what} must be a decimal text such as "0.5", "50" or "-3", not {shown(text)}')


_NAMES: dict[type, str] = {
    str: "a text",
    int: "an integer",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def _kind(value: Any) -> str:
    return "null" if value is None else _NAMES.get(type(value), type(value).__name__)


def _too_deep() -> FormatError:
    return FormatError("lists or objects are nested too deep")


def _check(value: Any) -> None:
    if isinstance(value, (list, tuple)):
        for part in value:
            _check(part)
    elif isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str) or not key.isascii():
                raise FormatError("keys must be ASCII texts")
            _check(part)
    else:
        _check_leaf(value)


def _check_leaf(value: Any) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, float):
        _no_float(value)
    elif not isinstance(value, int):
        raise FormatError(f"canonical JSON has no {_kind(value)}")
    elif abs(value) > LARGEST_INTEGER:
        raise FormatError("an integer is 2^53 or larger: not every language holds it exactly")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FormatError("a text has half of a surrogate pair, which is no character") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise FormatError(f"the key {shown(key)} stands twice in one object")
        made[key] = value
    return made


def _integer(text: str) -> int:
    if len(text) > 17:  # Python refuses to read thousands of digits, with an error of its own
        raise FormatError("an integer is 2^53 or larger: not every language holds it exactly")
    if text == "-0":
        raise FormatError("-0 is no integer")
    return int(text)


def _no_float(_: object) -> NoReturn:
    raise FormatError("canonical JSON has no float: write a number with a fraction as a decimal text")
