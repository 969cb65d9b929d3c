"""Estimates are unbiased and vary as variance() says; reports are distributed as the papers say.

Seeds are fixed. ALPHA = 1e-6 is the probability that a whole family of comparisons fails on correct
code when its seeds are changed (Bonferroni); each docstring says what an error would have to be to be
caught with power 1 - 1e-6 at least.
"""

import itertools
import math

import checks
import numpy as np
import pytest
from checks import ALPHA, LOWER, UPPER, Twin, case_id

KINDS = checks.kinds()
ALL_CASES = checks.cases()
TWIN_CASES = [case for case in ALL_CASES if Twin.fits(checks.make(*case[:2]))]
OTHER_CASES = [case for case in ALL_CASES if case not in TWIN_CASES]

# Checkers of reports: four of them, each of every mechanism at each epsilon.
CODE_ALPHA = ALPHA / (4 * len(checks.EPSILONS) * len(KINDS))

# 30,000 repetitions: the standard deviation of a variance's estimate is sqrt(2 / R) = 0.8 % of it, so
# that 5 % are 6.1 of them, and a correct variance leaves its 5 % with probability 9e-10.
REPETITIONS = 30_000
VARIANCE_TOLERANCE = 0.05
# So many people that the ratio's own bias, O(1/n), is less than 1e-3 of its standard error.
PEOPLE = 10**10
# Around the population's truth and around the respondents': two comparisons for each column of each case.
MOMENT_ALPHA = ALPHA / (2 * sum(len(checks.column_names(checks.make(*case[:2]))) for case in ALL_CASES))
# For a table that leaves the estimator a choice, each tally takes a millisecond.
FEW_REPETITIONS = 300


def privatized(mechanism):
    return lambda answers, rng: mechanism.privatize(answers, rng=rng)


# Reports


@pytest.mark.parametrize("epsilon", checks.EPSILONS)
@pytest.mark.parametrize("kind", KINDS, ids=case_id)
def test_codes_are_distributed_as_the_paper_says(kind, epsilon):
    """n = 60,000 an answer. Power 1 - 1e-6 for an epsilon wrong by 10 % at epsilon = 1 (test_mutants)."""
    m = checks.make(kind, epsilon)
    checks.check_codes(m, privatized(m), n=60_000, seed=101, alpha=CODE_ALPHA)
    checks.check_independence(m, privatized(m), n=60_000, seed=102, alpha=CODE_ALPHA)
    checks.check_bias(m, privatized(m), n=60_000, seed=104, alpha=CODE_ALPHA)
    if kind.refusal:
        checks.check_refusals(m, privatized(m), n=60_000, seed=103, alpha=CODE_ALPHA)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", checks.EPSILONS)
@pytest.mark.parametrize("kind", KINDS, ids=case_id)
def test_persons_and_tallies_agree(kind, epsilon):
    """A million reports through privatize(), an answer, against the row shares that tallies are drawn from.

    With a few codes, one whose probability is off by 0.005 is caught.
    """
    m = checks.make(kind, epsilon)
    checks.check_codes(m, privatized(m), n=1_000_000, seed=201, alpha=CODE_ALPHA)
    checks.check_independence(m, privatized(m), n=1_000_000, seed=202, alpha=CODE_ALPHA)
    # The tallies of the simulations below, summed, have the same distribution.
    people = checks.population(m, 0.7 if kind.refusal else 1.0, 0.5)
    tallies, _ = checks.draw_tallies(m, people, 1000, 1000, np.random.default_rng(203))
    expected = sum(
        share * checks.codes_of(m, answer)
        for answer, share in zip(people.answers, people.shares, strict=True)
    )
    statistic, p = checks.chi_square(tallies.sum(axis=0), tallies.sum() * expected)
    assert p >= CODE_ALPHA, f"{m.name}: {statistic=:.1f} {p=:.2g} n={tallies.sum()} seed=203"


@pytest.mark.parametrize("kind", KINDS, ids=case_id)
def test_the_secure_default_draws_the_same_distribution(kind):
    """Without a seed: cryptographic words, 60,000 an answer; a false alarm once in a million runs of all."""
    m = checks.make(kind, 1.0)
    draw = lambda answers, rng: m.privatize(answers)  # noqa: ARG005, E731
    checks.check_codes(m, draw, n=60_000, seed=0, alpha=ALPHA / (2 * len(KINDS)))
    checks.check_independence(m, draw, n=60_000, seed=0, alpha=ALPHA / (2 * len(KINDS)))


# Estimates


@pytest.mark.parametrize(("kind", "epsilon", "rate", "mean"), ALL_CASES, ids=case_id)
def test_variance_is_what_enumeration_gives(kind, epsilon, rate, mean):
    """No sampling: the best weights by their formula, and the variance summed over people and codes."""
    m = checks.make(kind, epsilon)
    people = checks.population(m, rate, mean)
    for realised in (False, True):
        stated = checks.stated_variances(m, people, 1, realised=realised)
        summed = checks.enumerated_variances(m, people, realised=realised)
        np.testing.assert_allclose(stated, summed, rtol=1e-6, atol=1e-9, err_msg=f"{realised=}")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "epsilon", "rate", "mean"), ALL_CASES, ids=case_id)
def test_from_people_to_estimates_without_bias(kind, epsilon, rate, mean):
    """200,000 people through privatize, tally and estimate.

    A bias of 11 of their standard errors is caught: for BiSample at epsilon = 1, 0.05 in the answer rate.
    The next test, on tallies, sees 0.06 standard errors at 10^10 people.
    """
    m = checks.make(kind, epsilon)
    alpha = ALPHA / len(ALL_CASES)
    checks.check_bias(m, privatized(m), n=200_000, seed=301, rate=rate, mean=mean, alpha=alpha)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "epsilon", "rate", "mean"), TWIN_CASES, ids=case_id)
def test_unbiased_and_of_the_stated_variance(kind, epsilon, rate, mean):
    """30,000 tallies of 10^10 people, drawn anew each time.

    Bias: within 6.1 standard errors of the average; one of 0.063 standard errors of a single estimate
    is caught with power 1 - 1e-6. Variance: within 5 % of variance(), around the population's truth
    and around that of the respondents (realised); one that is off by 9 % is caught.
    """
    m = checks.make(kind, epsilon)
    people = checks.population(m, rate, mean)
    seed = 401
    tallies, groups = checks.draw_tallies(m, people, PEOPLE, REPETITIONS, np.random.default_rng(seed))
    estimates = Twin(m).estimates(tallies)
    first = [m.tally_of(tally) for tally in tallies[:10]]
    np.testing.assert_allclose(checks.estimated(m, first)[0], estimates[:10], rtol=1e-9)
    truths = {
        False: checks.columns(m, (people.values @ people.shares)[None, :], PEOPLE),
        True: checks.columns(m, groups @ people.values.T / PEOPLE, PEOPLE),
    }
    for realised, truth in truths.items():
        stated = checks.stated_variances(m, people, PEOPLE, realised=realised)
        errors = estimates - truth
        for name, error, variance in zip(checks.column_names(m), errors.T, stated, strict=True):
            if variance == 0:  # an answer rate of 1 by the table
                assert np.abs(error).max() < 1e-9
                continue
            z = error.mean() / math.sqrt(variance / REPETITIONS)
            p = math.erfc(abs(z) / math.sqrt(2))
            assert p >= MOMENT_ALPHA, f"bias of {name}: {z=:.2f} {p=:.2g} n={REPETITIONS} {seed=} {realised=}"
            ratio = float(np.mean(error**2)) / variance
            assert abs(ratio - 1) <= VARIANCE_TOLERANCE, (
                f"variance of {name}: {ratio:.4f} of the stated, n={REPETITIONS} {seed=} {realised=}"
            )


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "epsilon", "rate", "mean"), OTHER_CASES, ids=case_id)
def test_adaptive_weights_cost_nothing(kind, epsilon, rate, mean):
    """Where weights are fitted to each tally: the estimate beside that with the best fixed weights.

    The latter's variance is variance() by the enumeration above. Their difference is small, so that
    300 tallies of 10^10 people give the ratio of the variances to about 1 % (2 sd(D) / sqrt(300), D
    the difference in standard errors, is 0.01 for a D of 0.1), and show a bias of 1 % of a standard
    error.
    """
    m = checks.make(kind, epsilon)
    people = checks.population(m, rate, mean)
    seed = 501
    tallies, _ = checks.draw_tallies(m, people, PEOPLE, FEW_REPETITIONS, np.random.default_rng(seed))
    best = checks.linear_estimates(m, people, tallies)
    found, _ = checks.estimated(m, [m.tally_of(tally) for tally in tallies])
    truth = checks.columns(m, (people.values @ people.shares)[None, :], PEOPLE)
    sds = np.sqrt(checks.stated_variances(m, people, PEOPLE, realised=False))
    y, d = (best - truth) / sds, (found - best) / sds
    for i, name in enumerate(checks.column_names(m)):
        spread, shift = float(d[:, i].std()), float(d[:, i].mean())
        room = 0.01 + checks.quantile(MOMENT_ALPHA) * spread / math.sqrt(FEW_REPETITIONS)
        assert abs(shift) <= room, f"bias of {name}: {shift:.4f} of a standard error, {seed=}"
        ratio = 1 + 2 * float(np.mean(y[:, i] * d[:, i])) + float(np.mean(d[:, i] ** 2))
        assert abs(ratio - 1) <= VARIANCE_TOLERANCE, (
            f"variance of {name}: {ratio:.4f} of the stated, n={FEW_REPETITIONS} {seed=}"
        )


@pytest.mark.parametrize("kind", sorted({case[0] for case in TWIN_CASES}, key=case_id), ids=case_id)
def test_sums_and_rates_are_unbiased_exactly(kind):
    """No sampling: the expectation over all tallies of 6 people, given that no direction stays empty."""
    m = checks.make(kind, 1.0)
    people = checks.population(m, 0.7 if kind.refusal else 1.0, 0.5)
    p = sum(s * checks.codes_of(m, a) for a, s in zip(people.answers, people.shares, strict=True))
    n, width = 6, len(p)
    tallies = [
        np.diff((-1, *bars, n + width - 1)) - 1
        for bars in itertools.combinations(range(n + width - 1), width - 1)
    ]
    total = rate = mass = 0.0
    for tally, e in zip(tallies, m.estimates(m.tally_of(tally) for tally in tallies), strict=True):
        if e.answer_rate is None:
            continue
        weight = math.factorial(n) * math.prod(
            q**c / math.factorial(c) for q, c in zip(p, tally, strict=True)
        )
        mass += weight
        rate += weight * e.answer_rate
        total += weight * e.total if checks.numeric(m) else 0
    truth = people.values @ people.shares
    assert 0.9 < mass < 1 + 1e-12
    assert math.isclose(rate / mass, people.rate, rel_tol=1e-9)
    if checks.numeric(m):
        true_total = n * ((UPPER + LOWER) / 2 * truth[1] + (UPPER - LOWER) / 2 * truth[0])
        assert math.isclose(total / mass, true_total, rel_tol=1e-9)
