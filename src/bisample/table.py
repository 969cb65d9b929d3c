"""Table: a mechanism as integer weights, its exact epsilon, and its certificate.

One row for each thing a respondent can hold, one column for each code that can be sent. Row i sends
code c with probability weights[i][c] / 2**48. The largest ratio of two weights in one column bounds
e**epsilon, and as both are integers anyone can check that exactly: the table is the privacy claim.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ParameterError
from .exact import TOTAL, TOTAL_BITS, exp_bounds, log_above, real, whole

if TYPE_CHECKING:
    from .sampler import Sampler

__all__ = ["MAX_CODES", "NO_ANSWER", "Table", "WorstPair"]

MAX_CODES = 256  # a report is one byte
NO_ANSWER = "no answer"


@dataclass(frozen=True)
class WorstPair:
    """The two rows and the code that an adversary learns most from, and the ratio of their weights."""

    row: int
    other_row: int
    code: int
    ratio: Fraction


@dataclass(frozen=True, repr=False)
class Table:
    """A row-stochastic matrix of integer weights, each row summing to 2**48.

    `rows` and `codes` are labels. `anchors` are the numbers that the first rows stand for, evenly
    spaced from -1 to 1, and None for a table of options. With `refusal` the last row stands for a
    missing answer, which is then a value like any other.

    `blocks` are sizes of runs of neighbouring codes that every row enters with the same chance: a
    public coin that the answer has no part in (BiSample's direction s). Estimates use that it is
    known.

    >>> half = 2**47
    >>> coin = Table([[half + 1, half - 1], [half - 1, half + 1]], rows=("no", "yes"))
    >>> coin
    <Table 2 rows x 2 codes, epsilon <= 1.42e-14>
    >>> coin.worst_pair.ratio
    Fraction(140737488355329, 140737488355327)
    """

    weights: tuple[tuple[int, ...], ...]
    rows: tuple[str, ...]
    codes: tuple[str, ...] = ()
    anchors: tuple[float, ...] | None = None
    refusal: bool = False
    blocks: tuple[int, ...] = ()

    def __init__(
        self,
        weights: Sequence[Sequence[int]],
        *,
        rows: Sequence[str],
        codes: Sequence[str] = (),
        anchors: Sequence[float] | None = None,
        refusal: bool = False,
        blocks: Sequence[int] = (),
    ) -> None:
        checked = _integers(weights)
        width = len(checked[0])
        put = object.__setattr__  # the usual way to normalize the fields of a frozen dataclass
        put(self, "weights", checked)
        put(self, "rows", tuple(rows))
        put(self, "codes", tuple(codes) or tuple(str(c) for c in range(width)))
        put(self, "anchors", None if anchors is None else tuple(float(a) for a in anchors))
        put(self, "refusal", bool(refusal))
        put(self, "blocks", tuple(whole(b, 1, "the size of a block") for b in blocks) or (width,))
        self._check()

    def _check(self) -> None:
        width, height = len(self.weights[0]), len(self.weights)
        if not 2 <= width <= MAX_CODES or not 1 <= height <= MAX_CODES:
            raise ParameterError(
                f"a table has 2 to {MAX_CODES} codes and 1 to {MAX_CODES} rows, not {width} and {height}:"
                " a report is one byte"
            )
        if not all(isinstance(label, str) for label in (*self.rows, *self.codes)):
            raise ParameterError("the labels of rows and codes must be texts")
        if len(self.rows) != height or len(self.codes) != width:
            raise ParameterError(f"a table of {height} rows and {width} codes needs as many labels")
        self._check_weights(width)
        self._check_blocks(width)
        self._check_anchors(height - self.refusal)

    def _check_weights(self, width: int) -> None:
        for i, row in enumerate(self.weights):
            if len(row) != width or sum(row) != TOTAL or min(row) < 0:
                raise ParameterError(
                    f"row {i} of the table must be {width} weights from 0 that sum to 2**{TOTAL_BITS}"
                )
        for c, column in enumerate(zip(*self.weights, strict=True)):
            if min(column) == 0:
                raise ParameterError(
                    f"code {c} has weight 0 in row {column.index(0)}: whoever sends it could not be there,"
                    " and no epsilon bounds that; give it a weight of 1 or more"
                )

    def _check_blocks(self, width: int) -> None:
        if min(self.blocks) < 1 or sum(self.blocks) != width:
            raise ParameterError(f"blocks must be sizes from 1 that sum to the {width} codes")
        start = 0
        for size in self.blocks:
            if len({sum(row[start : start + size]) for row in self.weights}) != 1:
                raise ParameterError(
                    f"codes {start} to {start + size - 1} are called a block of the public coin, but rows"
                    " enter it with different chances"
                )
            start += size

    def _check_anchors(self, numbers: int) -> None:
        if self.anchors is None:
            return
        even = np.linspace(-1, 1, max(2, numbers))
        if (
            numbers < 2
            or len(self.anchors) != len(even)
            or not np.allclose(self.anchors, even, rtol=0, atol=1e-12)
        ):
            raise ParameterError("anchors must be 2 or more numbers evenly spaced from -1 to 1, one a row")

    def __repr__(self) -> str:
        return f"<Table {len(self.rows)} rows x {len(self.codes)} codes, epsilon <= {self.epsilon_upper:.3g}>"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the table as canonical JSON: two parties that agree on it agree on the mechanism."""
        import hashlib  # these two are slow to import, and a device needs neither
        import json

        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.digest)  # computed once; a large table's own tuples would be hashed every time

    @cached_property
    def matrix(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The probabilities, rows x codes, as floats: for estimates, never for the privacy claim."""
        matrix = np.array(self.weights, dtype=np.float64) / TOTAL
        matrix.setflags(write=False)
        return matrix

    @cached_property
    def sampler(self) -> Sampler:
        """Draws codes from rows, exactly as the weights say."""
        from .sampler import Sampler

        return Sampler(self.weights)

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

        >>> Table([[3 * 2**46, 2**46], [2**46, 3 * 2**46]], rows=("a", "b")).satisfies(1.0986)
        False
        """
        if not 0 <= real(epsilon) < math.inf:
            raise ParameterError(f"epsilon must be a number from 0, not {epsilon!r}")
        if real(epsilon) > TOTAL_BITS:  # no ratio of weights is above 2**48: e**epsilon need not be computed
            return True
        exact = Fraction(epsilon if isinstance(epsilon, Fraction) else real(epsilon))
        return self.worst_pair.ratio <= exp_bounds(exact)[0]

    def certificate(self, epsilon: float) -> dict[str, Any]:
        """The privacy claim with all that is needed to check it by hand, ready for JSON.

        >>> table = Table([[3 * 2**46, 2**46], [2**46, 3 * 2**46]], rows=("no", "yes"))
        >>> claim = table.certificate(1.1)
        >>> claim["worst"]["ratio"], claim["epsilon_upper"], claim["holds"]
        ('3/1', 1.0986122886681098, True)
        """
        self.satisfies(epsilon)  # refuses what is no number
        worst, epsilon = self.worst_pair, float(epsilon)  # what is printed is what is checked
        return {
            "claim": "weights[i][c] <= exp(epsilon) * weights[j][c] for all rows i, j and every code c",
            "holds": self.satisfies(epsilon),
            "epsilon": epsilon,
            "epsilon_upper": self.epsilon_upper,
            "worst": {
                "rows": [self.rows[worst.row], self.rows[worst.other_row]],
                "code": worst.code,
                "weights": [
                    self.weights[worst.row][worst.code],
                    self.weights[worst.other_row][worst.code],
                ],
                "ratio": f"{worst.ratio.numerator}/{worst.ratio.denominator}",
            },
            **self.to_dict(),
        }

    def to_dict(self) -> dict[str, Any]:
        """The table as plain data: integers below 2**53, so any JSON reader holds them exactly."""
        return {
            "total_bits": TOTAL_BITS,
            "rows": list(self.rows),
            "codes": list(self.codes),
            "anchors": None if self.anchors is None else list(self.anchors),
            "refusal": self.refusal,
            "blocks": list(self.blocks),
            "weights": [list(row) for row in self.weights],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Table:
        """The table that `to_dict` described; anything else is refused.

        >>> table = Table([[3 * 2**46, 2**46], [2**46, 3 * 2**46]], rows=("no", "yes"))
        >>> import json
        >>> Table.from_dict(json.loads(json.dumps(table.to_dict()))) == table
        True
        """
        names = ("weights", "rows", "codes", "anchors", "refusal", "blocks")
        try:
            total_bits, fields = data["total_bits"], {name: data[name] for name in names}
        except (KeyError, TypeError) as problem:
            raise ParameterError(f"not a table: {type(problem).__name__} {problem}") from problem
        if total_bits != TOTAL_BITS:
            raise ParameterError(f"total_bits must be {TOTAL_BITS}, not {total_bits!r}")
        if not isinstance(fields["refusal"], bool) or isinstance(fields["rows"], str):
            raise ParameterError("refusal must be true or false, and rows a list of texts")
        try:
            return cls(**fields)
        except ParameterError:
            raise
        except (TypeError, ValueError) as problem:
            raise ParameterError(f"not a table: {type(problem).__name__} {problem}") from problem


def _integers(weights: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The weights as Python integers. A float is refused even if it is whole: it may have been rounded."""
    rows = tuple(tuple(row) for row in weights)
    if not rows or not rows[0]:
        raise ParameterError("a table needs at least one row and two codes")
    for row in rows:
        if any(isinstance(w, bool) or not isinstance(w, (int, np.integer)) for w in row):
            raise ParameterError("weights must be integers")
    return tuple(tuple(int(w) for w in row) for row in rows)
