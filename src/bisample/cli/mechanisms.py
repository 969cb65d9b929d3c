"""What a mechanism is told on the command line: read from the catalogue, which alone knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from bisample.errors import ParameterError

if TYPE_CHECKING:
    from bisample.protocol.mechanism import Mechanism

__all__ = ["LateCommand", "is_told", "mechanism_from", "mechanism_options"]


class LateCommand(click.Command):
    """A command with options that the core defines: it is loaded only once this command is asked for.

    >>> command = LateCommand("greet", later=lambda: [click.Option(["--name"])])
    >>> command.get_params(click.Context(command))[0].name
    'name'
    """

    def __init__(self, *args: Any, later: Callable[[], list[click.Option]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._later: Callable[[], list[click.Option]] | None = later

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """All options, the late ones after the command's own."""
        if self._later is not None:
            self.params.extend(self._later())
            self._later = None
        return super().get_params(ctx)


def mechanism_options(*, required: bool, default: str | None = None) -> list[click.Option]:
    """The options that say which mechanism; `required` where no file can say it.

    `default` tells people which one it is that they do not name, where it is not the catalogue's first.

    >>> [option.name for option in mechanism_options(required=True)]
    ['mechanism', 'epsilon', 'lower', 'upper', 'options', 'levels', 'steps', 'mean', 'spread']
    """
    from bisample.catalogue import CATALOGUE

    named = "; ".join(f"{entry.name}, {entry.help}" for entry in CATALOGUE.values())
    choices = ", ".join(entry.name for entry in CATALOGUE.values() if entry.domain == "options")
    options = [
        click.Option(
            ["--mechanism"],
            type=click.Choice(list(CATALOGUE)),
            help=f"{named} (default: {default or _default()})",
        ),
        click.Option(
            ["--epsilon"], type=float, required=required, help="the privacy parameter: smaller is safer"
        ),
        click.Option(["--lower"], type=float, help="the least answer that a number can be"),
        click.Option(["--upper"], type=float, help="the largest"),
        click.Option(
            ["--option", "options"],
            multiple=True,
            help=f"what can be chosen, once for each option ({choices})",
        ),
    ]
    for parameter in {p.name: p for entry in CATALOGUE.values() for p in entry.parameters}.values():
        takers = ", ".join(entry.name for entry in CATALOGUE.values() if parameter.name in entry.takes)
        text = f"{parameter.help}: {parameter.range} ({takers}; default: {parameter.default})"
        options.append(
            click.Option([f"--{parameter.name.replace('_', '-')}"], type=parameter.kind, help=text)
        )
    return options


def is_told(told: Mapping[str, Any]) -> bool:
    """Whether any of the mechanism's options was given.

    >>> is_told({"epsilon": None, "options": ()}), is_told({"lower": 0.0})
    (False, True)
    """
    return bool(_said(told))


def mechanism_from(told: Mapping[str, Any], *, needs_range: bool) -> Mechanism:
    """The mechanism that the options name; without `needs_range` that of numbers in [-1, 1] will do.

    >>> mechanism_from({"epsilon": 1, "lower": None, "options": ()}, needs_range=False)
    <Mechanism bisample(epsilon=1): numbers from -1 to 1 or no answer, 4 codes, epsilon <= 1>
    """
    from bisample.catalogue import CATALOGUE, build

    said = _said(told)
    name = said.pop("mechanism", _default())
    if needs_range and CATALOGUE[name].domain == "range" and not {"lower", "upper"} <= said.keys():
        raise ParameterError(
            "--lower and --upper are needed: the least and the largest answer that can be given, chosen"
            " before looking at the answers"
        )
    return build(name, **said)


def _default() -> str:
    from bisample.catalogue import CATALOGUE

    return next(iter(CATALOGUE))


def _said(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if value not in (None, ())}
