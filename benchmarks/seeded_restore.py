"""Restore of replicas from a sealed table and the changelog's tail, beside Kafka Streams: `make bench-seeded-restore`.

Kafka Streams replays the same topic, in turns with ours. Ours is timed as in `bench-restore`: the table's seal is
checked, with all files read, and one record in a hundred comes behind the table. No record is compacted away, as in the
time that `min.compaction.lag.ms` protects, so a key that changed ten times has ten records.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from benchmarks import restore
from benchmarks.restore import HEADERS, PARTITIONS, TOPIC
from benchmarks.results import Measure, write_results
from harness.broker import Broker, start_broker
from harness.changelog_writer import KafkaChangelogWriter
from storekeeper.changelog.partitioner import partition_for
from storekeeper.changelog.position import Position
from storekeeper.changelog.scan import Changelog
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.columns import StoreValues, derived_columns, snapshot_schema
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.seal import SealedTable
from storekeeper.snapshots.seed_tables import SeedTables
from storekeeper.stores.row_digest import moved, row_hash

FIELDS = (
    ValueField("CustomerCardNo", "string"),
    ValueField("TotalLoyaltyPoints", "decimal(18,4)"),
    ValueField("InvoiceCount", "int"),
    ValueField("LastInvoiceTime", "bigint"),
)
_TAIL = 100
_BATCH = 100_000


def row(number: int, update: int) -> tuple[bytes, bytes]:
    """An update of a customer, as in `bench-restore`."""
    card = b"%010d" % number
    points = b"%d.%04d" % ((number + update) % 100_000, number % 10_000)
    return (
        card,
        b'{"CustomerCardNo":"%b","TotalLoyaltyPoints":%b,"InvoiceCount":%d,"LastInvoiceTime":1700000000%03d}'
        % (card, points, update % 50, number % 1000),
    )


def fill(bootstrap: str, keys: int, updates: range) -> None:
    """Updates each key, as often as there are updates."""
    with KafkaChangelogWriter(bootstrap, TOPIC) as writer:
        for update in updates:
            writer.write((row(number, update) for number in range(keys)), HEADERS)


def write_table(folder: Path, log: Changelog, keys: int, update: int) -> None:
    """The sealed table of what the changelog holds. Offsets of rows, which no restore needs, are not the real ones."""
    sealed = SealedTable(folder / "delta" / "rewards", folder / "seals" / "rewards.json")
    values, now_ms = StoreValues(FIELDS), int(time.time() * 1000)
    columns = values.following({})
    read, schema, digests = values.reader(), snapshot_schema(columns), dict.fromkeys(range(PARTITIONS), 0)
    ends = {partition: log.committed(partition)[1] for partition in log.partitions}

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, keys, _BATCH):
            numbers = range(first, min(first + _BATCH, keys))
            cards, contents = zip(*(row(number, update) for number in numbers), strict=True)
            partitions = [partition_for(card, PARTITIONS) for card in cards]
            for card, content, partition, number in zip(cards, contents, partitions, numbers, strict=True):
                added = row_hash(card, content, number, now_ms)
                digests[partition] = moved(digests[partition], added=added, removed=0)
            typed = derived_columns(contents, columns, read)
            place = [partitions, numbers, [now_ms] * len(numbers), cards, contents]
            arrays = [pa.array(each, kind) for each, kind in zip(place, snapshot_schema({}).types, strict=True)]
            yield pa.record_batch([*typed, *arrays], schema=schema)

    rows = list(batches())  # the digests are in the commit
    manifest = SnapshotManifest(
        store="rewards",
        app="pos",
        generation=1,
        schema_version=1,
        changelog_topic=TOPIC,
        changelog_offsets=ends,
        source_offsets=Position(),
        row_count=keys,
        digests=digests,
        writer="benchmark",
        delta_version=0,
        columns=columns,
        batch_ms=now_ms,
        changelog_id=log.facts.topic_id,
        one_version=True,
    )
    with sealed.writing(0):
        write_deltalake(
            str(sealed.path),
            pa.RecordBatchReader.from_batches(schema, iter(rows)),
            commit_properties=CommitProperties(custom_metadata={"userMetadata": manifest.to_json()}),
        )


def measured(broker: Broker, folder: Path, updates: int, *, keys: int, runs: int, workers: int) -> Measure:
    """Restores of a topic in which each key was updated that often."""
    # Two days: nothing is compacted, and the table's tombstones are there.
    config = {"cleanup.policy": "compact", "segment.bytes": str(1 << 30), "min.compaction.lag.ms": "172800000"}
    broker.create_topic(TOPIC, PARTITIONS, config)
    fill(broker.bootstrap, keys, range(updates))
    log = Changelog(broker.kafka, TOPIC)
    write_table(folder, log, keys, updates - 1)
    with KafkaChangelogWriter(broker.bootstrap, TOPIC) as writer:
        writer.write((row(number, updates) for number in range(0, keys, _TAIL)), HEADERS)
    seeds = SeedTables(str(folder / "delta"), str(folder / "seals"))
    ours, peer = [], []
    for run in range(runs):
        root = folder / f"run-{run}"
        records = keys * updates + keys // _TAIL
        ours.append(keys / (records / restore.restore_ours(broker.kafka, root / "ours", workers, seeds)))
        peer.append(keys / (records / restore.restore_peer(broker.bootstrap, root / "peer")))
        print(f"{updates} updates, run {run}: ours {ours[-1]:,.0f} keys/s, Kafka Streams {peer[-1]:,.0f}", flush=True)
        shutil.rmtree(root)
    return Measure(
        f"{updates} update{'s' * (updates > 1)} a key", "keys/s", ours, peer, "Kafka Streams 4.2 global table, a replay"
    )


def main() -> None:
    """Runs the benchmark and writes its results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--updates", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    measures = []
    for updates in arguments.updates:
        folder = Path(tempfile.mkdtemp(prefix="seeded-restore-"))
        broker = start_broker(folder / "broker")  # one for each topic: a hundred updates are 6 GB
        try:
            measures.append(
                measured(broker, folder, updates, keys=arguments.keys, runs=arguments.runs, workers=arguments.workers)
            )
        finally:
            broker.stop()
            shutil.rmtree(folder)
    settings = {name: value for name, value in vars(arguments).items() if name != "runs"}
    print(write_results("seeded_restore", measures, settings))


if __name__ == "__main__":
    main()
