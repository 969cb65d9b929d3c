"""Sensitive numbers with refusals, under local differential privacy.

>>> import bisample
>>> m = bisample.BiSample(epsilon=1.0, lower=17, upper=90)
>>> reports = m.privatize([23, 57, None], rng=7)  # on each respondent's device, and without a seed
>>> m.tally(reports)  # all that the collector has to keep
<Tally: 3 reports, 4 codes, mechanism ...>
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .analysis.results import ChoiceEstimate, Estimate, NumberEstimate
    from .analysis.tally import Tally
    from .analysis.variance import Variance
    from .catalogue import (
        BiSample,
        DitheredResponse,
        FocusedResponse,
        Harmony,
        KRandomizedResponse,
        PrivKV,
        RandomizedResponse,
        ThreeState,
    )
    from .errors import (
        AnswerError,
        BisampleError,
        FileError,
        FormatError,
        MissingExtraError,
        ParameterError,
        ReportError,
    )
    from .protocol.domain import Options, Range
    from .protocol.mechanism import Mechanism, Provenance
    from .protocol.table import Table

__version__ = "0.2.0"

# Where each public name lives: loaded when it is first asked for, so that a device never loads what
# estimates, who estimates never loads what draws, and neither loads the catalogue unless it builds.
_HOMES = {
    "bisample.analysis.results": ("ChoiceEstimate", "Estimate", "NumberEstimate"),
    "bisample.analysis.tally": ("Tally",),
    "bisample.analysis.variance": ("Variance",),
    "bisample.catalogue": (
        "BiSample",
        "DitheredResponse",
        "FocusedResponse",
        "Harmony",
        "KRandomizedResponse",
        "PrivKV",
        "RandomizedResponse",
        "ThreeState",
    ),
    "bisample.errors": (
        "AnswerError",
        "BisampleError",
        "FileError",
        "FormatError",
        "MissingExtraError",
        "ParameterError",
        "ReportError",
    ),
    "bisample.protocol.domain": ("Options", "Range"),
    "bisample.protocol.mechanism": ("Mechanism", "Provenance"),
    "bisample.protocol.table": ("Table",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AnswerError",
    "BiSample",
    "BisampleError",
    "ChoiceEstimate",
    "DitheredResponse",
    "Estimate",
    "FileError",
    "FocusedResponse",
    "FormatError",
    "Harmony",
    "KRandomizedResponse",
    "Mechanism",
    "MissingExtraError",
    "NumberEstimate",
    "Options",
    "ParameterError",
    "PrivKV",
    "Provenance",
    "RandomizedResponse",
    "Range",
    "ReportError",
    "Table",
    "Tally",
    "ThreeState",
    "Variance",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'bisample' has no attribute {name!r}")
    found = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
