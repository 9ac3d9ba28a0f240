"""What the DSL costs: `pos` as a topology beside the same by hand, without Spark and Kafka: `make bench-dsl`.

Both sides get the same records and must write the same outputs and changes, byte by byte. The fan-out has no state;
loyalty keeps a total for each customer in RocksDB. What is timed is the processor time of a task: from records to
outputs, changes and applied stores.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from benchmarks.invoices import FIRST_TIME_MS, invoice_records
from benchmarks.results import Measure, write_results
from spark_apps.pos import LOYALTY_FACTOR, masked_lines, purchase, shipment, topology, with_purchase
from spark_apps.records import topics
from spark_apps.records.invoice import InvoiceSerde
from spark_apps.records.money import PointsFactor
from spark_apps.records.purchase import Notification, PrimePurchase
from state.rewards import Rewards
from storekeeper.apps.records import PoisonRecordError, has_key_and_value
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import described
from storekeeper.serdes.timestamped import STAMP_BYTES, stamped
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.rocksdb_sealed import SealedSupplier, open_sealed
from storekeeper.topology.records import DeadLetter, Output, Outputs, Record, StoreChange
from storekeeper.topology.sub_topology import SubTopology
from storekeeper.topology.task import Task

BATCH = 25_000
CUSTOMERS = 50_000
PURCHASES = "purchases"


class Side(Protocol):
    """A task, in one way of writing it."""

    def batch(self, records: Sequence[Record]) -> tuple[Outputs, list[StoreChange]]:
        """Processes records; returns what it writes."""


class ByTopology:
    """A sub-topology of the app."""

    def __init__(self, sub: SubTopology, folder: Path) -> None:
        self._task = Task(sub, 0, SealedSupplier(folder))

    def batch(self, records: Sequence[Record]) -> tuple[Outputs, list[StoreChange]]:
        """Processes records; returns what it writes."""
        self._task.process(records)
        batch = self._task.end_batch()
        self._task.apply()
        return dict(batch.outputs), list(batch.changes)


class FanOutByHand:
    """Shipments, masked line items and purchases of prime customers."""

    def __init__(self, settings: AppSettings, purchases: str, encode: Callable[[PrimePurchase], bytes]) -> None:
        self._decode = InvoiceSerde(settings.max_record_bytes).deserialize
        self._purchases = purchases
        self._encode = encode
        self._factor = PointsFactor(LOYALTY_FACTOR)
        self._dead: list[DeadLetter] = []

    def batch(self, records: Sequence[Record]) -> tuple[Outputs, list[StoreChange]]:
        """Processes records; returns what it writes."""
        encode, decode = self._encode, self._decode
        purchases, factor = self._purchases, self._factor
        hadoop_sink, shipments = topics.HADOOP_SINK, topics.SHIPMENT
        outputs: dict[str, list[Any]] = {hadoop_sink: [], shipments: [], purchases: []}
        lines, shipped, earned = (outputs[topic].append for topic in (hadoop_sink, shipments, purchases))
        for record in records:
            key, timestamp_ms, headers = record.key, record.timestamp_ms, record.headers
            try:
                sale = None if record.value is None else decode(record.value)
                has_key_and_value(key, sale, timestamp_ms)
            except PoisonRecordError as error:
                self._dead.append(DeadLetter(record, str(error), type(error).__name__))
                continue
            if key is None or sale is None:
                continue
            for store, line in masked_lines(key, sale):
                lines((store, line, timestamp_ms, headers))
            for store, data in shipment(key, sale):
                shipped((store, data, timestamp_ms, headers))
            for card, bought in purchase(factor, key, sale):
                earned((card.encode(), encode(bought), timestamp_ms, headers, *record[:3]))
        return outputs, []


class LoyaltyByHand:
    """Totals of customers, and a notification of each purchase."""

    def __init__(self, topic: str, store: str, decode: Callable[[bytes], PrimePurchase], folder: Path) -> None:
        self._topic, self._store = topic, store
        self._decode = decode
        self._rows: BytesStore = open_sealed(folder / "by-hand", "by-hand")
        self._encode_rewards = msgspec.json.Encoder(decimal_format="number").encode
        self._decode_rewards = msgspec.json.Decoder(Rewards).decode

    def batch(self, records: Sequence[Record]) -> tuple[Outputs, list[StoreChange]]:
        """Processes records; returns what it writes."""
        outputs: list[Output] = []
        totals: dict[bytes, tuple[Rewards, int]] = {}
        encode, decode, get = self._encode_rewards, self._decode, self._rows.get
        for record in records:
            key, value, timestamp_ms = record.key, record.value, record.timestamp_ms
            if key is None or value is None:
                continue
            card, bought = key.decode(), decode(value)
            known = totals.get(key)
            if known is None:
                stored = get(key)
                known = (
                    (Rewards(), 0)
                    if stored is None
                    else (self._decode_rewards(stored[STAMP_BYTES:]), int.from_bytes(stored[:STAMP_BYTES], "big"))
                )
            rewards = with_purchase(card, known[0], bought)
            totals[key] = (rewards, max(known[1], timestamp_ms))
            notification = encode(Notification.of(card, bought, rewards))
            outputs.append((card.encode(), notification, timestamp_ms, record.headers))
        changes, entries = [], []
        for key, (rewards, timestamp_ms) in totals.items():
            data = encode(rewards)
            changes.append(StoreChange(self._store, key, data, timestamp_ms))
            entries.append((key, stamped(data, timestamp_ms)))
        self._rows.write(entries)
        return {self._topic: outputs}, changes


@dataclass(frozen=True, slots=True)
class Part:
    """A part of `pos` in both ways, and what it reads."""

    name: str
    by_topology: Side
    by_hand: Side
    batches: list[list[Record]]

    def pairs(self, runs: int) -> Iterator[tuple[float, float]]:
        """Microseconds a record, by topology and by hand: the same batches, in turns, the first one to warm up."""
        took: list[tuple[float, float]] = []
        for number, records in enumerate(self.batches):
            sides: list[Side] = [self.by_topology, self.by_hand]
            seconds, written = {}, {}
            for side in sides if number % 2 else reversed(sides):
                gc.collect()
                began_s = time.process_time()
                written[side] = side.batch(records)
                seconds[side] = (time.process_time() - began_s) / len(records) * 1e6
            if written[self.by_topology] != written[self.by_hand]:
                msg = f"{self.name}: the two ways do not write the same"
                raise AssertionError(msg)
            if number:
                took.append((seconds[self.by_topology], seconds[self.by_hand]))
        per_run = len(took) // runs
        for first in range(0, per_run * runs, per_run):
            run = took[first : first + per_run]
            yield sum(ours for ours, _ in run) / per_run, sum(hand for _, hand in run) / per_run


def _parts(batches: int, folder: Path) -> Iterator[Part]:
    settings = AppSettings(run_dir=folder)
    described_pos = described("pos", topology, settings)
    fan_out, loyalty = described_pos.sub_topologies
    [repartition] = described_pos.repartitions
    purchases = repartition.topic
    invoices = [
        Record(topics.POS, 0, number, FIRST_TIME_MS + number, record.key, record.value)
        for number, record in enumerate(invoice_records(batches * BATCH, CUSTOMERS))
    ]
    serde: Any = repartition.value_serde
    by_hand = FanOutByHand(settings, purchases, serde.serialize)
    reading = list(_cut(invoices))
    yield Part("Fan-out", ByTopology(fan_out, folder / "fan-out"), by_hand, reading)
    bought = [
        Record(purchases, 0, number, timestamp_ms, key, value)
        for number, (key, value, timestamp_ms, *_) in enumerate(
            output for records in reading for output in by_hand.batch(records)[0][purchases]
        )
    ]
    [rewards] = loyalty.stores
    hand = LoyaltyByHand(topics.LOYALTY, rewards.name, serde.deserialize, folder)
    yield Part("Loyalty", ByTopology(loyalty, folder / "loyalty"), hand, list(_cut(bought)))


def _cut(records: list[Record]) -> Iterator[list[Record]]:
    yield from (records[first : first + BATCH] for first in range(0, len(records) - BATCH + 1, BATCH))


def main() -> None:
    """Measures both parts and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=26, help=f"of {BATCH} invoices")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="a short run that writes no results")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.batches, arguments.runs = 8, 1
    gc.disable()
    measures = []
    with tempfile.TemporaryDirectory(prefix="bench-dsl-") as folder:
        for part in _parts(arguments.batches, Path(folder)):
            pairs = list(part.pairs(arguments.runs))
            ours, by_hand = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            title = f"{part.name} of `pos`, processor time of a task"
            measures.append(Measure(title, "us/record", ours, by_hand, "written by hand", higher_is_better=False))
            print(part.name, [f"{one:.2f} / {other:.2f}" for one, other in pairs], flush=True)
    if not arguments.smoke:
        print(write_results("dsl", measures, {"batch": BATCH, "batches": arguments.batches, "customers": CUSTOMERS}))


if __name__ == "__main__":
    main()
