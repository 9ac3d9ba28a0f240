"""Files of tokens, as an operator would make them with `storekeeper token`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from storekeeper.node.security.access import Caller, TokenRecord, token_digest, write_tokens


def write_callers(path: Path, callers: Mapping[str, Caller]) -> None:
    """Replaces the file by one that gives each token its caller."""
    write_tokens(path, [TokenRecord(caller, token_digest(token.encode())) for token, caller in callers.items()])
