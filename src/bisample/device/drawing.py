"""Drawing codes: the byte protocol, from an answer to its report, in one place.

Many answers are drawn in blocks of 131,072. For each block random bytes are read in this order, all
little-endian: for numbers 4 a respondent (the word that rounds between two anchors), for everybody 2 (the
word that draws the code), and 4 more for each of those words that is a tie. vectors/README.md says the
same for whoever writes it in another language.

1. A number becomes a *position*, an integer, once (`_Numbers._positions`). From there on all is exact.
2. Position and word give a *row*: that of one of the two anchors around the number, such that its
   expectation is the number (`_Numbers.rows`). An option has a row of its own, and so has a refusal.
3. Row and word give a *code*, exactly as the table's weights say (`Cells`).
"""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from bisample.errors import AnswerError, ParameterError, shown
from bisample.protocol.domain import STEP, Domain, Range
from bisample.protocol.exact import TOTAL_BITS, whole

from . import randomness
from .answers import HeldNumbers, HeldOptions, read_numbers, read_options

if TYPE_CHECKING:
    from bisample.protocol.mechanism import Mechanism
    from bisample.protocol.table import Table

    from .randomness import Rng, Source, Stream

__all__ = ["BLOCK", "WORD_BITS", "Cells", "cells_of", "privatize"]

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Rounding: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]
Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint16]]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]

# Large enough that the cost of calling NumPy is spread thin, small enough that a block's few arrays
# stay in the cache of a core.
BLOCK = 131_072

WORD_BITS = 16
_TIE_BITS = TOTAL_BITS - WORD_BITS
_PACKED_TIE = 0x80

# Below so many blocks for each, another thread costs more than it brings.
_BLOCKS_A_THREAD = 4


def privatize(
    mechanism: Mechanism,
    answers: object,
    *,
    rng: Rng = None,
    clip: bool = False,
    threads: int | None = None,
) -> Any:
    """One code for each answer: a `uint8` array, or an int for a scalar; see `Mechanism.privatize`.

    >>> from bisample import KRandomizedResponse
    >>> privatize(KRandomizedResponse(epsilon=1, options=["tea", "coffee"]), ["tea", None, "coffee"], rng=1)
    array([0, 2, 1], dtype=uint8)
    """
    if not isinstance(clip, (bool, np.bool_)):
        raise ParameterError(f"clip must be True or False, not {shown(clip)}")
    if threads is not None:
        threads = whole(threads, 1, "threads")
    source = randomness.resolve(rng)
    domain = mechanism.domain
    held: HeldNumbers | HeldOptions
    rows: _Rows
    if isinstance(domain, Range):
        held = read_numbers(answers)
        rows = _Numbers(domain, held, bool(clip))
    else:
        if clip:
            raise ParameterError("clip is for numbers: a choice has no nearest end")
        held = read_options(answers, domain.options)
        rows = _Choices(domain, held)
    # Not np.empty: what a block leaves out, for whatever reason, must not be old memory with answers in it.
    codes = np.zeros(len(held), dtype=np.uint8)
    _draw(cells_of(mechanism.table), rows, source, codes, threads)
    return int(codes[0]) if held.scalar else codes


# --- Blocks and threads -----------------------------------------------------------------------------


class _Rows(Protocol):
    """Reads the rows of one block of answers, with what randomness that takes."""

    def rows(self, start: int, stop: int, stream: Stream, room: _Room) -> Bytes: ...


class _Room:
    """The arrays that one thread works in, for blocks of up to `size` answers.

    What is not needed at the same time shares its memory, so that a block stays in the cache.
    """

    def __init__(self, size: int) -> None:
        self.numbers = np.empty(size)
        self.indices: Indices = self.numbers.view(np.intp)[:size]
        self.rounding = np.empty(size, dtype="<u4")
        self.words: Words = self.rounding.view("<u2")[:size]
        self.missing = np.empty(size, dtype=np.bool_)
        self.rows = np.empty(size, dtype=np.uint8)


def _draw(cells: Cells, rows: _Rows, source: Source, codes: Bytes, threads: int | None) -> None:
    """Draw all blocks, on several threads where that pays: NumPy and the cipher let go of the lock."""
    size = len(codes)
    blocks = -(-size // BLOCK)
    wanted = threads or min(_cores(), blocks // _BLOCKS_A_THREAD)
    workers = 1 if source.sequential else max(1, min(wanted, blocks))
    todo, claim = iter(range(blocks)), threading.Lock()
    failures: list[tuple[int, BaseException]] = []

    def work() -> None:
        block = 0
        try:
            room = _Room(min(size, BLOCK))
            while True:
                # As they come, and not so many for each: a slow core then holds nobody up.
                with claim:
                    block = next(todo, blocks)
                # A block before one that failed is still drawn: it may fail too, and the first is named.
                if block == blocks or any(failed < block for failed, _ in failures):
                    return
                start, stop = block * BLOCK, min((block + 1) * BLOCK, size)
                stream = source.stream(block)
                # No warning tells a very small answer from others.
                with np.errstate(all="ignore"):
                    held = rows.rows(start, stop, stream, room)
                    cells.draw(held, stream, codes[start:stop], room)
        except BaseException as problem:  # noqa: BLE001 - whatever ends a thread is raised in the caller's
            failures.append((block, problem))

    helpers = [threading.Thread(target=work, daemon=True) for _ in range(workers - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if failures:
        raise min(failures, key=itemgetter(0))[1]


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


# --- From an answer to a row ------------------------------------------------------------------------


class _Numbers:
    """Rounds each number to one of the two anchors around it; NaN and what is masked is a refusal."""

    def __init__(self, domain: Range, held: HeldNumbers, clip: bool) -> None:
        self._domain, self._held, self._clip = domain, held, clip
        self._lower, self._upper, self._scale = domain.lower, domain.upper, domain.scale
        self._top = float(domain.last * STEP)
        if not domain.even:
            self._gap_of_unit, self._starts, self._widths = _gaps(domain.anchors)

    def rows(self, start: int, stop: int, stream: Stream, room: _Room) -> Bytes:
        size = stop - start
        numbers, missing, rows = room.numbers[:size], room.missing[:size], room.rows[:size]
        values = self._values(start, stop, numbers)
        np.isnan(values, out=missing)
        if not self._domain.refusal and missing.any():
            raise _no_code_for_a_refusal(start + int(missing.argmax()))
        self._positions(values, numbers)
        words = room.rounding[:size]
        stream.fill(words.data.cast("B"))
        refusal = 1  # how many rows after that of a missing number the refusal's is
        if self._domain.last == 1:
            # Two anchors: the one above iff word < position, which holds for no NaN. The position need
            # not be held to 2^32, as every word is smaller.
            np.less(words, numbers, out=rows.view(np.bool_))
            refusal = 2
        else:
            # Missing becomes the last position, because fmin prefers a number to NaN.
            np.fmin(numbers, self._top, out=numbers)
            (self._between_even if self._domain.even else self._between_uneven)(numbers, words, rows)
        if self._domain.refusal:
            # Arithmetic, and not where=missing: branches on an answer are slow, and may be timed.
            rows += missing.view(np.uint8) * np.uint8(refusal)
        return rows

    def _values(self, start: int, stop: int, numbers: Floats) -> Floats:
        """The block's values in double precision and in range, NaN where they are missing."""
        values = self._held.values[start:stop]
        if values.dtype != np.float64:
            np.copyto(numbers, values)
            values = numbers
        if self._held.missing is not None:
            np.copyto(numbers, values)
            np.copyto(numbers, np.nan, where=self._held.missing[start:stop])
            values = numbers
        # fmin and fmax pass over NaN; a block of NaN only compares False and is in range.
        if np.fmin.reduce(values) < self._lower or np.fmax.reduce(values) > self._upper:
            self._refuse(values, start)
            values = np.clip(values, self._lower, self._upper, out=numbers)
        return values

    def _refuse(self, values: Floats, start: int) -> None:
        infinite = np.isinf(values)
        if infinite.any():
            raise AnswerError(
                "is infinite: replace it by a number, or by None to decline", start + int(infinite.argmax())
            )
        # In an array of single precision an end of the range may lie a rounding outside of it: it is taken,
        # and held to the end like what is clipped.
        outside = (values < self._held.nearest(self._lower)) | (values > self._held.nearest(self._upper))
        if not self._clip and outside.any():
            raise AnswerError(
                f"lies outside [{self._lower:.15g}, {self._upper:.15g}]: widen lower and upper, or ask for"
                " clip (clip=True, --clip) to move such answers to the nearest end",
                start + int(outside.argmax()),
            )

    def _positions(self, values: Floats, out: Floats) -> None:
        """position = floor((value - lower) * scale + 1/2), to be held to at most last * 2^32.

        Each operation is rounded and none fused, in this order, in every language; the result is a
        whole number from 0 to below 2^53, and NaN where the value is missing.
        """
        np.subtract(values, self._lower, out=out)
        np.multiply(out, self._scale, out=out)
        out += 0.5
        np.floor(out, out=out)

    @staticmethod
    def _between_even(positions: Floats, words: Rounding, rows: Bytes) -> None:
        """Anchors one unit apart: row = floor((position + 2^32 - 1 - word) / 2^32)."""
        # That is the anchor above iff word < position - (anchor below) * 2^32. The word's complement is
        # 2^32 - 1 - word, so that all terms are positive, and below 2^53.
        np.invert(words, out=words)
        positions += words
        positions *= 1 / STEP
        np.copyto(rows, positions, casting="unsafe")

    def _between_uneven(self, positions: Floats, words: Rounding, rows: Bytes) -> None:
        """Gaps that differ: the anchor above iff word * gap < position - (anchor below) * 2^32."""
        gaps = self._gap_of_unit[(positions * (1 / STEP)).astype(np.intp)]
        positions -= self._starts[gaps]
        np.copyto(rows, gaps, casting="unsafe")
        rows += words * self._widths[gaps] < positions


@lru_cache(maxsize=64)
def _gaps(anchors: tuple[int, ...]) -> tuple[Bytes, Floats, Floats]:
    """For each unit between the anchors the gap it lies in; each gap's start in steps and width in units.

    What lies on the last anchor is in the gap that ends there.

    >>> gap_of_unit, starts, widths = _gaps((0, 1, 3))
    >>> gap_of_unit.tolist(), (starts / STEP).tolist(), widths.tolist()
    ([0, 1, 1, 1], [0.0, 1.0], [1.0, 2.0])
    """
    edges = np.array(anchors)
    widths = np.diff(edges)
    gaps = np.arange(len(widths), dtype=np.uint8)
    gap_of_unit = np.append(np.repeat(gaps, widths), gaps[-1])
    return gap_of_unit, edges[:-1] * float(STEP), widths.astype(np.float64)


class _Choices:
    """Options were found as rows when they were read."""

    def __init__(self, domain: Domain, held: HeldOptions) -> None:
        self._held = held
        if not domain.refusal:
            refused = held.rows == domain.height
            if refused.any():
                raise _no_code_for_a_refusal(int(refused.argmax()))

    def rows(self, start: int, stop: int, stream: Stream, room: _Room) -> Bytes:  # noqa: ARG002
        return self._held.rows[start:stop]


def _no_code_for_a_refusal(index: int) -> AnswerError:
    return AnswerError(
        "is missing, and this mechanism has no code for a refusal: take one that has, such as"
        " BiSample, DitheredResponse or KRandomizedResponse",
        index,
    )


# --- From a row to a code ---------------------------------------------------------------------------


class Cells:
    """Draws codes from the rows of one table: exactly its weights, from 16 bits and a few more on ties.

    All rows together cut the 48-bit line at their cumulated weights into cells; within a cell every row
    has one code. A random 16-bit word lies in one cell unless a cut falls inside it. Those few words are
    ties, and 32 more bits settle them: word * 2**32 + more is a uniform 48-bit number, compared with the
    exact cuts. Which words are ties does not depend on the row: which bytes are read tells nothing.
    """

    def __init__(self, table: Table) -> None:
        cumulated = [np.cumsum(np.array(row, dtype=np.int64))[:-1] for row in table.weights]
        self._cuts = np.unique(np.concatenate(cumulated))
        cell_starts = np.concatenate([[0], self._cuts])
        # code_of[row, cell]: how many of the row's cumulated weights lie at or below the cell
        self._code_of = np.array(
            [np.searchsorted(c, cell_starts, side="right") for c in cumulated], dtype=np.uint8
        )
        word_starts = np.arange(1 << WORD_BITS, dtype=np.int64) << _TIE_BITS
        cell_of_word = np.searchsorted(self._cuts, word_starts, side="right")
        inside = self._cuts[self._cuts & ((1 << _TIE_BITS) - 1) != 0]
        self._tied_words = np.unique(inside >> _TIE_BITS)

        self._bits = max(1, (table.width - 1).bit_length())
        self._packed: Bytes | None = None
        if table.height * self._bits < 8:
            # Small tables: the codes of all rows side by side in one byte, its top bit marks a tie.
            codes = self._code_of[:, cell_of_word].astype(np.uint16)
            shifts = (np.arange(table.height, dtype=np.uint16) * self._bits)[:, None]
            self._packed = np.bitwise_or.reduce(codes << shifts, axis=0).astype(np.uint8)
            self._packed[self._tied_words] |= _PACKED_TIE
        else:
            self._cell_of_word = cell_of_word.astype(np.intp)
            self._tied = np.zeros(1 << WORD_BITS, dtype=np.bool_)
            self._tied[self._tied_words] = True

    @property
    def tied_words(self) -> Indices:
        """The 16-bit words that need more bits: at most one for each cut."""
        return self._tied_words.astype(np.intp)

    def draw(self, rows: Bytes, stream: Stream, out: Bytes, room: _Room) -> None:
        """Write to `out` one code for each row, with a word for each and 4 bytes for each tie, in order."""
        words, indices = room.words[: len(rows)], room.indices[: len(rows)]
        stream.fill(words.data.cast("B"))
        np.copyto(indices, words)
        if self._packed is not None:
            # Without a mode NumPy checks all indices first, which costs less than clipping each.
            np.take(self._packed, indices, out=out)
            tied = out >= _PACKED_TIE
            np.right_shift(out, rows * np.uint8(self._bits), out=out)
            np.bitwise_and(out, (1 << self._bits) - 1, out=out)
        else:
            tied = self._tied[indices]
            np.take(self._cell_of_word, indices, out=indices, mode="clip")
            indices += np.multiply(rows, self._code_of.shape[1], dtype=np.intp)
            np.take(self._code_of.reshape(-1), indices, out=out)
        ties = np.flatnonzero(tied)
        if len(ties):
            out[ties] = self._settle(rows[ties], words[ties], stream)

    def _settle(self, rows: Bytes, words: Words, stream: Stream) -> Bytes:
        more = bytearray(4 * len(rows))
        stream.fill(memoryview(more))
        points = (words.astype(np.int64) << _TIE_BITS) | np.frombuffer(more, dtype="<u4").astype(np.int64)
        cells = np.searchsorted(self._cuts, points, side="right")
        codes: Bytes = self._code_of[rows, cells]
        return codes


@lru_cache(maxsize=64)
def cells_of(table: Table) -> Cells:
    """The cells of a table, made once: a survey's devices and batches draw from the same few tables."""
    return Cells(table)
