"""Intervals as estimates state them: Fieller's where there are many reports, nested, within what is possible.

Where there are few reports they are wider than Fieller's; whether they cover is tested elsewhere. Here all
comparisons are at 20,000 reports or more, where the two agree to 3 % of the width.
"""

import itertools
import math

import checks
import handmade
import numpy as np
import pytest
from checks import Twin, case_id

from bisample import BiSample, Harmony, KRandomizedResponse, ThreeState
from bisample.analysis.estimate import normal_quantile

TOLERANCE = 0.03  # of the width
# A rate of 1 only where the table says so: at the end of what is possible an interval is cut.
TWIN_CASES = [
    (kind, epsilon, rate, mean)
    for kind, epsilon, rate, mean in checks.cases((0.5, 1.0, 4.0), (0.3, 0.7, 1.0))
    if Twin.fits(checks.make(kind, epsilon)) and kind.refusal == (rate < 1)
]


def stated(mechanism, estimates):
    """The intervals of estimates, as arrays (low, high) by the names that the twin gives them."""
    if checks.numeric(mechanism):
        names = {"mean": "mean_interval", "total": "total_interval", "answer_rate": "answer_rate_interval"}
        found = {name: np.array([getattr(e, field) for e in estimates]).T for name, field in names.items()}
    else:
        found = {"answer_rate": np.array([e.answer_rate_interval for e in estimates]).T}
        for option in mechanism.domain.options:
            found[option] = np.array([e.proportions_interval[option] for e in estimates]).T
    if not mechanism.domain.refusal:
        del found["answer_rate"]
    return found


def possible_totals(mechanism, n):
    domain = mechanism.domain
    ends = [domain.lower, domain.upper, *[0.0] * domain.refusal]
    return n * min(ends), n * max(ends)


@pytest.mark.parametrize("n", [20_000, 2_000_000])
@pytest.mark.parametrize(("kind", "epsilon", "rate", "mean"), TWIN_CASES, ids=case_id)
def test_with_many_reports_they_are_fiellers(kind, epsilon, rate, mean, n):
    """20 tallies; where the answer rate is five standard errors above 0, so that the set is bounded."""
    m = checks.make(kind, epsilon)
    people = checks.population(m, rate, mean)
    rate_variance = m.variance(people.answered, answer_rate=people.rate).answer_rate
    assert rate > 5 * math.sqrt(rate_variance / n)
    tallies, _ = checks.draw_tallies(m, people, n, 20, np.random.default_rng(708))
    found = stated(m, m.estimates([m.tally_of(tally) for tally in tallies]))
    expected = Twin(m).intervals(tallies)
    assert set(found) == set(expected)
    if checks.numeric(m):  # the twin leaves a total where it is, beyond what is possible as well
        expected["total"] = np.clip(expected["total"], *possible_totals(m, n))
    for name, (low, high) in expected.items():
        room = TOLERANCE * (high - low)
        assert (room > 0).all()
        assert (np.abs(found[name][0] - low) <= room).all(), name
        assert (np.abs(found[name][1] - high) <= room).all(), name


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("counts", [(9, 4, 6, 6), (9, 5, 6, 5), (5, 5, 4, 6), (5, 9, 4, 7), (6, 5, 7, 4)])
def test_the_papers_set_holds_what_the_interval_holds(epsilon, counts):
    """{m : (S - mA)^2 <= z^2 (V_S - 2mC + m^2 V_A)} in [-1, 1], point by point, of 200,000 reports."""
    tally = np.array(counts) * 10_000
    n0, n1 = tally[:2].sum(), tally[2:].sum()
    negative, positive = tally[1] / n0, tally[3] / n1
    c, z = 1 / math.tanh(epsilon / 2), normal_quantile(0.95)
    s, a = c * (positive - negative), c * (positive + negative) - (c - 1)
    v_plus, v_minus = positive * (1 - positive) / n1, negative * (1 - negative) / n0
    v, both = c * c * (v_plus + v_minus), c * c * (v_plus - v_minus)
    m = BiSample(epsilon)
    e = m.estimate(m.tally_of(tally))
    if a <= 0:
        assert e.mean is None
        assert e.mean_interval == (-1, 1)
        return
    grid = np.linspace(-1, 1, 4001)
    inside = (s - grid * a) ** 2 <= z * z * (v - 2 * grid * both + grid**2 * v)
    low, high = e.mean_interval
    if not inside.any():  # the whole set lies beyond the range, and so does the estimate
        assert abs(e.mean) > 1
        return
    room = TOLERANCE * (high - low) + 1e-3
    assert grid[inside][0] == pytest.approx(low, abs=room)
    assert grid[inside][-1] == pytest.approx(high, abs=room)


@pytest.mark.parametrize("kind", checks.kinds(), ids=case_id)
def test_more_confidence_is_wider_and_nested(kind):
    m = checks.make(kind, 1.0)
    people = checks.population(m, 0.7 if kind.refusal else 1.0, 0.0)
    tallies, _ = checks.draw_tallies(m, people, 20_000, 5, np.random.default_rng(2))
    levels = [0.5, 0.8, 0.9, 0.95, 0.99, 0.999]
    found = [stated(m, m.estimates([m.tally_of(t) for t in tallies], level)) for level in levels]
    for narrow, wide in itertools.pairwise(found):
        for name in narrow:
            assert (wide[name][0] < narrow[name][0]).all(), name
            assert (narrow[name][1] < wide[name][1]).all(), name
    for level, intervals in zip(levels, found, strict=True):
        ratio = normal_quantile(level) / normal_quantile(0.95)
        for name, (low, high) in intervals.items():
            reference = found[3][name][1] - found[3][name][0]
            np.testing.assert_allclose(high - low, ratio * reference, rtol=0.1, err_msg=f"{name} at {level}")


@pytest.mark.parametrize("level", [1e-9, 1 - 1e-12, math.nextafter(1, 0)])
def test_any_level_between_0_and_1_will_do(level):
    for m in (BiSample(1.0), KRandomizedResponse(1.0, ["a", "b"])):
        e = m.estimate(m.tally_of(np.arange(1, m.table.width + 1) * 5_000), level=level)
        for low, high in (e.answer_rate_interval, e.missing_rate_interval):
            assert 0 <= low <= high <= 1


MECHANISMS = [
    *(pytest.param(checks.make(kind, 1.0), id=kind.name) for kind in checks.kinds()),
    pytest.param(handmade.UNEVEN, id="uneven"),
    pytest.param(handmade.COIN, id="coin"),
]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_interval_holds_its_estimate_where_that_is_possible(mechanism):
    rng = np.random.default_rng(4)
    domain, table = mechanism.domain, mechanism.table
    shares = rng.dirichlet(np.ones(domain.height), size=30)
    tallies = [mechanism.tally_of(rng.multinomial(200_000, row @ table.matrix)) for row in shares]
    for e in mechanism.estimates(tallies):
        named = [
            (e.answer_rate, e.answer_rate_interval, (0, 1)),
            (e.missing_rate, e.missing_rate_interval, (0, 1)),
        ]
        if checks.numeric(mechanism):
            named.append((e.mean, e.mean_interval, (domain.lower, domain.upper)))
            named.append((e.total, e.total_interval, possible_totals(mechanism, e.n)))
        else:
            named += [(e.proportions[o], e.proportions_interval[o], (0, 1)) for o in domain.options]
        for value, (low, high), (least, most) in named:
            slack = 1e-9 * (most - least)
            assert least - slack <= low <= high <= most + slack
            if value is not None and least <= value <= most:
                assert low - slack <= value <= high + slack
        assert e.missing_rate_interval == pytest.approx(
            (1 - e.answer_rate_interval[1], 1 - e.answer_rate_interval[0])
        )


def test_where_the_answer_rate_is_not_clearly_above_0_the_mean_may_be_anything():
    """Nobody answers: 20,000 refusals leave the whole range, to a tenth of it."""
    for builder in (BiSample, ThreeState):
        m = builder(1.0, 10, 50)
        refusals = np.array(m.table.weights[-1]) * 20_000 // 2**48
        low, high = m.estimate(m.tally_of(refusals)).mean_interval
        assert high - low > 36


def test_an_end_of_the_range_is_met_exactly():
    """What is cut at the range is cut at its very numbers, and not at what rounding makes of them."""
    lower, upper = 0.1, 0.7
    m = Harmony(1.0, lower, upper)
    assert m.estimate(m.tally_of([0, 50_000])).mean_interval[1] == upper
    assert m.estimate(m.tally_of([50_000, 0])).mean_interval[0] == lower
