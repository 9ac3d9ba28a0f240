from __future__ import annotations

import pytest

from spark_apps.hadoop_export.progress import ExportProgress, Place, parse_place
from spark_apps.records.poison import PoisonRecordError


def test_a_source_names_a_place() -> None:
    assert parse_place("pos/3/42/1") == Place("pos/3", 42, 1)


@pytest.mark.parametrize(
    "source", [None, "", "pos", "pos/3/42", "/3/42/1", "pos/3/42/1/0", "pos/3/x/1", "pos/3/-4/1", "pos/3/4/" + "9" * 19]
)
def test_a_source_of_another_form_is_poison(source: str | None) -> None:
    with pytest.raises(PoisonRecordError, match="the source header"):
        parse_place(source)


def test_progress_keeps_the_furthest_place_of_each_pair_of_partitions() -> None:
    progress = ExportProgress().advanced(
        [(0, Place("pos/1", 9, 0)), (0, Place("pos/1", 7, 5)), (1, Place("pos/1", 2, 0)), (0, Place("pos/2", 1, 1))]
    )
    assert progress.places == {0: {"pos/1": (9, 0), "pos/2": (1, 1)}, 1: {"pos/1": (2, 0)}}
    assert progress.advanced([(0, Place("pos/1", 9, 1))]).places[0]["pos/1"] == (9, 1)
    assert progress.advanced([(0, Place("pos/1", 3, 1))]) == progress


def test_progress_survives_a_commit() -> None:
    progress = ExportProgress({0: {"pos/1": (9, 2)}})
    assert ExportProgress.decode(progress.encode()) == progress
    assert progress.encode() == '{"app":"hadoop_export","places":{"0":{"pos/1":[9,2]}}}'


@pytest.mark.parametrize("metadata", [None, "", "{", "{}", "[]", '{"app":"other"}', '{"app":"hadoop_export"}'])
def test_commits_of_others_say_nothing(metadata: str | None) -> None:
    assert ExportProgress.decode(metadata) is None
