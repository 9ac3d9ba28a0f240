"""Files of a shuffle are deleted, and a failure to do so is seen. `test_stream.py` has shuffles on Spark."""

from __future__ import annotations

from typing import Any

import pytest

from storekeeper.engine.shuffle import shuffle_files_deleted


class Played:
    """A dataset whose files can't be deleted if `broken`."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken, self.deleted = broken, 0

    @property
    def _jrdd(self) -> Played:
        return self

    def rdd(self) -> Played:
        return self

    def cleanShuffleDependencies(self, blocking: bool) -> None:  # noqa: N802 (Spark's own)
        assert not blocking
        if self.broken:
            raise OSError("can't be deleted")
        self.deleted += 1


def test_records_that_stay_on_the_disk_fail_the_batch() -> None:
    dataset: Any = Played(broken=True)
    with pytest.raises(OSError, match="can't be deleted"), shuffle_files_deleted(dataset):
        pass


@pytest.mark.parametrize("broken", [False, True])
def test_a_batch_that_fails_shows_its_own_error(*, broken: bool) -> None:
    dataset: Any = Played(broken=broken)
    with pytest.raises(ValueError, match="of the batch"), shuffle_files_deleted(dataset):
        raise ValueError("of the batch")
    assert dataset.deleted == (not broken)
