"""Keys are found where every Kafka client puts them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storekeeper.changelog.partitioner import partition_for
from storekeeper.engine.partitioning import partitions_of


@given(st.lists(st.binary(max_size=40)), st.integers(1, 64))
def test_many_keys_go_where_each_alone_goes(keys: list[bytes], partitions: int) -> None:
    assert partitions_of(keys, partitions).tolist() == [partition_for(key, partitions) for key in keys]
