"""PrivKVM's rounds have the expectations that its algorithm has, and spend what they say."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from bisample import BiSample, PrivKV
from bisample.errors import ReportError
from bisample.simulation.privkvm import PrivKVM, PrivKVMEstimate

# Of all people 40 % answer, with the mean 0.8 of [-1, 1].
RATE, MEAN = 0.4, 0.8


def keep(epsilon):
    return 1 / (1 + math.exp(-epsilon))


def true_share(p1, rate=RATE):
    """alpha: of those who send a value, the share who hold it."""
    return rate * p1 / (rate * p1 + (1 - rate) * (1 - p1))


def people(n):
    """Values 8 and 10 of [0, 10], in turn, for those who answer."""
    answers = np.where(np.arange(n) % 2, 8.0, 10.0)
    return np.where(np.arange(n) % 5 < 5 * RATE, answers, np.nan)


def expected_means(epsilon, rounds):
    """Of each round, with its standard deviation: the first keeps the key at epsilon / 2, later ones at 0."""
    c = 1 / (2 * keep(epsilon / (2 * rounds)) - 1)
    found = []
    mean, spread = 0.0, 0.0  # of the fakes
    for later in range(rounds):
        p1 = 0.5 if later else keep(epsilon / 2)
        alpha = true_share(p1)
        mean = alpha * MEAN + (1 - alpha) * mean
        sent = RATE * p1 + (1 - RATE) * (1 - p1)
        spread = math.hypot((1 - alpha) * spread, math.sqrt((c**2 - mean**2) / sent))
        found.append((mean, spread))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_each_real_round_has_its_expectation(rounds):
    """alpha = 1e-4 for each of the six rounds, 3.9 standard errors.

    Where the key of the first round was kept instead, a second round would lie 18 and a third 11 standard
    errors away; where it was drawn again at epsilon / 2, as far.
    """
    n = 2_000_000
    e = PrivKVM(4.0, 0, 10, rounds=rounds).simulate(people(n), rng=401)
    assert len(e.rounds) == rounds
    for found, (mean, spread) in zip(e.rounds, expected_means(4.0, rounds), strict=True):
        assert abs((found - 5) / 5 - mean) < 3.9 * spread / math.sqrt(n)
    p1 = keep(2.0)
    present = RATE * p1 + (1 - RATE) * (1 - p1)
    spread = math.sqrt(present * (1 - present) / n) / (2 * p1 - 1)
    assert abs(e.missing_rate - (1 - RATE)) < 3.9 * spread


def test_what_the_test_above_would_find():
    kept, anew = (true_share(keep(2.0)), RATE)
    for rounds, away in ((2, 18), (3, 11)):
        mean, spread = expected_means(4.0, rounds)[-1]
        old = MEAN * (1 - (1 - kept) ** rounds)
        assert mean == pytest.approx(MEAN * (1 - (1 - kept) * (1 - anew) ** (rounds - 1)))
        assert abs(old - mean) / (spread / math.sqrt(2_000_000)) > away


@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_all_rounds_together_spend_epsilon(epsilon, rounds):
    budgets = PrivKVM(epsilon, rounds=rounds).budgets
    assert math.fsum(map(math.fsum, budgets)) == pytest.approx(epsilon, rel=1e-12)
    assert [key for key, _ in budgets] == [epsilon / 2] + [0.0] * (rounds - 1)
    assert {value for _, value in budgets} == {epsilon / (2 * rounds)}


def test_reports_are_drawn_within_the_budgets(monkeypatch):
    """Everybody alike: what each round sends, if all hold the same, is what the budgets allow.

    The key of a later round says nothing: half of the people send a value whatever they hold. n = 200,000,
    alpha = 1e-4 for each of the 15 shares; a share off by 0.6 % is found with power 0.9.
    """
    counted = []
    original = PrivKVM._round_mean

    def counting(self, minus, plus):
        counted.append((minus, plus))
        return original(self, minus, plus)

    monkeypatch.setattr(PrivKVM, "_round_mean", counting)
    m, n = PrivKVM(4.0, rounds=3), 200_000

    def check(share, of, expected):
        assert abs(share / of - expected) < 3.9 * math.sqrt(expected * (1 - expected) / of)

    for held in (-1.0, 1.0, math.nan):
        counted.clear()
        m.simulate(np.full(n, held), rng=402)
        assert len(counted) == 3
        for (minus, plus), (key, value) in zip(counted, m.budgets, strict=True):
            check(minus + plus, n, 1 - keep(key) if math.isnan(held) else keep(key))
            if not math.isnan(held):
                check(plus if held > 0 else minus, minus + plus, keep(value))


def test_one_real_round_draws_what_it_always_drew():
    """The paper's experiments have one real round: its numbers are those of version 0.2."""
    values = np.where(np.arange(1000) % 10 < 3, np.nan, np.linspace(-0.5, 1, 1000))
    plain = PrivKVM(4.0).simulate(values, rng=1)
    assert plain.mean == pytest.approx(0.1760155159298025, rel=1e-12)
    assert plain.missing_rate == pytest.approx(0.30435774246059966, rel=1e-12)
    assert PrivKVM(4.0, virtual=5).simulate(values, rng=1).mean == pytest.approx(
        0.18643773386627843, rel=1e-12
    )


def expected_counts(m):
    """What PrivKV sends, in expectation, to so many places that rounding to integers changes nothing."""
    table, n = m.mechanism.table.matrix, 10**12
    up = (1 + MEAN) / 2
    shares = RATE * (up * table[1] + (1 - up) * table[0]) + (1 - RATE) * table[2]
    return m.mechanism.tally_of(np.round(n * shares).astype(np.int64))


def test_virtual_rounds_take_the_bias_off():
    alpha = true_share(keep(1.0))
    for virtual in (0, 1, 5, 80):
        m = PrivKVM(2.0, 0, 10, virtual=virtual)
        e = m.estimate(expected_counts(m))
        assert len(e.rounds) == 1 + virtual
        assert (e.mean - 5) / 5 == pytest.approx(MEAN * (1 - (1 - alpha) ** (1 + virtual)), abs=1e-6)
        assert e.missing_rate == pytest.approx(1 - RATE, abs=1e-6)
    assert (e.mean - 5) / 5 == pytest.approx(MEAN, abs=1e-6)


def test_virtual_rounds_after_several_real_ones_go_on_to_the_same_mean():
    """n = 1,000,000, alpha < 1e-4; corrected from the last real round the mean would be 0.865, and is not."""
    n = 1_000_000
    e = PrivKVM(4.0, 0, 10, rounds=2, virtual=40).simulate(people(n), rng=403)
    first, spread = expected_means(4.0, 2)[0]
    assert len(e.rounds) == 42
    # Its error is the first round's over alpha, and that of alpha, which is smaller.
    room = 2 * 3.9 * spread / (first / MEAN) / math.sqrt(n)
    assert abs((e.mean - 5) / 5 - MEAN) < room < 0.032


def test_a_tally_is_one_round_of_privkv_with_the_same_parameters():
    m = PrivKVM(1.0, 0, 10)
    tally = PrivKV(1.0, 0, 10).tally_of([10, 20, 30])
    assert m.estimate(tally).n == 60
    for other in (PrivKV(2.0, 0, 10), PrivKV(1.0, 0, 11)):
        with pytest.raises(ReportError, match="digest"):
            m.estimate(other.tally_of([10, 20, 30]))
    with pytest.raises(ReportError, match="digest"):
        m.estimate(BiSample(1.0, 0, 10).tally_of([10, 20, 30, 40]))
    for no_tally in ([10, 20, 30], None, np.array([10, 20, 30])):
        with pytest.raises(ReportError, match="takes a tally"):
            m.estimate(no_tally)
    with pytest.raises(ReportError, match=r"simulate\(\)"):
        PrivKVM(1.0, 0, 10, rounds=2).estimate(tally)


def test_where_nobody_sends_a_value_there_is_no_mean():
    assert PrivKVM(1.0).simulate([], rng=1) == PrivKVMEstimate(0, None, None)
    m = PrivKVM(4.0, virtual=2)
    assert m.estimate(m.mechanism.tally_of([5, 0, 0])).mean is None
    assert PrivKVM(20.0, rounds=2).simulate([None] * 3, rng=1).n == 3


def test_what_is_made_is_frozen_and_equal_to_its_like():
    m = PrivKVM(1, 0, 10, rounds=2)
    assert m == PrivKVM(1.0, 0.0, 10.0, rounds=2)
    assert repr(m) == "PrivKVM(epsilon=1.0, lower=0.0, upper=10.0, rounds=2, virtual=0)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.rounds = 3
