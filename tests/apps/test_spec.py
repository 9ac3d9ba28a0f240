from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec
import pytest

from harness.project_apps import SYSTEM_APPS
from spark_apps.hadoop_export import HADOOP_EXPORT
from spark_apps.pos import POS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import topology_app
from storekeeper.ops.new_project.template.spark_apps.template_app import TEMPLATE_APP
from storekeeper.stores.store_definitions import ServedKind
from storekeeper.topology import Store, StoreKind, StreamsBuilder, tumbling
from storekeeper.topology.operators.process import ProcessorContext
from tests.integration.counted_app import COUNTED


@pytest.mark.parametrize("spec", [POS, COUNTED, TEMPLATE_APP, *SYSTEM_APPS.values()], ids=lambda spec: spec.name)
def test_an_app_that_keeps_its_state_in_changelogs_can_have_generations(spec: AppSpec) -> None:
    assert spec.has_generations


def copied(streams: StreamsBuilder, _: AppSettings) -> None:
    streams.stream("in", int).to("out")


def grouped(streams: StreamsBuilder, _: AppSettings) -> None:
    table = streams.table("in", int, store="rows")
    table.group_by(lambda key, value: (str(value), value), values=int).count(store="counts")


def through_a_named_topic(streams: StreamsBuilder, _: AppSettings) -> None:
    values = streams.stream("in", int).select_key(lambda _, value: str(value), keys=str)
    values.repartition(topic="by-value").group_by_key().count(store="counts")


def test_another_app_says_why_it_cannot() -> None:
    assert HADOOP_EXPORT.why_no_generations == "it is not a topology"
    assert topology_app("copied", copied, title="Copies").why_no_generations == "it keeps no store"
    why = topology_app("shared", through_a_named_topic, title="Counts").why_no_generations
    assert why == "it repartitions through topic by-value, which two generations would share"
    assert topology_app("grouped", grouped, title="Counts").why_no_generations is None


class Price(msgspec.Struct):
    amount: Annotated[int, msgspec.Meta(ge=0, extra={"only_grows": True})]


def kinds(streams: StreamsBuilder, _: AppSettings) -> None:
    streams.table("in", Price, store=Store("prices", Price, history=timedelta(days=1)))
    streams.add_store(Store("ends", Price, history=timedelta(), kind=StoreKind.VERSIONED))
    streams.add_store(Store("passing", Price, kind=StoreKind.TTL, ttl=timedelta(days=1)))
    streams.stream("else", Price).process(AnyProcessor, stores=["ends", "passing"])


class AnyProcessor:
    def init(self, context: ProcessorContext[str, int]) -> None:
        del self, context

    def process(self, key: str, value: Price, timestamp_ms: int) -> None:
        del self, key, value, timestamp_ms


def test_nodes_serve_versions_and_rows_with_a_ttl_and_no_clean_up_deletes_them() -> None:
    stores = {store.name: store for store in topology_app("kinds", kinds, title="").stores}
    assert {name: (store.kind, store.bounded) for name, store in stores.items()} == {
        "prices": (ServedKind.VERSIONED, True),
        "ends": (ServedKind.VERSIONED, True),
        "passing": (ServedKind.KEY_VALUE, True),
    }
    assert str(stores["prices"].definition) == "prices=kinds-prices-changelog:versioned"
    (of_a_version,), (of_a_row,) = stores["prices"].value_fields, stores["passing"].value_fields
    assert (of_a_version.nullable, of_a_version.only_grows) == (True, False), "a version may be a deletion"
    assert (of_a_row.nullable, of_a_row.only_grows) == (False, True)


def test_a_store_whose_rows_are_no_objects_has_no_columns() -> None:
    stores = {store.name: store for store in COUNTED.stores}
    assert stores["numbers"].value_fields == ()
    assert [item.name for item in stores["sums"].value_fields] == ["Key", "Sum"]


def windowed(streams: StreamsBuilder, _: AppSettings) -> None:
    hours = streams.stream("in", int).group_by_key().windowed_by(tumbling(timedelta(hours=1)))
    hours.count(store="hours").filter(lambda _, count: count > 1, store="busy")


def test_rows_that_a_filter_of_a_windowed_table_keeps_are_not_served() -> None:
    """They are where their key is without the window, and nodes look where the whole key belongs."""
    assert [store.name for store in topology_app("windowed", windowed, title="Counts").stores] == ["hours"]
