from __future__ import annotations

import pytest

from storekeeper.changelog.position import Position
from storekeeper.errors import SerializationError
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.stores.store_definitions import ServedKind

MANIFEST = SnapshotManifest(
    store="rewards",
    app="pos",
    generation=1,
    schema_version=1,
    changelog_topic="pos-rewards-changelog",
    changelog_offsets={1: 7, 0: 1200},
    source_offsets=Position({"pos": {0: 4400}}),
    row_count=811,
    digests={0: 0xD5A02F6C1BE2F7, 1: 0},
    writer="test",
    delta_version=3,
    columns={"Tier": "string", "Points": "decimal(18,4)"},
    batch_ms=1_760_000_000_000,
    kind=ServedKind.RANKED,
    score_field="Points",
    changelog_id="Zq3",
    one_version=True,
)
TEXT = (
    '{"app":"pos","batch_ms":1760000000000,"by_schema":false,"changelog_id":"Zq3","changelog_offsets":{"0":1200,"1":7},'
    '"changelog_topic":"pos-rewards-changelog","columns":[["Tier","string"],["Points","decimal(18,4)"]],'
    '"delta_version":3,"digests":{"0":"00d5a02f6c1be2f7","1":"0000000000000000"},"generation":1,'
    '"kind":"ranked","one_version":true,"row_count":811,'
    '"schema_version":1,"score_field":"Points","source_offsets":{"pos":{"0":4400}},"store":"rewards","writer":"test"}'
)


def test_a_manifest_byte_by_byte() -> None:
    assert MANIFEST.to_json() == TEXT
    assert SnapshotManifest.from_json(TEXT) == MANIFEST


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", "null"),
        TEXT.replace("00d5", "zzzz"),
        TEXT.replace('{"pos":{"0":4400}}', "7"),
        TEXT.replace("ranked", "odd"),
    ],
)
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(SerializationError):
        SnapshotManifest.from_json(text)
