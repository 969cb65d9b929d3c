"""One text for one value, in every language: what is written, what is read, and every way to be refused."""

import hashlib
import json
import math
import os
import random
import shutil
import struct
import subprocess
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisample import FormatError, ParameterError
from bisample.protocol.canonical import (
    LARGEST_INTEGER,
    canonical,
    decimal_text,
    digest,
    number_of,
    parse,
    take,
)

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_keys = st.text(st.characters(max_codepoint=127), max_size=5)
_leaves = st.booleans() | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER) | _texts
values = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4)
)


def _same(one, other):
    """Equal, and of the same types: Python's True equals 1."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return one == other


# --- Writing and reading ----------------------------------------------------------------------------


@given(values)
def test_what_is_written_is_read_back_and_written_the_same(value):
    written = canonical(value)
    again = parse(written)
    assert _same(again, value)
    assert canonical(again) == written
    assert _same(parse(written.decode()), value)
    assert _same(parse(bytearray(written)), value)


@given(values)
def test_any_layout_of_the_same_value_is_read_alike(value):
    for layout in (
        json.dumps(value, indent=2),
        json.dumps(value, ensure_ascii=True),
        f" {json.dumps(value, separators=(' ,', ' : '))}\r\n\t",
    ):
        assert canonical(parse(layout)) == canonical(value)


@given(st.dictionaries(_keys, _leaves, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_keys_makes_no_difference(value, shuffler):
    items = list(value.items())
    shuffler.shuffle(items)
    assert canonical(dict(items)) == canonical(value)
    assert digest(dict(items)) == digest(value) == hashlib.sha256(canonical(value)).hexdigest()


@given(values)
def test_the_bytes_have_no_layout(value):
    """What stands outside of texts is only what JSON needs."""
    outside, inside, skip = [], False, False
    for character in canonical(value).decode():
        if skip:
            skip = False
        elif inside and character == "\\":
            skip = True
        elif character == '"':
            inside = not inside
        elif not inside:
            outside.append(character)
    assert set(outside) <= set("{}[],:-0123456789truefalse")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({}, b"{}"),
        ([], b"[]"),
        ((1, "a"), b'[1,"a"]'),
        (True, b"true"),
        (-(2**53) + 1, b"-9007199254740991"),
        ('\b\t\n\f\r"\\/', rb'"\b\t\n\f\r\"\\/"'),
        ("\x00\x1f\x7f", b'"\\u0000\\u001f\x7f"'),
        ("\u20ac\U0001f600\u2028", '"\u20ac\U0001f600\u2028"'.encode()),  # as it is, in UTF-8
        ({"b": 1, "a": 2, "A": 3, "": 4, "aa": 5}, b'{"":4,"A":3,"a":2,"aa":5,"b":1}'),
    ],
    ids=lambda v: ascii(v)[:24],
)
def test_the_bytes_are_those_of_rfc_8785(value, written):
    assert canonical(value) == written


# --- What is refused ---------------------------------------------------------------------------------

UNWRITABLE = {
    "0.5": (0.5, "no float"),
    "a whole float": (2.0, "no float"),
    "NaN": (math.nan, "no float"),
    "None": (None, "no null"),
    "None within": ({"a": [None]}, "no null"),
    "2^53": (2**53, "2\\^53"),
    "-2^53": (-(2**53), "2\\^53"),
    "2^53 within": ([[2**53]], "2\\^53"),
    "high surrogate": ("\ud83d", "surrogate"),
    "low surrogate": (["\ude00x"], "surrogate"),
    "surrogate key": ({"\ud83d": 1}, "ASCII"),
    "a key in another script": ({"\u00e9": 1}, "ASCII"),
    "a key that is a number": ({1: 1}, "ASCII"),
    "bytes": (b"x", "no bytes"),
    "a set": ({1}, "no set"),
    "a NumPy integer": (np.int64(1), "no int64"),
    "a NumPy truth": (np.True_, "no bool"),
    "a NumPy float": (np.float64(1), "no float"),
}


@pytest.mark.parametrize("case", UNWRITABLE)
def test_what_canonical_json_cannot_say_is_not_written(case):
    value, why = UNWRITABLE[case]
    for call in (canonical, digest):
        with pytest.raises(FormatError, match=why):
            call(value)


UNREADABLE = {
    "nothing": ("", "not JSON"),
    "half": ('{"a": ', "not JSON"),
    "more": ("1 2", "not JSON"),
    "a comma too many": ("[1,]", "not JSON"),
    "a comment": ("1 // one", "not JSON"),
    "single quotes": ("{'a': 1}", "not JSON"),
    "a bare key": ("{a: 1}", "not JSON"),
    "a control character": ('"\n"', "not JSON"),
    "a mark of byte order": ("\ufeff1".encode(), "not JSON"),
    "leading zero": ("01", "not JSON"),
    "plus": ("+1", "not JSON"),
    "hexadecimal": ("0x1", "not JSON"),
    "not UTF-8": (b'"\xff"', "not UTF-8"),
    "a surrogate in UTF-8": (b'"\xed\xa0\xbd"', "not UTF-8"),
    "overlong UTF-8": (b'"\xc0\xaf"', "not UTF-8"),
    "a fraction": ("0.5", "no float"),
    "a whole fraction": ("[2.0]", "no float"),
    "an exponent": ("1e3", "no float"),
    "NaN": ("NaN", "no float"),
    "Infinity": ("[Infinity]", "no float"),
    "-Infinity": ("-Infinity", "no float"),
    "null": ("null", "no null"),
    "null within": ('{"a": null}', "no null"),
    "-0": ("-0", "-0"),
    "2^53": ("9007199254740992", "2\\^53"),
    "-2^53": ("-9007199254740992", "2\\^53"),
    "ten thousand digits": ("9" * 10_000, "2\\^53"),
    "five thousand digits": ("[-" + "9" * 5000 + "]", "2\\^53"),
    "a key twice": ('{"a": 1, "a": 1}', "twice"),
    "a key twice, escaped": ('{"a": 1, "\\u0061": 2}', "twice"),
    "a key twice within": ('[{"b": {"a": 1, "a": 2}}]', "twice"),
    "a key in another script": ('{"\u00e9": 1}', "ASCII"),
    "half a pair, escaped": ('"\\ud83d"', "surrogate"),
    "half a pair": ('"\ud83d"', "surrogate"),
    "depth": ("[" * 100_000 + "]" * 100_000, "nested too deep"),
    "depth of objects": ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deep"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_canonical_json_cannot_say_is_not_read(case):
    text, why = UNREADABLE[case]
    with pytest.raises(FormatError, match=why) as caught:
        parse(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("data", [None, 1, {}, [], memoryview(b"1")], ids=lambda d: type(d).__name__)
def test_only_texts_and_bytes_are_parsed(data):
    with pytest.raises(FormatError, match="JSON is a text or bytes, not a"):
        parse(data)


def test_a_pair_of_surrogates_is_one_character():
    assert parse('"\\ud83d\\ude00"') == "\U0001f600"


def test_every_depth_is_read_and_written_or_refused_in_words():
    """Reading, checking and writing each go down by themselves: none may be the first to break."""
    refused = 0
    for depth in range(700, 1100, 9):
        text = "[" * depth + "]" * depth
        try:
            value = parse(text)
            assert canonical(value).decode() == text
        except FormatError as problem:
            assert "nested too deep" in str(problem)  # noqa: PT017
            refused += 1
    assert refused
    endless = []
    endless.append(endless)
    with pytest.raises(FormatError, match="nested too deep"):
        canonical(endless)


@given(st.text(max_size=30) | st.binary(max_size=30))
def test_any_text_is_a_value_or_refused(text):
    try:
        value = parse(text)
    except FormatError:
        return
    assert _same(parse(canonical(value)), value)


# --- Fields --------------------------------------------------------------------------------------------


def test_fields_come_in_the_order_asked_for():
    data = {"e": True, "d": {}, "c": [], "b": 1, "a": "x"}
    assert take(data, "it", a=str, b=int, c=list, d=dict, e=bool) == ["x", 1, [], {}, True]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "it must be an object, not null"),
        ([], "it must be an object, not a list"),
        ({}, "it must have the field 'a'"),
        ({"a": 1, "b": 1}, "'a' of it must be a text, not an integer"),
        ({"a": "x", "b": True}, "'b' of it must be an integer, not true or false"),
        ({"a": "x", "b": None}, "'b' of it must be an integer, not null"),
        ({"a": "x", "b": 1, "c": 1}, "it has no field 'c', only a, b"),
    ],
    ids=str,
)
def test_other_fields_are_refused_in_words(data, why):
    with pytest.raises(FormatError) as caught:
        take(data, "it", a=str, b=int)
    assert str(caught.value) == why


def test_a_truth_value_is_wanted_where_one_is():
    with pytest.raises(FormatError, match="must be true or false, not an integer"):
        take({"a": 1}, "it", a=bool)


# --- Decimal texts -----------------------------------------------------------------------------------

_sized = st.floats(1e-6, 1e21, exclude_max=True) | st.floats(-1e21, -1e-6, exclude_min=True) | st.just(0.0)


@given(_sized)
def test_a_decimal_text_is_the_shortest_that_is_read_back(number):
    text = decimal_text(number)
    assert number_of(text) == number
    assert float(text) == number
    assert "e" not in text.lower()
    assert not text.startswith(("+", ".", "-."))
    assert "." not in text or text[-1] not in ".0"
    digits = text.replace("-", "").replace(".", "").strip("0")
    assert digits == repr(number).lower().split("e")[0].replace("-", "").replace(".", "").strip("0")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (50.0, "50"),
        (np.float32(0.5), "0.5"),
        (Fraction(1, 8), "0.125"),
        (1e-6, "0.000001"),
        (-1.5e-6, "-0.0000015"),
        (2**53, "9007199254740992"),
        (123456789012345680000.0, "123456789012345680000"),
        (math.nextafter(1e21, 0), "999999999999999900000"),
    ],
)
def test_decimal_texts_have_no_exponent(number, text):
    assert decimal_text(number) == text


@pytest.mark.parametrize(
    "number",
    [math.nextafter(1e-6, 0), 1e-7, 5e-324, 1e21, -1e21, 1e300, math.inf, math.nan, "1", None, True, 10**400],
    ids=lambda v: f"{v!s:.12}",
)
def test_numbers_beyond_the_limits_have_no_decimal_text(number):
    with pytest.raises(ParameterError, match=r"upper must be 0 or from 0\.000001 to below 10\^21") as caught:
        decimal_text(number, "upper")
    assert "choose another unit" in str(caught.value)


NO_DECIMALS = ["50.0", "0.50", ".5", "5.", "05", "+5", "-0", "0.0", "5e0", "1e21", "1e-7", "0x5", " 5", "5 "]
NO_DECIMALS += [
    "5\n",
    "5_0",
    "\u0665",
    "",
    "-",
    "nan",
    "inf",
    "Infinity",
    "1,5",
    "0.1000000000000000055",
    "5-",
]
NO_DECIMALS += ["0.0000001", "1000000000000000000000", "9" * 5000, 5, 0.5, None, True, b"5", ["5"]]


@pytest.mark.parametrize("text", NO_DECIMALS, ids=lambda v: f"{v!r:.24}")
def test_a_number_is_written_in_one_way_only(text):
    with pytest.raises(
        FormatError, match=r'lower must be a decimal text such as "0\.5", "50" or "-3"'
    ) as caught:
        number_of(text, "lower")
    assert len(str(caught.value)) < 150


def _doubles():
    """Some 2,000 doubles with a decimal text: all magnitudes, ends, neighbours, halves, powers."""
    chosen = random.Random(20200924)
    found = {0.0, 1e-6, math.nextafter(1e21, 0), 2.0**53, 2.0**53 + 2, 5e-324 + 1e-6, 0.1 + 0.2}
    for exponent in range(-6, 21):
        for scale in (10.0**exponent, float(f"9.5e{exponent}"), float(f"1.2345678901234567e{exponent}")):
            found |= {scale, math.nextafter(scale, 0), math.nextafter(scale, math.inf)}
    for exponent in range(-19, 70):
        found |= {2.0**exponent, 1.5 * 2.0**exponent}
    while len(found) < 1900:
        (number,) = struct.unpack("<d", struct.pack("<Q", chosen.getrandbits(64)))
        mantissa = math.frexp(number)[0] if math.isfinite(number) else 0.75
        found.add(abs(mantissa) * 10 ** chosen.uniform(-6.5, 21.3))
    return [sign * x for x in sorted(found) for sign in (1, -1)]


def test_decimal_texts_are_those_of_javascript():
    """String(number), for thousands of doubles: where JavaScript writes an exponent, nothing is written."""
    node = shutil.which("node")
    if node is None:
        assert os.environ.get("CI") != "true", "this needs node, and CI must have it: install Node.js"
        pytest.skip("node is not installed: the texts are compared with JavaScript's where it is")
    numbers = _doubles()
    assert len(numbers) >= 2000
    # Bits, and not texts, so that both sides have the same doubles.
    bits = b"".join(struct.pack("<d", number) for number in numbers)
    program = (
        "const b = Buffer.from(require('fs').readFileSync(0, 'utf8'), 'hex');"
        "const out = []; for (let i = 0; i < b.length; i += 8) out.push(String(b.readDoubleLE(i)));"
        "process.stdout.write(JSON.stringify(out))"
    )
    done = subprocess.run([node, "-e", program], input=bits.hex(), capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout)
    assert len(theirs) == len(numbers)
    written = 0
    for number, text in zip(numbers, theirs, strict=True):
        if "e" in text:
            with pytest.raises(ParameterError):
                decimal_text(number)
        else:
            assert decimal_text(number) == text
            assert number_of(text) == number
            written += 1
    assert written >= 1900
