"""What statistical tests and mutants share: populations, exact distributions, bounds, checkers.

A checker raises an `AlarmError` of its own name, with p, n and seed. It is run on the real code, where it has
to pass, and on mutants, where it has to fail: a checker that lets a mutant through is no checker, and an
error of any other kind is no alarm.

Every probability here is written a second time, from the papers' formulas and in floats, and is not
taken from the table under test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from statistics import NormalDist

import numpy as np

from bisample.catalogue import CATALOGUE, Entry
from bisample.protocol.domain import Range
from bisample.protocol.exact import TOTAL
from bisample.protocol.mechanism import Mechanism
from bisample.protocol.table import Table

ALPHA = 1e-6
LOWER, UPPER = 10.0, 50.0  # not symmetric around 0: total mixes the sum with the answer rate
OPTIONS = (0, 1, 2)  # numbers, because text is read one by one; each is the number of its row

EPSILONS = (0.1, 1.0, 4.0)
RATES = (0.3, 0.7, 1.0)
MEANS = (-0.8, 0.0, 0.5)


def quantile(alpha):
    """The z with P(|Z| > z) = alpha."""
    return -NormalDist().inv_cdf(alpha / 2)


class AlarmError(AssertionError):
    """What a checker raises, and nothing else does: the name of the checker, and why."""

    def __init__(self, checker, why):
        super().__init__(f"{checker}: {why}")
        self.checker = checker


def make(entry, epsilon):
    """A mechanism of this entry of the catalogue, on the tests' range or options."""
    if entry.domain == "range":
        return entry.builder(epsilon, LOWER, UPPER)
    return entry.builder(epsilon, OPTIONS[:2] if entry.name == "rr" else OPTIONS)


def kinds():
    """The entries of the catalogue, in a fixed order."""
    return [entry for _, entry in sorted(CATALOGUE.items())]


def promised(mechanism):
    """The epsilon that a mechanism was built for, by its provenance."""
    return float(mechanism.provenance.parameters["epsilon"])


def with_weights(mechanism, weights):
    """Another table under the same name and promise: no builder is asked."""
    return Mechanism(Table(weights, mechanism.table.blocks), mechanism.domain, mechanism.provenance)


def numeric(mechanism):
    return isinstance(mechanism.domain, Range)


def five_anchors(epsilon, lower=LOWER, upper=UPPER, anchors=(0, 1, 2, 3, 4)):
    """Rounds to one of five numbers or to no answer, then 6-ary randomized response; in no catalogue."""
    other = int(TOTAL / (math.exp(epsilon) + 5)) + 1
    rows = np.full((6, 6), other)
    np.fill_diagonal(rows, TOTAL - 5 * other)
    return Mechanism(Table(rows.tolist()), Range(lower, upper, anchors))


def cases(epsilons=EPSILONS, rates=RATES, means=MEANS):
    """(entry, epsilon, rate, mean) for all that a mechanism can be given: without a refusal only rate 1."""
    return [
        (entry, epsilon, rate, mean)
        for entry in kinds()
        for epsilon in epsilons
        for rate in rates
        for mean in means
        if rate == 1 or entry.refusal
    ]


def case_id(value):
    return value.name if isinstance(value, Entry) else str(value)


# Populations


@dataclass(frozen=True)
class Population:
    """Groups of identical people. The last group declines if anybody does."""

    answers: tuple  # one a group; None declines
    shares: np.ndarray
    values: np.ndarray  # one row a target (scaled value, or each option, then answered), one column a group

    @property
    def answered(self):
        """The answers given, with repetitions in proportion: what variance() takes."""
        given = [(a, s) for a, s in zip(self.answers, self.shares, strict=True) if a is not None]
        return [a for a, s in given for _ in range(round(100 * s / self.rate))]

    @property
    def rate(self):
        return float(self.values[-1] @ self.shares)


def population(mechanism, rate, mean):
    """People whose answers have this mean (scaled to [-1, 1]), or proportions that go with it."""
    if numeric(mechanism):
        spread = min(0.2, 1 - abs(mean))
        scaled = np.array([mean - spread, mean, mean + spread]) if spread else np.array([mean])
        parts = np.array([0.25, 0.5, 0.25]) if spread else np.array([1.0])
        answers = tuple((LOWER + (scaled + 1) / 2 * (UPPER - LOWER)).tolist())
        values = np.vstack([scaled, np.ones(len(scaled))])
    else:
        first = round(10 * (1 + mean) / 2, 6)  # tenths: 1, 5, 7.5
        count = len(mechanism.domain.options)
        tenths = [first, 10 - first] if count == 2 else [first, (10 - first) * 0.6]
        tenths += [10 - sum(tenths)] * (count - len(tenths))
        kept = [i for i, part in enumerate(tenths) if part > 0]
        parts = np.array(tenths)[kept] / 10
        answers = tuple(OPTIONS[i] for i in kept)
        values = np.vstack([np.eye(len(tenths))[:, kept], np.ones(len(kept))])
    if rate < 1:
        answers = (*answers, None)
        parts = np.append(parts * rate, 1 - rate)
        values = np.column_stack([values, np.zeros(len(values))])
    return Population(answers, parts, values)


# What a report should look like, from the papers


def _k_rr(epsilon, height):
    e = math.exp(epsilon)
    return (np.ones((height, height)) + (e - 1) * np.eye(height)) / (e + height - 1)


def _bisample(epsilon, height):  # noqa: ARG001
    p = math.exp(epsilon) / (math.exp(epsilon) + 1)
    return np.array([[1 - p, p, p, 1 - p], [p, 1 - p, 1 - p, p], [p, 1 - p, p, 1 - p]]) / 2


def _privkv(epsilon, height):  # noqa: ARG001
    half = math.exp(epsilon / 2) / (math.exp(epsilon / 2) + 1)
    kept, flipped = half * half, half * (1 - half)
    return np.array(
        [[1 - half, kept, flipped], [1 - half, flipped, kept], [half, (1 - half) / 2, (1 - half) / 2]]
    )


def dithered_rows(epsilon, levels, steps):
    """G_k: a public threshold in `steps` steps, then (levels + 1)-ary randomized response of the level."""
    response = _k_rr(epsilon, levels + 1) / steps
    anchors = np.arange(steps * (levels - 1) + 1)
    level = [np.append(np.minimum((anchors + u) // steps, levels - 1), levels) for u in range(steps)]
    return np.hstack([response[j] for j in level])


def _dithered(epsilon, height, levels, steps, **expected):  # noqa: ARG001
    return dithered_rows(epsilon, levels, steps)


# By name, what the paper states: from epsilon, the number of rows and further parameters to the rows.
FORMS = {
    "bisample": _bisample,
    "dithered": _dithered,
    "focused": _dithered,
    "harmony": _k_rr,
    "k-rr": _k_rr,
    "privkv": _privkv,
    "rr": _k_rr,
    "three-state": _k_rr,
}


def rows(mechanism):
    """The distribution of codes of each row, for the epsilon that the mechanism promises.

    By the paper's form where there is one, else from a table built anew: never from the table in use.
    """
    form = FORMS.get(mechanism.name)
    if form is None:
        return make(CATALOGUE[mechanism.name], promised(mechanism)).table.matrix
    others = {k: v for k, v in mechanism.provenance.parameters.items() if k != "epsilon"}
    return form(promised(mechanism), mechanism.table.height, **others)


def codes_of(mechanism, answer, table_rows=None):
    """The distribution of the code that a person with this answer sends."""
    matrix = rows(mechanism) if table_rows is None else table_rows
    if answer is None:
        return matrix[-1]
    if not numeric(mechanism):
        return matrix[answer]
    anchors = mechanism.domain.anchors
    position = (answer - LOWER) / (UPPER - LOWER) * anchors[-1]
    below = max(i for i, anchor in enumerate(anchors[:-1]) if anchor <= position)
    part = (position - anchors[below]) / (anchors[below + 1] - anchors[below])
    return matrix[below] + part * (matrix[below + 1] - matrix[below])


def draw_tallies(mechanism, people, n, repetitions, rng):
    """Tallies of n people drawn anew each time, and how many of each group they were."""
    matrix = rows(mechanism)
    groups = rng.multinomial(n, people.shares / people.shares.sum(), size=repetitions)
    tallies = np.zeros((repetitions, matrix.shape[1]), dtype=np.int64)
    for answer, count in zip(people.answers, groups.T, strict=True):
        p = codes_of(mechanism, answer, matrix)
        tallies += rng.multinomial(count, p / p.sum())
    return tallies, groups


# Estimates of many tallies at once: a twin of estimate(), written apart


class Twin:
    """Estimates and intervals of many tallies at once, for tables that leave the estimator no choice.

    Written apart from the package, so that it is a second opinion. Its intervals are Fieller's, which
    the package's approach where there are many reports.
    """

    def __init__(self, mechanism, level=0.95):
        self.mechanism = mechanism
        self.level = level
        self.z = NormalDist().inv_cdf((1 + level) / 2)
        table = mechanism.table
        self.matrix = table.matrix
        self.targets = targets_of(mechanism)
        self.bounds = (-1.0, 1.0) if numeric(mechanism) else (0.0, 1.0)
        self.starts = np.cumsum((0, *table.blocks[:-1]))
        self.sizes = np.array(table.blocks)
        self.mass = np.add.reduceat(self.matrix[0], self.starts)
        self.weights = self.targets @ np.linalg.pinv(self.matrix.T)

    @staticmethod
    def fits(mechanism):
        """Whether the table leaves no choice: codes, less one a block, are as many as rows less one."""
        table = mechanism.table
        return table.width - len(table.blocks) == table.height - 1

    def solve(self, tallies):
        """Estimates of the targets and their covariance matrices."""
        counts = np.add.reduceat(tallies, self.starts, axis=1)
        q = tallies / np.repeat(counts, self.sizes, axis=1)
        values = (q * np.repeat(self.mass, self.sizes)) @ self.weights.T
        possible = self.matrix / np.repeat(self.mass, self.sizes)
        zero = (tallies == 0).any(axis=1)
        q[zero] = np.clip(q[zero], possible.min(axis=0), possible.max(axis=0))
        gq = self.weights * q[:, None, :]
        block_means = np.add.reduceat(gq, self.starts, axis=2)
        centred = self.weights - np.repeat(block_means, self.sizes, axis=2)
        scale = np.repeat(self.mass**2 / counts, self.sizes, axis=1)
        covariance = np.einsum("rtc,ruc->rtu", centred * (q * scale)[:, None, :], centred)
        return values, covariance

    def estimates(self, tallies):
        """Columns: total, answer rate, then the mean or each proportion, in the units of estimate()."""
        values, _ = self.solve(tallies)
        return columns(self.mechanism, values, tallies.sum(axis=1))

    def errors(self, tallies):
        """The standard errors of the same columns, by the first terms of their expansions."""
        values, covariance = self.solve(tallies)
        n = tallies.sum(axis=1)
        lines = np.array([_gradients(self.mechanism, row) for row in values])
        found = np.sqrt(np.maximum(np.einsum("rit,rtu,riu->ri", lines, covariance, lines), 0))
        if numeric(self.mechanism):
            found[:, 0] *= n
        return found

    def intervals(self, tallies):
        """(low, high) arrays by name, in the units of estimate()."""
        values, covariance = self.solve(tallies)
        found = {}
        rate, v_a = values[:, -1], covariance[:, -1, -1]
        if self.mechanism.domain.refusal:
            half = self.z * np.sqrt(v_a)
            low, high = np.maximum(rate - half, 0), np.minimum(rate + half, 1)
            impossible = low > high  # then it is left as it is, to show that something is wrong
            found["answer_rate"] = (
                np.where(impossible, rate - half, low),
                np.where(impossible, rate + half, high),
            )
        for i in range(len(self.targets) - 1):
            low, high = self._fieller(values[:, i], rate, covariance[:, i, i], v_a, covariance[:, i, -1])
            name = "mean"
            if numeric(self.mechanism):
                low, high = (LOWER + (x + 1) / 2 * (UPPER - LOWER) for x in (low, high))
            else:
                name = self.mechanism.domain.options[i]
            found[name] = (low, high)
        if numeric(self.mechanism):
            n = tallies.sum(axis=1)
            t = np.array([(UPPER - LOWER) / 2, (UPPER + LOWER) / 2])
            total = n * (values @ t)
            half = self.z * n * np.sqrt(np.einsum("t,rtu,u->r", t, covariance, t))
            found["total"] = (total - half, total + half)
        return found

    def _fieller(self, s, a, v_s, v_a, c):
        """The hull of {m : (s - m a)^2 <= z^2 (v_s - 2 m c + m^2 v_a)} within the bounds."""
        least, most = self.bounds
        z2 = self.z**2
        square, cross, rest = a * a - z2 * v_a, s * a - z2 * c, s * s - z2 * v_s
        with np.errstate(invalid="ignore", divide="ignore"):
            root = np.sqrt(np.maximum(cross**2 - square * rest, 0))
            one, two = (cross - root) / square, (cross + root) / square
        first, last = np.minimum(one, two), np.maximum(one, two)
        inside = square > 0
        outside = ~inside & (cross**2 > square * rest)
        left, right = (first >= least) & (first <= most), (last >= least) & (last <= most)
        low = np.where(inside, np.maximum(first, least), np.where(outside & right & ~left, last, least))
        high = np.where(inside, np.minimum(last, most), np.where(outside & left & ~right, first, most))
        nothing = inside & (low > high)
        low, high = np.where(nothing, first, low), np.where(nothing, last, high)
        return np.where(a > 0, low, least), np.where(a > 0, high, most)


def targets_of(mechanism):
    """The scaled value of each row, or each option; then who answers."""
    domain = mechanism.domain
    answered = np.ones(domain.height)
    if domain.refusal:
        answered[-1] = 0
    if not numeric(mechanism):
        return np.vstack([np.eye(len(domain.options), domain.height), answered])
    anchors = np.array(domain.anchors)
    scaled = np.append(2 * anchors / anchors[-1] - 1, [0] * domain.refusal)
    return np.vstack([scaled, answered])


def columns(mechanism, targets, n):
    """From target values (one row a repetition) to total, answer rate, and mean or proportions."""
    rate = targets[:, -1:]
    if numeric(mechanism):
        centre, half = (UPPER + LOWER) / 2, (UPPER - LOWER) / 2
        total = n * (centre * targets[:, 1] + half * targets[:, 0])
        return np.column_stack([total, rate, centre + half * targets[:, :1] / rate])
    return np.column_stack([rate, targets[:, :-1] / rate])


def _gradients(mechanism, targets):
    """How the columns (the total as a share of n) change with the targets, one line a column."""
    rate = targets[-1]
    if numeric(mechanism):
        centre, half = (UPPER + LOWER) / 2, (UPPER - LOWER) / 2
        return np.array([[half, centre], [0, 1], [half / rate, -half * targets[0] / rate**2]])
    k = len(targets) - 1
    return np.array([[0] * k + [1], *np.column_stack([np.eye(k) / rate, -targets[:k] / rate**2])])


def column_names(mechanism):
    if numeric(mechanism):
        return ["total", "answer_rate", "mean"]
    return ["answer_rate", *mechanism.domain.options]


def estimated(mechanism, tallies, level=0.95):
    """What estimates() says of tallies, in the order of `columns`, a row each; and the standard errors."""
    found, errors = [], []
    for e in mechanism.estimates(tallies, level):
        if numeric(mechanism):
            found.append([e.total, e.answer_rate, e.mean])
            errors.append([e.total_error, e.answer_rate_error, e.mean_error])
        else:
            found.append([e.answer_rate, *e.proportions.values()])
            errors.append([e.answer_rate_error, *e.proportions_error.values()])
    return np.array(found), np.array(errors)


def stated_variances(mechanism, people, n, *, realised):
    """The variances of `columns` for n people, by variance()."""
    v = mechanism.variance(people.answered, answer_rate=people.rate, realised=realised)
    if numeric(mechanism):
        return np.array([v.total * n, v.answer_rate / n, v.mean / n])
    return np.array([v.answer_rate, *v.proportions.values()]) / n


# The best linear estimator, by its formula


def best_weights(mechanism, people):
    """(g, q, mass, block): weights with W g = T of least variance for these people, and shares in blocks.

    g = D^-1 W' (W D^-1 W')^+ T with D the codes' probabilities, then each block is counted for itself.
    """
    matrix = rows(mechanism)
    table = mechanism.table
    targets = targets_of(mechanism)
    p = sum(s * codes_of(mechanism, a) for a, s in zip(people.answers, people.shares, strict=True))
    block = np.repeat(np.arange(len(table.blocks)), table.blocks)
    mass = np.bincount(block, weights=p)
    gram = (matrix / p) @ matrix.T
    g = (targets @ np.linalg.pinv(gram, rcond=1e-12, hermitian=True)) @ (matrix / p)
    assert np.abs(g @ matrix.T - targets).max() < 1e-5, "no weights estimate this without bias"
    return g, p / mass[block], mass, block


def linear_estimates(mechanism, people, tallies):
    """The columns of estimate() with the weights that are best for these people, whatever the tally."""
    g, _, mass, block = best_weights(mechanism, people)
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    counts = np.add.reduceat(tallies, starts, axis=1)
    frequencies = tallies / counts[:, block] * mass[block]
    return columns(mechanism, frequencies @ g.T, tallies.sum(axis=1))


def enumerated_variances(mechanism, people, *, realised):
    """The variances of `columns` for one person, summed over every group and every code."""
    g, q, _, block = best_weights(mechanism, people)
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    influence = g - np.add.reduceat(g * q, starts, axis=1)[:, block]
    influence = _gradients(mechanism, people.values @ people.shares) @ influence
    found = np.zeros(len(influence))
    for answer, share in zip(people.answers, people.shares, strict=True):
        p = codes_of(mechanism, answer)
        found += share * (influence**2 @ p - realised * (influence @ p) ** 2)
    return found


# Tails and bounds


def chi_square_tail(x, freedom):
    """P(X >= x) for X chi-square: the regularized upper incomplete gamma function.

    By its series where that converges, else by Lentz's continued fraction.
    """
    a, y = freedom / 2, x / 2
    if y <= 0:
        return 1.0
    front = math.exp(a * math.log(y) - y - math.lgamma(a)) if y < 700 + a else 0.0
    if y < a + 1:
        term = total = 1 / a
        k = a
        while term > total * 1e-16:
            k += 1
            term *= y / k
            total += term
        return 1 - front * total
    b = y + 1 - a
    c, d = 1e300, 1 / b
    h = d
    for i in range(1, 10_000):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b)
        c = b + step / c
        h *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * h


def chi_square(observed, expected):
    """(statistic, p) of counts against what was expected."""
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return statistic, chi_square_tail(statistic, len(expected) - 1)


def chi_square_critical(alpha, freedom):
    low, high = 0.0, 10_000.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if chi_square_tail(middle, freedom) > alpha else (low, middle)
    return high


def chernoff(successes, n, alpha, *, upper):
    """A bound of a binomial's p that fails with probability alpha at most, for every n and p.

    P(X >= k) <= exp(-n KL(k/n || p)) (Chernoff), solved for p by bisection. A little wider than
    Clopper and Pearson's, and proven in a line.
    """
    share = successes / n
    room = -math.log(alpha) / n

    def divergence(p):
        here = share * math.log(share / p) if share else 0.0
        return here + ((1 - share) * math.log((1 - share) / (1 - p)) if share < 1 else 0.0)

    inside, outside = (share, 1.0) if upper else (share, 0.0)
    for _ in range(200):
        middle = (inside + outside) / 2
        if 0 < middle < 1 and divergence(middle) <= room:
            inside = middle
        else:
            outside = middle
    return outside  # on the far side: rounding may only widen the bound


# Checkers. `draw(answers, rng)` is privatize, or a mutant of it.


def probes(mechanism):
    """Answers that reach every row of a small table and the rounding between anchors."""
    if numeric(mechanism):
        answers = [LOWER + part * (UPPER - LOWER) for part in (0.0, 0.34375, 1.0)]  # in the middle of a step
    else:
        answers = list(OPTIONS[: len(mechanism.domain.options)])
    return [*answers, None] if mechanism.domain.refusal else answers


def _column(answer, n):
    """n people with the same answer, as an array that privatize reads fast; NaN declines."""
    return np.full(n, np.nan if answer is None else float(answer))


def check_codes(mechanism, draw, *, n, seed, alpha=ALPHA):
    """Every answer's codes have the distribution that the mechanism's paper states for its epsilon."""
    answers = probes(mechanism)
    for i, answer in enumerate(answers):
        reports = draw(_column(answer, n), np.random.default_rng([seed, i]))
        observed = np.bincount(reports, minlength=mechanism.table.width)
        statistic, p = chi_square(observed, n * codes_of(mechanism, answer))
        if p < alpha / len(answers):
            raise AlarmError(
                "codes", f"{mechanism.name}, probe {i}: chi-square {statistic:.1f}, {p=:.2g}, {n=}, {seed=}"
            )


def code_power(mechanism, other_rows, *, n, alpha=ALPHA):
    """How many standard deviations check_codes has to spare against another table; 4.8 is power 1 - 1e-6.

    The root of a non-central chi-square is normal around the root of its non-centrality.
    """
    answers = probes(mechanism)
    spare = -math.inf
    for answer in answers:
        p0, p1 = codes_of(mechanism, answer), codes_of(mechanism, answer, other_rows)
        critical = chi_square_critical(alpha / len(answers), len(p0) - 1)
        spare = max(spare, math.sqrt(n * float(((p1 - p0) ** 2 / p0).sum())) - math.sqrt(critical))
    return spare


def check_independence(mechanism, draw, *, n, seed, alpha=ALPHA):
    """Neighbouring reports are independent: pairs of codes against the products of their own frequencies.

    Whether these frequencies are right is not asked here. Wide tables are taken in four groups of codes.
    """
    answer = probes(mechanism)[1]
    width = min(mechanism.table.width, 4)
    reports = draw(_column(answer, n), np.random.default_rng(seed)) % width
    for start in (0, 1):
        stop = start + (n - start) // 2 * 2
        pairs = np.bincount(reports[start:stop:2] * width + reports[start + 1 : stop : 2], minlength=width**2)
        table = pairs.reshape(width, width)
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        seen = expected > 0
        statistic = float(((table - expected)[seen] ** 2 / expected[seen]).sum())
        freedom = (np.count_nonzero(table.sum(axis=1)) - 1) * (np.count_nonzero(table.sum(axis=0)) - 1)
        p = chi_square_tail(statistic, freedom) if freedom else 1.0
        if p < alpha / 2:
            raise AlarmError(
                "independence",
                f"{mechanism.name}, neighbours from {start}: chi-square {statistic:.1f}, {p=:.2g},"
                f" {n=}, {seed=}",
            )


def check_refusals(mechanism, draw, *, n, seed, alpha=ALPHA):
    """A refusal among answers gets a report of its own, in its place, from the refusal's row."""
    answer = probes(mechanism)[0]
    refused = np.random.default_rng([seed, 1]).random(n) < 0.5
    answers = np.where(refused, np.nan, float(answer))
    reports = draw(answers, np.random.default_rng(seed))
    if len(reports) != n:
        raise AlarmError("refusals", f"{mechanism.name}: {n} answers, {len(reports)} reports, {seed=}")
    for where, held in ((refused, None), (~refused, answer)):
        observed = np.bincount(reports[where], minlength=mechanism.table.width)
        statistic, p = chi_square(observed, observed.sum() * codes_of(mechanism, held))
        if p < alpha / 2:
            raise AlarmError(
                "refusals",
                f"{mechanism.name}, {'refusals' if held is None else 'answers'}:"
                f" chi-square {statistic:.1f}, {p=:.2g}, {n=}, {seed=}",
            )


def check_bias(mechanism, draw, *, n, seed, rate=0.7, mean=0.5, alpha=ALPHA):
    """From people to estimate: each estimate lies within its stated error of these people's truth."""
    rate = rate if mechanism.domain.refusal else 1.0
    people = population(mechanism, rate, mean)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, people.shares / people.shares.sum())
    order = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    answers = np.array(people.answers, dtype=np.float64)[order]
    tally = mechanism.tally(draw(answers, rng))
    truth = columns(mechanism, (people.values @ counts / n)[None, :], n)[0]
    found = estimated(mechanism, [tally])[0][0]
    z = quantile(alpha / len(truth))
    sds = np.sqrt(stated_variances(mechanism, people, n, realised=True))
    for name, estimate, true, sd in zip(column_names(mechanism), found, truth, sds, strict=True):
        if not abs(estimate - true) <= z * sd + 1e-9 * abs(true):
            raise AlarmError(
                "bias",
                f"{mechanism.name}: {name} is {estimate:.6g} where {true:.6g} is true,"
                f" standard error {sd:.2g}, {alpha=:.2g}, {n=}, {seed=}",
            )


def check_exact_epsilon(mechanism, *_, **__):
    """No two weights of a column have a ratio above e^epsilon: integers against 60 digits."""
    with localcontext() as context:
        context.prec = 60
        limit = Decimal(promised(mechanism)).exp()
        for c, column in enumerate(zip(*mechanism.table.weights, strict=True)):
            ratio = Decimal(max(column)) / Decimal(min(column))
            if ratio > limit:
                raise AlarmError("exact epsilon", f"code {c} has the ratio {ratio:.12f}, above {limit:.12f}")


def audited_epsilon(mechanism, draw, *, n, seed, alpha=ALPHA):
    """What an adversary proves about epsilon from reports alone; too large with probability alpha at most.

    Half of the reports chooses the two answers and the code that tell most, the other half bounds
    the ratio of their probabilities from below.
    """
    answers = probes(mechanism)
    width = mechanism.table.width
    halves = [
        [
            np.bincount(draw(_column(answer, n), np.random.default_rng([seed, half, i])), minlength=width)
            for i, answer in enumerate(answers)
        ]
        for half in range(2)
    ]
    logs = np.log(np.array(halves[0]) + 1.0)
    gaps = logs[:, None, :] - logs[None, :, :]
    high, low, code = np.unravel_index(np.argmax(gaps), gaps.shape)
    p = chernoff(int(halves[1][high][code]), n, alpha / 2, upper=False)
    q = chernoff(int(halves[1][low][code]), n, alpha / 2, upper=True)
    return math.log(p / q) if p > 0 else -math.inf


def check_audit(mechanism, draw, *, n, seed, alpha=ALPHA):
    """The adversary proves no more than was promised."""
    found = audited_epsilon(mechanism, draw, n=n, seed=seed, alpha=alpha)
    if found > promised(mechanism):
        raise AlarmError(
            "audit",
            f"{mechanism.name}: the reports prove epsilon >= {found:.4f}, promised was"
            f" {promised(mechanism)}, p={alpha:.2g}, {n=}, {seed=}",
        )
