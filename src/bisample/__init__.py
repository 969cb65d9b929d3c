"""Sensitive numbers with refusals, under local differential privacy.

>>> import bisample
>>> m = bisample.BiSample(epsilon=1.0, lower=17, upper=90)
>>> reports = m.privatize([23, 57, None], rng=7)  # on each respondent's device, and without a seed
>>> m.tally(reports)  # all that the collector has to keep
array([1, 0, 1, 1])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import (
    AnswerError,
    BisampleError,
    FileError,
    MissingExtraError,
    ParameterError,
    ReportError,
)
from .mechanism import ChoiceMechanism, Mechanism, NumberMechanism, Variance
from .mechanisms import (
    BiSample,
    DitheredResponse,
    Harmony,
    KRandomizedResponse,
    PrivKV,
    RandomizedResponse,
    ThreeState,
    from_description,
    mix,
)
from .table import Table

if TYPE_CHECKING:
    from .estimate import ChoiceEstimate, Estimate

__version__ = "0.1.0"

__all__ = [
    "AnswerError",
    "BiSample",
    "BisampleError",
    "ChoiceEstimate",
    "ChoiceMechanism",
    "DitheredResponse",
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
    "mix",
]


def __getattr__(name: str) -> Any:
    # Only who estimates pays for importing it: `import bisample` takes little more than NumPy does.
    if name in {"ChoiceEstimate", "Estimate"}:
        from . import estimate

        return getattr(estimate, name)
    raise AttributeError(f"module 'bisample' has no attribute {name!r}")
