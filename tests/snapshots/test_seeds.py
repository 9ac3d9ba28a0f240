"""The table of a played app as a seed: its rows are those that the changelog leaves at the manifest's offsets."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from storekeeper.changelog.headers import SCHEMA_VERSION, schema_version_of
from storekeeper.changelog.log_record import LogRecord
from storekeeper.changelog.restore import Seed, SeedRefusal
from storekeeper.errors import ChangelogError, SnapshotDamagedError
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.seeds import TableSeed, newest_seed
from storekeeper.stores.row import encode_row
from tests.snapshots.played_log import PARTITIONS, PlayedLog, PlayedStore, batch_of

BEGIN_MS = 1_760_000_000_000


@pytest.fixture
def played(tmp_path: Path) -> PlayedStore:
    return PlayedStore(tmp_path, PlayedLog("log-1"))


def seed_of(played: PlayedStore) -> TableSeed:
    sealed = played.entry().sealed
    assert sealed is not None
    found = newest_seed(sealed)
    assert found is not None
    return found


def left(log: PlayedLog, partition: int, end: int) -> dict[bytes, bytes]:
    """The rows that the records below an offset leave."""
    rows: dict[bytes, bytes] = {}
    for record in log.scan(partition, 0, end):
        assert record.key is not None
        if record.value is None:
            rows.pop(record.key, None)
        else:
            version = schema_version_of(record.headers)
            rows[record.key] = encode_row(record.value, schema_version=version, timestamp_ms=record.timestamp_ms)
    return rows


def loaded(seed: TableSeed) -> list[dict[bytes, bytes]]:
    found: list[dict[bytes, bytes]] = [{} for _ in range(PARTITIONS)]
    for partition, rows in seed.rows(range(PARTITIONS)):
        found[partition] |= {
            key: encode_row(value, schema_version=seed.schema_version, timestamp_ms=at_ms) for key, value, at_ms in rows
        }
    return found


@pytest.mark.parametrize("number", range(4))
def test_after_any_snapshot_the_rows_are_those_of_the_changelog(played: PlayedStore, number: int) -> None:
    rng = random.Random(number)
    for batch in range(10):
        at_ms = BEGIN_MS + batch * 1000
        played.log.batch(batch, at_ms, {rng.choice("abcdefgh"): rng.choice(["ale", None]) for _ in range(4)})
        if rng.random() < 0.6 or not batch:
            played.now_ms = at_ms + 60_000
            played.take(batch_of(1, batch, at_ms), batch)
            seed = seed_of(played)
            for partition, rows in enumerate(loaded(seed)):
                of_partition = seed.of(partition)
                assert isinstance(of_partition, Seed)
                assert (of_partition.topic, of_partition.topic_id, of_partition.partition) == (
                    "log-1",
                    "id-1",
                    partition,
                )
                assert rows == left(played.log, partition, of_partition.offset)
            assert at_ms <= seed.verified.manifest.batch_ms <= played.now_ms


def test_rows_of_another_schema_version_make_it_no_seed(played: PlayedStore) -> None:
    """Its table does not have the versions of rows. A changelog may have records that the app did not write."""
    played.log.batch(0, BEGIN_MS, {"a": "ale"})
    record = played.log.logs[1][0]
    headers = [(name, b"7" if name == SCHEMA_VERSION else value) for name, value in record.headers]
    played.log.logs[1][0] = LogRecord(*record[:4], headers)
    played.take(batch_of(1, 0, BEGIN_MS), 0)
    assert seed_of(played).of(1) is SeedRefusal.SEVERAL_VERSIONS
    played.log.batch(1, BEGIN_MS + 1000, {"b": "bread"})
    played.now_ms += 5000
    played.take(batch_of(1, 1, BEGIN_MS + 1000), 1)
    assert seed_of(played).of(1) is SeedRefusal.SEVERAL_VERSIONS, "the row is still there"


def test_a_table_without_its_seal_is_none(played: PlayedStore) -> None:
    played.log.batch(0, BEGIN_MS, {"a": "ale"})
    played.take(batch_of(1, 0, BEGIN_MS), 0)
    sealed = played.entry().sealed
    assert sealed is not None
    assert isinstance(sealed.file, Path)
    sealed.file.unlink()
    with pytest.raises(SnapshotDamagedError, match="has no seal"):
        newest_seed(sealed)


def test_nothing_builds_on_a_topic_that_was_made_anew(played: PlayedStore) -> None:
    """Its records are others, though offsets may fit. The tables may be the last copy."""
    played.log.batch(0, BEGIN_MS, {"a": "ale"})
    played.take(batch_of(1, 0, BEGIN_MS), 0)
    before = {suffix: [*(played.root / f"words{suffix}").rglob("*")] for suffix in ("", HISTORY)}
    played.log.batch(1, BEGIN_MS + 1000, {"a": "anise"})
    played.changelog_id = "id-2"
    with pytest.raises(ChangelogError, match=r"log-1 was deleted and recreated .*generation plan app --from tables"):
        played.take(batch_of(1, 1, BEGIN_MS + 1000), 1)
    assert {suffix: [*(played.root / f"words{suffix}").rglob("*")] for suffix in ("", HISTORY)} == before
