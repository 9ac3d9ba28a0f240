"""One case of a case file, and what its values mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storekeeper.serdes.timestamped import ValueAndTimestamp


@dataclass(frozen=True, slots=True)
class Case:
    """One case.

    Attributes:
        id: its name.
        store: the store kind, which chooses the adapter.
        config: how the store is set up.
        ops: operations, each a list that begins with its name.
        applies: the backends it is for, or None for all.
        level: must, adapt, impl_choice or optional.
        topology: the whole case, if it is one of a topology; its store is then `topology`.
    """

    id: str
    store: str
    config: dict[str, Any]
    ops: list[list[Any]]
    applies: tuple[str, ...] | None
    level: str
    topology: dict[str, Any] | None = None


def load_cases(path: Path) -> Iterator[Case]:
    """The cases of a file, in its order."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                fields = json.loads(line)
                applies = fields.get("applies")
                yield Case(
                    id=fields["id"],
                    store=fields.get("store", "topology"),
                    config=fields.get("config", {}),
                    ops=fields.get("ops", []),
                    applies=None if applies is None else tuple(applies),
                    level=fields.get("level", "must"),
                    topology=fields if "topology" in fields else None,
                )


def decoded(value: Any) -> Any:
    """A value of a case file as Python has it: `hex` becomes bytes, `fill` text; other objects stay."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"hex"}:
            return bytes.fromhex(value["hex"])
        if value.keys() == {"fill", "len"}:
            return value["fill"] * value["len"]
        return {key: decoded(item) for key, item in value.items()}
    return value


def plain(result: Any) -> Any:
    """A result of a store as case files have it: tuples become lists."""
    if isinstance(result, ValueAndTimestamp):
        return [plain(result.value), result.timestamp_ms]
    if isinstance(result, list | tuple):
        return [plain(item) for item in result]
    if isinstance(result, dict):
        return {key: plain(item) for key, item in result.items()}
    return result


def matches(result: Any, expected: Any) -> bool:
    """Whether a plain result is what a decoded expectation asks for."""
    if isinstance(expected, dict) and "unasserted" in expected:
        return True
    if isinstance(expected, dict) and "any_order" in expected:
        return isinstance(result, list) and _matches_in_any_order(result, expected["any_order"])
    if isinstance(expected, list) and isinstance(result, list):
        return len(expected) == len(result) and all(map(matches, result, expected))
    return bool(result == expected)


def _matches_in_any_order(result: list[Any], expected: list[Any]) -> bool:
    left = list(expected)
    for found in result:
        fitting = next((wanted for wanted in left if matches(found, wanted)), None)
        if fitting is None:
            return False
        left.remove(fitting)
    return not left
