"""How many connections there may be, and which give way."""

from __future__ import annotations

from storekeeper.node.query.http.limiter import ConnectionLimiter
from storekeeper.node.query.protection.request_counts import Traffic


class FakeConnection:
    def __init__(self, idle_since_s: float | None = None, *, has_unread_request: bool = False) -> None:
        self.idle_since_s = idle_since_s
        self.has_unread_request = has_unread_request
        self.closed = False

    def abort(self) -> None:
        self.closed = True


def add(limiter: ConnectionLimiter, *connections: FakeConnection, client: str = "10.0.0.1") -> None:
    for connection in connections:
        assert limiter.add(connection, client)


def closed(*connections: FakeConnection) -> list[bool]:
    return [connection.closed for connection in connections]


def test_silent_connections_give_way_and_none_that_is_answered_does() -> None:
    traffic = Traffic()
    limiter = ConnectionLimiter(32, 32, traffic)
    answered, silent = FakeConnection(), [FakeConnection(float(number)) for number in range(100)]
    add(limiter, answered, *silent)
    assert not answered.closed
    assert sum(closed(*silent)) == 69
    assert traffic.refused == {"connections-of-client": 69}
    assert traffic.connections == 32


def test_a_new_connection_among_many_silent_ones_has_time_for_its_request() -> None:
    limiter = ConnectionLimiter(512, 512, Traffic())
    add(limiter, *(FakeConnection(float(number)) for number in range(600)))
    caller = FakeConnection(600.0)
    add(limiter, caller)
    add(limiter, *(FakeConnection(601.0 + number) for number in range(400)))
    assert not caller.closed, "older ones give way"


def test_the_connection_that_was_idle_longest_gives_way() -> None:
    traffic = Traffic()
    limiter = ConnectionLimiter(3, 3, traffic)
    answered, long, short = FakeConnection(), FakeConnection(1.0), FakeConnection(5.0)
    add(limiter, answered, long, short)
    add(limiter, FakeConnection())
    assert closed(answered, long, short) == [False, True, False]
    assert traffic.connections == 3


def test_a_connection_whose_request_has_arrived_does_not_give_way() -> None:
    limiter = ConnectionLimiter(3, 3, Traffic())
    asks, idle, last = FakeConnection(1.0, has_unread_request=True), FakeConnection(5.0), FakeConnection(6.0)
    add(limiter, asks, idle, last)
    add(limiter, FakeConnection())
    assert closed(asks, idle, last) == [False, True, False]


def test_an_idle_connection_behind_many_whose_request_has_arrived_is_found() -> None:
    limiter = ConnectionLimiter(100, 100, Traffic())
    asks, idle = [FakeConnection(float(at), has_unread_request=True) for at in range(99)], FakeConnection(200.0)
    add(limiter, *asks, idle)
    add(limiter, FakeConnection(300.0))
    assert idle.closed
    assert not any(closed(*asks))


def test_one_address_takes_no_more_than_its_share() -> None:
    traffic = Traffic()
    limiter = ConnectionLimiter(10, 2, traffic)
    first, other = FakeConnection(1.0), FakeConnection(0.0)
    add(limiter, other, client="10.0.0.2")
    add(limiter, first, FakeConnection(2.0), FakeConnection(3.0))
    assert closed(first, other) == [True, False]
    assert traffic.refused == {"connections-of-client": 1}


def test_many_addresses_together_have_a_limit() -> None:
    traffic = Traffic()
    limiter = ConnectionLimiter(4, 2, traffic)
    connections = [FakeConnection(float(number)) for number in range(6)]
    for number, connection in enumerate(connections):
        add(limiter, connection, client=f"10.0.0.{number}")
    assert closed(*connections) == [True, True, False, False, False, False]
    assert traffic.refused == {"connections": 2}


def test_an_idle_connection_behind_many_that_are_answered_is_found() -> None:
    limiter = ConnectionLimiter(100, 100, Traffic())
    answered, idle = [FakeConnection() for _ in range(99)], FakeConnection(1.0)
    add(limiter, *answered, idle, FakeConnection())
    assert idle.closed
    assert not any(closed(*answered))


def test_where_all_are_answered_one_more_is_refused() -> None:
    traffic = Traffic()
    limiter = ConnectionLimiter(10, 2, traffic)
    busy, late = [FakeConnection(), FakeConnection()], FakeConnection()
    add(limiter, *busy)
    assert not limiter.add(late, "10.0.0.1")
    assert not any(closed(*busy))
    assert traffic.refused == {"connections-of-client": 1}
    limiter.remove(busy[0])
    assert limiter.add(late, "10.0.0.1")


def test_a_connection_that_has_ended_is_forgotten() -> None:
    traffic = Traffic()
    limiter = ConnectionLimiter(4, 4, traffic)
    connections = [FakeConnection() for _ in range(3)]
    add(limiter, *connections)
    for connection in connections:
        limiter.remove(connection)
        limiter.remove(connection)
    assert traffic.connections == 0
    assert limiter._by_client == {}
