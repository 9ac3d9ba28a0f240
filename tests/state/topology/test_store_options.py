"""What a topology says about its stores."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from state.errors import ConfigurationError, InvalidNameError
from state.topology import Store, StoreKind, StreamsBuilder, tumbling


class Score(msgspec.Struct, frozen=True, rename="pascal"):
    high_score: int = 0


def high(score: Score, value: int) -> Score:
    return Score(max(score.high_score, value))


def test_options_reach_the_engine_as_they_were_given() -> None:
    streams = StreamsBuilder("app")
    store = Store(
        "scores", Score, ranked_by="HighScore", everywhere=True, changelog="scores-changes", bounded=True
    )  # fmt: skip
    streams.stream("in", int).group_by_key().aggregate(Score, high, store=store)
    (spec,) = [spec for sub in streams.build().sub_topologies for spec in sub.stores]
    options = spec.options
    assert (options.ranked_by, options.everywhere, options.changelog, options.bounded) == (
        *("HighScore", True, "scores-changes", True),
    )


def test_a_store_is_ranked_by_a_field_that_it_has() -> None:
    streams = StreamsBuilder("app")
    with pytest.raises(ConfigurationError, match="high_score"):
        streams.stream("in", int).group_by_key().aggregate(
            Score, high, store=Store("scores", Score, ranked_by="high_score")
        )
    with pytest.raises(ConfigurationError, match="not a field"):
        streams.stream("in", int).group_by_key().count(store=Store("counts", int, ranked_by="HighScore"))


def test_windows_are_not_ranked() -> None:
    windows = StreamsBuilder("app").stream("in", int).group_by_key().windowed_by(tumbling(timedelta(hours=1)))
    with pytest.raises(ConfigurationError, match="can't be ranked"):
        windows.aggregate(Score, high, store=Store("scores", Score, ranked_by="HighScore"))


def test_only_rows_by_key_are_everywhere() -> None:
    streams = StreamsBuilder("app")
    windows = streams.stream("in", int).group_by_key().windowed_by(tumbling(timedelta(hours=1)))
    with pytest.raises(ConfigurationError, match="store counts: rows of kind window can't be everywhere"):
        windows.count(store=Store("counts", int, everywhere=True))
    with pytest.raises(ConfigurationError, match="store versions: rows of kind versioned can't be everywhere"):
        streams.table("table", int, store=Store("versions", int, history=timedelta(hours=1), everywhere=True))


def test_a_changelog_has_the_name_of_a_topic() -> None:
    with pytest.raises(InvalidNameError):
        Store("scores", Score, changelog="no topic")


@pytest.mark.parametrize("option", ["ttl", "history", "retention"])
def test_a_time_that_rows_of_a_kind_do_not_know_is_refused(option: str) -> None:
    def store(name: str) -> Store[Any]:
        return Store(name, int, **{option: timedelta(hours=1)})  # type: ignore[arg-type]

    stream = StreamsBuilder("app").stream("in", int)
    windows = stream.group_by_key().windowed_by(tumbling(timedelta(minutes=1)))
    places: dict[str, tuple[set[str], Callable[[Store[Any]], object]]] = {
        "rows": ({"ttl", "history", "retention"}, lambda options: stream.group_by_key().count(store=options)),
        "table": ({"ttl", "retention"}, lambda options: stream.to_table(store=options)),
        "windows": ({"ttl", "history"}, lambda options: windows.count(store=options)),
    }
    for name, (refused, count) in places.items():
        if option in refused:
            with pytest.raises(ConfigurationError, match=f"store {name}: {option}= has no meaning"):
                count(store(name))
        else:
            count(store(name))


def test_operators_choose_the_kind_of_their_stores() -> None:
    stream = StreamsBuilder("app").stream("in", int)
    stream.to_table(store=Store("v", int, kind=StoreKind.VERSIONED, history=timedelta(hours=1)))
    with pytest.raises(ConfigurationError, match="rows of kind key_value, not ttl"):
        stream.group_by_key().count(store=Store("n", int, kind=StoreKind.TTL))
