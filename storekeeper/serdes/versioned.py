"""Values that carry the version of their schema, so that it can change while old rows are still there.

Byte layout: uint16 schema version, big-endian, then the value in that version's own serde.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from storekeeper.errors import ConfigurationError, SerializationError
from storekeeper.serdes.serde import Serde

T = TypeVar("T")
Upgrade = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class SchemaVersions(Generic[T]):
    """The versions of one value's schema.

    Attributes:
        serdes: the serde of every version that can be read, by version; the highest is written.
        upgrades: for every version but the highest, what turns its value into one of the next version.
    """

    serdes: Mapping[int, Serde[Any]]
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.serdes:
            raise ConfigurationError("a versioned serde needs at least one version")
        missing = [version for version in range(self.oldest, self.current) if version not in self.upgrades]
        gaps = [version for version in range(self.oldest, self.current) if version not in self.serdes]
        if missing or gaps or not 0 <= self.oldest <= self.current <= 0xFFFF:
            raise ConfigurationError(
                f"schema versions {sorted(self.serdes)}: every version from the oldest to the current one, in 0 to "
                f"65535, needs a serde (missing: {gaps}) and all but the last an upgrade (missing: {missing})"
            )

    @property
    def oldest(self) -> int:
        """The oldest version that can be read."""
        return min(self.serdes)

    @property
    def current(self) -> int:
        """The version that is written."""
        return max(self.serdes)


class VersionedSerde(Generic[T]):
    """Writes the current version; reads every version since the oldest and upgrades it step by step."""

    def __init__(self, versions: SchemaVersions[T]) -> None:
        self._versions = versions
        self._current = versions.serdes[versions.current]
        self._prefix = versions.current.to_bytes(2, "big")

    @property
    def versions(self) -> SchemaVersions[T]:
        """What this serde reads and writes."""
        return self._versions

    def serialize(self, value: T) -> bytes:
        """The value in the current version.

        Raises:
            SerializationError: the current version's serde refuses it.
        """
        return self._prefix + self._current.serialize(value)

    def deserialize(self, data: bytes) -> T:
        """The value, upgraded to the current version.

        Raises:
            SerializationError: the version is older than the oldest that is kept, or newer than this code, or the
                version's serde refuses the bytes.
        """
        version = self.version_of(data)
        value = self._versions.serdes[version].deserialize(data[2:])
        for step in range(version, self._versions.current):
            value = self._versions.upgrades[step](value)
        return value

    def version_of(self, data: bytes) -> int:
        """The version that `data` was written in.

        Raises:
            SerializationError: as `deserialize`.
        """
        version = int.from_bytes(data[:2], "big")
        if len(data) < 2 or version not in self._versions.serdes:
            raise SerializationError(
                f"a value of schema version {version} can't be read: this code reads {self._versions.oldest} to "
                f"{self._versions.current}; migrate older rows first, or update the code for newer ones"
            )
        return version
