"""The rows of replicas that a node no longer holds: kept for a while, so that it is warm if it gets them back."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

import structlog

from state.clock import Clock
from state.replicas.states import ReplicaId

log = structlog.get_logger(__name__)


class Leftovers:
    """Deletes directories `<root>/<store>/<partition>` that have belonged to no replica for `keep_s` seconds.

    The time counts from when this process first saw the directory unused. Belongs to one thread.
    """

    def __init__(self, root: Path, clock: Clock, keep_s: float) -> None:
        self._root = root
        self._clock = clock
        self._keep_s = keep_s
        self._since_s: dict[Path, float] = {}

    def sweep(self, held: Collection[ReplicaId]) -> None:
        """Looks through the directories once. `held`: the replicas whose directories are in use."""
        now_s = self._clock.monotonic_s()
        in_use = {self._root / replica.store / str(replica.partition) for replica in held}
        unused = [path for path in self._root.glob("*/*") if path.name.isdecimal() and path not in in_use]
        self._since_s = {path: self._since_s.get(path, now_s) for path in unused}
        for path, since_s in list(self._since_s.items()):
            if now_s - since_s >= self._keep_s:
                self._delete(path)

    def _delete(self, path: Path) -> None:
        # Renamed first, so that half a store never has a store's name.
        wiped = path.with_name(f"{path.name}.wiped")
        try:
            path.rename(wiped)
            shutil.rmtree(wiped)
        except OSError as error:
            log.warning("leftover_stays", path=str(path), error=error.strerror)
            return
        del self._since_s[path]
        log.info("leftover_deleted", path=str(path))
