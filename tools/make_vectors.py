"""Write vectors/: golden cases that bind every implementation of the protocol.

    python tools/make_vectors.py [--check]

What is drawn and estimated comes from slow_reference, digests from canonical_writer: of the library only
the builders are used, for the tables of named mechanisms. `--check` says whether the files are what this
program writes. The format is described in vectors/README.md.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from canonical_writer import digest, write
from protocol_vectors import protocol, range_of, sealed, tally_of, teller, values_of
from slow_reference import (
    STEP,
    TIE_BITS,
    TOTAL,
    Data,
    Drawing,
    answers_and_bytes,
    epsilon_upper,
    estimate,
    keeps,
    worst_ratio,
)

from bisample.catalogue import build

FOLDER = Path(__file__).resolve().parent.parent / "vectors"
FORMAT = "bisample-vectors/1"
WORDS = 1 << 16
MIDDLE = 1 << 31  # a rounding word that leaves a number that is nearly an anchor at this anchor

NAMED: dict[str, list[Data]] = {
    "bisample": [
        {"epsilon": 1, "lower": -1, "upper": 1},
        {"epsilon": 0.1, "lower": 17, "upper": 90},
        {"epsilon": 4, "lower": 0.1, "upper": 0.3},
    ],
    "three-state": [{"epsilon": 1, "lower": -1, "upper": 1}, {"epsilon": 0.5, "lower": 0, "upper": 3}],
    "harmony": [{"epsilon": 1, "lower": -1, "upper": 1}, {"epsilon": 2, "lower": -40, "upper": 7.5}],
    "privkv": [{"epsilon": 1, "lower": -1, "upper": 1}, {"epsilon": 3, "lower": 0, "upper": 1e6}],
    "dithered": [
        {"epsilon": 1, "lower": -1, "upper": 1, "levels": 2, "steps": 4},
        {"epsilon": 2, "lower": 17, "upper": 90},
        {"epsilon": 4, "lower": 0.1, "upper": 0.3, "levels": 4, "steps": 3},
    ],
    "focused": [{"epsilon": 3, "lower": 0, "upper": 120, "mean": 42.5, "spread": 12, "steps": 5}],
    "rr": [{"epsilon": 1, "options": [False, True]}, {"epsilon": 0.1, "options": ["no", "yes"]}],
    "k-rr": [
        {"epsilon": 1, "options": ["tea", "coffee"]},
        {
            "epsilon": 2,
            "options": [0, 1, 2.5, True, "\u00e9", "e\u0301", "\u8336", "\U0001f375", '"\\/'],
        },
        {"epsilon": 0.1, "options": [f"option {i}" for i in range(1, 21)]},
    ],
}
# How many answers are drawn by rule with the first case of a name, or with a table: more than a block.
LONG = {"bisample": 300_000, "dithered": 140_000, "k-rr": 140_000, "uneven anchors": 140_000}


# --- Mechanisms -------------------------------------------------------------------------------------


def named(name: str, parameters: Data) -> Data:
    """A mechanism of the catalogue: its table, domain and provenance as the builder has them."""
    built = build(name, **parameters)
    assert built.provenance is not None
    domain, table = built.domain.to_dict(), built.table.to_dict()
    return sealed(domain, table, builder=name, parameters=dict(built.provenance.parameters))


def spread(height: int, width: int) -> Data:
    """A table without a structure: neighbouring codes share their weight otherwise in every row."""
    each, unit = TOTAL // width, TOTAL // (200 * width)
    rows = []
    for i in range(height):
        row = [each] * (width - 1) + [TOTAL - each * (width - 1)]
        for c in range(0, width - 1, 2):
            moved = ((101 * i + 57 * c) % 257 - 128) * unit
            row[c], row[c + 1] = row[c] + moved, row[c + 1] - moved
        rows.append(row)
    return {"blocks": [width], "weights": rows}


def lines(anchors: list[int]) -> Data:
    """Five codes in two blocks of 3/8 and 5/8, whose weights are linear in the anchor; and a refusal."""
    unit = TOTAL >> 12
    first, second = 3 * TOTAL // 8, 5 * TOTAL // 8
    up, down = 13 * unit + 1, 29 * unit + 3  # for each unit of the anchors
    rows = [
        [first // 3 + up * a, first - first // 3 - up * a, 700 * unit + 5, 1700 * unit - down * a]
        for a in anchors
    ]
    rows.append([first // 2 + 1, first - first // 2 - 1, 400 * unit + 7, 1500 * unit])
    return {"blocks": [2, 3], "weights": [[*row, first + second - sum(row)] for row in rows]}


UNEVEN = [0, 1, 3, 7, 20]
LARGEST = 1 << 20


def around(lower: str, upper: str, last: int) -> Data:
    """A range with anchors one unit apart around each value in POSITIONS: draws tell every position."""
    drawing = Drawing(teller(lower, upper, [0, last]))
    units = {drawing.position(value) // STEP for value in values_of(lower, upper, last)}
    return range_of(lower, upper, sorted({0, last, *units, *(unit + 1 for unit in units if unit < last)}))


def tables() -> dict[str, Data]:
    """Mechanisms that nobody built, by what they try."""
    made = {"uneven anchors": sealed(range_of("17", "90", UNEVEN), lines(UNEVEN))}
    for lower, upper, last in (
        ("0.1", "0.3", 20),
        ("0", "1", LARGEST - 1),
        ("0", "1.3", LARGEST - 1),
        ("0", "100", LARGEST - 1),
        ("17", "90", LARGEST),
    ):
        domain = around(lower, upper, last)
        made[f"{lower} to {upper} in {last} units"] = sealed(domain, spread(len(domain["anchors"]) + 1, 4))
    even = range_of("-40", "7.5", list(range(21)), refusal=False)
    options = {"kind": "options", "options": [f"{i}" for i in range(255)], "refusal": True}
    return made | {
        "even anchors, no refusal": sealed(even, spread(21, 9)),
        "256 codes, no refusal": sealed(range_of("0", "100", [0, 1], refusal=False), spread(2, 256)),
        "255 options": sealed(options, spread(256, 3)),
    }


# --- Draws ------------------------------------------------------------------------------------------


class Case:
    """One mechanism, and what is drawn, counted and estimated with it."""

    def __init__(self, mechanism: Data) -> None:
        self.mechanism = mechanism
        self.domain, self.table = mechanism["domain"], mechanism["table"]
        self.drawing = Drawing(mechanism)
        self.numeric = self.domain["kind"] == "range"
        self.height, self.width = len(self.table["weights"]), len(self.table["weights"][0])
        self.ties = [cut for cut in self.drawing.cuts if cut % (1 << TIE_BITS)]

    def pack(self, rounding: int, word: int, more: int | None = None) -> bytes:
        """The bytes of one draw; what is no tie takes no `more`."""
        data = rounding.to_bytes(4, "little") if self.numeric else b""
        data += word.to_bytes(2, "little")
        return data if more is None else data + more.to_bytes(4, "little")

    def holder(self, row: int) -> Any:
        """An answer that goes to this row, with MIDDLE for its rounding word."""
        if self.domain["refusal"] and row == self.height - 1:
            return None
        if not self.numeric:
            return self.domain["options"][row]
        return self.at(self.domain["anchors"][row])

    def at(self, anchor: float) -> float:
        lower, upper = self.drawing.lower, self.drawing.upper
        return min(upper, lower + (upper - lower) * anchor / self.drawing.anchors[-1])

    def telling(self, row: int, other: int) -> int:
        """A word whose codes differ between two rows, far from cuts if such a one is."""
        plain = [word for word in range(5, WORDS, 11) if word not in self.drawing.tied]
        code = self.drawing.code
        found = [word for word in plain if code(row, word, 0) != code(other, word, 0)]
        return found[len(found) // 2]

    def draw(self, answer: Any, data: bytes, note: str) -> Data:
        code = self.drawing.codes([answer], data)[0]
        return {"answer": answer, "bytes": data.hex(), "code": code, "note": note}

    def draws(self) -> Iterator[Data]:
        if self.numeric:
            yield from self.draws_of_ends()
            yield from self.draws_of_thresholds()
        else:
            yield from self.draws_of_other_types()
        yield from self.draws_of_rows()
        yield from self.draws_of_ties()

    def draws_of_ends(self) -> Iterator[Data]:
        last = len(self.drawing.anchors) - 1
        lower, upper = self.drawing.lower, self.drawing.upper
        others = [(lower, 0, 1), (upper, last, last - 1)]
        if self.domain["refusal"]:
            others.append((upper, last, last + 1))
        for end, row, other in others:
            word = self.telling(row, other)
            for rounding in (0, MIDDLE, STEP - 1):
                note = f"{'lower' if end == lower else 'upper'} has its anchor's row for every rounding word"
                yield self.draw(end, self.pack(rounding, word), note)
        if lower <= 0 <= upper:
            yield self.draw(-0.0, self.pack(12345, self.telling(0, 1)), "negative zero is zero")

    def draws_of_thresholds(self) -> Iterator[Data]:
        anchors, (lower, upper) = self.drawing.anchors, (self.drawing.lower, self.drawing.upper)
        gaps = list(pairwise(anchors))
        some = gaps if len(gaps) <= 5 else [*gaps[:2], gaps[len(gaps) // 2], *gaps[-2:]]
        values = [self.at(a + part * (b - a)) for a, b in some for part in (0.37, 0.5)]
        values += [self.at(0.7 * anchors[-1]), math.nextafter(lower, upper), math.nextafter(upper, lower)]
        values += values_of(self.domain["lower"], self.domain["upper"], anchors[-1])
        for value in values:
            position = self.drawing.position(value)
            below = max(i for i, a in enumerate(anchors) if a * STEP <= position)
            rest = position - anchors[below] * STEP
            if not rest:  # on an anchor
                for rounding, other in ((0, below + 1), (STEP - 1, below - 1)):
                    if 0 <= other < len(anchors):
                        word = self.telling(below, other)
                        yield self.draw(
                            value, self.pack(rounding, word), f"position {position}, on an anchor"
                        )
                continue
            limit = -(-rest // (anchors[below + 1] - anchors[below]))  # the first word that does not round up
            word = self.telling(below, below + 1)
            for rounding in (limit - 1, limit, limit + 1):
                if 0 <= rounding < STEP:
                    note = f"position {position}: words below {limit} round up"
                    yield self.draw(value, self.pack(rounding, word), note)

    def draws_of_other_types(self) -> Iterator[Data]:
        readings: Data = {"0": 0, "1": 1, "2.5": 2.5, "true": True, "false": False}
        for row, option in enumerate(self.domain["options"]):
            if option in readings and self.height < 20:
                word = self.telling(row, (row + 1) % self.height)
                yield self.draw(readings[option], self.pack(0, word), "an option is found by its text")

    def draws_of_rows(self) -> Iterator[Data]:
        for row in range(self.height):
            cut = self.drawing.ends[row][5 * row % (self.width - 1)] >> TIE_BITS
            for word in (cut - 1, cut + 1):
                if 0 <= word < WORDS and word not in self.drawing.tied:
                    yield self.draw(self.holder(row), self.pack(MIDDLE, word), f"row {row} near its cut")
        for row in {0, self.height - 1}:
            for word in (0, WORDS - 1):
                more = None if word not in self.drawing.tied else word * WORDS
                yield self.draw(self.holder(row), self.pack(MIDDLE, word, more), "an end of the line")

    def draws_of_ties(self) -> Iterator[Data]:
        cuts = self.drawing.cuts
        some = cuts if len(cuts) <= 6 else [*cuts[:2], cuts[len(cuts) // 2], *cuts[-2:]]
        for cut in some:
            word, low = cut >> TIE_BITS, cut % (1 << TIE_BITS)
            own = next(row for row, ends in enumerate(self.drawing.ends) if cut in ends[:-1])
            other = next((row for row, ends in enumerate(self.drawing.ends) if cut not in ends), 0)
            for row in sorted({own, other}):
                if not low:
                    note = "a cut where a word starts is no tie"
                    yield self.draw(self.holder(row), self.pack(MIDDLE, word), note)
                    continue
                whose = "own" if row == own else "another row's"
                for more in sorted({0, low - 1, low, (1 << TIE_BITS) - 1}):
                    yield self.draw(self.holder(row), self.pack(MIDDLE, word, more), f"a tie: {whose} cut")

    def batches(self) -> Iterator[Data]:
        """Many at once: all rounding words, all code words, all ties, each in the order of the answers."""
        rows = [(7 * i + 2) % self.height for i in range(12)]
        answers = [self.holder(row) for row in rows]
        roundings = [i * 398_765_431 % STEP for i in range(len(rows))]
        words = [
            self.ties[i * 5 % len(self.ties)] >> TIE_BITS if i % 2 and self.ties else i * 7919 % 60_000
            for i in range(len(rows))
        ]
        more = [(i * 2_654_435_761 + 99) % STEP for i, word in enumerate(words) if word in self.drawing.tied]
        data = b"".join(w.to_bytes(4, "little") for w in roundings if self.numeric)
        data += b"".join(w.to_bytes(2, "little") for w in words)
        data += b"".join(w.to_bytes(4, "little") for w in more)
        yield {"answers": answers, "bytes": data.hex(), "codes": self.drawing.codes(answers, data)}
        yield {"answers": [], "bytes": "", "codes": []}

    def long_batch(self, count: int) -> Data:
        """More answers than a block holds, by a rule."""
        if self.numeric:
            last = self.drawing.anchors[-1]
            choose: list[Any] = [self.at(last * part / 37) for part in range(38)]
        else:
            choose = list(self.domain["options"])
        choose += [None] * (self.domain["refusal"] * (1 + len(choose) // 5))
        batch: Data = {"count": count, "seed": count + self.height, "choose_from": choose}
        # Where the ties are is seen from the words, block after block.
        enough = answers_and_bytes({**batch, "bytes_used": 7 * count})[1]
        at = 0
        for start in range(0, count, Drawing.block):
            size = min(Drawing.block, count - start)
            at += 4 * size * self.numeric
            words = memoryview(enough)[at : at + 2 * size]
            at += 2 * size
            pairs = zip(words[::2], words[1::2], strict=True)
            at += 4 * sum(low + 256 * high in self.drawing.tied for low, high in pairs)
        batch["bytes_used"] = at
        codes = self.drawing.codes(*answers_and_bytes(batch))
        return batch | {
            "first": codes[:8],
            "last": codes[-8:],
            "counts": [codes.count(code) for code in range(self.width)],
            "sha256": hashlib.sha256(bytes(codes)).hexdigest(),
        }

    def bad_draws(self) -> Iterator[Data]:
        held = self.at(0.7318 * self.drawing.anchors[-1]) if self.numeric else self.domain["options"][-1]
        for size in range(6 if self.numeric else 2):
            yield {"answer": held, "bytes": bytes(size).hex(), "why": "too few bytes"}
        if self.ties:
            short = self.pack(0, self.ties[0] >> TIE_BITS)
            yield {"answer": held, "bytes": short.hex(), "why": "a tie without its 4 bytes"}
            yield {"answer": held, "bytes": (short + bytes(3)).hex(), "why": "a tie with 3 bytes"}
        enough = bytes(16).hex()
        if not self.domain["refusal"]:
            yield {"answer": None, "bytes": enough, "why": "missing, and the table has no row for a refusal"}
        if self.numeric:
            lower, upper = self.drawing.lower, self.drawing.upper
            for answer in (lower - 0.7318, upper + 0.7318, math.nextafter(upper, math.inf), 1.234e300):
                yield {"answer": answer, "bytes": enough, "why": "outside the range"}
            if lower:
                outside = math.nextafter(lower, -math.inf)
                yield {"answer": outside, "bytes": enough, "why": "outside the range by the least"}
            yield {"answer": "0.7318", "bytes": enough, "why": "a text, even if it reads as a number"}
            yield {"answer": [[held]], "bytes": enough, "why": "two dimensions"}
        else:
            yield {"answer": "zebra 4711", "bytes": enough, "why": "not among the options"}
            yield {"answer": 4711, "bytes": enough, "why": "not among the options"}
            yield {"answer": [["zebra 4711"]], "bytes": enough, "why": "two dimensions"}

    # --- Tallies and estimates ----------------------------------------------------------------------

    def tallies(self) -> Iterator[Data]:
        width = self.width
        several = [
            [1000 + 37 * (5 * c % 7) for c in range(width)],
            [100_000 + 20_000 * (c == width - 1) for c in range(width)],
            [0] * width,
            [0] * (width - 1) + [50],
            [0 if c % 2 else 7 for c in range(width)],
        ]
        if width <= 16:
            several += [
                [3 * c + 1 for c in range(width)],
                [50] + [0] * (width - 1),
                [1] * width,
                [1_000_000_007 + 99_999_999 * (c % 3) for c in range(width)],
            ]
        if len(self.table["blocks"]) > 1:  # a block of the public coin without reports
            first = self.table["blocks"][0]
            several += [[0] * first + [30 + c for c in range(width - first)]]
        subjects: list[dict[str, str]] = [
            {},
            {"question": "km"},
            {"country": "CN", "question": "\u8336 \U0001f375"},
        ]
        for i, counts in enumerate(several):
            found, choice = estimate(self.mechanism, counts)
            text = write(tally_of(self.mechanism, counts, **subjects[i % 3]))
            case: Data = {"text": text, "estimate": found}
            yield case | ({"tolerance": 1e-6} if choice else {})

    def bad_tallies(self) -> Iterator[Data]:
        counts = [5] * self.width
        yield {"text": write(tally_of(self.mechanism, counts[1:])), "why": "a count too few"}
        yield {"text": write(tally_of(self.mechanism, [*counts, 0])), "why": "a count too many"}
        other = {"digest": digest({"not": self.mechanism["digest"]})}
        yield {"text": write(tally_of(other, counts)), "why": "of another mechanism"}

    def reports(self) -> Iterator[Data]:
        for codes in ([], [self.width - 1], [c * c % self.width for c in range(40)]):
            yield {"reports": codes, "counts": [codes.count(c) for c in range(self.width)]}

    def bad_reports(self) -> Iterator[Data]:
        for code, why in (
            (self.width, "a code the table does not have, or none at all"),
            (256 + self.width - 1, "more than a byte, and a code if it is cut to one"),
            (-1, "a negative code"),
            (0.5, "no integer"),
            (None, "missing"),
            ("0", "a text"),
            ([0], "two dimensions"),
        ):
            yield {"reports": [0, code], "why": why}

    def to_dict(self, long: int | None) -> Data:
        ratio = worst_ratio(self.mechanism)
        upper = epsilon_upper(ratio)
        claims = [0.0, upper * (1 - 1e-9), upper * (1 + 1e-9), 50.0]
        return {
            "mechanism": self.mechanism,
            "sha256": digest(self.mechanism),
            "worst_ratio": [ratio.numerator, ratio.denominator],
            "epsilon_upper": upper,
            "claims": [{"epsilon": epsilon, "holds": keeps(ratio, epsilon)} for epsilon in claims],
            "draws": list(self.draws()),
            "batches": list(self.batches()),
            "long_batches": [self.long_batch(long)] if long else [],
            "bad_draws": list(self.bad_draws()),
            "tallies": list(self.tallies()),
            "bad_tallies": list(self.bad_tallies()),
            "reports": list(self.reports()),
            "bad_reports": list(self.bad_reports()),
        }


# --- Files ------------------------------------------------------------------------------------------


def content(name: str) -> Data:
    """What stands in one file."""
    if name == "protocol":
        return {"format": FORMAT, "name": name, **protocol()}
    if name == "tables":
        cases = [{"what": what, **Case(m).to_dict(LONG.get(what))} for what, m in tables().items()]
    else:
        mechanisms = [named(name, parameters) for parameters in NAMED[name]]
        cases = [Case(m).to_dict(LONG.get(name) if not i else None) for i, m in enumerate(mechanisms)]
    return {"format": FORMAT, "name": name, "cases": cases}


def text_of(name: str) -> str:
    """The file: one line a draw, so that a difference can be read."""
    return _layout(content(name), 0) + "\n"


def _layout(value: Any, depth: int) -> str:
    pad, end = "  " * (depth + 1), "  " * depth
    flat = json.dumps(value, allow_nan=False)
    if len(flat) <= 108 - len(pad) or not isinstance(value, (dict, list)) or depth >= 5:
        return flat
    if isinstance(value, dict):
        parts = [f"{json.dumps(k)}: {_layout(v, depth + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(pad + part for part in parts) + f"\n{end}}}"
    if all(not isinstance(part, (dict, list)) for part in value):
        return flat
    return "[\n" + ",\n".join(pad + _layout(part, depth + 1) for part in value) + f"\n{end}]"


def names() -> list[str]:
    return [*NAMED, "tables", "protocol"]


def main() -> int:
    """Write the files, or with --check say which are not what would be written."""
    stale = []
    for name in names():
        path, text = FOLDER / f"{name}.json", text_of(name)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.name)
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
    if stale:
        print("differ:" if "--check" in sys.argv else "written:", ", ".join(stale))
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
