"""All that is known of each player. Key: PlayerID."""

from __future__ import annotations

import msgspec

from storekeeper import Store


class Standing(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """What a player has achieved; before the first result, the name alone.

    `seen` holds the digests of the last results, the newest at the end.
    """

    name: str | None = None
    high_score: int = -1
    high_score_product: str = ""
    games_played: int = 0
    total_score: int = 0
    last_played_ms: int = 0
    seen: bytes = b""


STANDINGS = Store("standings", Standing)
