"""Params of runs, as forms show them: choices, switches and strict numbers."""

from __future__ import annotations

from collections.abc import Iterable

from airflow.sdk import Param

TEXT_END = r"(?![\s\S])"
"""The end of a text, in every dialect of regular expressions. Python's `$` also matches before a last newline."""


NOTHING = "(none)"
"""The one choice where a platform has nothing to choose from: a form needs one, and the command refuses this name."""


def choice_param(title: str, description: str, choices: Iterable[str]) -> Param:
    """A param that is one of the choices; by default the first. Without choices it is `NOTHING`."""
    names = list(choices) or [NOTHING]
    return Param(names[0], type="string", enum=names, title=title, description=description)


def switch_param(title: str, description: str, *, default: bool = False) -> Param:
    """A param that is true or false."""
    return Param(default, type="boolean", title=title, description=description)


def whole_param(title: str, description: str, default: int, *, minimum: int = 0, maximum: int) -> Param:
    """A param that is a whole number from `minimum` to `maximum`, inclusive."""
    return Param(default, type="integer", minimum=minimum, maximum=maximum, title=title, description=description)


def number_param(title: str, description: str, default: float, *, minimum: float, maximum: float) -> Param:
    """A param that is a finite number from `minimum` to `maximum`, inclusive."""
    # NaN passes every comparison of JSON schema. Only a negated comparison refuses it.
    bounds = {"minimum": minimum, "maximum": maximum, "not": {"exclusiveMinimum": maximum}}
    return Param(default, type="number", title=title, description=description, **bounds)
