"""Tally: counts of codes, and what they count.

A tally is a vector of counts that knows its mechanism (by digest: table and domain) and its subject, a
few names with texts, such as a survey, a question, a country. Equal ones add, in any order; what differs
does not, because ages do not add to kilometres even where the table is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bisample.errors import FormatError, ParameterError, ReportError, shown
from bisample.protocol.canonical import canonical, parse, take

if TYPE_CHECKING:
    from bisample.protocol.mechanism import Mechanism

__all__ = ["FORMAT", "MAX_REPORTS", "SIMULATED", "Counts", "Tally", "count", "of_counts"]

Counts: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

FORMAT = "bisample-tally/1"
MAX_REPORTS = 2**53 - 1  # what a double, and so JavaScript, counts exactly
# The subject that says that codes were drawn with a seed: they do not add to codes drawn in earnest.
SIMULATED = MappingProxyType({"simulated": "with a seed"})

_BLOCK = 131_072
_FEW = 20  # codes up to which comparing with each is faster than NumPy's bincount, which widens every byte


@dataclass(frozen=True, eq=False)
class Tally:
    """How many reports had each code: of which mechanism, and about what.

    >>> from bisample import BiSample
    >>> m = BiSample(epsilon=1, lower=17, upper=90)
    >>> north, south = m.tally([0, 3, 3], {"region": "north"}), m.tally([1], {"region": "south"})
    >>> north + north == m.tally([3, 3, 3, 3, 0, 0], {"region": "north"})
    True
    >>> north + south
    Traceback (most recent call last):
    bisample.errors.ReportError: a tally of region = north does not add to one of region = south: pool them \
by Tally.pooled if they may be one
    >>> Tally.pooled([north, south]).counts
    array([1, 1, 0, 2])
    """

    counts: Counts
    mechanism: str
    subject: Mapping[str, str]

    def __init__(self, counts: object, mechanism: str, subject: Mapping[str, str] | None = None) -> None:
        put = object.__setattr__
        put(self, "counts", _checked_counts(counts))
        if not isinstance(mechanism, str):
            raise ParameterError("a tally names its mechanism by digest: use mechanism.tally_of(counts)")
        put(self, "mechanism", mechanism)
        put(self, "subject", _checked_subject({} if subject is None else subject))

    @property
    def n(self) -> int:
        """The number of reports."""
        return int(self.counts.sum())

    def of(self, mechanism: Mechanism) -> Tally:
        """The tally itself, if it is this mechanism's; else an error that names both."""
        if self.mechanism != mechanism.digest:
            raise ReportError(
                f"this tally is of the mechanism with digest {self.mechanism[:12]}..., and {mechanism!r} has"
                f" {mechanism.digest[:12]}...: use the mechanism that the reports were made with"
            )
        width = mechanism.table.width
        if len(self.counts) != width:
            raise ReportError(
                f"a tally of {mechanism!r} has {width} counts, not {len(self.counts)}: if these are reports,"
                " tally(reports) counts them"
            )
        return self

    def __add__(self, other: object) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        if self.mechanism != other.mechanism:
            raise ReportError(
                f"a tally of the mechanism with digest {self.mechanism[:12]}... does not add to one of"
                f" {other.mechanism[:12]}...: estimate each with its own"
            )
        if self.subject != other.subject:
            raise ReportError(
                f"a tally of {_shown(self.subject)} does not add to one of {_shown(other.subject)}:"
                " pool them by Tally.pooled if they may be one"
            )
        if len(self.counts) != len(other.counts):
            raise ReportError(
                f"a tally of {len(self.counts)} counts does not add to one of {len(other.counts)}"
            )
        return Tally(self.counts + other.counts, self.mechanism, self.subject)

    def __radd__(self, other: object) -> Tally:
        return self if other == 0 else NotImplemented  # sum() starts from 0

    @classmethod
    def pooled(cls, tallies: Iterable[Tally], subject: Mapping[str, str] | None = None) -> Tally:
        """One tally of several subjects of one mechanism: with a subject of its own, or what they share."""
        parts = list(tallies) if isinstance(tallies, Iterable) else []
        if not parts or not all(isinstance(part, Tally) for part in parts):
            raise ReportError("pooled takes a list of one tally or more: Tally.pooled([north, south])")
        if subject is None:
            shared = set.intersection(*(set(part.subject.items()) for part in parts))
            subject = {name: text for name, text in parts[0].subject.items() if (name, text) in shared}
        named = dict(_checked_subject(subject))
        if any("simulated" in part.subject for part in parts):
            named |= SIMULATED  # whatever else is in it, it is no result in earnest
        first, *others = (cls(part.counts, part.mechanism, named) for part in parts)
        return sum(others, start=first)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and (
            (self.mechanism, self.subject, self.counts.tolist())
            == (other.mechanism, other.subject, other.counts.tolist())
        )

    def __hash__(self) -> int:
        return hash((self.mechanism, tuple(sorted(self.subject.items())), tuple(self.counts.tolist())))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.counts, dtype=dtype, copy=copy)

    def __reduce__(self) -> tuple[type[Tally], tuple[list[int], str, dict[str, str]]]:
        return Tally, (self.counts.tolist(), self.mechanism, dict(self.subject))

    def __repr__(self) -> str:
        about = f" of {_shown(self.subject)}" if self.subject else ""
        reports = f"{self.n:,} report{'s' * (self.n != 1)}"
        return f"<Tally{about}: {reports}, {len(self.counts)} codes, mechanism {self.mechanism[:8]}>"

    def to_dict(self) -> dict[str, Any]:
        """As plain data that canonical JSON can hold."""
        return {
            "counts": self.counts.tolist(),
            "format": FORMAT,
            "mechanism": self.mechanism,
            "subject": dict(self.subject),
        }

    def to_json(self) -> str:
        """As canonical JSON: a few hundred bytes, however many reports it counts."""
        return canonical(self.to_dict()).decode()

    @classmethod
    def from_dict(cls, data: Any) -> Tally:
        """The tally that `to_dict` described; anything else is refused."""
        if isinstance(data, dict) and data.get("format", FORMAT) != FORMAT:
            raise FormatError(f"format must be {FORMAT!r}, not {shown(data['format'])}")
        counts, _, mechanism, subject = take(
            data, "a tally", counts=list, format=str, mechanism=str, subject=dict
        )
        return cls(counts, mechanism, subject)

    @classmethod
    def from_json(cls, text: str | bytes) -> Tally:
        """The tally that `to_json` wrote; anything else is refused.

        >>> from bisample import BiSample
        >>> t = BiSample(epsilon=1).tally_of([300, 200, 260, 240], {"country": "CN"})
        >>> Tally.from_json(t.to_json()) == t
        True
        """
        return cls.from_dict(parse(text))


def count(mechanism: Mechanism, reports: object, subject: Mapping[str, str] | None = None) -> Tally:
    """Count reports: integer codes in an array, a list, bytes, an iterator; see `Mechanism.tally`.

    >>> from bisample import BiSample
    >>> count(BiSample(epsilon=1), bytes([0, 3])).counts
    array([1, 0, 0, 1])
    """
    codes = _codes(reports)
    width = mechanism.table.width
    counts = np.zeros(width, dtype=np.int64)
    for start in range(0, len(codes), _BLOCK):
        block = codes[start : start + _BLOCK]
        if block.dtype != np.uint8:
            outside = (block < 0) | (block >= width)
            if outside.any():
                raise _unknown_code(mechanism, start + int(outside.argmax()))
            block = block.astype(np.uint8)
        if width <= _FEW:
            found = np.array([np.count_nonzero(block == code) for code in range(width)])
        else:
            found = np.bincount(block, minlength=width)[:width]
        if found.sum() < len(block):
            raise _unknown_code(mechanism, start + int((block >= width).argmax()))
        counts += found
    return Tally(counts, mechanism.digest, subject)


def of_counts(mechanism: Mechanism, counts: Any, subject: Mapping[str, str] | None = None) -> Tally:
    """The tally of counts that were made elsewhere; see `Mechanism.tally_of`.

    >>> from bisample import BiSample
    >>> of_counts(BiSample(epsilon=1), {3: 5}).counts
    array([0, 0, 0, 5])
    """
    if isinstance(counts, Mapping) or (hasattr(counts, "items") and hasattr(counts, "index")):
        # A dict, or pandas' series, whose index is not the order of codes.
        width = mechanism.table.width
        of_code: list[Any] = [0] * width
        for code, number in counts.items():
            if isinstance(code, (bool, np.bool_)) or not isinstance(code, (int, np.integer)):
                raise ReportError(f"counts by code need integer codes, not {type(code).__name__}")
            if not 0 <= code < width:
                raise ReportError(
                    f"{mechanism.name} has the codes 0 to {width - 1}, and {shown(int(code))} is counted:"
                    " was it made by another mechanism?"
                )
            of_code[int(code)] = number
        counts = of_code
    return Tally(counts, mechanism.digest, subject).of(mechanism)


def _codes(reports: object) -> np.ndarray[Any, np.dtype[Any]]:
    if isinstance(reports, Tally):
        raise ReportError("this is a tally already: estimate(tally) takes it")
    if isinstance(reports, (bytes, bytearray)):
        return np.frombuffer(reports, dtype=np.uint8)
    if hasattr(reports, "__next__"):
        reports = list(reports)  # type: ignore[call-overload]
    if isinstance(reports, (list, tuple)) and any(isinstance(code, (bool, np.bool_)) for code in reports):
        raise ReportError("reports must be integer codes, not true or false: are these answers?")
    try:
        codes = np.atleast_1d(np.asarray(reports))
    except ValueError:  # ragged
        codes = np.empty((0, 0))
    if codes.shape == (0,):
        codes = codes.astype(np.uint8)
    if codes.dtype.kind not in "iu" or codes.ndim != 1 or np.ma.is_masked(reports):
        raise ReportError("reports must be integer codes in one dimension, as privatize() returns them")
    return codes


def _unknown_code(mechanism: Mechanism, index: int) -> ReportError:
    return ReportError(
        f"the report at index {index} is no code of {mechanism.name}, whose codes are 0 to"
        f" {mechanism.table.width - 1}: was it made by another mechanism? If these are counts, one a code,"
        " tally_of(counts) takes them"
    )


def _checked_counts(counts: object) -> Counts:
    if isinstance(counts, Tally):
        raise ReportError("this is a tally already: estimate(tally) takes it")
    try:
        listed = np.asarray(counts)
    except ValueError:  # ragged
        listed = np.empty((), dtype=object)
    if listed.dtype == np.uint8 or isinstance(counts, bytes):
        raise ReportError(
            "these look like reports: tally(reports) counts them, tally_of(counts) takes counts"
        )
    # NumPy takes a truth value among integers for one of them.
    truths = isinstance(counts, Sequence) and any(isinstance(part, bool) for part in counts)
    if listed.ndim != 1 or listed.dtype.kind not in "iu" or truths or np.ma.isMaskedArray(counts):
        raise ReportError("counts must be integers from 0 to below 2**53 in one dimension, one a code")
    if (listed < 0).any():
        raise ReportError(
            f"counts must be integers from 0: that of code {int((listed < 0).argmax())} is negative"
        )
    if sum(listed.tolist()) > MAX_REPORTS:
        raise ReportError("a tally counts fewer than 2**53 reports: more than that are no longer exact")
    made: Counts = listed.astype(np.int64)
    made.setflags(write=False)
    return made


def _checked_subject(subject: Mapping[str, str]) -> Mapping[str, str]:
    if not isinstance(subject, Mapping) or not all(
        isinstance(part, str) for pair in subject.items() for part in pair
    ):
        raise ParameterError("the subject of a tally is names with texts, such as {'country': 'CN'}")
    canonical(dict(subject))  # refuses what no JSON can hold
    return MappingProxyType(dict(subject))


def _shown(subject: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {text}" for name, text in subject.items()) or "no subject"
