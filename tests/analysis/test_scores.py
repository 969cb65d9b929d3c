"""Score intervals and plausibility: what always holds, and what a slow twin says."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from bisample import BiSample, DitheredResponse, Harmony, KRandomizedResponse, ThreeState
from bisample.analysis import plausibility as plausible
from bisample.analysis.intervals import EVERYBODY, fieller, intervals
from bisample.analysis.plausibility import chi_squared_tail, plausibility, warnings_of
from bisample.analysis.scores import score_intervals
from bisample.analysis.solve import solve
from bisample.analysis.variance import targets as targets_of

Z = 1.959963984540054
MECHANISMS = {
    "bisample-1": BiSample(1),
    "bisample-8": BiSample(8),
    "bisample-tiny": BiSample(1e-5),
    "three-state-2": ThreeState(2),
    "three-state-8": ThreeState(8),
    "dithered-1": DitheredResponse(1),
    "dithered-4": DitheredResponse(4),
    "harmony-1": Harmony(1),
}
DOMAINS = {m.table: m.domain for m in MECHANISMS.values()}
TABLES = {name: m.table for name, m in MECHANISMS.items()}
each_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())


def question(table):
    """Targets, pairs and bounds of the mean and the answer rate."""
    targets = targets_of(DOMAINS[table])
    return targets, np.array([[0, 1], [1, EVERYBODY]]), np.array([[-1.0, 1], [0, 1]])


def tallies(table, per_size=6, sizes=(0, 1, 2, 5, 20, 100, 1000, 10**6)):
    """Such as honest people send, and such as nobody does: everything in one code, or one code left out."""
    rng = np.random.default_rng(17)
    rows, codes = table.matrix.shape
    drawn = [
        rng.multinomial(n, rng.dirichlet(np.full(rows, a)) @ table.matrix)
        for n, a, _ in itertools.product(sizes, (0.1, 1.0), range(per_size))
    ]
    odd = [np.eye(codes, dtype=int)[c] * n for c in range(0, codes, 1 + codes // 5) for n in (1, 30, 5000)]
    left_out = [np.where(np.arange(codes) == c, 0, 50) for c in range(0, codes, 1 + codes // 5)]
    return np.array(drawn + odd + left_out)


@each_table
@pytest.mark.parametrize("z", [0.3, Z, 4.0])
def test_an_interval_is_possible_and_never_empty(table, z):
    counts, (targets, pairs, bounds) = tallies(table), question(table)
    for found in (
        intervals(table, counts, targets, pairs, bounds, z),
        score_intervals(table, counts, targets, np.array([targets[1], np.ones(table.height)]), bounds, z),
    ):
        assert found.shape == (len(counts), 2, 2)
        assert (found[:, :, 0] <= found[:, :, 1]).all()
        assert (found[:, :, 0] >= bounds[:, 0]).all()
        assert (found[:, :, 1] <= bounds[:, 1]).all()
        nobody = counts.sum(axis=1) == 0
        assert (found[nobody] == bounds).all()


@each_table
def test_all_that_is_possible_where_there_is_no_estimate(table):
    counts, (targets, pairs, bounds) = tallies(table), question(table)
    solution = solve(table, counts, targets)
    found = intervals(table, counts, targets, pairs, bounds, Z, solution)
    nowhere = ~(solution.values[:, 1] > 0)
    assert (found[nowhere, 0] == bounds[0]).all()


@each_table
def test_a_higher_level_is_wider(table):
    counts, (targets, pairs, bounds) = tallies(table), question(table)
    found = [intervals(table, counts, targets, pairs, bounds, z) for z in (1.0, Z, 3.0)]
    for inner, outer in itertools.pairwise(found):
        slack = 0.03 * (outer[:, :, 1] - outer[:, :, 0]) + 1e-6
        assert (outer[:, :, 0] <= inner[:, :, 0] + slack).all()
        assert (outer[:, :, 1] >= inner[:, :, 1] - slack).all()


@each_table
def test_many_tallies_are_many_times_one(table):
    counts, (targets, pairs, bounds) = tallies(table, 3), question(table)
    together = intervals(table, counts, targets, pairs, bounds, Z)
    alone = [intervals(table, tally[None], targets, pairs, bounds, Z)[0] for tally in counts]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)
    p = plausibility(table, counts)
    one = [plausibility(table, tally[None]) for tally in counts]
    np.testing.assert_allclose(p.region, [x.region[0] for x in one], rtol=1e-9)
    np.testing.assert_allclose(p.coin, [x.coin[0] for x in one], rtol=1e-9)


def slow_score_interval(table, tally, top, bottom, bounds, z):
    """The hull of all t of a fine grid that the score keeps, with shares from a fine grid as well.

    For tables of three rows: the shares with h.pi = 0 are then a segment. Written from the theory.
    """
    matrix, n = table.matrix, tally.sum()
    ends = np.cumsum(table.blocks)
    slices = [slice(e - b, e) for e, b in zip(ends, table.blocks, strict=True)]
    g_top, g_bottom = (np.linalg.pinv(matrix) @ x for x in (top, bottom))
    kept = []
    for t in np.linspace(*bounds, 1203)[1:-1]:
        h = top - t * bottom
        corners = []
        for i, j in itertools.combinations(range(3), 2):
            if h[i] * h[j] < 0:
                corner = np.zeros(3)
                corner[i], corner[j] = h[j] / (h[j] - h[i]), -h[i] / (h[j] - h[i])
                corners.append(corner)
        corners += [np.eye(3)[i] for i in range(3) if abs(h[i]) < 1e-12]
        mix = np.linspace(0, 1, 401)[:, None]
        p = (mix * corners[0] + (1 - mix) * corners[1]) @ matrix
        p = p[np.argmax(np.log(p) @ tally)]
        value = variance = third = 0.0
        for s in slices:
            here, mass = tally[s].sum(), matrix[0, s].sum()
            if not here:
                continue
            q = p[s] / mass
            g = (g_top - t * g_bottom)[s]
            g = g - q @ g
            w = mass / (here + mass) * (n + 1) / n
            value += w * tally[s] @ g
            variance += w * w * here * (q @ g**2)
            third += w**3 * here * (q @ g**3)
        skewness = third / variance**1.5
        c = np.clip(skewness, -3, 3) if abs(skewness) > 1e-4 else 1e-4
        low, high = (2 / c * (max(1 + c * x / 6 - c * c / 36, 0) ** 3 - 1) for x in (-z, z))
        if low - 0.2 * abs(skewness) <= value / variance**0.5 <= high + 0.2 * abs(skewness):
            kept.append(t)
    return min(kept), max(kept)


@pytest.mark.parametrize("name", ["bisample-1", "bisample-8", "three-state-2", "three-state-8"])
def test_against_a_slow_inversion(name):
    table = TABLES[name]
    targets, _, bounds = question(table)
    tops, bottoms = targets, np.array([targets[1], np.ones(3)])
    rng = np.random.default_rng(23)
    for n in (25, 200):
        counts = rng.multinomial(n, np.array([0.25, 0.35, 0.4]) @ table.matrix, size=6)
        found = score_intervals(table, counts, tops, bottoms, bounds, Z)
        solution = solve(table, counts, targets)
        for r, m in itertools.product(range(len(counts)), range(2)):
            estimate = solution.values[r, 0] / solution.values[r, 1] if m == 0 else solution.values[r, 1]
            if not bounds[m, 0] < estimate < bounds[m, 1] or solution.values[r, 1] <= 0:
                continue  # where the estimate is moved, the twin would be empty
            slow = np.array(slow_score_interval(table, counts[r], tops[m], bottoms[m], bounds[m], Z))
            step = (bounds[m, 1] - bounds[m, 0]) / 1202
            off = np.abs(found[r, m] - slow).max()
            assert off <= 2 * step + 0.02 * (slow[1] - slow[0]), (name, n, r, m, found[r, m], slow)


def test_normal_errors_are_taken_where_they_serve():
    table = TABLES["three-state-2"]
    targets, pairs, bounds = question(table)
    counts = np.array([[30_000, 40_000, 30_000]])
    found = intervals(table, counts, targets, pairs, bounds, Z)
    np.testing.assert_allclose(found, fieller(solve(table, counts, targets), pairs, Z), rtol=1e-12)


# Plausibility


def test_the_tail_of_chi_squared():
    for degrees, x in itertools.product(
        (1, 2, 3, 10, 15, 48, 101, 255), (0.1, 1, 5, 15.1, 46.6, 80, 150, 300)
    ):
        half = x / 2
        total, term, k = 0.0, math.exp(-half), 0.0
        if degrees % 2:
            total, k = math.erfc(math.sqrt(half)), 0.5
            term = math.exp(-half + 0.5 * math.log(half) - math.lgamma(1.5))
        while k < degrees / 2 - 0.1:
            total, k = total + term, k + 1
            term *= half / k
        assert math.isclose(chi_squared_tail(x, degrees), total, rel_tol=1e-9), (degrees, x)
    assert chi_squared_tail(0, 3) == 1


def test_the_coin_of_two_blocks_exactly():
    """Every tally there is: a fair coin is blamed at most twice in 10,000 times."""
    table = TABLES["bisample-1"]
    for n in range(1, 300):
        k = np.arange(n + 1)
        log_choose = math.lgamma(n + 1) - np.array([math.lgamma(i + 1) + math.lgamma(n - i + 1) for i in k])
        p = plausible._coin(table, np.c_[k, 0 * k, n - k, 0 * k].astype(float))
        assert np.exp(log_choose - n * math.log(2))[p < 1e-4].sum() < 2e-4, n


@pytest.mark.parametrize("n", [5, 30, 100, 1000])
@pytest.mark.parametrize("row", [0, None])
@pytest.mark.parametrize(
    "table",
    [
        DitheredResponse(2).table,
        KRandomizedResponse(1, [f"{i}" for i in range(50)]).table,
        ThreeState(8).table,
    ],
    ids=["dithered", "51 options", "three-state"],
)
def test_no_false_alarm(table, row, n):
    """2,000 tallies: 4 alarms where 1 in 10,000 is meant have a chance of 6e-5."""
    rows = table.height
    shares = np.full(rows, 1 / rows) if row is None else np.eye(rows)[row]
    counts = np.random.default_rng(29).multinomial(n, shares @ table.matrix, size=2000)
    p = plausibility(table, counts)
    assert (p.region < 1e-4).sum() <= 3
    if len(table.blocks) > 1:
        assert (p.coin < 1e-4).sum() <= 3
    else:
        assert np.isnan(p.coin).all()


def test_what_has_to_be_seen():
    options = [f"{i}" for i in range(50)]
    for table in (
        TABLES["dithered-1"],
        TABLES["bisample-1"],
        TABLES["bisample-8"],
        KRandomizedResponse(1, options).table,
        KRandomizedResponse(8, options).table,
    ):
        p = plausibility(table, 1000 * np.eye(table.width, dtype=int))
        assert (np.fmin(p.coin, p.region) < 1e-4).all(), table
    assert plausibility(TABLES["bisample-1"], np.array([[480, 320, 720, 480]])).coin[0] < 1e-4
    other = np.random.default_rng(31).multinomial(1000, DitheredResponse(8, levels=3).table.matrix[5])
    assert plausibility(DitheredResponse(2).table, other[None]).region[0] < 1e-4
    four = np.random.default_rng(31).multinomial(
        2000, KRandomizedResponse(1, ["a", "b", "c"]).table.matrix[0]
    )
    assert plausibility(TABLES["bisample-1"], four[None]).coin[0] < 1e-4


def test_a_fit_that_stops_early_does_not_count_against_the_tally():
    table = DitheredResponse(0.1).table
    counts = np.random.default_rng(37).multinomial(10**7, table.matrix[3], size=20)
    assert plausibility(table, counts).region.min() > 1e-4


def test_warnings_are_sentences_and_rare():
    table = TABLES["bisample-1"]
    fair, unfair, impossible = warnings_of(
        table, np.array([[300, 200, 260, 240], [480, 320, 720, 480], [900, 0, 900, 0]])
    )
    assert fair == ()
    assert len(unfair) == len(impossible) == 1
    assert "coin" in unfair[0]
    assert "another mechanism" in impossible[0]
    assert "p = " in unfair[0]
