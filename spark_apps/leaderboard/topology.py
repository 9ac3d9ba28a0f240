"""From game results to what each player has achieved.

| topic          | key       | value                                                     |
|----------------|-----------|-----------------------------------------------------------|
| `game-results` | PlayerID  | {ResultID, PlayerID, ProductID, Score, PlayedTime}        |
| `players`      | PlayerID  | {Name}, or null: the player leaves the board              |
| `products`     | ProductID | {Name}, or null                                           |

A player's row holds sums and extremes only, so it doesn't depend on the order in which results come. A result that
comes twice counts once if it is among the player's last 64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import msgspec
import orjson
import xxhash

from spark_apps.leaderboard.spec import PLAYERS, PRODUCTS
from spark_apps.processor.processor import ProcessorContext
from spark_apps.processor.records import SourceRecord
from spark_apps.records.poison import Code, Name, PoisonRecordError, StrictDecoder, TimeMs, text_key
from spark_apps.settings import AppSettings

REMEMBERED_RESULTS = 64
_DIGEST_BYTES = 8

Score = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]


class GameResult(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "result_id": "ResultID",
        "player_id": "PlayerID",
        "product_id": "ProductID",
        "score": "Score",
        "played_time_ms": "PlayedTime",
    },
):
    """What a player achieved in one game. `result_id` tells results apart."""

    result_id: Code
    player_id: Code
    product_id: Code
    score: Score
    played_time_ms: TimeMs


class Named(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """A player or product."""

    name: Name


class Standing(msgspec.Struct, array_like=True):
    """All that is known of a player. `seen` holds the digests of the last results, the newest at the end."""

    name: str | None = None
    high_score: int = -1
    high_score_product: str = ""
    games_played: int = 0
    total_score: int = 0
    last_played_ms: int = 0
    seen: bytes = b""

    def knows(self, digest: bytes) -> bool:
        """Whether a result is among the last ones."""
        return digest in {self.seen[at : at + _DIGEST_BYTES] for at in range(0, len(self.seen), _DIGEST_BYTES)}

    def add(self, result: GameResult, digest: bytes) -> None:
        """Counts a result. Of two equal high scores, the one of the product first by name stands."""
        tie_won = result.score == self.high_score and result.product_id < self.high_score_product
        if result.score > self.high_score or tie_won:
            self.high_score, self.high_score_product = result.score, result.product_id
        self.games_played += 1
        self.total_score += result.score
        self.last_played_ms = max(self.last_played_ms, result.played_time_ms)
        self.seen = (self.seen + digest)[-REMEMBERED_RESULTS * _DIGEST_BYTES :]

    def value(self, player_id: str) -> bytes | None:
        """The row of the store; None before the first result, for there is nothing to rank."""
        if not self.games_played:
            return None
        return orjson.dumps(
            {
                "PlayerID": player_id,
                "Name": self.name,
                "HighScore": self.high_score,
                "HighScoreProduct": self.high_score_product,
                "GamesPlayed": self.games_played,
                "TotalScore": self.total_score,
                "LastPlayed": self.last_played_ms,
            }
        )


_decode = msgspec.msgpack.Decoder(Standing).decode
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Keeps one `Standing` a player."""

    results: str
    players: str
    products: str
    max_record_bytes: int

    def process(self, record: SourceRecord, context: ProcessorContext) -> None:
        """Counts a result, or takes note of a name."""
        if record.topic == self.results:
            self._result(record, context)
        elif record.topic == self.players:
            self._player(record, context)
        else:
            self._product(record, context)

    def punctuate(self, key: bytes, context: ProcessorContext) -> None:
        """Never called: nothing is scheduled."""

    def _result(self, record: SourceRecord, context: ProcessorContext) -> None:
        result = _results(self.max_record_bytes).decode(record.key, record.value)
        key = result.player_id.encode()
        if record.key != key:
            raise PoisonRecordError("the key is not the PlayerID")
        digest = xxhash.xxh3_64_digest(result.result_id.encode())
        standing = _standing(context, key)
        if not standing.knows(digest):
            standing.add(result, digest)
            _keep(context, key, standing)

    def _player(self, record: SourceRecord, context: ProcessorContext) -> None:
        key = text_key(record.key).encode()
        if record.value is None:
            context.put(key, None)
            context.change(PLAYERS.name, key, None)
            return
        standing = _standing(context, key)
        standing.name = _names(self.max_record_bytes).decode(key, record.value).name
        _keep(context, key, standing)

    def _product(self, record: SourceRecord, context: ProcessorContext) -> None:
        key = text_key(record.key).encode()
        if record.value is None:
            context.change(PRODUCTS.name, key, None)
            return
        name = _names(self.max_record_bytes).decode(key, record.value).name
        context.change(PRODUCTS.name, key, orjson.dumps({"ProductID": key.decode(), "Name": name}))


def processor(settings: AppSettings) -> Leaderboard:
    """The app's logic under these settings."""
    return Leaderboard(
        settings.topic_game_results, settings.topic_players, settings.topic_products, settings.max_record_bytes
    )


def _standing(context: ProcessorContext, key: bytes) -> Standing:
    stored = context.get(key)
    return Standing() if stored is None else _decode(stored)


def _keep(context: ProcessorContext, key: bytes, standing: Standing) -> None:
    context.put(key, _encode(standing))
    value = standing.value(key.decode())
    if value is not None:
        context.change(PLAYERS.name, key, value)


@lru_cache(maxsize=4)
def _results(max_record_bytes: int) -> StrictDecoder[GameResult]:
    return StrictDecoder(GameResult, max_record_bytes=max_record_bytes)


@lru_cache(maxsize=4)
def _names(max_record_bytes: int) -> StrictDecoder[Named]:
    return StrictDecoder(Named, max_record_bytes=max_record_bytes)
