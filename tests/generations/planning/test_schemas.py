"""The plan of schemas, with a registry with given decisions. `test_schema_plan.py` has a real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storekeeper.apps import topology_app as module
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.errors import ConfigurationError
from storekeeper.generations.changes.contract import Description
from storekeeper.generations.changes.plan import Change, Plan, Verdict
from storekeeper.generations.planning import upgrade_check
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.errors import UnregisteredSchemaError
from storekeeper.schemas.registry import SchemaRegistry
from storekeeper.topology import Store, StreamsBuilder
from tests.schemas.samples import AVRO, Purchase

NOTHING = Description(0, {})


class ToldRegistry(SchemaRegistry):
    """Has the subjects and refuses the given ones."""

    def __init__(self, has: set[str], refuses: set[str], *, registers: bool) -> None:
        super().__init__(None)
        self._has, self._refuses, self._registers = has, refuses, registers

    @property
    def registers(self) -> bool:
        return self._registers

    def id_of(self, subject: str, schema: Any) -> int:
        if subject not in self._has:
            raise UnregisteredSchemaError(subject)
        return 1

    def refusal(self, subject: str, schema: Any) -> str | None:
        return f"subject {subject} refuses this schema" if subject in self._refuses else None


def changes(monkeypatch: pytest.MonkeyPatch, registry: SchemaRegistry | None) -> dict[str, Change]:
    """Of an app with a sink and a store, and of one without schemas."""

    def shop(streams: StreamsBuilder, _: AppSettings) -> None:
        serde = AvroSerde(AVRO, Purchase)
        streams.table("purchases", serde, store=Store("kept", serde)).to_stream().to("receipts")

    def plain(streams: StreamsBuilder, _: AppSettings) -> None:
        streams.table("prices", int, store="prices").to_stream().to("copies")

    apps = {name: topology_app(name, describe, title=name) for name, describe in (("shop", shop), ("plain", plain))}
    monkeypatch.setattr(upgrade_check, "APPS", apps)
    if registry is not None:
        monkeypatch.setattr(module, "registry_of", lambda _: registry)
        module.described.cache_clear()
    found = upgrade_check.with_schemas(Plan(()), NOTHING, ["shop", "plain", "gone"]).changes
    module.described.cache_clear()
    return {change.store: change for change in found}


def test_each_subject_that_is_written_has_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    found = changes(monkeypatch, ToldRegistry({"receipts-value"}, {"shop-kept-changelog-value"}, registers=False))
    assert {subject: change.verdict for subject, change in found.items()} == {
        "receipts-value": Verdict.UNCHANGED, "shop-kept-changelog-value": Verdict.BREAKS
    }  # fmt: skip
    assert "subject shop-kept-changelog-value refuses" in found["shop-kept-changelog-value"].details[0]


@pytest.mark.parametrize(("registers", "says"), [(True, "when it starts"), (False, "before the start")])
def test_a_new_schema_says_who_registers_it(monkeypatch: pytest.MonkeyPatch, registers: bool, says: str) -> None:
    found = changes(monkeypatch, ToldRegistry(set(), set(), registers=registers))
    assert {change.verdict for change in found.values()} == {Verdict.NEW}
    assert all(says in change.details[0] for change in found.values())


def test_schemas_without_a_registry_are_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="`kafka_properties`"):
        changes(monkeypatch, None)


def test_apps_without_schemas_need_no_registry() -> None:
    assert upgrade_check.with_schemas(Plan(()), NOTHING, ["pos", "ticks"]).changes == ()


def test_an_app_with_a_schema_has_a_store_that_nodes_show_by_it(tmp_path: Path) -> None:
    def shop(streams: StreamsBuilder, _: AppSettings) -> None:
        streams.table("purchases", AvroSerde(AVRO, Purchase), store="kept")

    (store,) = topology_app("shop", shop, title="shop").stores
    assert str(store.definition) == "kept=shop-kept-changelog:keyvalue:schemas"
    assert [(item.name, item.sql_type) for item in store.value_fields] == [
        ("card", "string"), ("amount", "decimal(18,4)")
    ]  # fmt: skip
