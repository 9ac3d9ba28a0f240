"""What a topology says about its stores."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from state.errors import ConfigurationError, InvalidNameError
from state.topology import Store, StreamsBuilder, tumbling


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


def test_a_changelog_has_the_name_of_a_topic() -> None:
    with pytest.raises(InvalidNameError):
        Store("scores", Score, changelog="no topic")
