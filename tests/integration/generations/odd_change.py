"""A change that some rows can't go through."""

from __future__ import annotations

from dataclasses import replace

from state.rewards import REWARDS_BY_REGION
from storekeeper.generations.migration import StoreRecord


def refuse_sevens(key: bytes, value: bytes) -> list[StoreRecord]:
    """As if a card that ends with a seven had no region."""
    if key.endswith(b"7"):
        raise ValueError("no region")
    return [(key, value)]


ODD = replace(REWARDS_BY_REGION, name="odd", convert=f"{__name__}:refuse_sevens")
