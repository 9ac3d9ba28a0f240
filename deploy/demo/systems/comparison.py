"""Compares the stores with their expected content."""

from __future__ import annotations

from dataclasses import fields

from deploy.demo.observation import Difference
from deploy.demo.systems.oracle import Expected


def compare_systems(expected: Expected, found: Expected, asked: str = "the nodes") -> list[Difference]:
    """Every row that differs, is missing, or is unexpected. `asked` names the source of `found`."""
    return [
        Difference(f"{field.name.replace('_', ' ')} by {asked}", str(key), str(must.get(key)), str(holds.get(key)))
        for field in fields(Expected)
        for must, holds in [(getattr(expected, field.name), getattr(found, field.name))]
        for key in {**must, **holds}
        if must.get(key) != holds.get(key)
    ]
