"""The tests of the tests: each mutant is caught by the checkers that claim to catch it.

A checker is a function in checks.py that test_statistics runs on the real code. Here every checker
first passes on the real mechanism at the very n and seed at which it then has to raise its own alarm on
the mutant. ALPHA = 1e-6 for each; where the power matters it is computed and asserted.
"""

import math

import checks
import numpy as np
import pytest
from checks import ALPHA, LOWER, UPPER, case_id

from bisample.device.randomness import Simulation
from bisample.protocol.exact import TOTAL

EPSILON = 1.0
N = 60_000
SEED = 801

# Standard deviations to spare that make a power of 1 - 1e-6.
SPARE = 4.76


def honest(mechanism):
    return mechanism, lambda answers, rng: mechanism.privatize(answers, rng=rng)


# Mutants: from a real mechanism of a kind to one that is wrong, and its `draw`.


def stretched(factor):
    """The table of factor * epsilon under the name and the promise of epsilon."""

    def mutate(kind, mechanism):
        return honest(checks.with_weights(mechanism, _other(kind, factor).weights))

    return mutate


def _other(kind, factor):
    """The table of another epsilon; epsilons are chosen such that its shape stays."""
    return checks.make(kind, factor * EPSILON).table


def stretched_device(factor):
    """The device uses factor * epsilon, the collector epsilon."""

    def mutate(kind, mechanism):
        return mechanism, stretched(factor)(kind, mechanism)[1]

    return mutate


def swapped_codes(kind, mechanism):  # noqa: ARG001
    """Codes 0 and 1 change places as they are sent; the table, and so the certificate, is the right one."""
    sent = np.arange(mechanism.table.width, dtype=np.uint8)
    sent[:2] = 1, 0
    return mechanism, lambda answers, rng: sent[mechanism.privatize(answers, rng=rng)]


def constant(kind, mechanism):  # noqa: ARG001
    """Everybody sends code 0."""
    return mechanism, lambda answers, rng: np.zeros(len(answers), dtype=np.uint8)  # noqa: ARG005


class Source(Simulation):
    """Randomness that fails in one way; `fill` is called for anchors, then codes, then ties."""

    def stream(self, block):
        self._stream, self._last = super().stream(block), b""
        return self

    @property
    def sequential(self):
        return True  # a block's last words are kept here

    def fill(self, buffer):
        self._stream.fill(buffer)
        self.spoil(buffer)
        self._last = bytes(buffer)

    def spoil(self, buffer):
        raise NotImplementedError


class CodesFromAnchorBits(Source):
    """The code's word is the upper half of the anchor's word, drawn just before."""

    def spoil(self, buffer):
        if len(self._last) == 2 * len(buffer):
            words = np.frombuffer(self._last, dtype="<u2")[1::2]
            buffer[:] = memoryview(np.ascontiguousarray(words)).cast("B")


class NeighboursShareWords(Source):
    """Every second 16-bit word is the one before."""

    def spoil(self, buffer):
        words = np.frombuffer(bytes(buffer), dtype="<u2").copy()
        words[1::2] = words[: len(words) // 2 * 2 : 2]
        buffer[:] = memoryview(words).cast("B")


def on_source(kind_of_source):
    def mutate(kind, mechanism):  # noqa: ARG001
        return mechanism, lambda answers, rng: mechanism.privatize(answers, rng=kind_of_source(rng))

    return mutate


def biased_coin(kind, mechanism):  # noqa: ARG001
    """The first half of the coin's blocks 2 % rarer: for BiSample Pr[s = 1] = 0.51. Still epsilon-private."""
    blocks = mechanism.table.blocks
    middle = sum(blocks[: len(blocks) // 2])
    first = [sum(row[:middle]) for row in mechanism.table.weights]
    weights = []
    for row, mass in zip(mechanism.table.weights, first, strict=True):
        moved = mass * 2 // 100
        scaled = [w - w * moved // mass for w in row[:middle]]
        scaled += [w + w * moved // (TOTAL - mass) for w in row[middle:]]
        weights.append(scaled)
    # Rows must enter a block with the same chance to the last unit, and sum to the total.
    for start, end in mechanism.table.block_ends:
        wanted = sum(weights[0][start:end])
        for row in weights:
            row[start] += wanted - sum(row[start:end])
    for row in weights:
        row[-1] += TOTAL - sum(row)
    return honest(checks.with_weights(mechanism, weights))


def biased_rounding(kind, mechanism):  # noqa: ARG001
    """Numbers go to the nearer anchor, not to one of the two at random."""
    gap = (UPPER - LOWER) / mechanism.domain.last

    def draw(answers, rng):
        return mechanism.privatize(LOWER + np.round((answers - LOWER) / gap) * gap, rng=rng)

    return mechanism, draw


def dropped_refusals(kind, mechanism):  # noqa: ARG001
    """Who declines sends nothing."""
    return mechanism, lambda answers, rng: mechanism.privatize(answers[~np.isnan(answers)], rng=rng)


def refusals_as_an_answer(kind, mechanism):  # noqa: ARG001
    """A refusal is taken for the middle of the range, or for the first option."""
    instead = (LOWER + UPPER) / 2 if checks.numeric(mechanism) else checks.OPTIONS[0]
    return mechanism, lambda answers, rng: mechanism.privatize(
        np.where(np.isnan(answers), instead, answers), rng=rng
    )


def refusals_in_the_clear(kind, mechanism):  # noqa: ARG001
    """A refusal always sends the last code."""

    def draw(answers, rng):
        absent = np.isnan(answers)
        filled = np.where(absent, checks.probes(mechanism)[0], answers)
        return np.where(absent, np.uint8(mechanism.table.width - 1), mechanism.privatize(filled, rng=rng))

    return mechanism, draw


# What catches what


CHECKERS = {
    "codes": checks.check_codes,
    "independence": checks.check_independence,
    "refusals": checks.check_refusals,
    "bias": checks.check_bias,
    "exact epsilon": checks.check_exact_epsilon,
    "audit": checks.check_audit,
}


def any_kind(_):
    return True


def refusing(mechanism):
    return mechanism.domain.refusal


def tight(mechanism):
    """Not PrivKV: at 1.1 epsilon it still keeps what it promises for epsilon."""
    return mechanism.epsilon_upper > 0.99 * EPSILON


def tossing(mechanism):
    return len(mechanism.table.blocks) > 1


def coarse(mechanism):
    return checks.numeric(mechanism) and mechanism.domain.last == 1


def effort(mechanism, checker):
    """Rare codes take an adversary more reports."""
    return 4 if checker == "audit" and mechanism.table.width > 16 else 1


# mutant, whom it concerns, who catches it, how many reports an answer
CLAIMS = [
    ("epsilon * 1.1", stretched(1.1), tight, {"exact epsilon": 0, "audit": N * 20}),
    ("epsilon * 1.1 on any", stretched(1.1), any_kind, {"codes": N * 10}),
    ("epsilon * 1.5", stretched(1.5), any_kind, {"codes": N, "exact epsilon": 0, "audit": N * 20}),
    ("epsilon * 1.5 on devices", stretched_device(1.5), any_kind, {"codes": N, "bias": N * 4}),
    ("epsilon / 1.1", stretched(1 / 1.1), any_kind, {"codes": N * 10}),
    ("swapped codes", swapped_codes, any_kind, {"codes": N, "bias": N * 10}),
    ("constant output", constant, any_kind, {"codes": N}),
    ("codes from anchor bits", on_source(CodesFromAnchorBits), checks.numeric, {"codes": N * 10}),
    ("neighbours share words", on_source(NeighboursShareWords), any_kind, {"independence": N}),
    ("biased coin", biased_coin, tossing, {"codes": N * 10}),
    ("biased rounding", biased_rounding, coarse, {"codes": N, "bias": N * 2}),
    ("dropped refusals", dropped_refusals, refusing, {"refusals": N, "bias": N}),
    ("refusals as an answer", refusals_as_an_answer, refusing, {"codes": N, "refusals": N, "bias": N * 2}),
    ("refusals in the clear", refusals_in_the_clear, refusing, {"codes": N, "refusals": N, "audit": N}),
]
PAIRS = [
    pytest.param(kind, mutate, checker, n * effort(real, checker), id=f"{kind.name}-{name}-{checker}")
    for name, mutate, concerns, claims in CLAIMS
    for kind in checks.kinds()
    if concerns(real := checks.make(kind, EPSILON))
    for checker, n in claims.items()
]


@pytest.mark.parametrize(("kind", "mutate", "checker", "n"), PAIRS)
def test_the_mutant_is_caught_and_the_real_one_is_not(kind, mutate, checker, n):
    real = checks.make(kind, EPSILON)
    check = CHECKERS[checker]
    check(*honest(real), n=n, seed=SEED)
    mutant = mutate(kind, real)  # out here: what fails while it is made is no alarm
    with pytest.raises(checks.AlarmError) as caught:
        check(*mutant, n=n, seed=SEED)
    assert caught.value.checker == checker


def test_every_checker_catches_something_and_each_kind_is_mutated():
    assert {checker for *_, claims in CLAIMS for checker in claims} == set(CHECKERS)
    for kind in checks.kinds():
        assert sum(param.values[0] is kind for param in PAIRS) >= 8, kind.name


def test_codes_alone_do_not_see_what_independence_catches():
    """Pairs of reports that share a word have the right frequencies: the two checkers test two things."""
    kind = checks.CATALOGUE["k-rr"]
    mutant = on_source(NeighboursShareWords)(kind, checks.make(kind, EPSILON))
    checks.check_codes(*mutant, n=N, seed=SEED)
    real, draw = constant(kind, checks.make(kind, EPSILON))
    checks.check_independence(real, draw, n=N, seed=SEED)


@pytest.mark.parametrize("kind", checks.kinds(), ids=case_id)
def test_power_against_ten_percent(kind):
    """The n of the 10 % mutant, 600,000 an answer, has power 1 - 1e-6 at least: no luck of the seed."""
    real = checks.make(kind, EPSILON)
    assert checks.code_power(real, _other(kind, 1.1).matrix, n=N * 10) >= SPARE


@pytest.mark.slow
@pytest.mark.parametrize("kind", checks.kinds(), ids=case_id)
def test_two_percent_of_epsilon_are_caught(kind):
    """Power 1 - 1e-6, computed: a few million reports an answer, by the codes and by the exact check."""
    real = checks.make(kind, EPSILON)
    mutant = stretched(1.02)(kind, real)
    n = 3_000_000
    while checks.code_power(real, mutant[0].table.matrix, n=n) < SPARE:
        n *= 2
    assert n <= 12_000_000, f"{kind.name} takes {n} reports"
    checks.check_codes(*honest(real), n=n, seed=SEED)
    with pytest.raises(checks.AlarmError, match="codes"):
        checks.check_codes(*mutant, n=n, seed=SEED)
    if tight(real):
        with pytest.raises(checks.AlarmError, match="exact epsilon"):
            checks.check_exact_epsilon(mutant[0])


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", checks.EPSILONS)
@pytest.mark.parametrize("kind", checks.kinds(), ids=case_id)
def test_the_adversary_finds_most_of_epsilon_and_no_more(kind, epsilon):
    """A lower bound of epsilon from 4,000,000 reports an answer, wrong with probability 1e-6 at most.

    It lies below the proven bound, and near it: an audit that always says 0 would prove nothing.
    """
    real = checks.make(kind, epsilon)
    n = 4_000_000
    found = checks.audited_epsilon(*honest(real), n=n, seed=SEED)
    assert found <= real.epsilon_upper, f"{found=} {real.epsilon_upper=} p={ALPHA} seed={SEED}"
    # Of the codes that tell as much as the worst, the rarest may be the one that is picked.
    highs, lows = real.table.matrix.max(axis=0), real.table.matrix.min(axis=0)
    telling = np.log(highs / lows) > 0.99 * real.epsilon_upper
    high, low = highs[telling].min(), lows[telling].min()
    # Chernoff's 5.4 standard deviations and the luck of the draw's 4.8, of both logarithms.
    room = 10.2 * ((n * high) ** -0.5 + (n * low) ** -0.5)
    assert found >= real.epsilon_upper - room, f"{found=} {real.epsilon_upper=} {room=}"


# The checkers' own mathematics


def test_chernoff_bounds_hold():
    """Exact sums: the bound is on the wrong side of the true p with probability alpha at most."""
    n, alpha = 60, 0.01
    for p in (0.02, 0.3, 0.5, 0.9):
        for upper in (False, True):
            missed = 0.0
            for k in range(n + 1):
                bound = checks.chernoff(k, n, alpha, upper=upper)
                if (bound < p) if upper else (bound > p):
                    missed += math.comb(n, k) * p**k * (1 - p) ** (n - k)
            assert missed <= alpha
    assert checks.chernoff(0, n, alpha, upper=False) == 0
    assert checks.chernoff(n, n, alpha, upper=True) == 1


@pytest.mark.parametrize("x", [0.5, 3.0, 30.66485, 118.5, 400.0])
def test_chi_square_tail(x):
    """At even degrees of freedom it is a sum of Poisson probabilities; at 1 and 3 it has erfc."""
    for freedom in (2, 4, 80):
        poisson = sum(math.exp(i * math.log(x / 2) - x / 2 - math.lgamma(i + 1)) for i in range(freedom // 2))
        assert checks.chi_square_tail(x, freedom) == pytest.approx(poisson, rel=1e-9)
    one = math.erfc(math.sqrt(x / 2))
    assert checks.chi_square_tail(x, 1) == pytest.approx(one, rel=1e-9)
    three = one + math.sqrt(2 * x / math.pi) * math.exp(-x / 2)
    assert checks.chi_square_tail(x, 3) == pytest.approx(three, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", checks.kinds(), ids=case_id)
def test_false_alarms_are_as_rare_as_stated(kind):
    """At alpha = 0.05 a checker on the real code fails in about 5 % of 400 seeds, not in 0 and not in 15 %.

    0.8 to 10 % are four standard deviations either way; a checker that adds up several comparisons
    (Bonferroni) stays below its alpha.
    """
    real = honest(checks.make(kind, EPSILON))
    checkers = [checks.check_codes, checks.check_independence, checks.check_bias]
    for check in [*checkers, checks.check_refusals] if kind.refusal else checkers:
        alarms = 0
        for seed in range(400):
            try:
                check(*real, n=4_000, seed=seed, alpha=0.05)
            except checks.AlarmError:
                alarms += 1
        assert 0.008 <= alarms / 400 <= 0.1, f"{check.__name__}: {alarms} of 400 at alpha = 0.05"
