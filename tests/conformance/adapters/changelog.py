"""Changelog cases: what a store of any kind writes to its log."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.conformance.adapters.key_value import KeyValueAdapter
from tests.conformance.adapters.session import SessionAdapter
from tests.conformance.adapters.window import WindowAdapter
from tests.conformance.backend import Backend
from tests.conformance.inputs import Inputs

_FOR_EVER_MS = 1 << 62


class ChangelogAdapter(KeyValueAdapter):
    """A key-value store; a window or session store beside it, whose changelog is then the one that is shown."""

    kinds: ClassVar[tuple[str, ...]] = ("changelog",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.inputs = Inputs()
        self.beside: WindowAdapter | None = None

    def close(self) -> None:
        super().close()
        if self.beside is not None:
            self.beside.close()

    def shown(self) -> KeyValueAdapter:
        """The adapter of the store whose changelog is shown."""
        return self.beside or self

    def wrote(self) -> None:
        self.inputs.wrote()
        if not self.in_batch:
            self.inputs.commit()
        super().wrote()

    def do_changelog(self) -> list[Any]:
        shown = self.shown()
        return [shown.logged(change.key, change.value) for change in shown.log]

    def do_put_at(self, key: Any, value: Any, timestamp_ms: int) -> None:
        self.task.context.timestamp_ms = timestamp_ms
        self.do_put(key, value)

    def do_changelog_ts(self) -> list[Any]:
        shown = self.shown()
        return [[*shown.logged(change.key, change.value), change.timestamp_ms] for change in shown.log]

    def do_input(self, topic: str, partition: int, offset: int) -> None:
        self.inputs.move_to(topic, partition, offset)

    def do_position(self) -> Any:
        return self.inputs.written()

    def do_changelog_position(self) -> Any:
        return self.inputs.committed()

    def do_window_put(self, key: Any, value: Any, start_ms: int) -> None:
        self.opened(WindowAdapter).do_put(key, value, start_ms)

    def opened(self, kind: type[WindowAdapter]) -> Any:
        """The store beside."""
        if self.beside is None:
            self.beside = kind({"retention": _FOR_EVER_MS, **self.config}, self.backend.part("beside"))
            self.beside.task.context.timestamp_ms = self.task.context.timestamp_ms
        return self.beside

    def do_session_put(self, key: Any, start_ms: int, end_ms: int, value: Any) -> None:
        self.opened(SessionAdapter).do_put(key, start_ms, end_ms, value)

    def do_session_remove(self, key: Any, start_ms: int, end_ms: int) -> None:
        self.opened(SessionAdapter).do_remove(key, start_ms, end_ms)

    def do_tx_begin(self) -> None:
        self.in_batch = True

    def do_tx_commit(self) -> None:
        self.in_batch = False
        self.inputs.commit()
        super().wrote()

    def do_tx_abort(self) -> None:
        self.in_batch = False
        self.inputs.give_up()
        self.task.give_up()
