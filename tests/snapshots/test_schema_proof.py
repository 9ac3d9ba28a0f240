"""The typed columns of values by schemas are proven as those of JSON values are."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from storekeeper.apps.value_fields import fields_of
from storekeeper.errors import SnapshotDamagedError
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.bound import bound_to
from storekeeper.schemas.errors import SchemaRegistryUnavailableError
from storekeeper.schemas.json_schema import JsonSchemaSerde
from storekeeper.schemas.protobuf import ProtobufSerde
from storekeeper.schemas.registry import MemoryRegistry, SchemaRegistry
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.columns import StoreValues, derived_columns
from storekeeper.snapshots.proof import check_proven, prove
from storekeeper.snapshots.sql import query
from tests.schemas.samples import AVRO, AVRO_WITH_TILL, JSON, MONEY, Purchase, message
from tests.snapshot_tables import Row, manifest_of, sealed_at, write_snapshot
from tests.snapshots.attacks import ATTACKS, IN_THE_LOG, edited

LOG = "words-log"
WORDS = {
    "type": "record",
    "name": "Words",
    "fields": [
        {"name": "Word", "type": ["null", "string"]},
        {"name": "Amount", "type": MONEY},
        {"name": "Count", "type": "long"},
        {"name": "Ratio", "type": "double"},
        {"name": "At", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "Good", "type": ["null", "boolean"]},
    ],
}
FORMATS: list[Any] = [
    AvroSerde(AVRO, Purchase), JsonSchemaSerde(JSON, Purchase), ProtobufSerde(message(), Purchase)
]  # fmt: skip


def words(count: int, registry: SchemaRegistry) -> tuple[tuple[ValueField, ...], list[Row]]:
    """The fields of a schema, and rows of two partitions."""
    serde = bound_to(AvroSerde(WORDS), LOG, registry)
    content = [
        {
            "Word": f"word {number}" if number % 3 else None,
            "Amount": Decimal(number).scaleb(-4),
            "Count": number,
            "Ratio": 0.0 if number % 9 == 0 else number + 0.5,
            "At": datetime.fromtimestamp(1_600_000_000 + number, UTC),
            "Good": True if number % 3 else None,
        }
        for number in range(count)
    ]
    return fields_of(serde), [
        Row(number % 2, number // 2, 1_700_000_000_000 + number, b"card-%06d" % number, serde.serialize(each))
        for number, each in enumerate(content)
    ]


@pytest.fixture
def registry() -> SchemaRegistry:
    return MemoryRegistry()


@pytest.fixture
def table(tmp_path: Path, registry: SchemaRegistry) -> Path:
    """A snapshot of three hundred rows behind an earlier one, in two files, as in `test_proof.py`."""
    path = tmp_path / "words"
    fields, rows = words(300, registry)
    for held in (rows[:10], rows[:200]):
        first = write_snapshot(path, held, fields, registry=registry)
    manifest = manifest_of(rows, columns=first.columns, by_schema=True)
    write_snapshot(path, rows[200:], fields, registry=registry, mode="append", manifest=manifest)
    return path


def flaws(path: Path, values: StoreValues) -> tuple[str, ...]:
    try:
        verified = sealed_at(path).shown()
        assert verified is not None
        return prove(path, verified, values).flaws
    except SnapshotDamagedError as error:
        return (str(error),)


def test_an_untouched_table_is_proven_and_sql_shows_its_columns(table: Path, registry: SchemaRegistry) -> None:
    assert flaws(table, StoreValues((), registry)) == (), "it needs nothing of the app's code"
    shown = query(table.parent, 'SELECT Word, Amount, Count, Ratio, epoch_ms("At"), Good FROM words WHERE Count = 4')
    assert [column.type for column in shown.columns][:4] == ["VARCHAR", "DECIMAL(18,4)", "BIGINT", "DOUBLE"]
    assert shown.rows == (("word 4", Decimal("0.0004"), 4, 4.5, 1_600_000_004_000, True),)


@pytest.mark.parametrize("attack", [name for name in ATTACKS if name not in IN_THE_LOG])
def test_an_attack_is_found(table: Path, registry: SchemaRegistry, attack: str) -> None:
    ATTACKS[attack](table)
    assert flaws(table, StoreValues((), registry)) != ()


@pytest.mark.parametrize("serde", FORMATS, ids=lambda serde: type(serde).__name__)
def test_a_column_of_each_format_that_changed_in_the_file_is_found(tmp_path: Path, serde: Any) -> None:
    registry = MemoryRegistry()
    bound = bound_to(serde, LOG, registry)
    rows = [
        Row(0, number, 1000, b"%d" % number, bound.serialize(Purchase(f"card {number}", Decimal(number))))
        for number in range(3)
    ]
    path, values = tmp_path / "words", StoreValues(fields_of(bound), registry)
    write_snapshot(path, rows, values.fields, registry=registry)
    assert flaws(path, values) == ()
    edited("card", "mallory")(path)
    assert flaws(path, values) == ("column card isn't what the row's value says in 1 rows, first • (1 bytes)",)


def test_a_registry_that_is_away_is_no_damage(table: Path) -> None:
    class Away(SchemaRegistry):
        def schema(self, schema_id: int) -> Any:
            raise SchemaRegistryUnavailableError("away")

    verified = sealed_at(table).shown()
    assert verified is not None
    with pytest.raises(SchemaRegistryUnavailableError):
        check_proven(table, verified, StoreValues((), Away(None)))


def test_the_columns_of_a_table_grow_with_the_schema_and_never_go() -> None:
    registry = MemoryRegistry()

    def fields(*kinds: tuple[str, str]) -> StoreValues:
        return StoreValues([ValueField(*kind) for kind in kinds], registry)

    columns: dict[str, str] = {}
    for declared, expected in (
        (fields(("card", "string"), ("sum", "bigint")), {"card": "string", "sum": "bigint"}),
        (fields(("sum", "double"), ("till", "string")), {"card": "string", "sum": "double", "till": "string"}),
        (fields(("Card", "bigint"), ("sum", "bigint")), {"card": "string", "sum": "double", "till": "string"}),
        (fields(("till", "boolean"), ("sum", "string")), {"card": "string", "sum": "string", "till": "string"}),
        (fields(("at", "date")), {"card": "string", "sum": "string", "till": "string", "at": "date"}),
    ):
        columns = declared.following(columns)
        assert list(columns.items()) == list(expected.items())


def test_the_columns_of_json_values_are_the_declared_ones() -> None:
    values = StoreValues([ValueField("Sum", "decimal(18, 4)")])
    for before in ({}, {"Old": "string"}):
        manifest = manifest_of([], columns=before)
        assert values.columns_of(manifest) == values.following(manifest.columns) == {"Sum": "decimal(18,4)"}


def test_a_row_shows_what_it_was_written_with_and_foreign_bytes_show_nothing() -> None:
    registry = MemoryRegistry()
    old, new = (bound_to(AvroSerde(schema), LOG, registry) for schema in (AVRO, AVRO_WITH_TILL))
    purchase = {"card": "7", "amount": Decimal("1.5")}
    values = [
        old.serialize(purchase), new.serialize(purchase | {"till": "t"}), None, b"{}", b"\0\x7f\0\0\0x", b"\0\0\0\0\x01"
    ]  # fmt: skip
    columns = {"card": "string", "amount": "decimal(18,4)", "till": "string"}
    card, amount, till = derived_columns(values, columns, StoreValues((), registry).reader())
    assert card.to_pylist() == ["7", "7", None, None, None, None]
    assert amount.to_pylist() == [Decimal("1.5000")] * 2 + [None] * 4
    assert till.to_pylist() == [None, "t", None, None, None, None]
