"""What `leaderboard` reads, and the stores that it keeps."""

from __future__ import annotations

from spark_apps.spec import AppSpec, StoreSpec, ValueField, same_key
from state.names import dead_letter_topic
from state.query.definitions import StoreKind

PLAYERS = StoreSpec(
    name="players",
    app="leaderboard",
    kind=StoreKind.RANKED,
    score_field="HighScore",
    value_fields=(
        ValueField("PlayerID", "string"),
        ValueField("Name", "string", nullable=True),
        ValueField("HighScore", "bigint", only_grows=True),
        ValueField("HighScoreProduct", "string"),
        ValueField("GamesPlayed", "bigint", never_negative=True, only_grows=True),
        ValueField("TotalScore", "bigint", only_grows=True),
        ValueField("LastPlayed", "timestamp", only_grows=True),
    ),
    state_key=same_key,
)
PRODUCTS = StoreSpec(
    name="products",
    app="leaderboard",
    kind=StoreKind.GLOBAL,
    value_fields=(ValueField("ProductID", "string"), ValueField("Name", "string")),
    written_anew=True,
)

LEADERBOARD = AppSpec(
    name="leaderboard",
    title="Leaderboard of players",
    module="spark_apps.leaderboard.app",
    topology="spark_apps.leaderboard.topology",
    # Names first: a result that comes in the same batch as its player's name finds it.
    sources=lambda settings: (settings.topic_products, settings.topic_players, settings.topic_game_results),
    sinks=lambda _: (),
    dead_letters=lambda settings: tuple(
        dead_letter_topic(topic)
        for topic in (settings.topic_products, settings.topic_players, settings.topic_game_results)
    ),
    stores=(PLAYERS, PRODUCTS),
)
