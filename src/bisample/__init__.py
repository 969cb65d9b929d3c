"""Sensitive numbers with refusals, under local differential privacy.

>>> import bisample
>>> m = bisample.BiSample(epsilon=1.0, lower=17, upper=90)
>>> reports = m.privatize([23, 57, None], rng=7)  # on each respondent's device, and without a seed
>>> m.tally(reports)  # all that the collector has to keep
array([1, 0, 1, 1])
"""

from __future__ import annotations

from .errors import (
    AnswerError,
    BisampleError,
    FileError,
    MissingExtraError,
    ParameterError,
    ReportError,
)
from .estimate import ChoiceEstimate, Estimate
from .mechanism import ChoiceMechanism, Mechanism, NumberMechanism, Variance
from .mechanisms import (
    BiSample,
    Harmony,
    KRandomizedResponse,
    PrivKV,
    RandomizedResponse,
    ThreeState,
    from_description,
)
from .table import Table

__version__ = "0.1.0"

__all__ = [
    "AnswerError",
    "BiSample",
    "BisampleError",
    "ChoiceEstimate",
    "ChoiceMechanism",
    "Estimate",
    "FileError",
    "Harmony",
    "KRandomizedResponse",
    "Mechanism",
    "MissingExtraError",
    "NumberMechanism",
    "ParameterError",
    "PrivKV",
    "RandomizedResponse",
    "ReportError",
    "Table",
    "ThreeState",
    "Variance",
    "from_description",
]
