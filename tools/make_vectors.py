"""Write vectors/: golden cases that bind every implementation of the mechanisms.

    python tools/make_vectors.py [--check]

What is drawn and what is estimated comes from slow_reference, not from the library. `--check` says
whether the files are what this program writes. The format is described in vectors/README.md.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from slow_reference import (
    TIE_BITS,
    TOTAL,
    WORD_BITS,
    Data,
    cuts,
    draw,
    estimate,
    is_tie,
    leaves_a_choice,
    position_of,
)

from bisample import from_description
from bisample.table import Table

FOLDER = Path(__file__).resolve().parent.parent / "vectors"
HALF_WORD = 1 << 31

NUMBERS = {
    "bisample": [(1.0, -1.0, 1.0), (0.1, 17.0, 90.0), (4.0, 0.1, 0.3)],
    "three-state": [(1.0, -1.0, 1.0), (0.5, 0.0, 3.0)],
    "harmony": [(1.0, -1.0, 1.0), (2.0, -40.0, 7.5)],
    "privkv": [(1.0, -1.0, 1.0), (3.0, 0.0, 1e6)],
    "dithered": [(1.0, -1.0, 1.0), (2.0, 17.0, 90.0), (4.0, -1.0, 1.0)],
    "mix": [(0.5, -1.0, 1.0), (2.0, 0.0, 10.0)],
}
# What a mechanism is told besides epsilon and the range, in the order of its cases above.
OPTIONS: dict[str, list[Data]] = {
    "dithered": [{"levels": 2, "steps": 4}, {"levels": 3, "steps": 16}, {"levels": 4, "steps": 3}],
    "mix": [
        {"first": "bisample", "second": "dithered", "share": 0.25},
        {"first": "three-state", "second": "bisample", "share": 0.6},
    ],
}
CHOICES: dict[str, list[tuple[float, list[Any]]]] = {
    "rr": [(1.0, [False, True]), (0.1, ["no", "yes"])],
    "k-rr": [
        (1.0, ["tea", "coffee"]),
        (2.0, [0, 1, 2, 3, 4]),
        (0.1, [f"option {i}" for i in range(1, 21)]),
    ],
}


def pack(anchor_word: int | None, word: int, more: int | None = None) -> bytes:
    data = b"" if anchor_word is None else anchor_word.to_bytes(4, "little", signed=True)
    data += word.to_bytes(2, "little")
    return data if more is None else data + more.to_bytes(4, "little")


def good_answers(description: Data, table: Data) -> Iterator[tuple[Any, int | None, str]]:
    """Answers with an anchor word each, and what is special about them."""
    if table["anchors"] is None:
        for option in description["options"]:
            yield option, None, "an option"
    else:
        lower, upper = description["lower"], description["upper"]
        for end, what in ((lower, "the lower end"), (upper, "the upper end")):
            for word in (-HALF_WORD, 0, HALF_WORD - 1):
                yield end, word, f"{what} reaches its anchor whatever the anchor word"
        middle = lower + (upper - lower) / 2
        for part, what in ((0.5, "the middle"), (0.25, "a quarter"), (0.7, "an awkward fraction")):
            value = middle if part == 0.5 else lower + (upper - lower) * part
            edge = (position_of(description, table, value) % 1 - Fraction(1, 2)) * (1 << 32)
            near = math.floor(edge)
            for word in (near - 1, near, near + 1, near + 2):
                # A double may round the threshold: words that are nearer than that are left out,
                # unless the threshold is a whole number, which no double rounds here.
                exact = edge == word and (lower, upper) == (-1.0, 1.0)
                far = abs(edge - word) > Fraction(1, 10**4) * (len(table["anchors"]) - 1)
                if (exact or far) and -HALF_WORD <= word < HALF_WORD:
                    yield value, word, f"{what}, one word or less from the threshold between its anchors"
        if lower < 0 < upper:
            yield -0.0, 12345, "negative zero is zero"
    if table["refusal"]:
        yield None, None if table["anchors"] is None else -77, "a refusal takes as many bytes as an answer"


def draws(description: Data, table: Data) -> Iterator[Data]:
    def case(answer: Any, data: bytes, note: str) -> Data:
        code = draw(description, table, [answer], data)[0]
        return {"answer": answer, "bytes": data.hex(), "code": code, "note": note}

    plain = next(w for w in range(0x5555, 1 << WORD_BITS) if not is_tie(table, w))
    answers = list(good_answers(description, table))
    for answer, anchor_word, note in answers:
        yield case(answer, pack(anchor_word, plain), note)
    # Every row: both ends of the line, and both sides of cuts, its own and others'.
    holders: list[tuple[Any, int | None]] = []
    numeric = table["anchors"] is not None
    if numeric:
        holders = [(description["lower"], 0), (description["upper"], 0)]
    else:
        options = description["options"]
        holders = [(option, None) for option in (options if len(options) < 6 else options[:2] + options[-1:])]
    if table["refusal"]:
        holders.append((None, 0 if numeric else None))
    every = cuts(table)
    some = every if len(every) < 8 else [*every[:3], every[len(every) // 2], *every[-3:]]
    for answer, anchor_word in holders:
        for word in (0, (1 << WORD_BITS) - 1):
            more = 0 if is_tie(table, word) else None
            yield case(answer, pack(anchor_word, word, more), "an end of the line")
        for cut in some:
            word, low = cut >> TIE_BITS, cut % (1 << TIE_BITS)
            if not low:
                yield case(answer, pack(anchor_word, word), "a cut at the start of a word is no tie")
                continue
            for more in sorted({0, low - 1, low, (1 << TIE_BITS) - 1}):
                yield case(answer, pack(anchor_word, word, more), "a tie: 4 more bytes around a cut")


def batches(description: Data, table: Data) -> Iterator[Data]:
    """Many at once: all anchor words, all code words, all ties, each in the order of the answers."""
    numeric = table["anchors"] is not None
    ties = [cut for cut in cuts(table) if cut % (1 << TIE_BITS)]
    picked = [case[0] for case in good_answers(description, table)]
    answers = picked[:: max(1, len(picked) // 7)]
    if table["refusal"] and None not in answers:
        answers.append(None)
    anchor_words = [(-1) ** i * (i * 398_765_431 % HALF_WORD) for i in range(len(answers))]
    words = [
        ties[i % len(ties)] >> TIE_BITS if i % 2 and ties else i * 7919 % 60_000 for i in range(len(answers))
    ]
    words = [w + (is_tie(table, w) and not i % 2) for i, w in enumerate(words)]
    more = [(i * 2_654_435_761 + 99) % (1 << TIE_BITS) for i, w in enumerate(words) if is_tie(table, w)]
    data = b"".join(w.to_bytes(4, "little", signed=True) for w in anchor_words if numeric)
    data += b"".join(w.to_bytes(2, "little") for w in words)
    data += b"".join(m.to_bytes(4, "little") for m in more)
    codes = draw(description, table, answers, data)
    yield {"answers": answers, "bytes": data.hex(), "codes": codes}
    yield {"answers": [], "bytes": "", "codes": []}


def bad_draws(description: Data, table: Data) -> Iterator[Data]:
    numeric = table["anchors"] is not None
    length = 6 if numeric else 2
    held = description["lower"] if numeric else description["options"][0]
    for size in range(length):
        yield {"answer": held, "bytes": bytes(size).hex(), "why": "too few bytes"}
    tied = next((cut >> TIE_BITS for cut in cuts(table) if cut % (1 << TIE_BITS)), None)
    if tied is not None:
        short = pack(0 if numeric else None, tied)
        yield {"answer": held, "bytes": short.hex(), "why": "a tie without its 4 bytes"}
        yield {"answer": held, "bytes": (short + bytes(3)).hex(), "why": "a tie with 3 bytes"}
    enough = bytes(16).hex()
    if not table["refusal"]:
        yield {"answer": None, "bytes": enough, "why": "missing, and the table has no row for a refusal"}
    if numeric:
        lower, upper = description["lower"], description["upper"]
        gap = upper - lower
        for answer in (lower - gap, upper + gap, math.nextafter(upper, math.inf), -1e300):
            yield {"answer": answer, "bytes": enough, "why": "outside the range"}
        yield {"answer": "0.5", "bytes": enough, "why": "a text, even if it reads as a number"}
        yield {"answer": [[lower]], "bytes": enough, "why": "two dimensions"}
    else:
        yield {"answer": "no such option", "bytes": enough, "why": "not among the options"}
        yield {"answer": 99, "bytes": enough, "why": "not among the options"}
        yield {"answer": [[held]], "bytes": enough, "why": "two dimensions"}


def tallies(description: Data, table: Data) -> Iterator[Data]:
    width = len(table["codes"])
    several = [
        ([1000 + 37 * ((c * 5) % 7) for c in range(width)], 0.95),
        ([100_000 + 20_000 * (c == width - 1) for c in range(width)], 0.99),
        ([3 * c + 1 for c in range(width)], 0.5),
        ([0] * width, 0.95),
        ([0] * (width - 1) + [50], 0.95),
        ([50] + [0] * (width - 1), 0.95),
        ([1] * width, 0.95),
        ([0 if c % 2 else 7 for c in range(width)], 0.9),
        ([1_000_000_007 + 99_999_999 * (c % 3) for c in range(width)], 0.999),
    ]
    if table["blocks"] == [2, 2]:
        several += [([0, 0, 30, 70], 0.95), ([70, 30, 0, 0], 0.95), ([30, 70, 80, 20], 0.95)]
        several += [([500, 510, 520, 490], 0.95), ([900, 100, 850, 150], 0.95)]
    for counts, level in several:
        case: Data = {"counts": counts, "estimate": estimate(description, table, counts, level)}
        if leaves_a_choice(table):
            case["tolerance"] = 1e-6
        yield case


def bad_tallies(table: Data) -> Iterator[Data]:
    width = len(table["codes"])
    yield {"counts": [5] * (width - 1), "why": "a count too few"}
    yield {"counts": [5] * (width + 1), "why": "a count too many"}
    yield {"counts": [], "why": "no counts"}
    yield {"counts": [5] * (width - 1) + [-1], "why": "a negative count"}
    yield {"counts": [5] * (width - 1) + [2.5], "why": "a count that is no integer"}
    yield {"counts": [5] * (width - 1) + [None], "why": "a count that is missing"}
    yield {"counts": ["5"] * width, "why": "texts"}
    yield {"counts": [[5] * width], "why": "two dimensions"}
    yield {"counts": [[5], *[5] * (width - 1)], "why": "ragged"}
    yield {"counts": 5, "why": "not a list"}
    yield {"counts": [2**52 + 1] * width, "why": "more than 2**53 reports together"}


def reports(table: Data) -> Iterator[Data]:
    width = len(table["codes"])
    for codes in ([], [width - 1], [c * c % width for c in range(40)]):
        yield {"reports": codes, "counts": [codes.count(c) for c in range(width)]}


def bad_reports(table: Data) -> Iterator[Data]:
    width = len(table["codes"])
    for code, why in (
        (width, "a code the table does not have"),
        (255, "a code the table does not have"),
        (256, "more than a byte"),
        (256 + width - 1, "more than a byte, and a code if it is cut to one"),
        (-1, "a negative code"),
        (0.5, "no integer"),
        (None, "missing"),
        ("0", "a text"),
        ([0], "two dimensions"),
    ):
        yield {"reports": [0, code], "why": why}


def bad_tables(table: Data, upper: float) -> Iterator[Data]:
    """Tables that must not be taken; with `epsilon`, tables that must not be certified at it."""

    def changed(why: str, /, **fields: Any) -> Data:
        return {"table": {**table, **fields}, "why": why}

    def moved(row: int, *steps: tuple[int, int | float]) -> list[list[Any]]:
        weights: list[list[Any]] = [list(old) for old in table["weights"]]
        for code, by in steps:
            weights[row][code] += by
        return weights

    first = table["weights"][0]
    yield changed("a weight that is no integer", weights=moved(0, (0, 0.5), (1, -0.5)))
    yield changed("a row that sums to one too much", weights=moved(0, (0, 1)))
    yield changed("a row that sums to one too little", weights=moved(len(table["rows"]) - 1, (1, -1)))
    yield changed("a weight of zero where others have mass", weights=moved(0, (0, -first[0]), (1, first[0])))
    yield changed("a negative weight", weights=moved(0, (0, -first[0] - 1), (1, first[0] + 1)))
    yield changed("a ragged row", weights=[first[:-1], *table["weights"][1:]])
    yield changed("a row too few", weights=table["weights"][:-1])
    yield changed("a text for a weight", weights=[[str(w) for w in first], *table["weights"][1:]])
    yield changed("no weights", weights=[])
    yield changed("one code", weights=[[TOTAL]] * len(table["rows"]), codes=["0"], blocks=[1])
    yield changed("labels for other rows", rows=[*table["rows"], "another"])
    yield changed("labels that are no texts", rows=list(range(len(table["rows"]))))
    yield changed("a code's label missing", codes=table["codes"][:-1])
    yield changed("blocks that do not sum to the codes", blocks=[1])
    yield changed("blocks the rows enter with different chances", blocks=[1, len(first) - 1])
    yield changed("weights of another total", total_bits=47)
    yield changed("a refusal that is neither true nor false", refusal="no")
    if table["anchors"] is not None:
        yield changed("anchors that are not from -1 to 1", anchors=[-1.0, 0.5])
        yield changed("an anchor too many", anchors=[-1.0, 0.0, 1.0])
        yield changed("a text for an anchor", anchors=["-1", "1x"])
        yield changed("anchors and rows that differ in number", refusal=not table["refusal"])
    for name in table:
        yield {"table": {k: v for k, v in table.items() if k != name}, "why": f"{name} is missing"}
    yield {"table": None, "why": "no table"}
    # Two codes of one block, so that only the ratio is wrong.
    shift = TOTAL >> 9
    codes = range(len(first))
    pairs = [(big, small) for big in codes for small in codes if _block(table, big) == _block(table, small)]
    pair = max(pairs, key=lambda p: Fraction(first[p[0]], first[p[1]]))
    worse = moved(0, (pair[0], min(shift, first[pair[1]] // 2)), (pair[1], -min(shift, first[pair[1]] // 2)))
    yield {
        "table": {**table, "weights": worse},
        "epsilon": upper,
        "why": "a ratio above the epsilon claimed",
    }
    yield {"table": table, "epsilon": upper * (1 - 1e-9), "why": "an epsilon claimed that is too small"}


def _block(table: Data, code: int) -> int:
    start = 0
    for b, size in enumerate(table["blocks"]):
        start += size
        if code < start:
            return b
    raise AssertionError


def bad_descriptions(description: Data) -> Iterator[Data]:
    """Parameters from which no mechanism may be made."""
    for epsilon in (0, -1, 1e-9, 1000, "1", None, True, [1]):
        yield {"description": {**description, "epsilon": epsilon}, "why": "epsilon out of range or no number"}
    yield {"description": {**description, "mechanism": "unheard of"}, "why": "no such mechanism"}
    yield {"description": {**description, "speed": 3}, "why": "no such parameter"}
    yield {"description": {"mechanism": description["mechanism"]}, "why": "no epsilon"}
    if "lower" in description:
        lower = description["lower"]
        for low, high in (
            (lower, lower),
            (1, 0),
            ("0", 1),
            (None, 1),
            (0, 1e308),
            (True, 2),
            (1e9, 1e9 + 1e-7),
        ):
            yield {"description": {**description, "lower": low, "upper": high}, "why": "no range"}
    else:
        for options in (
            [],
            ["one"],
            ["a", "a"],
            ["a", None],
            [1, "1"],
            "ab",
            3,
            [["a"], ["b"]],
            list(range(256)),
        ):
            yield {"description": {**description, "options": options}, "why": "no options"}


def case_of(description: Data) -> Data:
    """One good case: the mechanism, its table, and what is drawn and estimated with it."""
    mechanism = from_description(description)
    table = mechanism.table.to_dict()
    worst = mechanism.table.worst_pair
    return {
        "description": description,
        "table": table,
        "digest": mechanism.table.digest,
        "epsilon_upper": mechanism.epsilon_upper,
        "worst_ratio": [worst.ratio.numerator, worst.ratio.denominator],
        "draws": list(draws(description, table)),
        "batches": list(batches(description, table)),
        "bad_draws": list(bad_draws(description, table)),
        "tallies": list(tallies(description, table)),
        "bad_tallies": list(bad_tallies(table)),
        "reports": list(reports(table)),
        "bad_reports": list(bad_reports(table)),
    }


def vectors(name: str) -> Data:
    """All cases of one mechanism."""
    described: list[Data]
    if name in NUMBERS:
        described = [
            {"mechanism": name, "epsilon": e, "lower": low, "upper": high, **options}
            for (e, low, high), options in zip(
                NUMBERS[name], OPTIONS.get(name, [{}] * len(NUMBERS[name])), strict=True
            )
        ]
    else:
        described = [{"mechanism": name, "epsilon": e, "options": options} for e, options in CHOICES[name]]
    mechanism = from_description(described[0])
    table: Table = mechanism.table
    return {
        "format": 1,
        "mechanism": name,
        "cases": [case_of(description) for description in described],
        "bad_tables": list(bad_tables(table.to_dict(), mechanism.epsilon_upper)),
        "bad_descriptions": list(bad_descriptions(described[0])),
    }


def text_of(name: str) -> str:
    """The file: one line a case, so that a difference can be read."""
    return _layout(vectors(name), 0) + "\n"


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
    return [*NUMBERS, *CHOICES]


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
