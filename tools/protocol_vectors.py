"""What stands in vectors/protocol.json: positions, canonical JSON, and texts that must be refused.

The texts are written so that each is refused for its fault alone: the digest in it is the one that a
careless reader computes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from canonical_writer import Raw, digest, write
from slow_reference import STEP, TOTAL, Data, Drawing

MECHANISM, TALLY = "bisample-mechanism/1", "bisample-tally/1"


def sealed(domain: Data, table: Data, **provenance: Any) -> Data:
    """A mechanism's JSON, with its digest."""
    made = {"digest": digest({"domain": domain, "table": table}), "format": MECHANISM}
    return made | {"domain": domain, "table": table} | ({"provenance": provenance} if provenance else {})


def range_of(lower: str, upper: str, anchors: list[int], refusal: bool = True) -> Data:
    return {"anchors": anchors, "kind": "range", "lower": lower, "refusal": refusal, "upper": upper}


def teller(lower: str, upper: str, anchors: list[int]) -> Data:
    """A mechanism whose code is nearly always the row: it keeps nothing secret, and shows positions."""
    height = len(anchors)
    weights = [[1 if c != i else TOTAL - height + 1 for c in range(height)] for i in range(height)]
    return sealed(range_of(lower, upper, anchors, refusal=False), {"blocks": [height], "weights": weights})


def tally_of(mechanism: Data, counts: list[int], **subject: str) -> Data:
    """A tally's JSON."""
    return {"counts": counts, "format": TALLY, "mechanism": mechanism["digest"], "subject": subject}


# --- Positions --------------------------------------------------------------------------------------

TINY = 5e-324
# lower, upper, the last anchor, values. Those with many digits were searched for: other arithmetic, such
# as what compilers make where they may fuse or reorder, has another integer there.
POSITIONS: list[tuple[str, str, int, list[float]]] = [
    ("0", "1", 1, [0.0, -0.0, TINY, 2**-33, 2**-33 - 2**-86, 0.5, 1 - 2**-53, 1.0]),
    ("-1", "1", 1, [-1.0, -1 + 2**-53, -TINY, 0.0, TINY, 2**-32 - 1, 0.3, 1 - 2**-53, 1.0]),
    ("0", "100", 1, [1.164153218269348e-08, 77.58122120285407, 38.0, math.nextafter(100, 0)]),
    ("17", "90", 1, [17.0, math.nextafter(17, 90), 38.0, 49.81284753221553, 72.75554722745437, 90.0]),
    ("0.1", "0.3", 1, [0.1, 0.2, 0.24613589730579405, 0.205026673595421, math.nextafter(0.3, 0), 0.3]),
    ("-1", "1", 32, [-0.4711863435441046, 0.3354252582867047, 1 / 3, math.nextafter(1, 0)]),
    ("-40", "7.5", 20, [-16.101410773393585, -9.718323377906929, -0.1270756072335644, 6.908394973943359]),
    ("0.1", "0.3", 20, [0.24498973210217464, 0.24760274858330375, 0.24494868137990122, 0.28140583862201307]),
    ("0", "1", (1 << 20) - 1, [0.75 + 2**-34, 0.75 + 3 * 2**-34, 0.75 + 7 * 2**-34, 2 / 3, 1.0]),
    ("0", "1.3", (1 << 20) - 1, [math.nextafter(1.3, 0), 1.3]),
    ("-3", "0.7", 999_983, [0.0, 0.7]),
    ("0", "100", (1 << 20) - 1, [96.29980333390625, 85.77430731400676, 41.38421334030718]),
    ("17", "90", 1 << 20, [50.510268876095076, 55.15486368443097, 30.874770501282182, 63.40993511543019]),
    ("0", "1000000", 999_983, [598338.1662813054, 476497.3262520161, 325081.5274764824]),
    ("0", "0.000001", 1 << 20, [TINY, 1e-300, 3.3e-7, math.nextafter(1e-6, 0), 1e-6]),
    ("-999999999999999900000", "999999999999999900000", 7, [-1e-5, 0.1, 123456789012345678.0]),
    ("999999999", "1000000001", 3, [999999999.0, 1e9, math.nextafter(1e9, 0), 1000000001.0]),
]


def values_of(lower: str, upper: str, last: int) -> list[float]:
    """The values that positions are listed for in this range."""
    return [value for *where, values in POSITIONS if where == [lower, upper, last] for value in values]


def other_positions(lower: float, upper: float, last: int, value: float) -> dict[str, int]:
    """What the formula gives in other arithmetic."""
    top, moved = last * STEP, value - lower
    scale = top / (upper - lower)
    exact = (Fraction(value) - Fraction(lower)) / (Fraction(upper) - Fraction(lower)) * top
    found = {
        "fused": math.floor(float(Fraction(moved) * Fraction(scale) + Fraction(1, 2))),
        "exact": math.floor(exact + Fraction(1, 2)),
        "divided first": math.floor(moved / (upper - lower) * top + 0.5),
        "multiplied first": math.floor(moved * top / (upper - lower) + 0.5),
        "scaled apart": math.floor(value * scale - lower * scale + 0.5),
        "half to even": round(moved * scale),
    }
    held = {name: max(0, min(position, top)) for name, position in found.items()}
    return held | {"not held": math.floor(moved * scale + 0.5)}


def positions() -> Iterator[Data]:
    for lower, upper, last, values in POSITIONS:
        drawing = Drawing(teller(lower, upper, [0, last]))
        for value in values:
            position = drawing.position(value)
            others = other_positions(float(lower), float(upper), last, value)
            yield {
                "lower": lower,
                "upper": upper,
                "last": last,
                "value": value,
                "position": position,
                "others": {name: other for name, other in others.items() if other != position},
            }


# --- Canonical JSON ---------------------------------------------------------------------------------

# JSON texts in any layout, and the value that each stands for.
TEXTS: list[tuple[str, Any]] = [
    ("{}", {}),
    ("[]", []),
    ("true", True),
    (' { "b" : [ 1 ,\ttrue, false ],\r\n "a" : "" } ', {"a": "", "b": [1, True, False]}),
    (
        '{"b":1,"B":2,"a_":3,"a":4,"ab":5,"a-":6,"":7,"1":8,"10":9,"9":10}',
        {"b": 1, "B": 2, "a_": 3, "a": 4, "ab": 5, "a-": 6, "": 7, "1": 8, "10": 9, "9": 10},
    ),
    ('{"a\\"\\\\\\n\\u007f\\u0000":0}', {'a"\\\n\x7f\x00': 0}),
    ("[0,-1,9007199254740991,-9007199254740991]", [0, -1, 2**53 - 1, 1 - 2**53]),
    ('"' + "".join(f"\\u{i:04X}" for i in range(33)) + '"', "".join(map(chr, range(33)))),
    ('"\\u007F\\u0080"', "\x7f\x80"),
    ('"\\/\\"\\\\\\b\\f\\n\\r\\t</script>"', '/"\\\b\f\n\r\t</script>'),
    ('"\\u00e9 e\\u0301 \\u2028 \\u2029 \\ufeff \\uffff"', "\u00e9 e\u0301 \u2028 \u2029 \ufeff \uffff"),
    ('"\\ud83c\\udf75 \\uD834\\uDD1E \U0001f375"', "\U0001f375 \U0001d11e \U0001f375"),
    ('["\u8336","0.5","50",{"z":{"y":{"x":[[[]]]}}}]', ["\u8336", "0.5", "50", {"z": {"y": {"x": [[[]]]}}}]),
]

BAD_TEXTS: list[tuple[str, str]] = [
    ("", "nothing"),
    ("{", "not ended"),
    ("{}{}", "two values"),
    ("[1,]", "a comma too many"),
    ("{'a':1}", "other quotation marks"),
    ("{a:1}", "a key without quotation marks"),
    ("[1]//", "a comment"),
    ("\ufeff[]", "a byte order mark"),
    ("[01]", "a leading zero"),
    ("[+1]", "a plus"),
    ("[0x10]", "not decimal"),
    ("[1.0]", "a float, even if it is whole"),
    ("[1e3]", "a float, even if it is whole"),
    ("[0.5]", "a float"),
    ("[-0]", "negative zero"),
    ("[NaN]", "no JSON"),
    ("[Infinity]", "no JSON"),
    ("[1e999]", "a float, and no finite one"),
    ("[9007199254740992]", "an integer of 2^53"),
    ("[-9007199254740992]", "an integer of -2^53"),
    ("[" + "9" * 5000 + "]", "an integer of many digits"),
    ("null", "null"),
    ('{"a":null}', "null"),
    ('{"a":1,"a":1}', "a key that stands twice"),
    ('{"a":1,"\\u0061":2}', "a key that stands twice, written otherwise"),
    ('{"\u00e9":1}', "a key that is not ASCII"),
    ('["\\ud800"]', "half of a surrogate pair"),
    ('["\\udf75\\ud83c"]', "a surrogate pair the wrong way round"),
    ('{"\\ud800":1}', "half of a surrogate pair in a key"),
    ('["\n"]', "a control character that is not escaped"),
    ('["\\x41"]', "an escape that is none"),
    ("True", "no JSON"),
]

# fmt: off
DECIMALS = [
    "0", "1", "-1", "50", "0.5", "-0.5", "0.1", "0.000001", "-0.000001", "17.25", "1000000",
    "0.30000000000000004", "123456789012345680000", "100000000000000000000", "-999999999999999900000",
]
BAD_DECIMALS = [
    "", " ", "50.0", "0.50", ".5", "5.", "05", "00", "+5", "-0", "-0.0", "0.0", "1e3", "1E3", "1e21", "1e-7",
    "1000000000000000000000", "999999999999999999999", "0.0000001", "9007199254740993", "9007199254740992.5",
    "0.1000000000000000055", "1_000", "1,5", "0x10", " 1", "1 ", "1\n", "NaN", "Infinity", "-Infinity", "inf",
    "nan", "\u0661", "\uff11", "\u22121", "--1", "1-", "one", "true", "null",
]
# fmt: on


def canonical_cases() -> Iterator[Data]:
    for text, value in TEXTS:
        data = write(value).encode()
        yield {"text": text, "bytes": data.hex(), "sha256": hashlib.sha256(data).hexdigest()}


# --- Mechanisms that must be refused ----------------------------------------------------------------

HALF, QUARTER = TOTAL // 2, TOTAL // 4
GOOD_RANGE = range_of("0", "50", [0, 1])
GOOD_OPTIONS: Data = {"kind": "options", "options": ["no", "yes"], "refusal": True}
GOOD_TABLE: Data = {
    "blocks": [3],
    "weights": [[HALF, QUARTER, QUARTER], [QUARTER, HALF, QUARTER], [QUARTER, QUARTER, HALF]],
}


def bad(why: str, domain: Any = GOOD_RANGE, table: Any = GOOD_TABLE, **outer: Any) -> Data:
    """A text that must be refused, although its digest is that of what a careless reader reads."""
    whole = {"digest": digest({"domain": domain, "table": table}), "format": MECHANISM}
    return {"text": write(whole | {"domain": domain, "table": table} | outer), "why": why}


def without(value: Data, name: str) -> Data:
    return {key: part for key, part in value.items() if key != name}


def bad_mechanisms() -> Iterator[Data]:
    yield from bad_wholes()
    yield from bad_ranges()
    yield from bad_options()
    yield from bad_tables()


def bad_wholes() -> Iterator[Data]:
    good = json.loads(bad("")["text"])
    yield bad("another version of the format", format="bisample-mechanism/2")
    yield bad("another format", format=TALLY)
    yield bad("a digest that is not its content's", digest="0" * 64)
    yield bad("a digest in capitals", digest=str(good["digest"]).upper())
    yield bad("a digest that is cut", digest=str(good["digest"])[:32])
    yield bad("the digest of another table", GOOD_OPTIONS, digest=good["digest"])
    for name in good:
        yield {"text": write(without(good, name)), "why": f"no {name}"}
        yield {"text": write(good | {name: None}), "why": f"{name} is null"}
        yield {"text": write(good | {name: 1}), "why": f"{name} is a number"}
    yield bad("an unknown field", epsilon="1")
    yield bad("labels are no field", labels=["0", "50", "no answer"])
    yield bad("a provenance that is null", provenance=None)
    yield bad("a provenance that is a text", provenance="bisample")
    yield bad("a provenance without a builder", provenance={"parameters": {}})
    yield bad("a provenance without parameters", provenance={"builder": "mine"})
    mine = {"builder": "mine", "parameters": {}}
    yield bad("a provenance with an unknown field", provenance=mine | {"when": "1"})
    yield bad("a builder without a name", provenance=mine | {"builder": ""})
    for number, why in (("0.5", "a float"), ("1.0", "a float"), ("9007199254740992", "an integer of 2^53")):
        yield bad(f"{why} in the provenance", provenance=mine | {"parameters": {"epsilon": Raw(number, 1)}})
    yield bad("null in the provenance", provenance=mine | {"parameters": {"epsilon": None}})
    yield {"text": bad("")["text"][:-1] + f',"format":"{MECHANISM}"}}', "why": "a field that stands twice"}
    yield {"text": bad("")["text"][:-1], "why": "a text that is cut"}
    yield {"text": bad("")["text"] + "{}", "why": "more than one value"}
    for text in ("", "null", "[]", "{}", '"bisample"', "1"):
        yield {"text": text, "why": "no mechanism"}


def bad_ranges() -> Iterator[Data]:
    for anchors, why in (
        ([0], "one anchor"),
        ([], "no anchors"),
        ([0, 2, 1], "anchors that fall"),
        ([0, 1, 1], "anchors that repeat"),
        ([1, 2], "anchors that do not start at 0"),
        ([-1, 1], "a negative anchor"),
        ([0, (1 << 20) + 1], "anchors beyond 2^20"),
        ([0, True], "an anchor that is true"),
        ([0, "1"], "an anchor that is a text"),
        ([0, None], "an anchor that is null"),
        ([0, [1]], "an anchor that is a list"),
        ([0, Raw("1.0", 1)], "an anchor that is a float"),
        ([0, Raw("1e0", 1)], "an anchor that is a float"),
        ([Raw("-0", 0), 1], "an anchor that is negative zero"),
        ([0, 1, 2], "an anchor more than rows"),
    ):
        yield bad(why, GOOD_RANGE | {"anchors": anchors})
    yield bad("a row more than anchors", GOOD_RANGE | {"refusal": False})
    narrow = ("1000000000", "1000000001")
    for lower, upper in (("50", "50"), ("50", "0"), narrow, ("0", "NaN"), ("-Infinity", "0")):
        yield bad("no range, or one too narrow", GOOD_RANGE | {"lower": lower, "upper": upper})
    for text in ("50.0", "5e1", "+50", "050", "50.", " 50"):
        yield bad("an end that is no canonical decimal", GOOD_RANGE | {"upper": text})
        careless = Raw(f'"{text}"', "50")
        yield bad("the same, with the digest of the number", GOOD_RANGE | {"upper": careless})
    yield bad("negative zero", GOOD_RANGE | {"lower": Raw('"-0"', "0")})
    yield bad("an end beyond 10^21", GOOD_RANGE | {"upper": "1000000000000000000000"})
    yield bad("an end that is too small", GOOD_RANGE | {"upper": "0.0000001"})
    yield bad("an end that is a number", GOOD_RANGE | {"upper": 50})
    yield bad("an end that is a float", GOOD_RANGE | {"upper": Raw("50.0", 50)})
    yield bad("a refusal that is a number", GOOD_RANGE | {"refusal": 1})
    yield bad("a refusal that is a text", GOOD_RANGE | {"refusal": "true"})
    for name in GOOD_RANGE:
        yield bad(f"a range without {name}", without(GOOD_RANGE, name))
        yield bad(f"a range whose {name} is null", GOOD_RANGE | {name: None})
    yield bad("a domain of another kind", GOOD_RANGE | {"kind": "dates"})
    yield bad("a domain that is a list", [GOOD_RANGE])
    yield bad("options in a range", GOOD_RANGE | {"options": ["no", "yes"]})
    yield from unknown_fields("a range", GOOD_RANGE)
    twice = Raw(write(GOOD_RANGE)[:-1] + ',"upper":"50"}', GOOD_RANGE)
    yield bad("a field of the domain that stands twice", twice)


def unknown_fields(what: str, good: Data) -> Iterator[Data]:
    """A field too many, with the digest of it and with that of the rest."""
    more = good | {"unit": "km"}
    for value, why in ((more, ""), (Raw(write(more), good), " that the digest leaves out")):
        parts = {"table": value} if "weights" in good else {"domain": value}
        yield bad(f"{what} with an unknown field{why}", **parts)


def bad_options() -> Iterator[Data]:
    for options, why in (
        (["yes"], "one option"),
        ([], "no options"),
        (["yes", "yes"], "options that repeat"),
        (["yes", 1], "an option that is a number"),
        (["yes", True], "an option that is true"),
        (["yes", None], "an option that is null"),
        (["yes", ["no"]], "an option that is a list"),
        (["yes", "no answer"], "an option called as a refusal is"),
        (["yes", Raw('"\\ud800"', "\ufffd")], "an option that is half of a surrogate pair"),
        (["yes", Raw('"\\udf75\\ud83c"', "\ufffd\ufffd")], "a surrogate pair the wrong way round"),
        ("yes", "options that are a text"),
        (["no", "perhaps", "yes"], "an option more than rows"),
    ):
        yield bad(why, GOOD_OPTIONS | {"options": options})
    yield bad("a row more than options", GOOD_OPTIONS | {"refusal": False})
    many = [str(i) for i in range(300)]
    for count in (300, 256):
        table = {"blocks": [2], "weights": [[HALF, HALF]] * (count + 1)}
        yield bad(f"{count} options and a refusal", GOOD_OPTIONS | {"options": many[:count]}, table)
    yield bad("anchors among options", GOOD_OPTIONS | {"anchors": [0, 1]})
    yield from unknown_fields("options", GOOD_OPTIONS)


def bad_tables() -> Iterator[Data]:
    weights = GOOD_TABLE["weights"]

    def first(row: Any, why: str) -> Data:
        return bad(why, table=GOOD_TABLE | {"weights": [row, *weights[1:]]})

    yield first([HALF + QUARTER, 0, QUARTER], "a weight of zero where others have mass")
    yield first([HALF + QUARTER + 1, -1, QUARTER], "a negative weight")
    yield first([HALF, QUARTER, QUARTER + 1], "a row that sums to one too much")
    yield first([HALF, QUARTER, QUARTER - 1], "a row that sums to one too little")
    yield first([HALF, HALF], "a row that is shorter")
    yield first([HALF, QUARTER, QUARTER - 1, 1], "a row that is longer")
    yield first([], "an empty row")
    yield first(HALF, "a row that is a number")
    yield first([HALF, QUARTER, str(QUARTER)], "a weight that is a text")
    yield first([HALF, QUARTER, None], "a weight that is null")
    yield first([TOTAL - QUARTER - 1, True, QUARTER], "a weight that is true")
    yield first([HALF, QUARTER, Raw(f"{QUARTER}.0", QUARTER)], "a weight that is a float")
    yield first([HALF, QUARTER, Raw("7.0368744177664e13", QUARTER)], "a weight with an exponent")
    yield first([HALF, QUARTER, Raw(str(1 << 53), QUARTER)], "a weight of 2^53")
    yield first([HALF, QUARTER, [QUARTER]], "three dimensions")
    halved = [[weight // 2 for weight in row] for row in weights]
    yield bad("weights of another total", table=GOOD_TABLE | {"weights": halved})
    yield bad("a row too few", table=GOOD_TABLE | {"weights": weights[:2]})
    yield bad("a row too many", table=GOOD_TABLE | {"weights": [*weights, weights[0]]})
    yield bad("no rows", table=GOOD_TABLE | {"weights": []})
    yield bad("one code", table={"blocks": [1], "weights": [[TOTAL]] * 3})
    wide = [TOTAL // 257] * 256
    yield bad("257 codes", table={"blocks": [257], "weights": [[*wide, TOTAL - sum(wide)]] * 3})
    for blocks, why in (
        ([], "no blocks"),
        ([2], "blocks that do not sum to the codes"),
        ([3, 1], "blocks that do not sum to the codes"),
        ([3, 0], "an empty block"),
        ([4, -1], "a negative block"),
        ([1, 2], "a block that rows enter with different chances"),
        (["3"], "a block that is a text"),
        ([True, 2], "a block that is true"),
        ([None], "a block that is null"),
        ([Raw("3.0", 3)], "a block that is a float"),
        (3, "blocks that are a number"),
    ):
        yield bad(why, table=GOOD_TABLE | {"blocks": blocks})
    for name in GOOD_TABLE:
        yield bad(f"a table without {name}", table=without(GOOD_TABLE, name))
        yield bad(f"a table whose {name} are null", table=GOOD_TABLE | {name: None})
    yield bad("a table that is a list", table=weights)
    yield from unknown_fields("a table", GOOD_TABLE)
    twice = Raw(write(GOOD_TABLE)[:-1] + f',"weights":{write(weights)}}}', GOOD_TABLE)
    yield bad("a field of the table that stands twice", table=twice)


def bad_tallies(mechanism: Data) -> Iterator[Data]:
    """Texts that no tally of the mechanism is."""
    good = tally_of(mechanism, [5, 5, 5])
    for counts, why in (
        ([5, 5, -1], "a negative count"),
        ([5, 5, None], "a count that is null"),
        ([5, 5, "5"], "a count that is a text"),
        ([5, 5, True], "a count that is true"),
        ([5, 5, [5]], "two dimensions"),
        ([[5, 5, 5]], "two dimensions"),
        (5, "counts that are a number"),
        ([5, 5, Raw("5.0", 5)], "a count that is a float"),
        ([5, 5, Raw("5e0", 5)], "a count that is a float"),
        ([5, 5, Raw(str(1 << 53), 5)], "a count of 2^53"),
        ([1 << 52, 1 << 52, 0], "2^53 reports together"),
        ([], "no counts"),
    ):
        yield {"text": write(good | {"counts": counts}), "why": why}
    subjects: list[tuple[Any, str]] = [
        ({"arm": 1}, "a subject whose text is a number"),
        ({"arm": None}, "a subject whose text is null"),
        (Raw('{"\u00e9":"1"}', {}), "a name of the subject that is not ASCII"),
        ({"arm": Raw('"\\ud800"', "")}, "half of a surrogate pair"),
        (Raw('{"arm":"1","arm":"2"}', {}), "a name of the subject that stands twice"),
        ([], "a subject that is a list"),
        ("km", "a subject that is a text"),
    ]
    for subject, why in subjects:
        yield {"text": write(good | {"subject": subject}), "why": why}
    for name in good:
        yield {"text": write(without(good, name)), "why": f"no {name}"}
        yield {"text": write(good | {name: None}), "why": f"{name} is null"}
    yield {"text": write(good | {"n": 15}), "why": "an unknown field"}
    yield {"text": write(good | {"format": "bisample-tally/2"}), "why": "another version of the format"}
    yield {"text": write(good | {"format": MECHANISM}), "why": "another format"}
    yield {"text": write(good)[:-1] + ',"counts":[5,5,5]}', "why": "a field that stands twice"}
    for text in ("", "null", "[5,5,5]", "{}", "15"):
        yield {"text": text, "why": "no tally"}


def protocol() -> Data:
    """What no mechanism in particular is bound by."""
    mechanism = sealed(GOOD_RANGE, GOOD_TABLE)
    return {
        "positions": list(positions()),
        "canonical": list(canonical_cases()),
        "bad_canonical": [{"text": text, "why": why} for text, why in BAD_TEXTS],
        "decimals": DECIMALS,
        "bad_decimals": BAD_DECIMALS,
        "bad_mechanisms": list(bad_mechanisms()),
        "mechanism": mechanism,
        "bad_tallies": list(bad_tallies(mechanism)),
    }
