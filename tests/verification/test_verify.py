"""What `verify` says of copies that it can't read, and what it does with wrong ones when it is asked to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storekeeper.clock import SystemClock
from storekeeper.errors import ConfigurationError
from storekeeper.stores.rocksdb_sealed import open_sealed
from storekeeper.topology import Store, StreamsBuilder
from storekeeper.verification.check_verdict import CheckVerdict
from storekeeper.verification.local_copies import LocalCopies
from tests.verification.injected_world import PARTITIONS, made


@pytest.mark.parametrize(("backend", "named"), [("rocksdb", []), ("memory", ["memory"]), ("redis", ["redis"])])
def test_rows_that_no_file_has_are_named_as_not_compared(backend: str, named: list[str]) -> None:
    streams = StreamsBuilder("shop")
    streams.stream("events", int).group_by_key().count(store=Store("rows", int, backend=backend))
    (store,) = streams.build().sub_topologies[0].stores
    changelog: Any = None  # nothing is read
    copies = LocalCopies(store, Path("none"), changelog, SystemClock())
    assert [word for sentence in copies.not_compared for word in named if word in sentence] == named
    assert bool(copies.not_compared) is bool(named)


def test_the_wrong_copies_of_one_holder_are_set_aside_on_demand_and_no_others(tmp_path: Path) -> None:
    world = made(tmp_path / "run")
    wrong, right = world.folder(0), world.folder(1)
    world.node[1].popitem()
    store = open_sealed(wrong, "rewards")
    store.write([(next(iter(world.node[0])), None)])
    store.close()

    def verdict(repair: str | None = None) -> CheckVerdict:
        with pytest.MonkeyPatch.context() as patch:
            return world.verdict(patch, repair)

    def there() -> list[str]:
        return sorted(folder.name for at in range(PARTITIONS) for folder in world.folder(at).parent.iterdir())

    assert (verdict().details["set_aside"], world.repaired, there()) == ([], [], ["rewards", "rewards"])
    with pytest.raises(ConfigurationError, match=r"no node or app 'b' .*: name app pos, or one of a"):
        verdict("b")
    of_node = verdict("a")
    assert (world.repaired, there()) == (["/internal/repair/rewards/1"], ["rewards", "rewards"])
    assert [sentence.partition(":")[0] for sentence in of_node.details["set_aside"]] == ["node a, partition 1"]
    of_app = verdict("pos")
    assert (world.repaired, wrong.exists(), right.exists()) == (["/internal/repair/rewards/1"], False, True)
    assert there()[1].startswith("rewards.corrupt-")
    assert [str(wrong) in sentence for sentence in of_app.details["set_aside"]] == [True]
    for before in (of_node, of_app):
        assert (before.passed, len(before.reasons)) == (False, 2), "the verdict is that of before"
    (left,) = verdict().reasons
    assert left.startswith("node a, partition 1: missing")
