"""Changelog records as values, for tests without a broker."""

from __future__ import annotations

from dataclasses import dataclass

from storekeeper.changelog.skipped import Headers

VERSION_ONE: list[tuple[str, bytes | None]] = [("schema-version", b"1")]


@dataclass(frozen=True)
class Record:
    """Looks like the Kafka client's message, its falsy tombstones included."""

    at: int
    record_key: bytes | None
    record_value: bytes | None
    at_ms: int = 0
    record_headers: tuple[tuple[str, bytes | None], ...] | None = tuple(VERSION_ONE)

    def __len__(self) -> int:
        return len(self.record_value or b"")

    def key(self) -> bytes | None:
        return self.record_key

    def value(self) -> bytes | None:
        return self.record_value

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at_ms

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return None if self.record_headers is None else list(self.record_headers)

    def set_headers(self, headers: Headers) -> None:
        """Equal ones: nothing to do."""
        assert tuple(headers) == (self.record_headers or ())
