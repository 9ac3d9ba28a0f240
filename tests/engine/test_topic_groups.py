"""Topics are cut together whose records meet in a task, at once or behind repartitions."""

from __future__ import annotations

from storekeeper.engine.runtime.batch_ends import TopicGroup
from storekeeper.engine.topic_groups import topic_groups
from storekeeper.topology import StreamsBuilder
from storekeeper.topology.layout import Layout


def both(click: str, user: str) -> str:
    return click + user


def groups_of(streams: StreamsBuilder, **partitions: int) -> list[TopicGroup]:
    return topic_groups(Layout(streams.build().plan(partitions)))


def test_a_stream_and_the_table_that_it_is_joined_with_are_cut_at_one_time_tables_first() -> None:
    streams = StreamsBuilder("app")
    clicks, users = streams.stream("clicks", str), streams.table("users", str)
    clicks.join(users, both).to("out", values=str)
    assert groups_of(streams, clicks=2, users=2) == [TopicGroup(("users", "clicks"), meet=True)]


def test_topics_that_meet_behind_repartitions_are_cut_at_one_time() -> None:
    streams = StreamsBuilder("app")
    clicks, users = streams.stream("clicks", str), streams.table("users", str)
    by_text = clicks.select_key(lambda _, text: text)
    by_text.join(users, both).group_by(lambda _, text: text).count(store="counts")
    assert groups_of(streams, clicks=2, users=3) == [TopicGroup(("users", "clicks"), meet=True)]


def test_partitions_that_meet_behind_a_shuffle_are_cut_at_one_time() -> None:
    streams = StreamsBuilder("app")
    streams.stream("clicks", str).group_by(lambda _, text: text).count(store="counts")
    assert groups_of(streams, clicks=2) == [TopicGroup(("clicks",), meet=True)]


def test_topics_that_never_meet_are_cut_each_for_itself() -> None:
    streams = StreamsBuilder("app")
    for topic in ("clicks", "views"):
        streams.stream(topic, str).group_by_key().count(store=f"{topic}-counts")
    assert groups_of(streams, clicks=2, views=3) == [
        TopicGroup(("clicks",), meet=False),
        TopicGroup(("views",), meet=False),
    ]
