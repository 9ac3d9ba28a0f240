from __future__ import annotations

import pytest

from storekeeper.apps.table_progress import decode_progress, encode_progress
from storekeeper.changelog.position import Position


def test_progress_survives_a_commit() -> None:
    position = Position({"hadoop-sink": {0: 9, 1: 2}})
    assert decode_progress(encode_progress("hadoop_export", position)) == position
    assert (
        encode_progress("hadoop_export", position) == '{"app":"hadoop_export","position":{"hadoop-sink":{"0":9,"1":2}}}'
    )


@pytest.mark.parametrize(
    "metadata",
    [None, "", "{", "{}", "[]", '{"app":"other"}', '{"app":"hadoop_export"}', '{"app":"hadoop_export","position":3}'],
)
def test_commits_of_others_say_nothing(metadata: str | None) -> None:
    assert decode_progress(metadata) is None
