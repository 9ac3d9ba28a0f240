"""Polls the end offsets of the changelogs, so that replicas know their freshness; at once when a read waits.

It also notices within two polls that a changelog was deleted, or deleted and recreated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import structlog

from storekeeper.changelog.log_ends import LogEnds
from storekeeper.clock import Clock
from storekeeper.node.replicas.replica import Replica

log = structlog.get_logger(__name__)

POLL_S = 0.25
"""A poll is two requests for all partitions, on every node: at 0.1 s, three were a third of what an idle node costs."""


class EndOffsetPoller:
    """One thread that requests the end offsets of the changelogs of `replicas()` every `every_s` seconds, and
    calls `on_topic_changed` when a changelog was deleted or recreated.

    Any thread may call anything.
    """

    def __init__(
        self,
        replicas: Callable[[], Iterable[Replica]],
        ends: Callable[[], LogEnds],
        clock: Clock,
        *,
        every_s: float = POLL_S,
        on_topic_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._replicas = replicas
        self._make_ends = ends
        self._clock = clock
        self._every_s = every_s
        self._on_topic_changed = on_topic_changed
        self._wanted = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="end-offset-poller", daemon=True)

    def start(self) -> None:
        """Begins, and returns at once."""
        self._thread.start()

    def ask_soon(self) -> None:
        """Starts the next poll as soon as the current one has ended."""
        self._wanted.set()

    def ask_once(self, ends: LogEnds) -> None:
        """Polls once, for all open replicas."""
        asked = {
            (replica.topic, replica.replica_id.partition): replica for replica in self._replicas() if replica.is_open
        }
        if not asked:
            return
        now_s = self._clock.monotonic_s()
        requests = {where: replica.request(now_s) for where, replica in asked.items()}
        answered = ends.ends(list(asked))
        changed = [asked[where].heard_end(requests[where], end) for where, end in answered.items()]
        if any(changed):
            self._on_topic_changed()

    def stop(self) -> None:
        """Ends after the current poll. Safe to call twice, or without `start`."""
        self._stopped = True
        self._wanted.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        ends: LogEnds | None = None
        while not self._stopped:
            self._wanted.clear()
            try:
                ends = ends or self._make_ends()
                self.ask_once(ends)
            except Exception:
                log.exception("end_offsets_unknown")
            self._wanted.wait(self._every_s)
