"""A RocksDB store whose rows and metadata carry a seal: a hash over key and value.

Bytes of a sealed value: the value, then 8 bytes, XXH3-64 over key and value, big-endian. RocksDB's own checksums cover
its files. The seal covers what another program writes with RocksDB: a row that was changed, or swapped with another
row, is found when it is read. It is no signature: an edit that writes the seal as well is found only by a comparison
with the changelog (`storekeeper verify`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rocksdict import AccessType, ReadOptions
from xxhash import xxh3_64_digest

from storekeeper.errors import StoreCorruptedError
from storekeeper.names import checked_name
from storekeeper.stores.bytes_store import NO_METADATA, Backend, BytesStore, Entry
from storekeeper.stores.durable_mark import DurableMark, read_mark
from storekeeper.stores.iterators import Row
from storekeeper.stores.rocksdb import RocksDBStore
from storekeeper.stores.rocksdb_options import RocksDBOptions

SEAL_BYTES = 8


def open_sealed(path: str | Path, name: str, options: RocksDBOptions | None = None) -> SealedRocksDBStore:
    """Opens the sealed store in directory `path`, making it if there is nothing yet. Raises as `open_rocksdb`."""
    return SealedRocksDBStore(Path(path), name, options or RocksDBOptions())


@dataclass(frozen=True, slots=True)
class SealedSupplier:
    """One sealed database a store, in a directory of the store's name. A `StoreSupplier`.

    Attributes:
        directory: where the stores' directories are; made if missing.
    """

    directory: Path

    def open(self, name: str) -> BytesStore:
        """The store's database, made if there is none yet."""
        return open_sealed(self.directory / checked_name(name), name)


class SealedRocksDBStore(RocksDBStore):
    """A `RocksDBStore` with sealed rows. Make it with `open_sealed`.

    Reads raise `StoreCorruptedError` where a seal doesn't match.
    """

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, or None."""
        try:
            row: bytes | None = self._get(key)
        except Exception as error:
            self._fail(error)
        if row is None:
            return None
        # As `_unsealed`: a call less for each row.
        value = row[:-SEAL_BYTES]
        if not row.endswith(xxh3_64_digest(key + value)):
            self._refuse_row()
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`, in their order."""
        rows = super().get_many(keys)
        return [None if row is None else self._unsealed(key, row) for key, row in zip(keys, rows, strict=True)]

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Seals rows and metadata, and writes them in one step."""
        super().write(_sealed(entries), dict(_sealed(metadata.items())))

    def metadata(self, key: bytes) -> bytes | None:
        """The metadata entry at `key`, or None."""
        row = super().metadata(key)
        return None if row is None else self._unsealed(key, row)

    def _forwards(self, cursor: Any, start: bytes | None, stop: bytes | None, options: ReadOptions) -> Iterator[Row]:
        unsealed = self._unsealed
        for key, row in super()._forwards(cursor, start, stop, options):
            yield key, unsealed(key, row)

    def _backwards(self, cursor: Any, start: bytes | None, stop: bytes | None, options: ReadOptions) -> Iterator[Row]:
        unsealed = self._unsealed
        for key, row in super()._backwards(cursor, start, stop, options):
            yield key, unsealed(key, row)

    def _unsealed(self, key: bytes, row: bytes) -> bytes:
        value = row[:-SEAL_BYTES]
        if not row.endswith(xxh3_64_digest(key + value)):
            self._refuse_row()
        return value

    def _refuse_row(self) -> NoReturn:
        raise StoreCorruptedError(
            f"a row in {self._path} is not as it was written: another program has changed the store; set it aside and "
            "restore it"
        )


def _sealed(entries: Iterable[Entry]) -> Iterator[Entry]:
    return ((key, None if value is None else value + xxh3_64_digest(key + value)) for key, value in entries)


class SealedView(SealedRocksDBStore):
    """The rows that a sealed store holds now, for reading alone. Another process may have the store open. Nothing in
    the directory is changed: `scratch`, an empty one, is for RocksDB's own notes.

    Raises:
        StorageError: it can't be read; also if the other process replaces files at that moment.
    """

    def __init__(self, path: Path, name: str, scratch: Path) -> None:
        Backend.__init__(self, name)
        self._path, self._options = path, RocksDBOptions()
        self._failed_write, self._buffered_bytes, self._reached = False, 0, 0
        self._marked = read_mark(path) or DurableMark(sequence=0)
        self._database = self._opened(AccessType.secondary(str(scratch)))
        self._open = True

    def close(self) -> None:
        """Frees everything. Safe to call twice."""
        self._open = False
        self._iterators.shut_down()
        self._release()
