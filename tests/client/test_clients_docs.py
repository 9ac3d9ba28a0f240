"""The page of the clients names what they have, and its code is Python."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from storekeeper.client.async_client import AsyncStateClient
from storekeeper.client.client import StateClient
from storekeeper.client.exchange import ClientLimits
from storekeeper.client.queries import ReadOptions
from storekeeper.client.readings import Reading

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "clients.md").read_text()


def section(title: str) -> str:
    """The text below a heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_column(title: str) -> set[str]:
    """The names in the first column of a section's table."""
    cells = re.findall(r"^\| (`[^|]*`) \|", section(title), flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize("client", [StateClient, AsyncStateClient])
def test_every_method_of_a_store_is_there(client: type[StateClient]) -> None:
    rows = re.findall(r"^\| \S+ \| `client\.(\w+)\(name\)` \| (.*) \|$", section("Stores"), flags=re.MULTILINE)
    assert len(rows) == 6
    for kind, methods in rows:
        store = getattr(client("http://127.0.0.1:1"), kind)("a")
        named = set(re.findall(r"`(\w+)`", methods))
        assert {name for name in named if not hasattr(store, name)} == set(), kind


def test_every_field_is_documented() -> None:
    assert first_column("An answer") == {field.name for field in fields(Reading)}
    assert first_column("Freshness") == set(ReadOptions.__annotations__)
    assert first_column("Retries") == {field.name for field in fields(ClientLimits)}


def test_defaults_are_as_documented() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", section("Retries"), flags=re.MULTILINE)
    assert {name: float(value) for name, value in rows} == {
        field.name: float(getattr(ClientLimits(), field.name)) for field in fields(ClientLimits)
    }


def test_the_code_is_python() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) > 3
    for block in blocks:
        compile(block, "docs/reference/clients.md", "exec")
