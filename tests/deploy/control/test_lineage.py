from __future__ import annotations

from pathlib import Path

import pytest

from deploy.control.lineage import Dataset, Lineage, lineage_of, table_dataset, topic_dataset
from spark_apps.settings import AppSettings
from state.locations import location


@pytest.mark.parametrize(
    ("place", "dataset"),
    [
        ("/tables/rewards", ("file", "/tables/rewards")),
        ("s3://bucket/tables/rewards", ("s3://bucket", "tables/rewards")),
        ("s3a://bucket/tables/rewards", ("s3://bucket", "tables/rewards")),
        ("gs://bucket/rewards", ("gs://bucket", "rewards")),
        ("hdfs://namenode:8020/tables/rewards", ("hdfs://namenode:8020", "/tables/rewards")),
        ("abfss://box@acc.dfs.core.windows.net/rewards", ("abfss://box@acc.dfs.core.windows.net", "/rewards")),
    ],
)
def test_a_table_is_named_by_where_it_is(place: str, dataset: tuple[str, str]) -> None:
    assert table_dataset(location(place)) == dataset


def test_a_topic_is_named_after_the_first_broker() -> None:
    assert topic_dataset("a:9092,b:9092", "pos") == ("kafka://a:9092", "pos")


@pytest.fixture
def settings(tmp_path: Path) -> AppSettings:
    return AppSettings(run_dir=tmp_path, kafka_bootstrap="broker:9092")


def topics(*names: str) -> tuple[Dataset, ...]:
    return tuple(Dataset("kafka://broker:9092", name) for name in names)


def test_a_job_reads_and_writes_what_its_arguments_name(settings: AppSettings, tmp_path: Path) -> None:
    def table(name: str) -> Dataset:
        return table_dataset(settings.delta_table(name))

    changelog = topics("pos-rewards-changelog")
    assert lineage_of(["snapshot", "create", "rewards"], settings) == Lineage(changelog, (table("rewards"),))
    assert lineage_of(["verify", "rewards"], settings) == Lineage((*changelog, table("rewards")))
    assert lineage_of(["cleanup", "run", "rewards", "1"], settings) == Lineage(changelog, changelog)
    published = Lineage((table("hadoop_export_staged"),), (table("hadoop_export"),))
    assert lineage_of(["check", "table", "hadoop_export"], settings) == published
    assert lineage_of(["check", "table", "rewards"], settings) == Lineage((table("rewards"),))
    two = lineage_of(["snapshot", "create", "rewards", "prices"], settings)
    assert two.outputs == (table("rewards"), table("prices"))


def test_an_app_reads_its_sources_and_writes_its_sinks_and_stores(settings: AppSettings) -> None:
    found = lineage_of(["app", "start", "pos"], settings)
    assert found.inputs == topics("pos")
    assert set(found.outputs) == set(topics("shipment", "loyalty", "hadoop-sink", "pos-dlq", "pos-rewards-changelog"))
    export = lineage_of(["app", "start", "hadoop_export"], settings)
    assert table_dataset(settings.delta_table("hadoop_export_staged")) in export.outputs
    assert len(lineage_of(["app", "start", "shared_driver"], settings).inputs) > 1


@pytest.mark.parametrize(
    "arguments", [[], ["app", "watch"], ["verify"], ["verify", "nobody"], ["snapshot", "create"], ["app", "start", "x"]]
)
def test_what_is_about_nothing_known_has_no_lineage(arguments: list[str], settings: AppSettings) -> None:
    assert lineage_of(arguments, settings) == Lineage()
