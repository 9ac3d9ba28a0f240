from __future__ import annotations

import pytest

from spark_apps.apps.hadoop_export.spec import HADOOP_EXPORT
from spark_apps.apps.pos import POS
from spark_apps.new_app.template_app.app import TEMPLATE_APP
from spark_apps.registry import ON_DEMAND_APPS
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec
from spark_apps.topology_app import topology_app
from state.topology import StreamsBuilder
from tests.integration.counted_app import COUNTED


@pytest.mark.parametrize("spec", [POS, COUNTED, TEMPLATE_APP, *ON_DEMAND_APPS.values()], ids=lambda spec: spec.name)
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


def test_a_store_whose_rows_are_no_objects_has_no_columns() -> None:
    stores = {store.name: store for store in COUNTED.stores}
    assert stores["numbers"].value_fields == ()
    assert [item.name for item in stores["sums"].value_fields] == ["Key", "Sum"]
