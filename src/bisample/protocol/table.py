"""Table: a mechanism as integer weights, its exact epsilon, and its certificate.

One row for each state that a respondent can be in, one column for each code that can be sent. Row i
sends code c with probability weights[i][c] / 2**48. The largest ratio of two weights in one column
bounds e**epsilon, and as both are integers anyone can check that exactly: the table is the privacy claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from bisample.errors import ParameterError, shown

from .canonical import take
from .exact import TOTAL, TOTAL_BITS, bound_text, exp_bounds, log_above, real, whole

__all__ = ["MAX_CODES", "MAX_ROWS", "Table", "WorstPair"]

MAX_CODES = 256  # a report is one byte
MAX_ROWS = 256  # and so is a row while a code is drawn from it


@dataclass(frozen=True)
class WorstPair:
    """The two rows and the code that an adversary learns most from, and the ratio of their weights."""

    row: int
    other_row: int
    code: int
    ratio: Fraction


@dataclass(frozen=True, repr=False, eq=False)
class Table:
    """A row-stochastic matrix of integer weights, each row summing to 2**48.

    `blocks` are sizes of runs of neighbouring codes that every row enters with the same chance: a
    public coin that the answer has no part in (BiSample's direction s). Estimates use that it is known.

    >>> half = 2**47
    >>> coin = Table([[half + 1, half - 1], [half - 1, half + 1]])
    >>> coin
    <Table 2 rows x 2 codes, epsilon <= 1.422e-14>
    >>> coin.worst_pair.ratio
    Fraction(140737488355329, 140737488355327)
    """

    weights: tuple[tuple[int, ...], ...]
    blocks: tuple[int, ...] = ()

    def __init__(self, weights: Sequence[Sequence[int]], blocks: Sequence[int] = ()) -> None:
        checked = _integers(weights)
        put = object.__setattr__  # the usual way to normalize the fields of a frozen dataclass
        put(self, "weights", checked)
        put(self, "blocks", _sizes(blocks) or (len(checked[0]),))
        self._check_weights()
        self._check_blocks()

    def _check_weights(self) -> None:
        width, height = len(self.weights[0]), len(self.weights)
        if not 2 <= width <= MAX_CODES or not 1 <= height <= MAX_ROWS:
            raise ParameterError(
                f"a table has 2 to {MAX_CODES} codes and 1 to {MAX_ROWS} rows, not {width} and {height}:"
                " a report is one byte"
            )
        for i, row in enumerate(self.weights):
            if len(row) != width or sum(row) != TOTAL or min(row) < 0:
                raise ParameterError(
                    f"row {i} of the table must be {width} weights from 1 that sum to 2**{TOTAL_BITS}"
                )
        for c, column in enumerate(zip(*self.weights, strict=True)):
            if min(column) == 0:
                raise ParameterError(
                    f"code {c} has weight 0 in row {column.index(0)}: whoever sends it could not be there,"
                    " and no epsilon bounds that; give it a weight of 1 or more"
                )

    def _check_blocks(self) -> None:
        if sum(self.blocks) != self.width:
            raise ParameterError(f"blocks must be sizes from 1 that sum to the {self.width} codes")
        for start, end in self.block_ends:
            if len({sum(row[start:end]) for row in self.weights}) != 1:
                raise ParameterError(
                    f"codes {start} to {end - 1} are called a block of the public coin, but rows"
                    " enter it with different chances"
                )

    @property
    def height(self) -> int:
        """The number of rows."""
        return len(self.weights)

    @property
    def width(self) -> int:
        """The number of codes."""
        return len(self.weights[0])

    @property
    def block_ends(self) -> tuple[tuple[int, int], ...]:
        """The first code of each block, and the one after its last."""
        return tuple(pairwise(accumulate(self.blocks, initial=0)))

    def __repr__(self) -> str:
        return f"<Table {self.height} rows x {self.width} codes, epsilon <= {bound_text(self.epsilon_upper)}>"

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Table) and (self.weights, self.blocks) == (other.weights, other.blocks)
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # once: the tuples of a large table take long
        return hash((self.weights, self.blocks))

    def __reduce__(self) -> tuple[type[Table], tuple[Any, Any]]:
        return Table, (self.weights, self.blocks)  # without what is cached

    @cached_property
    def matrix(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The probabilities, rows x codes, as floats: for estimates, never for the privacy claim."""
        matrix = np.array(self.weights, dtype=np.float64) / TOTAL
        matrix.setflags(write=False)
        return matrix

    @cached_property
    def worst_pair(self) -> WorstPair:
        """The pair of rows and the code with the largest ratio of weights, in integers."""
        worst = WorstPair(0, 0, 0, Fraction(1))
        for c, column in enumerate(zip(*self.weights, strict=True)):
            high, low = max(column), min(column)
            # high / low > worst.ratio without a division
            if high * worst.ratio.denominator > low * worst.ratio.numerator:
                worst = WorstPair(column.index(high), column.index(low), c, Fraction(high, low))
        return worst

    @cached_property
    def epsilon_upper(self) -> float:
        """A float that is proven to be at least the table's epsilon, and next to it."""
        return log_above(self.worst_pair.ratio)

    def satisfies(self, epsilon: Fraction | float) -> bool:
        """Whether every ratio is at most e**epsilon, proven in rational arithmetic.

        >>> Table([[3 * 2**46, 2**46], [2**46, 3 * 2**46]]).satisfies(1.0986)
        False
        """
        if not 0 <= real(epsilon) < math.inf:
            raise ParameterError(f"epsilon must be a number from 0, not {shown(epsilon)}")
        if real(epsilon) > TOTAL_BITS:  # no ratio of weights is above 2**48: e**epsilon need not be computed
            return True
        exact = Fraction(epsilon if isinstance(epsilon, Fraction) else real(epsilon))
        return self.worst_pair.ratio <= exp_bounds(exact)[0]

    def to_dict(self) -> dict[str, Any]:
        """The table as plain data: integers below 2**53, so any JSON reader holds them exactly."""
        return {"blocks": list(self.blocks), "weights": [list(row) for row in self.weights]}

    @classmethod
    def from_dict(cls, data: Any) -> Table:
        """The table that `to_dict` described; anything else is refused.

        >>> table = Table([[3 * 2**46, 2**46], [2**46, 3 * 2**46]])
        >>> Table.from_dict(table.to_dict()) == table
        True
        """
        blocks, weights = take(data, "a table", blocks=list, weights=list)
        if not blocks:
            raise ParameterError("blocks must be the sizes of the public coin's blocks: at least one")
        return cls(weights, blocks)


def _sizes(blocks: Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = tuple(blocks)
    except TypeError:
        raise ParameterError(f"blocks must be a list of sizes, not {type(blocks).__name__}") from None
    return tuple(whole(size, 1, "the size of a block") for size in sizes)


def _integers(weights: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The weights as Python integers. A float is refused even if it is whole: it may have been rounded."""
    try:
        rows = tuple(tuple(row) for row in weights)
    except TypeError:
        rows = ((),)
    if not rows or not rows[0]:
        raise ParameterError("a table needs at least one row and two codes")
    for i, row in enumerate(rows):
        if any(isinstance(w, bool) or not isinstance(w, (int, np.integer)) for w in row):
            raise ParameterError(f"row {i} of the table has a weight that is no integer")
    return tuple(tuple(int(w) for w in row) for row in rows)
