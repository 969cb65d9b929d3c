"""Drawing codes: exactly the table's weights, from 16 random bits a report and a few more on ties.

All rows together cut the 48-bit line at their cumulated weights into cells; within a cell every row
has one code. A random 16-bit word lies in one cell unless a cut falls inside it. Those few words are
ties, and 32 more bits settle them: word * 2**32 + more is a uniform 48-bit number, compared with the
exact cuts. So the drawn distribution is the table, to the last unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from .exact import TOTAL, TOTAL_BITS
from .randomness import Source

__all__ = ["WORD_BITS", "Bytes", "Sampler"]

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint16]]
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]

WORD_BITS = 16
_TIE_BITS = TOTAL_BITS - WORD_BITS
_PACKED_TIE = 0x80


class Sampler:
    """Draws from the rows of one table. Stateless: the random bits are passed in.

    >>> from bisample.randomness import Replay
    >>> sampler = Sampler([[3 * 2**46, 2**46], [2**46, 3 * 2**46]])
    >>> rows, words = np.array([0, 1], dtype=np.uint8), np.array([0x4000, 0x4000], dtype="<u2")
    >>> out = np.empty(2, dtype=np.uint8)
    >>> sampler.draw(rows, words, Replay(b""), out, np.empty(2, dtype=np.intp)); out
    array([0, 1], dtype=uint8)
    """

    def __init__(self, weights: Sequence[Sequence[int]]) -> None:
        cumulated = [np.cumsum(np.array(row, dtype=np.int64))[:-1] for row in weights]
        self._cuts = np.unique(np.concatenate(cumulated))
        self._cuts = self._cuts[(self._cuts > 0) & (self._cuts < TOTAL)]
        cell_starts = np.concatenate([[0], self._cuts])
        # code_of[row, cell]: how many of the row's cumulated weights lie at or below the cell
        self._code_of = np.array(
            [np.searchsorted(c, cell_starts, side="right") for c in cumulated], dtype=np.uint8
        )
        word_starts = np.arange(1 << WORD_BITS, dtype=np.int64) << _TIE_BITS
        cell_of_word = np.searchsorted(self._cuts, word_starts, side="right")
        inside = self._cuts[self._cuts & ((1 << _TIE_BITS) - 1) != 0]
        self._tied_words = np.unique(inside >> _TIE_BITS)

        height, width = len(weights), len(weights[0])
        self._bits = max(1, (width - 1).bit_length())
        self._packed: Bytes | None = None
        if height * self._bits < 8:
            # Small tables: the codes of all rows side by side in one byte, its top bit marks a tie.
            codes = self._code_of[:, cell_of_word].astype(np.uint16)
            shifts = (np.arange(height, dtype=np.uint16) * self._bits)[:, None]
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

    def draw(self, rows: Bytes, words: Words, source: Source, out: Bytes, scratch: Indices) -> None:
        """Write to `out` one code for each row index, given a random 16-bit word for each.

        Ties take 4 bytes each from `source`, in order. `scratch` has the length of `rows`.
        """
        np.copyto(scratch, words)
        if self._packed is not None:
            np.take(self._packed, scratch, out=out, mode="clip")
            tied = out >= _PACKED_TIE
            np.right_shift(out, rows * np.uint8(self._bits), out=out)
            np.bitwise_and(out, (1 << self._bits) - 1, out=out)
        else:
            tied = self._tied[scratch]
            np.take(self._cell_of_word, scratch, out=scratch, mode="clip")
            scratch += np.multiply(rows, self._code_of.shape[1], dtype=np.intp)
            np.take(self._code_of.reshape(-1), scratch, out=out, mode="clip")
        ties = np.flatnonzero(tied)
        if len(ties):
            out[ties] = self._settle(rows[ties], words[ties], source)

    def _settle(self, rows: Bytes, words: Words, source: Source) -> Bytes:
        more = bytearray(4 * len(rows))
        source.fill(memoryview(more))
        positions = (words.astype(np.int64) << _TIE_BITS) | np.frombuffer(more, dtype="<u4").astype(np.int64)
        cells = np.searchsorted(self._cuts, positions, side="right")
        codes: Bytes = self._code_of[rows, cells]
        return codes
