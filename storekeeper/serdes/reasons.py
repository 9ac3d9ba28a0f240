"""Says why a value can't be read or written, without what the error may quote of it.

msgspec quotes a value that no enumeration has, a tag, a field that a type doesn't know, and what a type's own code
says; pydantic quotes every value that is wrong.
"""

from __future__ import annotations

import re

import msgspec

_PLACE = re.compile(r" - at (?:`key` in )?`\$[^`]*`$")
_QUOTING = ("Invalid enum value", "Invalid value", "Object contains unknown field")


def reason_of(error: Exception) -> str:
    """The text of an error that quotes nothing of the value, and else what is known of it: its kind and the place."""
    if isinstance(error, msgspec.MsgspecError):
        return _of_msgspec(error)
    if isinstance(error, TypeError | RecursionError):
        return str(error)
    if isinstance(error, UnicodeError):
        return getattr(error, "reason", type(error).__name__)
    return _of_own_code(error)


def _of_msgspec(error: msgspec.MsgspecError) -> str:
    text, cause = str(error), error.__cause__
    if cause is not None:  # what a type's own code raised: its text is there
        return _of_own_code(cause) + _place_in(text)
    quoting = next((start for start in _QUOTING if text.startswith(start)), None)
    return text if quoting is None else quoting + _place_in(text)


def _of_own_code(error: BaseException) -> str:
    """The kind of an error; the kinds and places of those that a model of pydantic has found."""
    wrong = getattr(error, "errors", None)
    if not callable(wrong):
        return type(error).__name__
    return ", ".join(f"`{'.'.join(map(str, part['loc']))}`: {part['type']}" for part in wrong())


def _place_in(text: str) -> str:
    """Where a value is wrong, as msgspec says it at the end; empty for the value as a whole."""
    place = _PLACE.search(text)
    return "" if place is None else place.group()
