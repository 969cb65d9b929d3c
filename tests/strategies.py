"""Hypothesis strategies: what people hold, what analysts have, and what must be refused."""

import math
import unicodedata

import numpy as np
from hypothesis import strategies as st

from bisample import KRandomizedResponse, RandomizedResponse
from bisample.catalogue import CATALOGUE

NUMBER_BUILDERS = [entry.builder for entry in CATALOGUE.values() if entry.domain == "range"]

epsilons = st.floats(0.1, 8)
rates = st.floats(0.01, 1)


@st.composite
def ranges(draw):
    """A range that doubles can tell apart, and that canonical JSON can hold."""
    lower = draw(_ends)
    return lower, lower + draw(st.floats(0.01, 1e6))


_ends = st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) >= 1e-3)


@st.composite
def number_mechanisms(draw):
    """Any mechanism for numbers in the catalogue, at any epsilon, on any range."""
    return draw(st.sampled_from(NUMBER_BUILDERS))(draw(epsilons), *draw(ranges()))


options_texts = st.text(max_size=5).filter(
    lambda text: text and text == text.strip() and all(unicodedata.category(sign) != "Cc" for sign in text)
)


@st.composite
def choice_mechanisms(draw):
    """Any mechanism for choices in the catalogue, with any options."""
    if draw(st.booleans()):
        return RandomizedResponse(draw(epsilons))
    options = draw(st.lists(options_texts, min_size=2, max_size=9, unique=True))
    return KRandomizedResponse(draw(epsilons), options)


mechanisms = st.one_of(number_mechanisms(), choice_mechanisms())


bad_epsilons = st.one_of(
    st.floats(max_value=0),
    st.floats(min_value=20.001),
    st.floats(min_value=0, max_value=9.9e-7),
    st.sampled_from(
        [math.nan, math.inf, -math.inf, None, True, False, 1j, 10**400, b"1", (), [1.0], {}, object()]
    ),
    st.sampled_from([np.bool_(True), np.array([1.0]), np.float64("nan"), np.str_("1")]),
    st.text(),
)

bad_bounds = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf, None, True, 1j, 10**400, -(10**400), b"1", [0.0], {}]),
    st.sampled_from([1e-7, -1e-7, 1e21, -1e300]),  # doubles, but no decimal texts without an exponent
    st.text(),
)


def bad_answers(secret):
    """Containers and scalars that hold a distinctive number and cannot be privatized in [-1, 1]."""
    number = float(secret)
    text = str(secret)
    return st.sampled_from(
        [
            number,
            -number,
            np.float32(number),
            int(number),
            10**400 + int(number),
            complex(number, 1),
            text,
            text.encode(),
            bytearray(text.encode()),
            np.str_(text),
            {text: number},
            {number},
            frozenset([text]),
            np.array([[number, number]]),
            np.array([number, 0.5]),
            np.array([text]),
            np.array([text], dtype="S"),
            np.array([complex(number)]),
            np.array([number], dtype=object),
            np.ma.array([number, 0.5], mask=[False, True]),
            np.ma.array([text, "x"], mask=[False, True]),
            np.datetime64("2031-01-01") + np.timedelta64(int(number), "D"),
            np.timedelta64(int(number), "D"),
            np.array([int(number)], dtype="M8[s]"),
            np.array([int(number)], dtype="M8[ns]"),
            np.array([int(number)], dtype="m8[ns]"),
            np.array([(int(number), number)], dtype=[("a", int), ("b", float)]),
            [number],
            [0.5, None, number],
            [0.5, text],
            [[number]],
            [[number], [0.5, number]],
            [[number, number], [0.5, number]],
            [np.array([number])],
            [{text: number}],
            [10**400 + int(number), np.float64(0.5)],
            [10**5000 + int(number)],
            (number, 0.5),
            range(int(number), int(number) + 3),
        ]
    )
