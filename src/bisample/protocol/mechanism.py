"""Mechanism: a table over a domain, and that is all it takes.

Read from JSON where nobody ever built it, it privatizes, tallies, estimates and certifies like any
other. A builder's name and parameters are provenance: printed, never needed, and no part of the digest.

The doors at the end lead to the respondent's side and to the analyst's. They are the only imports
upwards of this package, one line each, so that a device never loads what estimates, nor the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bisample.errors import FormatError, ParameterError, shown

from .canonical import canonical, digest, parse, take
from .domain import Domain, Options, Range, domain_from_dict
from .exact import bound_text, real
from .table import Table

if TYPE_CHECKING:
    from bisample.analysis.results import Estimate
    from bisample.analysis.tally import Tally
    from bisample.analysis.variance import Variance
    from bisample.device.randomness import Rng

__all__ = ["FORMAT", "Mechanism", "Provenance"]

FORMAT = "bisample-mechanism/1"

_NAME = re.compile("[a-z][a-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Provenance:
    """Who built a table and from what: a name and parameters as canonical JSON holds them.

    >>> print(Provenance("dithered", {"epsilon": "2", "levels": 3}))
    dithered(epsilon=2, levels=3)
    """

    builder: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.builder, str) or not _NAME.fullmatch(self.builder):
            raise ParameterError(
                "the builder of a provenance must be a name such as 'k-rr': a to z, 0 to 9, - and _"
            )
        if not isinstance(self.parameters, Mapping):
            raise ParameterError("the parameters of a provenance must be names with values")
        # Read anew, so that nobody else holds a part of it.
        held = parse(canonical(dict(self.parameters)))
        for name, value in held.items():
            # It is printed wherever the mechanism is: whoever wrote it must not write anything else there.
            if not _NAME.fullmatch(name) or not isinstance(value, (int, str)) or not str(value).isprintable():
                raise ParameterError(
                    "the parameters of a provenance must be names with numbers or short texts"
                )
        object.__setattr__(self, "parameters", MappingProxyType(held))

    def __str__(self) -> str:
        return f"{self.builder}({', '.join(f'{k}={v}' for k, v in self.parameters.items())})"

    def __hash__(self) -> int:
        return hash((self.builder, canonical(dict(self.parameters))))

    def __reduce__(self) -> tuple[type[Provenance], tuple[str, dict[str, Any]]]:
        return Provenance, (self.builder, dict(self.parameters))


@dataclass(frozen=True, eq=False, repr=False)
class Mechanism:
    """A table over a domain: from answers to codes, from codes to a tally, to an estimate.

    >>> from bisample import BiSample
    >>> m = BiSample(epsilon=1, lower=17, upper=90)
    >>> m
    <Mechanism bisample(epsilon=1): numbers from 17 to 90 or no answer, 4 codes, epsilon <= 1>
    >>> Mechanism.from_json(m.to_json()) == m
    True
    """

    table: Table
    domain: Domain
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.table, Table) or not isinstance(self.domain, (Range, Options)):
            raise ParameterError("a mechanism is made of a Table and of a Range or Options")
        if not isinstance(self.provenance, (Provenance, type(None))):
            raise ParameterError("the provenance of a mechanism is a Provenance, or None")
        if self.table.height != self.domain.height:
            raise ParameterError(
                f"the domain has {self.domain.height} rows ({self.domain}), and the table has"
                f" {self.table.height}: they must be as many"
            )

    @property
    def name(self) -> str:
        """What to call it: its builder's name, or else the start of its digest."""
        return self.provenance.builder if self.provenance else f"table {self.digest[:8]}"

    @property
    def epsilon_upper(self) -> float:
        """A proven bound of the table's epsilon; never above the epsilon that was asked for."""
        return self.table.epsilon_upper

    @cached_property
    def digest(self) -> str:
        """SHA-256 of table and domain as canonical JSON: who agrees on it agrees on the mechanism."""
        return digest(self._content())

    def __repr__(self) -> str:
        return (
            f"<Mechanism {self.provenance or self.name}: {self.domain}, {self.table.width} codes,"
            f" epsilon <= {bound_text(self.epsilon_upper)}>"
        )

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Mechanism) and (self.table, self.domain) == (other.table, other.domain)
        )

    def __hash__(self) -> int:
        return hash((self.table, self.domain))

    def __reduce__(self) -> tuple[type[Mechanism], tuple[Table, Domain, Provenance | None]]:
        return Mechanism, (self.table, self.domain, self.provenance)  # without what is cached

    def certificate(self, epsilon: float | None = None) -> dict[str, Any]:
        """The privacy claim with all that is needed to check it by hand, ready for JSON.

        With `epsilon` it also says whether the claim holds at that epsilon.

        >>> from bisample import BiSample
        >>> claim = BiSample(epsilon=1).certificate(epsilon=1)
        >>> claim["holds"], claim["epsilon_upper"] <= 1, claim["worst"]["rows"]
        (True, True, ['1', '-1'])
        """
        worst = self.table.worst_pair
        pair = (worst.row, worst.other_row)
        asked = {} if epsilon is None else {"epsilon": real(epsilon), "holds": self.table.satisfies(epsilon)}
        return {
            "claim": "weights[i][c] <= exp(epsilon_upper) * weights[j][c] for all rows i, j and every code c",
            **asked,
            "epsilon_upper": self.epsilon_upper,
            "worst": {
                "rows": [self.domain.labels[row] for row in pair],
                "code": worst.code,
                "weights": [self.table.weights[row][worst.code] for row in pair],
                "ratio": f"{worst.ratio.numerator}/{worst.ratio.denominator}",
            },
            "rows": list(self.domain.labels),
            "mechanism": self.to_dict(),
        }

    def to_dict(self) -> dict[str, Any]:
        """As plain data that canonical JSON can hold."""
        made = {"digest": self.digest, "format": FORMAT, **self._content()}
        if self.provenance:
            parameters = dict(self.provenance.parameters)
            made["provenance"] = {"builder": self.provenance.builder, "parameters": parameters}
        return made

    def to_json(self) -> str:
        """As canonical JSON, digest included: what a device needs to privatize, in any language."""
        return canonical(self.to_dict()).decode()

    @classmethod
    def from_dict(cls, data: Any) -> Mechanism:
        """The mechanism that `to_dict` described; anything else is refused."""
        kinds: dict[str, type] = {"digest": str, "domain": dict, "format": str, "table": dict}
        if isinstance(data, dict) and data.get("format", FORMAT) != FORMAT:
            raise FormatError(
                f"format must be {FORMAT!r}, not {shown(data['format'])}:"
                " this is another version, or no mechanism"
            )
        if isinstance(data, dict) and "provenance" in data:
            kinds["provenance"] = dict
        stated, domain, _, table, *rest = take(data, "a mechanism", **kinds)
        provenance = None
        if rest:
            builder, parameters = take(rest[0], "a provenance", builder=str, parameters=dict)
            provenance = Provenance(builder, parameters)
        made = cls(Table.from_dict(table), domain_from_dict(domain), provenance)
        if made.digest != stated:
            raise FormatError(
                f"the digest of this table and domain is {made.digest}, and {shown(stated)} is stated:"
                " something was changed after it was made"
            )
        return made

    @classmethod
    def from_json(cls, text: str | bytes) -> Mechanism:
        """The mechanism that `to_json` wrote, in any layout of the JSON; anything else is refused.

        >>> from bisample import RandomizedResponse
        >>> m = Mechanism.from_json(RandomizedResponse(epsilon=1, options=["no", "yes"]).to_json())
        >>> m.privatize("yes") in (0, 1)
        True
        """
        return cls.from_dict(parse(text))

    def _content(self) -> dict[str, Any]:
        return {"domain": self.domain.to_dict(), "table": self.table.to_dict()}

    # The doors.

    def privatize(
        self, answers: object, *, rng: Rng = None, clip: bool = False, threads: int | None = None
    ) -> Any:
        """One code for each answer: a `uint8` array, or an int for a scalar. Missing answers are sent too.

        `answers` is a number, an option or None, a list, a NumPy array, masked or not, or a column of
        pandas, Polars or Arrow. A number outside the range is an error unless `clip` moves it to the
        nearest end. Arrays of millions are drawn on all cores unless `threads` says otherwise.

        `rng` is None (secure), or a seed or a NumPy generator for simulations, which protect nobody; the
        codes of a seed do not depend on `threads`. Codes are bytes and cannot say that they were
        simulated: give their tally the subject `bisample.analysis.tally.SIMULATED`, so that it does not
        add to others.

        >>> from bisample import BiSample
        >>> m = BiSample(epsilon=1, lower=17, upper=90)
        >>> m.privatize([38, None, 90], rng=1)
        array([0, 2, 0], dtype=uint8)
        >>> m.privatize(None) in (0, 1, 2, 3)
        True
        """
        from bisample.device import drawing

        return drawing.privatize(self, answers, rng=rng, clip=clip, threads=threads)

    def tally(self, reports: object, subject: Mapping[str, str] | None = None) -> Tally:
        """Count codes. Tallies of parts add up to the tally of the whole.

        >>> from bisample import BiSample
        >>> BiSample(epsilon=1).tally([0, 3, 3, 1]).counts
        array([1, 1, 0, 2])
        """
        from bisample.analysis import tally

        return tally.count(self, reports, subject)

    def tally_of(self, counts: object, subject: Mapping[str, str] | None = None) -> Tally:
        """The tally of counts that were made elsewhere: one a code in their order, or {code: count}.

        SQL's GROUP BY leaves out codes that nobody sent and has no order, and so does pandas' value_counts:
        give what they return as {code: count}, or the series itself.

        >>> from bisample import BiSample
        >>> BiSample(epsilon=1).tally_of([300, 0, 260, 240]) == BiSample(1).tally_of({2: 260, 3: 240, 0: 300})
        True
        """
        from bisample.analysis import tally

        return tally.of_counts(self, counts, subject)

    def estimate(self, tally: Tally, level: float = 0.95, question: str | None = None) -> Estimate:
        """What a tally says, with standard errors and intervals; `question` is a name to print.

        >>> from bisample import BiSample
        >>> m = BiSample(epsilon=2, lower=17, upper=90)
        >>> e = m.estimate(m.tally(m.privatize([40] * 7_000 + [None] * 3_000, rng=0)))
        >>> abs(e.mean - 40) < 4 * e.mean_error, abs(e.answer_rate - 0.7) < 4 * e.answer_rate_error
        (True, True)
        """
        from bisample.analysis import estimate

        return estimate.estimate(self, [tally], level, [question])[0]

    def estimates(
        self, tallies: Iterable[Tally], level: float = 0.95, questions: Sequence[str | None] | None = None
    ) -> list[Estimate]:
        """The same for many tallies at once, such as those of groups: much faster than one by one.

        >>> from bisample import BiSample
        >>> m = BiSample(epsilon=2)
        >>> [e.n for e in m.estimates([m.tally_of([9, 5, 7, 9]), m.tally_of([90, 50, 70, 80])])]
        [30, 290]
        """
        from bisample.analysis import estimate

        return estimate.estimate(self, tallies, level, questions)

    def variance(
        self, values: object, *, answer_rate: float | None = None, realised: bool = False
    ) -> Variance:
        """n times the variance of the estimates, if people hold these values (None or NaN: no answer).

        With `answer_rate`, the missing entries are set aside and this share of people answers. The
        variance is that for a population the respondents are drawn from; `realised` gives the
        smaller one around the mean of the respondents themselves, as the paper measures it.

        >>> from bisample import BiSample
        >>> v = BiSample(epsilon=1).variance([0.5], answer_rate=0.7, realised=True)
        >>> round(v.mean, 2), round(v.answer_rate, 2)
        (10.97, 4.26)
        """
        from bisample.analysis import variance

        return variance.variance(self, values, answer_rate=answer_rate, realised=realised)
