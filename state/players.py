"""The players who have played, ranked by their best score. Key: PlayerID."""

from __future__ import annotations

from typing import Annotated

import msgspec

from storekeeper import Store, json_name

_Grows = msgspec.Meta(extra={"only_grows": True})


class Player(msgspec.Struct, frozen=True, rename=json_name):
    """What a player has achieved."""

    player_id: str
    name: str | None
    high_score: Annotated[int, _Grows]
    high_score_product: str
    games_played: Annotated[int, msgspec.Meta(ge=0, extra={"only_grows": True})]
    total_score: Annotated[int, _Grows]
    last_played_ms: Annotated[int, msgspec.Meta(extra={"sql": "timestamp", "only_grows": True})]


PLAYERS = Store("players", Player, ranked_by="HighScore")
