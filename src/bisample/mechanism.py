"""Mechanism: a table with a domain. From answers to reports, from reports to a tally, to an estimate.

There are two domains. A number between two anchors goes to one of them at random, so that its
expectation is itself: a convex mix of two rows is never less private than the rows, whatever the
float's last bits do. A choice is a row of its own.

The bytes drawn for a report are: for a number 4 (a little-endian signed word w: the anchor), then for
every report 2 (a little-endian unsigned word: the code), then 4 more if that word is a tie. Many
answers are drawn in blocks of 131,072: all anchor words of the block, all code words, all ties.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from . import randomness
from .answers import Numbers, check_options, check_range, read_numbers, read_options
from .errors import AnswerError, ParameterError, ReportError
from .exact import check_epsilon, real
from .randomness import Rng, Source
from .sampler import Bytes
from .table import Table

if TYPE_CHECKING:
    # A device that only sends never estimates: these are imported where they are used.
    from .estimate import ChoiceEstimate, Estimate
    from .solve import Counts, Floats

__all__ = ["BLOCK", "ChoiceMechanism", "Mechanism", "NumberMechanism", "Variance", "registered"]

# Large enough that the cost of calling NumPy is spread thin, small enough that a block's few arrays
# stay in the cache.
BLOCK = 131_072
_WORD = 2.0**32

_registry: dict[str, type[Mechanism]] = {}


def registered() -> dict[str, type[Mechanism]]:
    """All mechanisms that are tables, by name.

    >>> "bisample" in registered()
    True
    """
    return dict(_registry)


@dataclass(frozen=True)
class Variance:
    """n times the variance of each estimate, so that variance / n is that of n reports.

    For the total it is that of total / n: the variance of the total itself is n times this.
    """

    mean: float | None = None
    total: float | None = None
    answer_rate: float | None = None
    proportions: dict[Hashable, float] | None = None


class Mechanism(ABC):
    """What every mechanism that is a table can do."""

    name: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            _registry[cls.name] = cls

    def __init__(self, epsilon: float, table: Table) -> None:
        self.epsilon = epsilon
        self.table = table
        if not table.satisfies(epsilon):  # the builders see to it; nothing is released without proof
            raise ParameterError(f"the table's epsilon, {table.epsilon_upper}, is above {epsilon}")

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The parameters, as plain data from which the same mechanism can be made again."""

    @abstractmethod
    def privatize(self, answers: object, *, rng: Rng = None) -> Any:
        """One code for each answer: a `uint8` array, or an int for a scalar."""

    @abstractmethod
    def estimate(
        self, tally: object, level: float = 0.95, question: str | None = None
    ) -> Estimate | ChoiceEstimate:
        """What a tally says, with standard errors and intervals."""

    def __repr__(self) -> str:
        parameters = ", ".join(f"{k}={v!r}" for k, v in self.describe().items() if k != "mechanism")
        return f"{type(self).__name__}({parameters})"

    def __eq__(self, other: object) -> bool:
        # By repr, as the hash: options 0 and False are equal in Python, and not the same table.
        return isinstance(other, Mechanism) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def epsilon_upper(self) -> float:
        """A proven bound of the table's epsilon; never above the epsilon asked for."""
        return self.table.epsilon_upper

    def certificate(self) -> dict[str, Any]:
        """The privacy claim, with the table and the worst pair of rows; ready for JSON.

        >>> from bisample import BiSample
        >>> claim = BiSample(epsilon=1).certificate()
        >>> claim["holds"], claim["epsilon_upper"] <= 1
        (True, True)
        """
        return {**self.describe(), **self.table.certificate(self.epsilon)}

    def tally(self, reports: object) -> Counts:
        """Count the codes: an int64 vector. Tallies of parts add up to the tally of the whole.

        >>> from bisample import BiSample
        >>> BiSample(epsilon=1).tally([0, 3, 3, 1])
        array([1, 1, 0, 2])
        """
        try:
            codes = np.atleast_1d(np.asarray(reports))
        except ValueError:  # ragged
            codes = np.empty((0, 0))
        if codes.shape == (0,):
            codes = codes.astype(np.uint8)
        width = len(self.table.codes)
        if codes.dtype.kind not in "iu" or codes.ndim != 1 or np.ma.is_masked(reports):
            raise ReportError("reports must be integer codes in one dimension, as privatize() returns them")
        counts = np.zeros(256, dtype=np.int64)
        for start in range(0, len(codes), BLOCK):
            block = codes[start : start + BLOCK]
            if block.dtype != np.uint8:
                if block.min() < 0 or block.max() >= width:
                    raise self._unknown_code()
                block = block.astype(np.uint8)
            counts += np.bincount(block, minlength=256)
        if counts[width:].any():
            raise self._unknown_code()
        return counts[:width]

    def _unknown_code(self) -> ReportError:
        return ReportError(
            f"a report is no code of {self.name}, whose codes are 0 to {len(self.table.codes) - 1}:"
            " was it made by another mechanism?"
        )

    def _draw(self, rows: Iterator[Bytes], size: int, source: Source) -> Bytes:
        """One code for each row index, block by block."""
        out = np.empty(size, dtype=np.uint8)
        words = np.empty(min(size, BLOCK), dtype="<u2")
        scratch = np.empty(len(words), dtype=np.intp)
        start = 0
        for block in rows:
            count = len(block)
            source.fill(words[:count].data.cast("B"))
            self.table.sampler.draw(block, words[:count], source, out[start : start + count], scratch[:count])
            start += count
        return out


class NumberMechanism(Mechanism):
    """A mechanism for numbers in [lower, upper]: the table's anchors are spread over that range.

    A subclass is a name and a `build`.
    """

    def __init__(self, epsilon: float, lower: float = -1.0, upper: float = 1.0, **options: Any) -> None:
        self.lower, self.upper = check_range(lower, upper)
        self._options = options
        epsilon = check_epsilon(epsilon)
        super().__init__(epsilon, self.build(epsilon, **options))
        assert self.table.anchors is not None
        self._gaps = len(self.table.anchors) - 1
        gap = (self.upper - self.lower) / self._gaps
        self._first_middle = self.lower + gap / 2
        # Large enough that both ends reach their anchor for every word, wherever the middle was rounded
        # to, and nudged up for what these divisions rounded.
        scale = max(
            _WORD / gap,
            _WORD / 2 / (self._first_middle - self.lower),
            _WORD * (self._gaps - 0.5) / (self.upper - self._first_middle),
        )
        while (self.lower - self._first_middle) * scale > -_WORD / 2 or (
            self.upper - self._first_middle
        ) * scale < (self._gaps - 0.5) * _WORD:
            scale = math.nextafter(scale, math.inf)
        self._scale = scale

    @staticmethod
    @abstractmethod
    def build(epsilon: float) -> Table:
        """The table at this epsilon."""

    def describe(self) -> dict[str, Any]:
        return {
            "mechanism": self.name,
            "epsilon": self.epsilon,
            "lower": self.lower,
            "upper": self.upper,
            **self._options,
        }

    def privatize(self, answers: object, *, rng: Rng = None, clip: bool = False) -> Any:
        """One code for each answer: a `uint8` array, or an int for a scalar. Missing answers are sent too.

        `answers` is a number or None, a list, a NumPy array, masked or not, or a column of pandas,
        Polars or Arrow. An answer outside [lower, upper] is an error unless `clip` moves it to the
        nearest end. `rng` is None (secure), or a seed or a NumPy generator for simulations.

        >>> from bisample import BiSample
        >>> m = BiSample(epsilon=1, lower=17, upper=90)
        >>> m.privatize([38, None, 90], rng=1)
        array([0, 0, 3], dtype=uint8)
        >>> m.privatize(None) in (0, 1, 2, 3)
        True
        """
        column = read_numbers(answers)
        source = randomness.resolve(rng)
        reports = self._draw(self._rows(column, source, clip), len(column), source)
        return int(reports[0]) if column.scalar else reports

    def _rows(self, column: Numbers, source: Source, clip: bool) -> Iterator[Bytes]:
        """Round each number to one of its two anchors; NaN and masked go to the refusal's row."""
        size = len(column)
        length = min(size, BLOCK)
        words = np.empty(length, dtype="<i4")
        numbers, anchor_words = np.empty(length), np.empty(length)
        missing, rows = np.empty(length, dtype=np.bool_), np.empty(length, dtype=np.uint8)
        refusal = np.uint8(self._gaps + 1)  # its row; a missing answer's row is 0 until it is added
        for start in range(0, size, BLOCK):
            stop = min(start + BLOCK, size)
            if stop - start < len(rows):
                count = stop - start
                words, numbers, anchor_words = words[:count], numbers[:count], anchor_words[:count]
                missing, rows = missing[:count], rows[:count]
            block = column.values[start:stop]
            if block.dtype != np.float64:
                with np.errstate(invalid="ignore"):  # a signalling NaN of float32 is missing like any
                    np.copyto(numbers, block)
                block = numbers
            if column.missing is not None:
                np.copyto(numbers, block)
                np.copyto(numbers, np.nan, where=column.missing[start:stop])
                block = numbers
            if not self._in_range(block):
                self._refuse_range(block, clip)
                np.copyto(numbers, block)
                block = np.clip(numbers, self.lower, self.upper, out=numbers)
            np.isnan(block, out=missing)
            if not self.table.refusal and missing.any():
                raise AnswerError(
                    f"an answer is missing, and {self.name} has no code for a refusal:"
                    " take a mechanism that has, such as BiSample or ThreeState"
                )
            source.fill(words.data.cast("B"))
            # The anchor above is taken when w < z, w uniform in [-2^31, 2^31) and z the distance
            # from the middle of the gap in units of gap / 2^32. With more anchors each gap counts.
            with np.errstate(invalid="ignore"):
                if self._first_middle:  # nothing to take off where the range is symmetric
                    block = np.subtract(block, self._first_middle, out=numbers)
                np.multiply(block, self._scale, out=numbers)
            np.copyto(anchor_words, words)
            if self._gaps == 1:
                np.less(anchor_words, numbers, out=rows.view(np.bool_))
            else:
                np.subtract(numbers, anchor_words, out=numbers)
                np.multiply(numbers, 1 / _WORD, out=numbers)
                np.ceil(numbers, out=numbers)
                # Clamped to the anchors: rounding may bias by a hair, but never leave the table. What
                # is missing becomes row 0 here, because fmax prefers a number to NaN.
                np.fmax(numbers, 0, out=numbers)
                np.fmin(numbers, self._gaps, out=numbers)
                np.copyto(rows, numbers, casting="unsafe")
            if self.table.refusal:
                # Arithmetic, and not where=missing: branches on random answers are slow, and may be timed.
                rows += missing.view(np.uint8) * refusal
            yield rows

    def _in_range(self, block: Floats) -> bool:
        # fmin and fmax pass over NaN; a block of NaN only compares False and is in range.
        return not (np.fmin.reduce(block) < self.lower or np.fmax.reduce(block) > self.upper)

    def _refuse_range(self, block: Floats, clip: bool) -> None:
        if np.isinf(block).any():
            raise AnswerError("an answer is infinite: replace it by a number, or by None to decline")
        if not clip:
            raise AnswerError(
                f"an answer lies outside [{self.lower:g}, {self.upper:g}]: widen lower and upper,"
                " or ask for clip (clip=True, --clip) to move such answers to the nearest end"
            )

    def estimate(self, tally: object, level: float = 0.95, question: str | None = None) -> Estimate:
        """Mean, total and rates with standard errors and intervals, from a tally.

        `question` is a name for the estimate to carry.

        >>> from bisample import BiSample
        >>> m = BiSample(epsilon=2, lower=17, upper=90)
        >>> e = m.estimate(m.tally(m.privatize([40] * 7_000 + [None] * 3_000, rng=0)))
        >>> abs(e.mean - 40) < 4 * e.mean_error, abs(e.answer_rate - 0.7) < 4 * e.answer_rate_error
        (True, True)
        """
        from .estimate import estimate_number

        return estimate_number(
            self.table,
            tally,
            lower=self.lower,
            upper=self.upper,
            level=level,
            mechanism=self.name,
            epsilon=self.epsilon,
            question=question,
        )

    def variance(
        self, values: object, *, answer_rate: float | None = None, realised: bool = False
    ) -> Variance:
        """n times the variance of the estimates, if people hold these values (NaN: no answer).

        With `answer_rate`, the missing entries are set aside and this share of people answers. The
        variance is that for a population the respondents are drawn from; `realised` gives the
        smaller one around the mean of the respondents themselves, as the paper measures it.

        >>> from bisample import BiSample
        >>> v = BiSample(epsilon=1).variance([0.5], answer_rate=0.7, realised=True)
        >>> round(v.mean, 2), round(v.answer_rate, 2)
        (10.97, 4.26)
        """
        from .estimate import number_targets
        from .solve import variances

        answered, rate = self._answered(values, answer_rate)
        scaled = 2 * (answered - self.lower) / (self.upper - self.lower) - 1
        mean, spread = float(scaled.mean()), float(scaled.var())
        shares = self.row_shares(answered, rate)
        targets = number_targets(self.table)
        covariance = variances(self.table, shares, targets)
        centre, half = (self.upper + self.lower) / 2, (self.upper - self.lower) / 2
        ratio = np.array([1.0, -mean]) / rate
        total = np.array([half, centre])
        v_mean, v_rate = ratio @ covariance @ ratio, covariance[1, 1]
        v_total = total @ covariance @ total
        if realised:  # what drawing the respondents adds: E[g.report | person] is T of the person
            v_mean, v_rate = v_mean - spread / rate, v_rate - rate * (1 - rate)
            middle = centre + half * mean
            v_total -= rate * (half**2 * spread + middle**2) - (rate * middle) ** 2
        return Variance(
            mean=half**2 * float(v_mean),
            total=float(v_total),
            answer_rate=float(v_rate) if self.table.refusal else 0.0,
        )

    def row_shares(self, values: object, answer_rate: float | None = None) -> Floats:
        """The shares of the table's rows, if people hold these values (NaN: no answer).

        A number between two anchors counts for each in proportion. With `answer_rate`, the missing
        entries are set aside and this share of people answers.

        >>> from bisample import BiSample
        >>> BiSample(epsilon=1).row_shares([0.5, -1.0, None, None])
        array([0.3125, 0.1875, 0.5   ])
        """
        answered, rate = self._answered(values, answer_rate)
        position = (answered - self.lower) / (self.upper - self.lower) * self._gaps
        below = np.minimum(np.floor(position).astype(np.intp), self._gaps - 1)
        above = position - below
        height = len(self.table.rows)
        counts = np.bincount(below, weights=1 - above, minlength=height)
        counts = counts + np.bincount(below + 1, weights=above, minlength=height)
        shares = np.asarray(counts * (rate / len(answered)), dtype=np.float64)
        if self.table.refusal:
            shares[-1] = 1 - rate
        return shares

    def _answered(self, values: object, answer_rate: float | None) -> tuple[Floats, float]:
        """The values without what is missing, checked, and the answer rate."""
        held = read_numbers(values).to_floats()
        answered = held[~np.isnan(held)]
        rate = len(answered) / max(1, len(held)) if answer_rate is None else real(answer_rate)
        if not len(answered) or not 0 < rate <= 1:
            raise ParameterError("variance needs at least one value, and an answer rate above 0 and up to 1")
        if rate < 1 and not self.table.refusal:
            raise ParameterError(f"{self.name} has no code for a refusal: its answer rate is 1")
        if not self._in_range(answered):
            self._refuse_range(answered, clip=False)
        return answered, rate


class ChoiceMechanism(Mechanism):
    """A mechanism for one of a few options, each a row of the table.

    A subclass is a name and a `build`.
    """

    def __init__(self, epsilon: float, options: Sequence[Hashable]) -> None:
        self.options = check_options(options)
        epsilon = check_epsilon(epsilon)
        super().__init__(epsilon, self.build(epsilon, tuple(str(option) for option in self.options)))

    @staticmethod
    @abstractmethod
    def build(epsilon: float, labels: tuple[str, ...]) -> Table:
        """The table at this epsilon, with a row for each option."""

    def describe(self) -> dict[str, Any]:
        return {"mechanism": self.name, "epsilon": self.epsilon, "options": list(self.options)}

    def privatize(self, answers: object, *, rng: Rng = None) -> Any:
        """One code for each answer: a `uint8` array, or an int for a scalar.

        >>> from bisample import KRandomizedResponse
        >>> m = KRandomizedResponse(epsilon=1, options=["tea", "coffee"])
        >>> m.privatize(["tea", None, "coffee"], rng=1)
        array([2, 2, 1], dtype=uint8)
        """
        column = read_options(answers, self.options)
        if not self.table.refusal and (column.rows == len(self.options)).any():
            raise AnswerError(
                f"an answer is missing, and {self.name} has no code for a refusal:"
                " take KRandomizedResponse, which has"
            )
        blocks = (column.rows[start : start + BLOCK] for start in range(0, len(column), BLOCK))
        reports = self._draw(blocks, len(column), randomness.resolve(rng))
        return int(reports[0]) if column.scalar else reports

    def estimate(self, tally: object, level: float = 0.95, question: str | None = None) -> ChoiceEstimate:
        """The proportion of each option among those who answer, with errors and intervals.

        >>> from bisample import RandomizedResponse
        >>> round(RandomizedResponse(epsilon=1).estimate([600, 400]).proportions[True], 4)
        0.2836
        """
        from .estimate import estimate_choice

        return estimate_choice(
            self.table,
            tally,
            options=self.options,
            level=level,
            mechanism=self.name,
            epsilon=self.epsilon,
            question=question,
        )

    def variance(
        self, values: object, *, answer_rate: float | None = None, realised: bool = False
    ) -> Variance:
        """n times the variance of each proportion and of the answer rate, if people hold these answers.

        >>> from bisample import RandomizedResponse
        >>> round(RandomizedResponse(epsilon=1).variance([True, False]).proportions[True], 4)
        1.1707
        """
        from .estimate import choice_targets
        from .solve import variances

        held = np.bincount(read_options(values, self.options).rows, minlength=len(self.options) + 1)
        answered = int(held[:-1].sum())
        rate = answered / max(1, int(held.sum())) if answer_rate is None else real(answer_rate)
        if not answered or not 0 < rate <= 1:
            raise ParameterError("variance needs at least one answer, and an answer rate above 0 and up to 1")
        if rate < 1 and not self.table.refusal:
            raise ParameterError(f"{self.name} has no code for a refusal: its answer rate is 1")
        proportions = held[:-1] / answered
        shares = np.append(proportions * rate, 1 - rate)[: len(self.table.rows)]
        covariance = variances(self.table, shares, choice_targets(self.table))
        result: dict[Hashable, float] = {}
        for i, option in enumerate(self.options):
            ratio = np.zeros(len(self.options) + 1)
            ratio[i], ratio[-1] = 1, -proportions[i]
            v = ratio @ covariance @ ratio / rate**2
            result[option] = float(v - realised * proportions[i] * (1 - proportions[i]) / rate)
        v_rate = covariance[-1, -1] - realised * rate * (1 - rate)
        return Variance(proportions=result, answer_rate=float(v_rate) if self.table.refusal else 0.0)
