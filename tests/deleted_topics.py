"""A broker's topics, in place of a broker: which of them are deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def topics_of(names: Sequence[str], gone: list[str]) -> Callable[[object], object]:
    """What stands in for `Topics`: it knows `names`, and puts those that are deleted into `gone`."""

    class Topics:
        def __init__(self, _: object) -> None:
            pass

        def names(self) -> Sequence[str]:
            return names

        def delete(self, names: Iterable[str]) -> None:
            gone.extend(names)

    return Topics
