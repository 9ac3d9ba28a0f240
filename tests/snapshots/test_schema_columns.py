"""Snapshots of values by the schemas of a real registry, by a real Spark: typed columns that follow their schema."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from harness.broker import Broker
from harness.schema_registry import RegistryProcess
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.apps.value_fields import fields_of
from storekeeper.errors import SnapshotDamagedError
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.bound import bound_to
from storekeeper.schemas.errors import SchemaRegistryUnavailableError
from storekeeper.schemas.registry import registry_of
from storekeeper.snapshots.columns import PLACE_MEANINGS, values_of
from storekeeper.snapshots.seal import SealedTable
from storekeeper.snapshots.sql import query
from storekeeper.snapshots.table_restore import last_snapshot, restore_snapshot
from tests.local_tables import local_table
from tests.schemas.samples import MONEY
from tests.snapshots.attacks import edited
from tests.snapshots.played_app import App, proven

pytestmark = [pytest.mark.broker]

_numbers = itertools.count()
CARD = {"name": "card", "type": "string"}
AMOUNT = {"name": "amount", "type": MONEY}
TILL = {"name": "till", "type": ["null", "string"], "default": None}
LINES = {"name": "lines", "type": {"type": "array", "items": MONEY}, "default": []}


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Purchase", "fields": list(fields)}


class Shop(App):
    """Keeps purchases in Avro."""

    def use(
        self, schema: dict[str, Any], value_of: Callable[[str], dict[str, Any]], *, writes_only: bool = False
    ) -> None:
        """The app's next version: it writes by another schema. With `writes_only` the snapshot job is older than it."""
        registry = registry_of(self.settings.kafka_properties)
        serde = bound_to(AvroSerde(schema), self.store.changelog_topic, registry)
        serde.prepare()
        self.encode = lambda word: serde.serialize(value_of(word))
        if not writes_only:
            fields = tuple(replace(item, meaning=f"The {item.name}.") for item in fields_of(serde))
            self.store = replace(self.store, value_fields=fields)

    def sql(self, columns: str) -> list[tuple[Any, ...]]:
        return list(query(self.settings.tables, f"SELECT {columns} FROM purchases ORDER BY _key").rows)  # noqa: S608

    @property
    def columns(self) -> list[str]:
        """Those of the table that follow from values."""
        return [item.name for item in self.table.schema().fields if not item.name.startswith("_")]

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.path)

    @property
    def path(self) -> Path:
        return local_table(self.settings, self.store.name)


@pytest.fixture
def shop(broker: Broker, schema_registry: RegistryProcess, tmp_path: Path) -> Iterator[Shop]:
    file = schema_registry.client_file(register=True)
    settings = AppSettings(run_dir=tmp_path, kafka_bootstrap=broker.bootstrap, kafka_properties=file)
    store = StoreSpec("purchases", f"schema-snapshots-{next(_numbers)}", (), by_schema=True)
    broker.create_topic(store.changelog_topic, config={"cleanup.policy": "compact"})
    made = Shop(broker, settings, store)
    made.use(record(CARD, AMOUNT), lambda word: {"card": word, "amount": Decimal("1.2500")})
    yield made
    registry_of(file).close()


@pytest.mark.long("test_schema_proof.py has the columns as they grow, without Spark")
def test_a_snapshot_after_an_evolution_has_the_new_columns_in_the_rows_of_before_too(shop: Shop) -> None:
    shop.write(0, {"a": "ale", "b": "bread"})
    # The snapshot job is older than the app, and doesn't know the new fields yet.
    shop.use(
        record(CARD, AMOUNT, TILL, LINES),
        lambda word: {"card": word, "amount": Decimal(2), "till": "t1", "lines": [Decimal("0.5")]},
        writes_only=True,
    )
    shop.write(1, {"b": "beer"})
    shop.commit(1)
    shop.check(shop.snapshot()[0])
    assert shop.sql("card, amount") == [("ale", Decimal("1.2500")), ("beer", Decimal("2.0000"))]
    assert shop.columns == ["card", "amount"]
    assert proven(shop) == ()

    shop.use(record(CARD, AMOUNT, TILL, LINES), lambda word: {"card": word, "amount": Decimal(3), "till": "t2"})
    manifest, changed = shop.snapshot()
    assert changed == 2, "all rows are written again"
    shop.check(manifest)
    assert shop.columns == ["card", "amount", "till", "lines"]
    assert shop.sql("card, till, lines") == [("ale", None, None), ("beer", "t1", "[0.5000]")]
    assert proven(shop) == ()


@pytest.mark.long("test_schema_proof.py has the columns as they grow, without Spark")
def test_columns_come_and_never_go(shop: Shop) -> None:
    shop.snapshot()
    assert shop.columns == ["card", "amount"], "an empty table has them too"
    shop.write(0, {"a": "ale", "b": "bread"})
    shop.commit(0)
    shop.check(shop.snapshot()[0])

    shop.use(record(CARD, AMOUNT, TILL), lambda word: {"card": word, "amount": Decimal(2), "till": "t1"})
    shop.write(1, {"b": "beer", "c": "cider"})
    shop.commit(1)
    manifest, _ = shop.snapshot()
    shop.check(manifest)
    assert shop.columns == ["card", "amount", "till"]
    assert shop.snapshot() == (manifest, None)

    # A field that goes keeps its column. The same snapshot deletes a row.
    paid = {"name": "paid", "type": {"type": "long", "logicalType": "timestamp-micros"}, "default": 0}
    shop.use(record(CARD, AMOUNT, paid), lambda word: {"card": word, "amount": Decimal(4), "paid": 1_500_000})
    shop.write(2, {"a": None, "d": "dough"})
    shop.commit(2)
    shop.check(shop.snapshot()[0])
    assert shop.columns == ["card", "amount", "till", "paid"]
    said = {name: text for name, text in shop.comments().items() if name and name not in PLACE_MEANINGS}
    assert said == {"card": "The card.", "amount": "The amount.", "till": "The till.", "paid": "The paid."}
    assert PLACE_MEANINGS.items() <= shop.comments().items()
    assert shop.sql("card, amount, till, epoch_us(paid)") == [
        ("beer", Decimal("2.0000"), "t1", None),
        ("cider", Decimal("2.0000"), "t1", None),
        ("dough", Decimal("4.0000"), None, 1_500_000),
    ]
    assert proven(shop) == ()
    statistics = pa.table(shop.table.get_add_actions(flatten=True)).column_names
    assert not {name for name in statistics if name.endswith((".card", ".amount", ".till", "._value", "._key"))}
    shop.write(3, {"e": "endive"})
    shop.commit(3)
    shop.check(shop.snapshot()[0])
    assert proven(shop) == ()

    shop.write(4, {"b": None})
    shop.commit(4)
    shop.now_ms += 86_400_000  # tombstones may be gone: all rows are replaced
    manifest, changed = shop.snapshot()
    assert changed == 5
    shop.check(manifest)
    assert shop.columns == ["card", "amount", "till", "paid"]
    assert proven(shop) == ()


@pytest.mark.long("tests/snapshots/test_schema_proof.py")
def test_a_column_that_changed_in_the_table_is_found_and_undone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, schema_registry: RegistryProcess
) -> None:
    shop.write(0, {"a": "ale", "b": "bread"})
    shop.commit(0)
    shop.snapshot()
    shop.table.update(updates={"amount": "99.0"}, predicate="card = 'ale'")
    shop.write(1, {"c": "cider"})
    shop.commit(1)
    with pytest.raises(SnapshotDamagedError, match="snapshot restore purchases"):
        shop.snapshot()
    sealed = SealedTable.of(shop.settings, shop.store.name)
    manifest = last_snapshot(sealed)
    assert manifest is not None
    assert restore_snapshot(sealed, manifest, values_of(shop.store, shop.settings)) is not None
    assert shop.sql("amount") == [(Decimal("1.2500"),)] * 2
    files = {file: file.read_bytes() for file in shop.path.rglob("*") if file.is_file()}
    edited("amount", Decimal("99.0000"))(shop.path)
    assert "column amount isn't what the row's value says" in proven(shop)[1]
    with pytest.raises(SnapshotDamagedError, match=r"json was changed, .*and 1 more"):
        shop.snapshot()
    for file, content in files.items():
        file.write_bytes(content)

    before = sealed.current()
    shop.settings = shop.settings.model_copy(
        update={"kafka_properties": schema_registry.client_file(register=True, port=1)}
    )
    with pytest.raises(SchemaRegistryUnavailableError):
        shop.snapshot()
    assert sealed.current() == before, "a registry that is away is not damage"
