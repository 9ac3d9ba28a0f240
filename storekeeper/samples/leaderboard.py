"""What each player has achieved, ranked.

| topic          | key       | value                                                     |
|----------------|-----------|-----------------------------------------------------------|
| `game-results` | PlayerID  | {ResultID, PlayerID, ProductID, Score, PlayedTime}        |
| `players`      | PlayerID  | {Name}, or null: the player leaves the board              |
| `products`     | ProductID | {Name}, or null                                           |

A player's row holds sums and extremes only, so it does not depend on the order in which results come. A result that
comes twice counts once if it is among the player's last 64. Store `standings` keeps those, and the names of players
who have not played yet.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import xxhash

from storekeeper.apps.records import Code, KeySerde, Name, TimeMs, ValueSerde, has_key, json_name, keyed_by
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.topology import Store, StreamsBuilder, with_key

REMEMBERED_RESULTS = 64
_DIGEST_BYTES = 8

Score = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
Grows = msgspec.Meta(extra={"only_grows": True})


class GameResult(msgspec.Struct, frozen=True, gc=False, rename=json_name):
    """What a player achieved in one game. `result_id` distinguishes results."""

    result_id: Code
    player_id: Code
    product_id: Code
    score: Score
    played_time_ms: TimeMs


class Named(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """The value of a record of `players` or `products`."""

    name: Name


class Product(msgspec.Struct, frozen=True, rename=json_name):
    """A row of store `products`."""

    product_id: str
    name: str


class Player(msgspec.Struct, frozen=True, rename=json_name):
    """A row of store `players`."""

    player_id: str
    name: str | None
    high_score: Annotated[int, Grows]
    high_score_product: str
    games_played: Annotated[int, msgspec.Meta(ge=0, extra={"only_grows": True})]
    total_score: Annotated[int, Grows]
    last_played_ms: Annotated[int, msgspec.Meta(extra={"sql": "timestamp", "only_grows": True})]


class Entry(msgspec.Struct, frozen=True):
    """The new name of a player; None if the player leaves."""

    name: str | None


class Standing(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """All that is known of a player: a row of store `standings`.

    `seen` holds the digests of the last results, the newest at the end.
    """

    name: str | None = None
    high_score: int = -1
    high_score_product: str = ""
    games_played: int = 0
    total_score: int = 0
    last_played_ms: int = 0
    seen: bytes = b""

    def with_result(self, result: GameResult) -> Standing:
        """The standing with one more result. Of equal high scores, the one with the smaller product id counts."""
        digest = xxhash.xxh3_64_digest(result.result_id.encode())
        if digest in {self.seen[at : at + _DIGEST_BYTES] for at in range(0, len(self.seen), _DIGEST_BYTES)}:
            return self
        score, product = self.high_score, self.high_score_product
        if result.score > score or (result.score == score and result.product_id < product):
            score, product = result.score, result.product_id
        return Standing(
            self.name,
            score,
            product,
            self.games_played + 1,
            self.total_score + result.score,
            max(self.last_played_ms, result.played_time_ms),
            (self.seen + digest)[-REMEMBERED_RESULTS * _DIGEST_BYTES :],
        )

    def with_entry(self, entry: Entry) -> Standing | None:
        """The standing under the player's name; None if the player leaves."""
        return None if entry.name is None else msgspec.structs.replace(self, name=entry.name)


def topology(streams: StreamsBuilder, settings: AppSettings) -> None:
    """Ranks players by their best score, and keeps the names of products."""
    results = streams.stream(
        "game-results", ValueSerde(GameResult, settings.max_record_bytes), keys=KeySerde(),
        check=keyed_by("PlayerID", player_of),
    )  # fmt: skip
    names = ValueSerde(Named, settings.max_record_bytes)
    entries = streams.stream("players", names, keys=KeySerde(), check=has_key).map_values(entry)
    standings = (
        results.group_by_key()
        .cogroup(Standing.with_result)
        .cogroup(entries.group_by_key(), Standing.with_entry)
        .aggregate(Standing, store="standings")
    )
    # Before the first result there is nothing to rank.
    standings.filter(lambda _, standing: standing.games_played > 0).map_values(
        with_key(player), store=Store("players", Player, ranked_by="HighScore")
    )
    products = streams.stream("products", names, keys=KeySerde(), check=has_key)
    products.map_values(with_key(product)).to_table(store=Store("products", Product, everywhere=True))


def player_of(result: GameResult) -> str:
    """The player who achieved it."""
    return result.player_id


def entry(named: Named | None) -> Entry:
    """The entry of a record of `players`."""
    return Entry(None if named is None else named.name)


def player(player_id: str, standing: Standing) -> Player:
    """The player's row."""
    return Player(
        player_id,
        standing.name,
        standing.high_score,
        standing.high_score_product,
        standing.games_played,
        standing.total_score,
        standing.last_played_ms,
    )


def product(product_id: str, named: Named | None) -> Product | None:
    """The product's row, or None to delete it."""
    return None if named is None else Product(product_id, named.name)


LEADERBOARD = topology_app("leaderboard", topology, title="Leaderboard of players")
