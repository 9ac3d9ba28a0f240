"""Who is in the cluster, by what was heard and when."""

from __future__ import annotations

from storekeeper.node.cluster.heartbeat import Heartbeat
from storekeeper.node.cluster.view import Members, ViewSettings

SETTINGS = ViewSettings(interval_s=0.25, suspect_after_s=1.0, expire_after_s=10.0)
PEERS = {"a": "http://127.0.0.1:1", "b": "http://127.0.0.1:2"}


def beat(name: str, sequence: int = 1, incarnation: int = 1, *, leaving: bool = False) -> Heartbeat:
    return Heartbeat(name, f"http://127.0.0.1:{ord(name)}", "", incarnation, sequence, 0, leaving=leaving)


def names(view: Members) -> list[str]:
    return [member.name for member in view.members()]


def suspects(view: Members) -> list[str]:
    return [member.name for member in view.members() if member.suspect]


def pass_time(view: Members, begin_s: float, seconds: float) -> float:
    """This node's heartbeats come back every quarter of a second; nothing else is heard."""
    steps = int(seconds * 4)
    for step in range(steps + 1):
        view.echo(begin_s + step * 0.25)
    return begin_s + steps * 0.25


def test_configured_peers_are_members_until_they_had_the_time_to_be_heard() -> None:
    view = Members("a", PEERS, SETTINGS)
    assert names(view) == ["a", "b"]
    pass_time(view, 100, 9)
    assert names(view) == ["a", "b"]
    pass_time(view, 109, 2)
    assert names(view) == ["a"]
    view.hear(beat("b"))
    assert names(view) == ["a", "b"]


def test_a_node_that_was_never_configured_joins_by_being_heard_and_goes_with_a_good_bye() -> None:
    view = Members("a", PEERS, SETTINGS)
    view.hear(beat("c"))
    assert names(view) == ["a", "b", "c"]
    view.hear(beat("c", 2, leaving=True))
    assert names(view) == ["a", "b"]
    view.hear(beat("c", 1, incarnation=2))
    assert names(view) == ["a", "b", "c"]


def test_silence_makes_suspect_first_and_then_expires() -> None:
    view = Members("a", PEERS, SETTINGS)
    view.hear(beat("a"))
    view.hear(beat("b"))
    now_s = pass_time(view, 100, 1)
    assert suspects(view) == []
    now_s = pass_time(view, now_s, 0.5)
    assert suspects(view) == ["b"]
    view.hear(beat("b", 2))
    assert suspects(view) == []
    now_s = pass_time(view, now_s, 9.75)
    assert names(view) == ["a", "b"]
    pass_time(view, now_s, 0.5)
    assert names(view) == ["a"]


def test_while_nothing_is_heard_at_all_nobody_is_thought_dead() -> None:
    view = Members("a", PEERS, SETTINGS)
    view.hear(beat("b"))
    pass_time(view, 100, 0.5)
    # The broker was away for an hour, or this process was stopped for it.
    view.echo(3700)
    assert (names(view), suspects(view)) == (["a", "b"], [])


def test_an_old_heartbeat_that_comes_again_changes_nothing() -> None:
    view = Members("a", PEERS, SETTINGS)
    assert view.hear(beat("c", 5, incarnation=2))
    assert not view.hear(beat("c", 5, incarnation=2))
    assert not view.hear(beat("c", 9, incarnation=1))
    assert view.hear(beat("c", 6, incarnation=2, leaving=True))
    assert not view.hear(beat("c", 5, incarnation=2))
    assert names(view) == ["a", "b"]


def test_what_was_said_long_ago_makes_no_member() -> None:
    view = Members("a", {}, SETTINGS)
    view.hear(beat("b"), age_s=11)
    view.hear(beat("c"), age_s=2)
    assert (names(view), suspects(view)) == (["c"], ["c"])


def missing(view: Members) -> dict[str, tuple[str, float]]:
    return {member.name: (member.address, member.silent_s) for member in view.missing()}


def test_who_is_silent_is_missed_until_it_is_heard_or_has_said_good_bye() -> None:
    view = Members("a", PEERS, SETTINGS)
    for name in ("a", "c", "d"):
        view.hear(beat(name))
    assert missing(view) == {}
    now_s = pass_time(view, 100, 10.25)
    assert names(view) == ["a"]
    silent = {"b": "http://127.0.0.1:2", "c": "http://127.0.0.1:99", "d": "http://127.0.0.1:100"}
    assert missing(view) == {name: (address, 10.25) for name, address in silent.items()}, "b was never heard"
    assert all(member.suspect and not member.replicas for member in view.missing())
    view.hear(beat("c", 2, leaving=True))
    view.hear(beat("b"))
    view.hear(beat("d", 2))
    assert missing(view) == {}
    view.hear(beat("b", 2, leaving=True))
    assert (names(view), missing(view)) == (["a", "d"], {}), "it may be upgraded now"
    pass_time(view, now_s, 10.25)
    assert missing(view).keys() == {"b", "d"}, "b is configured and has not come back"


def test_a_node_that_is_not_configured_is_missed_for_a_day() -> None:
    view = Members("a", PEERS, SETTINGS)
    view.hear(beat("b"), age_s=90_000)
    view.hear(beat("c"), age_s=90_000)
    view.hear(beat("d"), age_s=80_000)
    assert missing(view).keys() == {"b", "d"}
