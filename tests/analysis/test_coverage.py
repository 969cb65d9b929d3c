"""Intervals hold the truth as often as they say, with few reports and rare codes too.

A seventh of the cells of tools/interval_coverage.py, thinned to a few seconds; `make coverage` runs them
all. A cell is allowed to fall short by chance: alpha = .001 over all cells of the family, and the seed is
fixed, so that what passes once passes always. With 200 tallies a cell a coverage of .80 is found out with
a probability above .99.
"""

from __future__ import annotations

import interval_coverage
import numpy as np
import pytest
from handmade import COIN, UNEVEN

from bisample.analysis.variance import row_shares


@pytest.mark.tree  # it stands on tools/
def test_coverage_in_short():
    """A seventh of the cells, 200 tallies each: none below .92 but for chance, and the average at .945."""
    cells = [
        c
        for job in interval_coverage.jobs(interval_coverage.arguments(["--thin"]))
        for c in interval_coverage.measure((job, 200))
    ]
    assert len(cells) > 500
    assert {c.job.mechanism for c in cells} == {name for name, _, _ in interval_coverage.mechanisms()}
    short = interval_coverage.shortfalls(cells, 200)
    assert not short["below .92"], [interval_coverage.line_of(c) for c in short["below .92"]]
    assert not short["below .93 where clear"], [
        interval_coverage.line_of(c) for c in short["below .93 where clear"]
    ]
    for n in interval_coverage.REPORTS:
        assert np.mean([c.coverage for c in cells if c.job.reports == n]) >= 0.945, n
    widths = [c.width / c.closed_width for c in cells if c.job.reports >= 5000 and c.closed_width > 0]
    assert 0.98 <= np.median(widths) <= 1.02


@pytest.mark.tree
@pytest.mark.parametrize("mechanism", [UNEVEN, COIN], ids=["uneven anchors", "a public coin"])
@pytest.mark.parametrize("n", [30, 300, 5_000])
def test_tables_that_nobody_built_are_covered_as_well(mechanism, n):
    """1,000 surveys, three answer rates, mean and rate: none of the 36 below .92 but for chance.

    Alpha is .001 over them. A coverage of .88 is found out with a probability of .9 in any one.
    """
    domain = mechanism.domain
    least, _ = interval_coverage.chance(0.92, 1000, 36)
    rng = np.random.default_rng(n)
    held = domain.lower + (domain.upper - domain.lower) * rng.beta(2, 3, 200)
    for rate in (0.3, 0.7, 1.0):
        shares = row_shares(domain, held, rate)
        drawn = rng.multinomial(n, shares @ mechanism.table.matrix, size=1000)
        found = mechanism.estimates([mechanism.tally_of(counts) for counts in drawn])
        for name, truth in (("mean", held.mean()), ("answer_rate", rate)):
            low, high = np.array([getattr(e, f"{name}_interval") for e in found]).T
            covered = np.mean((low <= truth + 1e-9) & (truth - 1e-9 <= high))
            assert covered >= least, (name, n, rate, covered)
            assert (low < high).all()
