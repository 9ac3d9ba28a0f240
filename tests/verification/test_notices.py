"""Records that no task of the app would write there are counted, and the first one is named."""

from __future__ import annotations

import pytest

from storekeeper.changelog.log_record import CleanupAction, LogRecord, cleanup_headers
from storekeeper.changelog.partitioner import partition_for
from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.versions import version_row_key
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.stores.store_definitions import ServedKind
from storekeeper.verification.notices import ChangelogNotices

OWN = (("schema-version", b"1"), ("batch-id", b"7"))
BARE = (("schema-version", b"1"),)


def sentences(kind: ServedKind, partition: int, *records: LogRecord) -> list[str]:
    notices = ChangelogNotices(4, kind)
    assert list(notices.observed(partition, records)) == list(records)
    return notices.sentences


def test_what_the_app_and_clean_ups_write_is_no_notice() -> None:
    home = partition_for(b"card-1", 4)
    deletion = tuple(cleanup_headers(BARE, "c", CleanupAction.DELETE, 0))
    records = LogRecord(0, 0, b"card-1", b"1", OWN), LogRecord(1, 0, b"card-1", None, deletion)
    assert sentences(ServedKind.KEY_VALUE, home, *records) == []


@pytest.mark.parametrize(
    ("kind", "row_key"),
    [
        (ServedKind.KEY_VALUE, b"card-1"),
        (ServedKind.WINDOW, window_row_key(b"card-1", 5000)),
        (ServedKind.SESSION, session_row_key(b"card-1", 5000, 9000)),
        (ServedKind.VERSIONED, version_row_key(b"card-1", 5000)),
    ],
)
def test_a_record_in_another_partition_is_named_whatever_the_keys_are(kind: ServedKind, row_key: bytes) -> None:
    home = partition_for(b"card-1", 4)
    record = LogRecord(3, 0, row_key, b"1", OWN)
    assert sentences(kind, home, record) == []
    away = (home + 1) % 4
    (sentence,) = sentences(kind, away, record, record._replace(offset=4))
    assert sentence.startswith(f"changelog, partition {away}: 2 records whose keys nodes look for in another partition")
    assert "first at offset 3" in sentence
    assert "card" not in sentence


def test_a_record_of_no_batch_is_named() -> None:
    home = partition_for(b"card-1", 4)
    records = LogRecord(9, 0, b"card-1", None), LogRecord(10, 0, b"card-1", b"1", BARE)
    (sentence,) = sentences(ServedKind.KEY_VALUE, home, *records)
    assert sentence.startswith(
        f"changelog, partition {home}: 2 records of no batch of the app and no clean-up, first at "
    )


@pytest.mark.parametrize("kind", [ServedKind.WINDOW, ServedKind.SESSION, ServedKind.VERSIONED])
def test_a_key_that_is_none_of_the_store_is_no_crash(kind: ServedKind) -> None:
    for key in (b"", b"x", b"\xff" * 40, b"\x00" * 30):
        sentences(kind, 0, LogRecord(0, 0, key, b"1", OWN))
