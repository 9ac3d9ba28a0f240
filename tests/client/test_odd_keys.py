"""Keys with characters that paths and routes give a meaning to, through both clients and real nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from storekeeper.errors import InvalidArgumentError
from tests.client.both import PATIENT, Awaiting, Blocking, Either
from tests.client.served_cluster import BEGAN_MS, HOUR_MS, ServedCluster, served_cluster

AT_MS = BEGAN_MS + 100 * HOUR_MS
KEYS: list[str | bytes] = [
    *("active", "active/", "active\n", "ended", "ended/1/2", "ended/1/2\n", "ended/1/2/3", "all", "all/1/2", "a/1/2"),
    *("/", "//", "/a", "a/../b", "../a", ".", "..", "%", "%2F", "a%2Fb", "+", " ", "?", "#", "&", "a@5", "==", "{key}"),
    *("a\nb", "\n", "\r\n", "\0", "ä", b"\xff", b"\xff/\xfe", b"ended/\xff/1", b"a\n\xff"),
]  # fmt: skip


@pytest.fixture(scope="module")
def odd() -> Iterator[ServedCluster]:
    with served_cluster() as found:
        for number, key in enumerate(KEYS):
            raw = key.encode() if isinstance(key, str) else key
            found.cluster.write("rewards", raw, b"%d" % number)
            found.cluster.write("players", raw, b'{"Score": %d}' % number)
            found.cluster.write_window(raw, AT_MS, b"%d" % number)
            found.cluster.write_session(raw, AT_MS, AT_MS + 5, b"%d" % number)
            found.cluster.write_version(raw, AT_MS, b"%d" % number)
        yield found


@pytest.fixture
def asking(client: Either, odd: ServedCluster) -> Iterator[Blocking | Awaiting]:
    with client(*odd.addresses, limits=PATIENT) as found:
        yield found


def rows(found: list[Any]) -> list[tuple[Any, Any]]:
    return [(row.key, row.value) for row in found]


ROUTES: dict[str, Callable[[Blocking | Awaiting, str | bytes], Any]] = {
    "keyvalue": lambda asking, key: [(key, asking.get(key).value)],
    "keyvalues": lambda asking, key: [
        *asking.call(lambda client: client.key_value("rewards").get_many([key])).value.items()
    ],
    "range": lambda asking, key: rows(asking.rows(lambda client: client.key_value("rewards").range(key, key))),
    "prefix": lambda asking, key: [
        row for row in rows(asking.rows(lambda client: client.key_value("rewards").prefix_scan(key))) if row[0] == key
    ],
    "rank": lambda asking, key: [
        (rank.key, rank.score) for rank in [asking.call(lambda client: client.ranked("players").rank(key)).value]
    ],
    "windowed": lambda asking, key: rows(asking.rows(lambda client: client.window("sales").fetch(key, AT_MS, AT_MS))),
    "sessions": lambda asking, key: rows(
        asking.rows(lambda client: client.session("visits").find_sessions(key, AT_MS, AT_MS))
    ),
    "versioned": lambda asking, key: rows([asking.call(lambda client: client.versioned("prices").get(key)).value]),
    "versions": lambda asking, key: rows(asking.rows(lambda client: client.versioned("prices").history(key))),
}


@pytest.mark.parametrize("route", ROUTES)
def test_every_key_is_found(asking: Blocking | Awaiting, route: str) -> None:
    found: dict[str | bytes, Any] = {}
    for key in KEYS:
        try:
            found[key] = ROUTES[route](asking, key)
        except Exception as error:  # all that are refused are shown
            found[key] = error
    assert found == {key: [(key, number)] for number, key in enumerate(KEYS)}


def test_a_key_that_is_no_text_is_refused_by_name(asking: Blocking | Awaiting) -> None:
    for route in ROUTES.values():
        for key, why in (("\ud800", "surrogates"), ("", "at least one byte"), (b"", "at least one byte")):
            if not key and route is ROUTES["range"]:
                continue  # a bound may be empty
            with pytest.raises(InvalidArgumentError, match=why):
                route(asking, key)
