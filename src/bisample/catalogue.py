"""The mechanisms: one builder each, citing its equation, in one explicit dictionary with their parameters.

Equation and algorithm numbers are those of Sun et al., BiSample, DASFAA 2020, unless another paper is
named. A builder makes integer weights and a domain, and leaves its name and parameters as provenance;
everything else is shared by all. Nothing else knows what a mechanism takes: the command line, surveys
and pages read it from `CATALOGUE`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal

from bisample.errors import ParameterError, shown
from bisample.protocol.canonical import decimal_text
from bisample.protocol.domain import LARGEST_ANCHOR, Domain, Options, Range
from bisample.protocol.exact import TOTAL, check_epsilon, exp_bounds, real, whole
from bisample.protocol.mechanism import Mechanism, Provenance
from bisample.protocol.table import MAX_CODES, Table

__all__ = [
    "CATALOGUE",
    "BiSample",
    "DitheredResponse",
    "Entry",
    "FocusedResponse",
    "Harmony",
    "KRandomizedResponse",
    "Parameter",
    "PrivKV",
    "RandomizedResponse",
    "ThreeState",
    "build",
    "dithered_levels",
    "response_weights",
    "share",
]


def BiSample(epsilon: float, lower: float = -1.0, upper: float = 1.0) -> Mechanism:
    """BiSample-MD: a number or a refusal as two bits, a public direction s and a private bit b.

    Algorithms 2 and 4. Code 2s + b; s is a fair coin.
    Pr[b=1] = 1/2 + (2s - 1) v (2p - 1) / 2, and 1 - p for a refusal, with p = e^eps / (e^eps + 1):
    at v = -1 and +1 that is p or 1 - p, so that both halves are randomized response.

    The first choice for small epsilon. Without refusals in the data it is the paper's algorithm 2.

    >>> BiSample(epsilon=1, lower=17, upper=90).table
    <Table 3 rows x 4 codes, epsilon <= 1>
    """
    return _made("bisample", _bisample(check_epsilon(epsilon)), Range(lower, upper), epsilon=epsilon)


@lru_cache(maxsize=64)
def _bisample(epsilon: float) -> Table:
    p, (q,) = response_weights(TOTAL // 2, epsilon, 2)
    #  s=0: b=0, b=1; s=1: b=0, b=1, for -1, +1 and a refusal
    return Table([[q, p, p, q], [p, q, q, p], [p, q, p, q]], blocks=(2, 2))


def ThreeState(epsilon: float, lower: float = -1.0, upper: float = 1.0) -> Mechanism:
    """Round to -1 or +1, or say "no answer": three states through 3-ary randomized response.

    The state is kept with e^eps / (e^eps + 2). Better than BiSample on the missing rate, and from
    epsilon = 1 up mostly on the mean as well: not where nearly everybody answers, nor at epsilon = 1
    where the mean lies near the middle of the range.

    >>> ThreeState(epsilon=1).table
    <Table 3 rows x 3 codes, epsilon <= 1>
    """
    return _made("three-state", _response(check_epsilon(epsilon), 3), Range(lower, upper), epsilon=epsilon)


def Harmony(epsilon: float, lower: float = -1.0, upper: float = 1.0) -> Mechanism:
    """Duchi et al.'s mean of a number that everyone gives; it has no code for a refusal.

    Pr[+c] = 1/2 + v / (2c), c = (e^eps + 1) / (e^eps - 1): rounding, then randomized response.

    >>> Harmony(epsilon=1).privatize(0.3) in (0, 1)
    True
    """
    domain = Range(lower, upper, refusal=False)
    return _made("harmony", _response(check_epsilon(epsilon), 2), domain, epsilon=epsilon)


def PrivKV(epsilon: float, lower: float = -1.0, upper: float = 1.0) -> Mechanism:
    """PrivKV for one key (Ye et al., S&P 2019): half of epsilon says whether there is an answer, half which.

    Key and value each go through randomized response at eps / 2; codes <0,0>, <1,-1>, <1,+1>. Estimated
    here without bias, by the general estimator; the original's own biased estimator, and its iterations,
    are in `bisample.simulation.privkvm`.

    Its two halves never cost all of epsilon at once, because a refusal's fake value is a coin's:

    >>> round(PrivKV(epsilon=1).epsilon_upper, 2)
    0.72
    """
    return _made("privkv", _privkv(check_epsilon(epsilon)), Range(lower, upper), epsilon=epsilon)


@lru_cache(maxsize=64)
def _privkv(epsilon: float) -> Table:
    keep, (drop,) = response_weights(TOTAL, Fraction(epsilon) / 2, 2)
    same, (other,) = response_weights(keep, Fraction(epsilon) / 2, 2)
    # A refusal that is turned into a key gets a fake value from U[-1, 1], which is -1 or +1 with 1/2 each
    # once it is rounded.
    return Table([[drop, same, other], [drop, other, same], [keep, *share(drop, 2)]])


def DitheredResponse(
    epsilon: float,
    lower: float = -1.0,
    upper: float = 1.0,
    levels: int | None = None,
    steps: int | None = None,
) -> Mechanism:
    """The dithered response: rounding with a public threshold, whose noise is taken off again.

    Not in the paper. From epsilon = 1 up it is better than BiSample for the missing rate and for most
    means (at 1 not where the mean lies near the middle of the range), from 2 up mostly by large factors;
    see docs/dithered.md for the proof and for where it is not.

    The level is told through (k + 1)-ary randomized response y, in a report u (k + 1) + y. With u
    uniform and public the level is j = min(floor((v + 1) / gap + u), k - 1), or k for a refusal; y = j
    with e^eps / (e^eps + k), any other with 1 / (e^eps + k). For each u that is eps-LDP, and the answer
    has no part in u. With u in L equal steps, anchors lie L to a gap between levels, and the whole is a
    table. By default there are 16 steps, or as many as a byte has codes for.

    >>> DitheredResponse(epsilon=2, lower=17, upper=90).table
    <Table 34 rows x 64 codes, epsilon <= 2>
    """
    levels, steps = _levels_and_steps(epsilon, levels, steps)
    domain = Range(lower, upper, range(steps * (levels - 1) + 1))
    table = _dithered(check_epsilon(epsilon), levels, steps)
    return _made("dithered", table, domain, epsilon=epsilon, levels=levels, steps=steps)


def dithered_levels(epsilon: float) -> int:
    """The number of levels that suits an epsilon: k = round(1 + 0.84 e^(eps/3)), from 2 to what a byte holds.

    >>> [dithered_levels(epsilon) for epsilon in (0.1, 1, 2, 4, 6, 8, 20)]
    [2, 2, 3, 4, 7, 13, 255]
    """
    return min(max(2, round(1 + 0.84 * math.exp(check_epsilon(epsilon) / 3))), MAX_CODES - 1)


def _levels_and_steps(epsilon: float, levels: int | None, steps: int | None) -> tuple[int, int]:
    levels = dithered_levels(epsilon) if levels is None else whole(levels, 2, "levels")
    most = MAX_CODES // (levels + 1)
    if not most:
        raise ParameterError(f"levels must be at most {MAX_CODES - 1}, not {levels}: a report is one byte")
    steps = min(16, most) if steps is None else whole(steps, 1, "steps")
    if steps > most:
        raise ParameterError(
            f"{levels} levels in {steps} steps make {steps * (levels + 1)} codes, and a report is one byte:"
            f" take steps of at most {most}, or fewer levels"
        )
    return levels, steps


@lru_cache(maxsize=64)
def _dithered(epsilon: float, levels: int, steps: int) -> Table:
    ways, anchors = levels + 1, steps * (levels - 1) + 1
    responses = [_response_rows(total, epsilon, ways) for total in share(TOTAL, steps)]

    def level(row: int, u: int) -> int:
        return levels if row == anchors else min((row + u) // steps, levels - 1)

    return Table(
        [
            [weight for u in range(steps) for weight in responses[u][level(row, u)]]
            for row in range(anchors + 1)
        ],
        blocks=[ways] * steps,
    )


def FocusedResponse(
    epsilon: float,
    lower: float = -1.0,
    upper: float = 1.0,
    mean: float | None = None,
    spread: float | None = None,
    levels: int | None = None,
    steps: int | None = None,
) -> Mechanism:
    """The dithered response with its levels where answers are expected: around `mean`, `spread` wide.

    From epsilon = 2 up, and where the guess is right, the mean's error is smaller; where it is wrong it is
    larger. The table is the dithered response's to the last integer, so that epsilon, unbiasedness and the
    answer rate's error do not depend on the guess; only the anchors, the numbers that rows stand for, do:
    the steps divide each gap between two levels evenly. The guess is published. Take it from public
    statistics or from a former private estimate, never from raw answers. Without one the levels are the
    dithered response's.

    >>> FocusedResponse(epsilon=4, lower=0, upper=100, mean=75, spread=5).domain.values[::16].round(1)
    array([  0. ,  65.2,  77.3, 100. ])
    """
    levels, steps = _levels_and_steps(epsilon, levels, steps)
    whole_range = Range(lower, upper)
    low, high = whole_range.lower, whole_range.upper
    centre, half = (high + low) / 2, (high - low) / 2
    told = {name: value for name, value in (("mean", mean), ("spread", spread)) if value is not None}
    expected = real(told.get("mean", centre))
    around = real(told.get("spread", half / math.sqrt(3)))  # that of answers spread evenly
    if not low <= expected <= high:
        raise ParameterError(f"mean must lie in [{low:.15g}, {high:.15g}], not {shown(mean)}")
    if not 0 <= around <= high - low:
        raise ParameterError(
            f"spread must be from 0 to upper - lower, {high - low:.15g}, not {shown(spread)}"
        )
    size = LARGEST_ANCHOR // steps  # of the range, in units that every gap's steps divide
    found = _focused_levels(levels, (expected - centre) / half, around / half)
    knots = [round((x + 1) / 2 * size) for x in found]
    anchors = [a * steps + u * (b - a) for a, b in pairwise(knots) for u in range(steps)]
    return _made(
        "focused",
        _dithered(check_epsilon(epsilon), levels, steps),
        Range(lower, upper, [*anchors, knots[-1] * steps]),
        epsilon=epsilon,
        **{name: decimal_text(value, name) for name, value in told.items()},
        levels=levels,
        steps=steps,
    )


def _focused_levels(k: int, mean: float, spread: float) -> list[float]:
    """Where in [-1, 1] the k levels lie: both ends, and the others around 0.85 * mean.

    >>> _focused_levels(3, 0.5, 0.1), [round(x, 3) for x in _focused_levels(4, 0.5, 0.1)]
    ([-1.0, 0.425, 1.0], [-1.0, 0.305, 0.545, 1.0])
    """
    # 0.85 and 0.3 minimise the variance for normal answers; a guess narrower than 0.05 is too bold.
    centre = 0.85 * mean
    if k == 2:
        return [-1.0, 1.0]
    if k == 3:
        return [-1.0, min(max(centre, -0.9), 0.9), 1.0]
    reach = min(0.3 * k * max(spread, 0.05), (k - 3) / (k - 1))
    low, high = centre - reach, centre + reach
    half_gap = reach / (k - 3)
    # Where a side has no room for half a gap, the levels begin with the end itself.
    if low - half_gap < -1:
        return [*_evenly(-1.0, high, k - 1), 1.0]
    if high + half_gap > 1:
        return [-1.0, *_evenly(low, 1.0, k - 1)]
    return [-1.0, *_evenly(low, high, k - 2), 1.0]


def _evenly(start: float, end: float, count: int) -> list[float]:
    return [start + (end - start) * i / (count - 1) for i in range(count)]


def RandomizedResponse(epsilon: float, options: Sequence[object] = (False, True)) -> Mechanism:
    """Warner's randomized response to a yes/no question; it has no code for a refusal.

    Definition 2: the truth with p = e^eps / (e^eps + 1).

    >>> RandomizedResponse(epsilon=1).privatize(True) in (0, 1)
    True
    """
    domain = Options(options, refusal=False)
    if domain.height != 2:
        raise ParameterError(f"randomized response has 2 options, not {domain.height}: take k-rr")
    return _made("rr", _response(check_epsilon(epsilon), 2), domain, epsilon=epsilon)


def KRandomizedResponse(epsilon: float, options: Sequence[object]) -> Mechanism:
    """k-ary randomized response among options, with "no answer" as one option more.

    The truth with e^eps / (e^eps + k), each of the k others with 1 / (e^eps + k).

    >>> KRandomizedResponse(epsilon=1, options=["never", "once", "often"]).table
    <Table 4 rows x 4 codes, epsilon <= 1>
    """
    domain = Options(options)
    return _made("k-rr", _response(check_epsilon(epsilon), domain.height), domain, epsilon=epsilon)


# --- The catalogue ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """What a builder takes besides epsilon and the domain: its type, range, default and a line of help."""

    name: str
    kind: type[int | float]
    range: str
    default: str
    help: str


@dataclass(frozen=True)
class Entry:
    """One mechanism: its builder, what its domain is, whether it takes refusals, and what else it is told."""

    name: str
    builder: Callable[..., Mechanism]
    domain: Literal["range", "options"]
    refusal: bool
    help: str
    parameters: tuple[Parameter, ...] = ()

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of everything that the builder can be told."""
        ends = ("lower", "upper") if self.domain == "range" else ("options",)
        return ("epsilon", *ends, *(parameter.name for parameter in self.parameters))

    @property
    def needs(self) -> tuple[str, ...]:
        """The names of what has no default."""
        signature = inspect.signature(self.builder).parameters
        return tuple(name for name in self.takes if signature[name].default is inspect.Parameter.empty)


_DITHERING = (
    Parameter("levels", int, "2 to 255", "by epsilon", "levels that a number is rounded to"),
    Parameter("steps", int, "1 to 85", "16, or what fits a byte", "steps of the public threshold"),
)

_FOCUS = (
    Parameter("mean", float, "from lower to upper", "the middle", "where answers are expected"),
    Parameter("spread", float, "0 to upper - lower", "evenly spread", "their standard deviation"),
    *_DITHERING,
)

CATALOGUE: Mapping[str, Entry] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Entry("bisample", BiSample, "range", True, "the paper's BiSample-MD: best below epsilon = 1"),
            Entry("dithered", DitheredResponse, "range", True, "ours: best from epsilon = 1 up", _DITHERING),
            Entry("focused", FocusedResponse, "range", True, "ours: where answers are expected", _FOCUS),
            Entry("three-state", ThreeState, "range", True, "for the missing rate"),
            Entry("privkv", PrivKV, "range", True, "the paper's rival, estimated without bias"),
            Entry("harmony", Harmony, "range", False, "where everybody answers"),
            Entry("rr", RandomizedResponse, "options", False, "yes or no, where everybody answers"),
            Entry("k-rr", KRandomizedResponse, "options", True, "a choice of 2 to 255 options"),
        )
    }
)


def build(name: str, **parameters: Any) -> Mechanism:
    """The mechanism of this name in the catalogue.

    >>> build("three-state", epsilon=1, lower=0, upper=10)
    <Mechanism three-state(epsilon=1): numbers from 0 to 10 or no answer, 3 codes, epsilon <= 1>
    >>> build("three-state", epsilon=1, levels=4)
    Traceback (most recent call last):
    bisample.errors.ParameterError: three-state takes epsilon, lower, upper, and no levels
    """
    entry = CATALOGUE.get(name) if isinstance(name, str) else None
    if entry is None:
        raise ParameterError(f"mechanism must be one of {', '.join(CATALOGUE)}, not {shown(name)}")
    for parameter in parameters:
        if parameter not in entry.takes:
            raise ParameterError(f"{name} takes {', '.join(entry.takes)}, and no {parameter}")
    for need in entry.needs:
        if need not in parameters:
            raise ParameterError(f"{name} needs {' and '.join(entry.needs)}: {need} was not given")
    return entry.builder(**parameters)


# --- What the builders share ------------------------------------------------------------------------


def _made(name: str, table: Table, domain: Domain, *, epsilon: float, **parameters: Any) -> Mechanism:
    """A mechanism with its provenance; nothing is released without proof."""
    asked = check_epsilon(epsilon)
    if not table.satisfies(asked):  # no assert, which python -O would leave out
        raise ParameterError(f"the table's epsilon, {table.epsilon_upper}, is above the {asked} asked for")
    return Mechanism(table, domain, Provenance(name, {"epsilon": decimal_text(asked), **parameters}))


@lru_cache(maxsize=64)
def _response(epsilon: float, k: int) -> Table:
    """The table of k-ary randomized response."""
    return Table(_response_rows(TOTAL, epsilon, k))


def _response_rows(total: int, epsilon: float, k: int) -> list[list[int]]:
    """The k rows of k-ary randomized response."""
    truth, others = response_weights(total, epsilon, k)
    return [[*others[:i], truth, *others[i:]] for i in range(k)]


def share(total: int, parts: int) -> list[int]:
    """Split an integer into parts that differ by at most one, the larger ones first.

    >>> share(10, 4)
    [3, 3, 2, 2]
    """
    each, rest = divmod(total, parts)
    return [each + (i < rest) for i in range(parts)]


def response_weights(total: int, epsilon: Fraction | float, k: int) -> tuple[int, list[int]]:
    """Integer weights of k-ary randomized response: (of the truth, of each of the k-1 others).

    They sum to `total`, and truth <= e**epsilon * other holds exactly for every other.

    >>> truth, others = response_weights(2**48, 1.0, 3)
    >>> truth + sum(others) == 2**48, round(truth / min(others), 9)
    (True, 2.718281828)
    """
    # The ideal weight of another is total / (e^epsilon + k - 1). Two ways to round it towards
    # privacy: every other up, which costs most where k is large; or every other down and the truth
    # to at most e^epsilon times that, which costs most where epsilon is large. The better one wins.
    e_low = exp_bounds(Fraction(epsilon))[0]
    ideal = total / (e_low + k - 1)
    up, down = math.ceil(ideal), math.floor(ideal)
    truth = max(
        (total - (k - 1) * up, math.floor(e_low * down)),
        key=lambda t: Fraction(t, max(1, (total - t) // (k - 1))),
    )
    others = share(total - truth, k - 1)
    if others[-1] < 1 or truth <= others[0]:
        raise ParameterError(
            f"epsilon = {float(epsilon):g} is too {'large' if epsilon > 1 else 'small'} for {k} codes"
            f" with weights that sum to {total}: choose an epsilon nearer to 1, or fewer codes"
        )
    return truth, others
