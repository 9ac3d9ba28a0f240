"""Who has a place, and who gives way."""

from __future__ import annotations

from storekeeper.node.query.http.connection import Places
from storekeeper.node.query.protection.traffic import Traffic


class Guest:
    def __init__(self, resting_since_s: float | None = None, *, is_sent_to: bool = False) -> None:
        self.resting_since_s = resting_since_s
        self.is_sent_to = is_sent_to
        self.closed = False

    def abort(self) -> None:
        self.closed = True


def entered(places: Places, *guests: Guest, client: str = "10.0.0.1") -> None:
    for guest in guests:
        places.enter(guest, client)


def proven(places: Places, *guests: Guest, client: str = "10.0.0.1") -> None:
    for guest in guests:
        places.enter(guest, client)
        assert places.prove(guest)


def test_the_oldest_newcomer_gives_way_and_no_proven_connection_does() -> None:
    traffic = Traffic()
    places = Places(32, 32, traffic)
    caller, silent = Guest(), [Guest() for _ in range(40)]
    proven(places, caller)
    entered(places, *silent)
    assert [guest.closed for guest in silent] == [True] * 24 + [False] * 16
    assert not caller.closed
    assert traffic.refused == {"unproven-connections": 24}
    assert traffic.connections == 17


def test_a_newcomer_among_many_silent_ones_proves_itself() -> None:
    places = Places(32, 32, Traffic())
    entered(places, *(Guest() for _ in range(100)))
    caller = Guest()
    proven(places, caller)
    entered(places, *(Guest() for _ in range(100)))
    assert not caller.closed
    assert places.prove(caller)


def test_the_proven_connection_that_rested_longest_gives_way() -> None:
    traffic = Traffic()
    places = Places(3, 3, traffic)
    at_request, long, short = Guest(), Guest(1.0), Guest(5.0)
    proven(places, at_request, long, short)
    proven(places, Guest())
    assert [guest.closed for guest in (at_request, long, short)] == [False, True, False]
    assert traffic.connections == 3


def test_a_proven_connection_whose_request_has_arrived_does_not_give_way() -> None:
    places = Places(3, 3, Traffic())
    asks, rests, last = Guest(1.0, is_sent_to=True), Guest(5.0), Guest(6.0)
    proven(places, asks, rests, last)
    proven(places, Guest())
    assert [guest.closed for guest in (asks, rests, last)] == [False, True, False]


def test_one_address_takes_no_more_than_its_share() -> None:
    traffic = Traffic()
    places = Places(10, 2, traffic)
    first, other = Guest(1.0), Guest(0.0)
    proven(places, other, client="10.0.0.2")
    proven(places, first, Guest(2.0), Guest(3.0))
    assert first.closed
    assert not other.closed
    assert traffic.refused == {"connections-of-client": 1}


def test_where_all_are_at_a_request_one_more_has_no_place() -> None:
    traffic = Traffic()
    places = Places(10, 2, traffic)
    busy = [Guest(), Guest()]
    proven(places, *busy)
    late = Guest()
    entered(places, late)
    assert not places.prove(late)
    assert not any(guest.closed for guest in busy)
    places.leave(busy[0])
    assert places.prove(late)


def test_who_has_left_has_no_place() -> None:
    traffic = Traffic()
    places = Places(4, 4, traffic)
    guests = [Guest() for _ in range(3)]
    proven(places, *guests)
    for guest in guests:
        places.leave(guest)
        places.leave(guest)
        assert not places.prove(guest)
    assert traffic.connections == 0
    assert places._by_client == {}
