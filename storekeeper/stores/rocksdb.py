"""The RocksDB backend: rows and metadata in two column families of one database, written in one batch.

A directory holds one database and the durable mark beside it (see `durable_mark`). A directory that lost a part is
refused, never taken for a new store. Only `storekeeper.stores.rocksdb*` imports rocksdict.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from rocksdict import AccessType, ColumnFamily, Rdict, ReadOptions, WriteBatch

from storekeeper.errors import DiskFullError, StateError, StorageError, StoreClosedError, StoreCorruptedError
from storekeeper.stores.bytes_store import NO_METADATA, Backend, BytesIterator, Entry
from storekeeper.stores.durable_mark import FILE_NAME, DurableMark, check_whole, observed_mark, read_mark, write_mark
from storekeeper.stores.iterators import Row, RowIterator
from storekeeper.stores.rocksdb_options import RocksDBOptions, metadata_options, row_options

METADATA_FAMILY = "metadata"
_PROBE_SLACK_BYTES = 1 << 20
# RocksDB's errors are plain exceptions with a message.
_DISK_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
_CORRUPTED = ("Corruption", "No such file or directory", "checksum mismatch", "Column family not found")


def open_rocksdb(path: str | Path, name: str, options: RocksDBOptions | None = None) -> RocksDBStore:
    """Opens the store in directory `path`, making it if there is nothing yet.

    Raises:
        StoreCorruptedError: the directory is damaged, lost a part, or lost writes; `set_aside` it and restore.
        StorageError: another process has it open, or the disk failed.
        DiskFullError: no space to open it.
    """
    return RocksDBStore(Path(path), name, options or RocksDBOptions())


class RocksDBStore(Backend):
    """A `BytesStore` on disk. Make it with `open_rocksdb`.

    Safe for one writer and many reader threads; one process at a time. A write survives a crash of the process at
    once, a crash of the machine after `flush`.
    """

    persistent = True

    def __init__(self, path: Path, name: str, options: RocksDBOptions) -> None:
        super().__init__(name)
        self._path = path
        self._options = options
        self._open = False
        self._failed_write = False
        self._buffered_bytes = self._reached = 0
        self._marked = _expected_mark(path)
        self._database = self._opened(AccessType.read_write())
        self._check_not_rolled_back(0 if self._marked is None else self._marked.sequence)
        self._open = True
        # Without space for a new mark the last one stays valid: it requires less.
        with contextlib.suppress(OSError):
            self._mark()

    @property
    def path(self) -> Path:
        """The directory."""
        return self._path

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`, or None.

        Raises:
            StoreCorruptedError: a checksum failed; nothing wrong is ever returned.
        """
        try:
            return self._get(key)
        except Exception as error:
            self._fail(error)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at `keys`, in their order. One native call, which releases the GIL."""
        if not self._open:
            self._refuse()
        if not keys:
            return []
        try:
            return self._get(keys if type(keys) is list else list(keys))
        except Exception as error:
            self._fail(error)

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        """Writes rows and metadata as one batch.

        Raises:
            DiskFullError: nothing was written. Reads go on; the next write succeeds once there is room for what is
                buffered in memory and one MiB more.
        """
        if not self._open:
            self._refuse()
        if self._failed_write:
            self._resume()
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in entries:
            if value is None:
                delete(key)
            else:
                put(key, value)
        if metadata:
            self._add_metadata(batch, metadata)
        try:
            self._database.write(batch)
        except Exception as error:
            self._fail(error)

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        """Rows with `start <= key < stop`, in byte order or backwards, as of the moment of the call."""
        if not self._open:
            self._refuse()
        if start is not None and stop is not None and start >= stop:
            return RowIterator(iter(()), self._iterators)
        # The native iterator points into the options' copy of the bound: the generators below keep them alive with it.
        options = ReadOptions()
        if stop is not None:
            options.set_iterate_upper_bound(stop)
        try:
            cursor = self._database.iter(options)
        except Exception as error:
            self._fail(error)
        walk = self._backwards if reverse else self._forwards
        return RowIterator(walk(cursor, start, stop, options), self._iterators)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        """Deletes every row with `start <= key < stop` by one range tombstone."""
        if not self._open:
            self._refuse()
        if start >= stop:
            return
        if self._failed_write:
            self._resume()
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(start, stop)
        try:
            self._database.write(batch)
        except Exception as error:
            self._fail(error)

    def metadata(self, key: bytes) -> bytes | None:
        """The metadata entry at `key`, or None."""
        try:
            return self._metadata_rows.get(key)
        except Exception as error:
            self._fail(error)

    def approximate_num_entries(self) -> int:
        """RocksDB's estimate: overwrites and deletes that were not compacted yet may be counted."""
        return self.property_int("rocksdb.estimate-num-keys") or 0

    def property_int(self, name: str) -> int | None:
        """An integer property of RocksDB such as `rocksdb.total-sst-files-size`, or None if RocksDB lacks it."""
        if not self._open:
            self._refuse()
        try:
            value = self._database.property_int_value(name)
        except Exception as error:
            self._fail(error)
        return None if value is None else int(value)

    def compact(self) -> None:
        """Compacts everything to the lowest level, after a bulk load or a purge. Takes longer for larger rows."""
        if not self._open:
            self._refuse()
        try:
            self._database.flush()
            self._database.compact_range(None, None)
        except Exception as error:
            self._fail(error)

    def flush(self) -> None:
        """Waits until all that was written is on the disk."""
        if not self._open:
            self._refuse()
        if self._failed_write:
            self._resume()
        try:
            self._database.flush_wal(sync=True)
            self._mark()
        except Exception as error:
            self._fail(error)

    def close(self) -> None:
        """Flushes, frees everything and releases the directory. Safe to call twice."""
        if not self._open:
            return
        self._open = False
        self._iterators.shut_down()
        # A full or broken disk must not prevent the close: the data that counts is in the changelog already.
        with contextlib.suppress(Exception):
            self._database.flush_wal(sync=True)
            sequence = int(self._database.latest_sequence_number())
            # The native close writes files of its own, so the mark comes after it.
            self._release()
            self._mark(sequence)
        self._release()

    def _opened(self, access: AccessType) -> Rdict:
        families = {METADATA_FAMILY: metadata_options(self._options)}
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            if self._marked is None:
                self._marked = DurableMark(sequence=0)
                write_mark(self._path, self._marked)
            database = Rdict(str(self._path), row_options(self._options), column_families=families, access_type=access)
            self._metadata_rows = database.get_column_family(METADATA_FAMILY)
            self._metadata_handle: ColumnFamily | None = database.get_column_family_handle(METADATA_FAMILY)
        except BaseException as error:
            raise _translated_or_same(error, self._path) from error
        self._get: Callable[[Any], Any] = database.get
        return database

    def _check_not_rolled_back(self, expected: int) -> None:
        reached = int(self._database.latest_sequence_number())
        if reached >= expected:
            return
        self._release()
        raise StoreCorruptedError(
            f"the store at {self._path} lost writes: sequence {reached} is behind {expected}, which was written; "
            "set it aside and restore it"
        )

    def _mark(self, sequence: int | None = None) -> None:
        reached = int(self._database.latest_sequence_number()) if sequence is None else sequence
        mark = observed_mark(self._path, reached)
        if mark != self._marked:
            write_mark(self._path, mark)
            self._marked = mark

    def _release(self) -> None:
        for database in (self._metadata_rows, self._database):
            with contextlib.suppress(Exception):
                database.close()
        # The handle keeps the database open, and its lock held, for as long as it lives.
        self._metadata_handle = None
        self._get = _closed

    def _resume(self) -> None:
        """Reopens after a failed write, as RocksDB then refuses all writes; only once there is space to reopen."""
        if not self._open:
            self._refuse()
        # If an earlier attempt could not reopen the database, the numbers from before it still apply.
        with contextlib.suppress(Exception):
            self._buffered_bytes = int(self._database.property_int_value("rocksdb.cur-size-all-mem-tables") or 0)
            self._reached = max(self._reached, int(self._database.latest_sequence_number()))
        self._probe(self._buffered_bytes + _PROBE_SLACK_BYTES)
        self._iterators.close_all()
        self._release()
        try:
            self._database = self._opened(AccessType.read_write())
        except DiskFullError:
            self._database = self._opened(AccessType.read_only(error_if_log_file_exist=False))
            raise
        # A follower of a log continues after its last written offset, not after what the store has.
        self._check_not_rolled_back(self._reached)
        self._failed_write = False

    def _add_metadata(self, batch: WriteBatch, metadata: Mapping[bytes, bytes | None]) -> None:
        handle = self._metadata_handle
        for key, value in metadata.items():
            if value is None:
                batch.delete(key, handle)
            else:
                batch.put(key, value, handle)

    def _probe(self, size_bytes: int) -> None:
        probe = self._path / "PROBE.tmp"
        chunk = bytes(1 << 20)
        try:
            with probe.open("wb") as file:
                for _ in range(-(-size_bytes // len(chunk))):
                    file.write(chunk)
        except OSError as error:
            raise translated(error, str(self._path)) from error
        finally:
            probe.unlink(missing_ok=True)

    def _forwards(self, cursor: Any, start: bytes | None, stop: bytes | None, _options: ReadOptions) -> Iterator[Row]:
        valid, key, value, advance = cursor.valid, cursor.key, cursor.value, cursor.next
        try:
            cursor.seek_to_first() if start is None else cursor.seek(start)
            while valid():
                row_key = key()
                if stop is not None and row_key >= stop:
                    return
                yield row_key, value()
                advance()
            # An iterator that meets a damaged block just ends; only its status shows that rows are missing.
            cursor.status()
        except Exception as error:
            self._fail(error)

    def _backwards(self, cursor: Any, start: bytes | None, stop: bytes | None, _options: ReadOptions) -> Iterator[Row]:
        # rocksdict 0.3.29 treats a lower bound as an upper one, so the start is compared here.
        valid, key, value, advance = cursor.valid, cursor.key, cursor.value, cursor.prev
        try:
            cursor.seek_to_last() if stop is None else cursor.seek_for_prev(stop)
            while valid():
                row_key = key()
                if start is not None and row_key < start:
                    return
                if row_key != stop:
                    yield row_key, value()
                advance()
            cursor.status()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> NoReturn:
        if not self._open:
            self._refuse()
        failure = _translated_or_same(error, self._path)
        if isinstance(failure, DiskFullError):
            self._failed_write = True
        raise failure from error


def _closed(_key: object) -> NoReturn:
    raise StoreClosedError("the store is closed; open it again first")


def _translated_or_same(error: BaseException, path: Path) -> BaseException:
    if isinstance(error, StateError | KeyboardInterrupt | SystemExit | MemoryError | TypeError):
        return error
    return translated(error, str(path))


def _expected_mark(path: Path) -> DurableMark | None:
    """The mark that the database at `path` must match; None if there is no store yet."""
    present = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    mark = read_mark(path)
    if mark is not None:
        check_whole(path, mark)
    elif any(not name.startswith(FILE_NAME) for name in present):
        msg = f"{path} holds files but no durable mark, so it is not a whole store; set it aside and restore it"
        raise StoreCorruptedError(msg)
    return mark


def translated(error: BaseException, path: str) -> StateError:
    """The error of our tree for what rocksdict raised about the store at `path`."""
    text = str(error)
    if type(error).__name__ == "DbClosedError":
        return StoreClosedError(f"the store at {path} is closed; open it again first")
    if any(sign in text for sign in _DISK_FULL):
        return DiskFullError(f"no space left for the store at {path}; free some, then write again: {text}")
    if any(sign in text for sign in _CORRUPTED):
        return StoreCorruptedError(f"the store at {path} is damaged; set it aside and restore it: {text}")
    if "lock hold by" in text or "While lock file" in text:
        return StorageError(f"the store at {path} is open elsewhere; one process at a time may open it: {text}")
    return StorageError(f"the store at {path} failed: {text}")
