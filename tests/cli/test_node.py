"""The address of a server as people write it."""

from __future__ import annotations

import pytest
import typer

from storekeeper.cli.node import listen_address


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:18101", ("127.0.0.1", 18101)), ("[::1]:80", ("::1", 80)), ("localhost:0", ("localhost", 0))],
)
def test_forms(text: str, address: tuple[str, int]) -> None:
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["", "nonsense", "18101", ":18101", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:٣"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="HOST:PORT"):
        listen_address(text)
