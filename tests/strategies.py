"""Hypothesis strategies: what people hold, what analysts have, and what must be refused."""

import math

import numpy as np
from hypothesis import strategies as st

from bisample import KRandomizedResponse, NumberMechanism, RandomizedResponse
from bisample.mechanism import registered

NUMBER_KINDS = [kind for _, kind in sorted(registered().items()) if issubclass(kind, NumberMechanism)]

epsilons = st.floats(0.1, 8)
rates = st.floats(0.01, 1)


@st.composite
def ranges(draw):
    """A range that doubles can tell apart."""
    lower = draw(st.floats(-1e6, 1e6))
    return lower, lower + draw(st.floats(0.01, 1e6))


@st.composite
def number_mechanisms(draw):
    """Any registered mechanism for numbers, at any epsilon, on any range."""
    return draw(st.sampled_from(NUMBER_KINDS))(draw(epsilons), *draw(ranges()))


@st.composite
def choice_mechanisms(draw):
    """Any registered mechanism for choices, with any options."""
    if draw(st.booleans()):
        return RandomizedResponse(draw(epsilons))
    options = draw(st.lists(st.text(max_size=5), min_size=2, max_size=9, unique=True))
    return KRandomizedResponse(draw(epsilons), options)


mechanisms = st.one_of(number_mechanisms(), choice_mechanisms())


@st.composite
def mechanisms_with_tally(draw, kinds=mechanisms, least=0, most=10**6):
    """A mechanism and a tally that fits it, however unlikely."""
    mechanism = draw(kinds)
    width = len(mechanism.table.codes)
    counts = draw(st.lists(st.integers(least, most), min_size=width, max_size=width))
    return mechanism, np.array(counts, dtype=np.int64)


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
    st.text(),
)

bad_counts = st.one_of(
    st.integers(max_value=-1),
    st.floats(),
    st.none(),
    st.text(),
    st.lists(st.integers(0, 3)),
    st.integers(min_value=2**53 + 1),
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
            np.str_(text),
            {text: number},
            {number},
            np.array([[number, number]]),
            np.array([number, 0.5]),
            np.array([text]),
            np.array([text], dtype="S"),
            np.array([complex(number)]),
            np.array([number], dtype=object),
            np.ma.array([number, 0.5], mask=[False, True]),
            np.datetime64("2031-01-01") + np.timedelta64(int(number), "D"),
            np.timedelta64(int(number), "D"),
            np.array([int(number)], dtype="M8[s]"),
            np.array([(int(number), number)], dtype=[("a", int), ("b", float)]),
            [number],
            [0.5, None, number],
            [0.5, text],
            [[number], [0.5, number]],
            [[number, number], [0.5, number]],
            [np.array([number])],
            [{text: number}],
            [10**400 + int(number), np.float64(0.5)],
            (number, 0.5),
            range(int(number), int(number) + 3),
        ]
    )
