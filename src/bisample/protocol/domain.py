"""Range and Options: what the rows of a table stand for.

A range has anchors: the numbers that its rows stand for. They are integers, the first 0 and rising, so
that two languages agree on them; anchor a stands for lower + (upper - lower) * a / last, and they need
not be even. Options are texts. With `refusal` the last row stands for "no answer".
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from bisample.errors import FormatError, ParameterError, shown

from .canonical import canonical, decimal_text, number_of, take
from .exact import real, whole
from .table import MAX_ROWS

__all__ = ["LARGEST_ANCHOR", "NO_ANSWER", "STEP", "Domain", "Options", "Range", "domain_from_dict", "text_of"]

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

NO_ANSWER = "no answer"

LARGEST_ANCHOR = 2**20
_MOST_OPTIONS = MAX_ROWS - 1  # and a missing answer is told from them in one byte
# A position counts in parts of 2**-32 of an anchor's unit, so that a 32-bit word decides between anchors and
# all positions stay below 2**53, where doubles hold integers exactly.
STEP = 2**32


@dataclass(frozen=True)
class Range:
    """Numbers from lower to upper; row i stands for the number at anchors[i].

    >>> ages = Range(17, 90)
    >>> ages.height, ages.labels
    (3, ('17', '90', 'no answer'))
    >>> Range(0, 10, anchors=(0, 1, 5), refusal=False).values.tolist()
    [0.0, 2.0, 10.0]
    """

    lower: float
    upper: float
    anchors: tuple[int, ...] = (0, 1)
    refusal: bool = True

    def __init__(
        self, lower: float, upper: float, anchors: Sequence[int] = (0, 1), *, refusal: bool = True
    ) -> None:
        put = object.__setattr__
        low, high = real(lower), real(upper)
        if not -math.inf < low < high < math.inf:
            raise ParameterError(
                "lower must be less than upper, and both finite numbers:"
                f" not {shown(lower)} and {shown(upper)}"
            )
        decimal_text(low, "lower")
        decimal_text(high, "upper")
        if not high - low > 1e-9 * max(abs(low), abs(high)):
            raise ParameterError(
                "upper - lower must exceed 10^-9 of the larger end: doubles are too coarse there; shift the"
                " values towards 0"
            )
        put(self, "lower", low + 0.0)  # no negative zero
        put(self, "upper", high + 0.0)
        put(self, "anchors", _checked_anchors(anchors))
        put(self, "refusal", _flag(refusal))
        if self.height > MAX_ROWS:
            raise ParameterError(f"a table has up to {MAX_ROWS} rows, and {self.height} are asked for")

    @property
    def height(self) -> int:
        """The number of rows, with that of a refusal."""
        return len(self.anchors) + self.refusal

    @property
    def last(self) -> int:
        """The last anchor: how many of the anchors' units lie between lower and upper."""
        return self.anchors[-1]

    @cached_property
    def even(self) -> bool:
        """Whether the anchors lie one unit apart."""
        return self.last == len(self.anchors) - 1

    @cached_property
    def scale(self) -> float:
        """Steps of a position in one unit of the answers. Computed once, in this order, in every language."""
        return self.last * STEP / (self.upper - self.lower)

    @cached_property
    def values(self) -> Floats:
        """The numbers that the anchors stand for."""
        found = self.lower + (self.upper - self.lower) * (np.array(self.anchors) / self.last)
        found[-1] = self.upper  # which the sum may miss by a rounding
        return _frozen(found)

    @cached_property
    def scaled(self) -> Floats:
        """The same moved to [-1, 1], where errors of different questions compare."""
        return _frozen(2 * (np.array(self.anchors) / self.last) - 1)

    @property
    def labels(self) -> tuple[str, ...]:
        """What to call the rows."""
        # As short as they can be told apart.
        shown = [[f"{value:.{digits}g}" for value in self.values] for digits in (6, 9, 12, 17)]
        told_apart = next(texts for texts in shown if len(set(texts)) == len(texts))
        return (*told_apart, *[NO_ANSWER] * self.refusal)

    def __getstate__(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}  # without what is cached

    def __str__(self) -> str:
        return f"numbers from {self.lower:.15g} to {self.upper:.15g}{_or_no_answer(self)}"

    def to_dict(self) -> dict[str, Any]:
        """As plain data for canonical JSON: the ends as decimal texts."""
        return {
            "anchors": list(self.anchors),
            "kind": "range",
            "lower": decimal_text(self.lower),
            "refusal": self.refusal,
            "upper": decimal_text(self.upper),
        }


@dataclass(frozen=True)
class Options:
    """One of a few texts. Booleans and numbers are matched by their text, as JSON writes it.

    >>> Options(["tea", 2.0, True]).options
    ('tea', '2', 'true')
    """

    options: tuple[str, ...]
    refusal: bool = True

    def __init__(self, options: Sequence[object], *, refusal: bool = True) -> None:
        put = object.__setattr__
        put(self, "refusal", _flag(refusal))
        put(self, "options", _checked_options(options))

    @property
    def height(self) -> int:
        """The number of rows, with that of a refusal."""
        return len(self.options) + self.refusal

    @property
    def labels(self) -> tuple[str, ...]:
        """What to call the rows."""
        return (*self.options, *[NO_ANSWER] * self.refusal)

    def __str__(self) -> str:
        listed = self.options if len(self.options) <= 5 else (*self.options[:3], "...", self.options[-1])
        return f"one of {', '.join(listed)}{_or_no_answer(self)}"

    def to_dict(self) -> dict[str, Any]:
        """As plain data for canonical JSON."""
        return {"kind": "options", "options": list(self.options), "refusal": self.refusal}


Domain: TypeAlias = Range | Options


def domain_from_dict(data: Any) -> Domain:
    """The domain that `to_dict` described; anything else is refused.

    >>> domain_from_dict({"kind": "options", "options": ["no", "yes"], "refusal": True}).labels
    ('no', 'yes', 'no answer')
    """
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind == "range":
        anchors, _, lower, refusal, upper = take(
            data, "a range", anchors=list, kind=str, lower=str, refusal=bool, upper=str
        )
        return Range(number_of(lower, "lower"), number_of(upper, "upper"), anchors, refusal=refusal)
    if kind == "options":
        _, options, refusal = take(data, "a domain of options", kind=str, options=list, refusal=bool)
        if not all(isinstance(option, str) for option in options):
            raise FormatError("the options of a domain must be texts")
        return Options(options, refusal=refusal)
    raise FormatError('a domain is an object whose "kind" is "range" or "options"')


def text_of(value: Any) -> str | None:
    """The text by which an option is matched; None for what is no text, number or boolean.

    >>> text_of("tea"), text_of(True), text_of(1.0), text_of(np.int8(3)), text_of(0.25), text_of(None)
    ('tea', 'true', '1', '3', '0.25', None)
    """
    if isinstance(value, str):
        return str.__str__(value)  # of an enumeration the text, not its name
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, np.timedelta64):  # NumPy calls a duration a whole number
        return None
    try:
        # A whole number exactly, unless it has thousands of digits: those Python refuses to write.
        return str(int(value)) if isinstance(value, numbers.Integral) else decimal_text(real(value))
    except ValueError:
        return None


def _frozen(values: Floats) -> Floats:
    values.setflags(write=False)
    return values


def _checked_anchors(anchors: Sequence[int]) -> tuple[int, ...]:
    try:
        # A set has another order in every process.
        ordered: Any = None if isinstance(anchors, AbstractSet) else anchors
        listed = tuple(whole(anchor, 0, "an anchor") for anchor in ordered)
    except TypeError:
        raise ParameterError(f"anchors must be a list of integers, not {type(anchors).__name__}") from None
    rising = all(a < b for a, b in pairwise(listed))
    if len(listed) < 2 or listed[0] != 0 or not rising or listed[-1] > LARGEST_ANCHOR:
        raise ParameterError(
            f"anchors must be 2 or more rising integers, the first 0 and the last at most {LARGEST_ANCHOR}:"
            f" not {', '.join(map(shown, listed[:6])) or 'none'}{', ...' * (len(listed) > 6)}"
        )
    return listed


def _checked_options(options: Sequence[object]) -> tuple[str, ...]:
    if isinstance(options, (str, bytes, AbstractSet, Mapping)):  # a set has another order in every process
        raise ParameterError(
            f"options must be a list such as ['yes', 'no'], in an order, not a {type(options).__name__}"
        )
    try:
        texts = [text_of(option) for option in options]
    except TypeError:
        raise ParameterError(f"options must be a list, not a {type(options).__name__}") from None
    if any(text is None for text in texts):
        raise ParameterError("options must be texts, numbers or booleans; declining needs no option")
    listed = tuple(text for text in texts if text is not None)
    if not 2 <= len(listed) <= _MOST_OPTIONS:
        raise ParameterError(
            f"a choice has 2 to {_MOST_OPTIONS} options, not {len(listed)}: a report is one byte"
        )
    if any(option != option.strip() or not option or _has_controls(option) for option in listed):
        raise ParameterError(
            "options must be texts that can be seen: not empty, no spaces around them, no line ends"
        )
    if len(set(listed)) < len(listed):
        twice = next(text for text in listed if listed.count(text) > 1)
        raise ParameterError(f"options must differ as texts, and {shown(twice)} stands there twice")
    if NO_ANSWER in listed:
        raise ParameterError(f"an option may not be called {NO_ANSWER!r}: declining needs no option")
    canonical(listed)  # refuses texts that no JSON can hold
    return listed


def _has_controls(text: str) -> bool:
    return any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in text)


def _flag(refusal: object) -> bool:
    if not isinstance(refusal, bool):
        raise ParameterError(f"refusal must be True or False, not {shown(refusal)}")
    return refusal


def _or_no_answer(domain: Domain) -> str:
    return " or no answer" if domain.refusal else ""
