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

from state.players import PLAYERS, Player
from state.products import PRODUCTS, Product
from state.standings import STANDINGS, Standing
from storekeeper import (
    AppSettings,
    Code,
    KeySerde,
    Name,
    StreamsBuilder,
    TimeMs,
    ValueSerde,
    has_key,
    json_name,
    keyed_by,
    topology_app,
    with_key,
)

REMEMBERED_RESULTS = 64
_DIGEST_BYTES = 8

Score = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]


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


class Entry(msgspec.Struct, frozen=True):
    """The new name of a player; None if the player leaves."""

    name: str | None


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
        .cogroup(with_result)
        .cogroup(entries.group_by_key(), with_entry)
        .aggregate(Standing, store=STANDINGS)
    )
    # Before the first result there is nothing to rank.
    standings.filter(lambda _, standing: standing.games_played > 0).map_values(with_key(player), store=PLAYERS)
    products = streams.stream("products", names, keys=KeySerde(), check=has_key)
    products.map_values(with_key(product)).to_table(store=PRODUCTS)


def with_result(standing: Standing, result: GameResult) -> Standing:
    """The standing with one more result. Of equal high scores, the one with the smaller product id counts."""
    digest, seen = xxhash.xxh3_64_digest(result.result_id.encode()), standing.seen
    if digest in {seen[at : at + _DIGEST_BYTES] for at in range(0, len(seen), _DIGEST_BYTES)}:
        return standing
    score, product = standing.high_score, standing.high_score_product
    if result.score > score or (result.score == score and result.product_id < product):
        score, product = result.score, result.product_id
    return Standing(
        standing.name,
        score,
        product,
        standing.games_played + 1,
        standing.total_score + result.score,
        max(standing.last_played_ms, result.played_time_ms),
        (seen + digest)[-REMEMBERED_RESULTS * _DIGEST_BYTES :],
    )


def with_entry(standing: Standing, entry: Entry) -> Standing | None:
    """The standing under the player's name; None if the player leaves."""
    return None if entry.name is None else msgspec.structs.replace(standing, name=entry.name)


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
