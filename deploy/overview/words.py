"""Numbers and times as people read them."""

from __future__ import annotations

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def age(milliseconds: int | None) -> str:
    """`3 min` for a time that long; a dash for None."""
    if milliseconds is None:
        return "-"
    for size, unit in _UNITS:
        if milliseconds >= size:
            return f"{milliseconds // size} {unit}"
    return "now"


def about(number: float | None) -> str:
    """`~12,345` for an estimate; a dash for None."""
    return "-" if number is None else f"~{number:,.0f}"


def count(number: float | None) -> str:
    """`12,345`; a dash for None."""
    return "-" if number is None else f"{number:,.0f}"
