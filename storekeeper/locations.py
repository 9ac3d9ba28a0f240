"""Where durable files are: a local folder, or one of a store that a URI names, such as HDFS or S3.

A store is read and written by the client inside `deltalake`, so its address and credentials are the same as for tables.
They come from the environment and from files: `AWS_*`, `HADOOP_CONF_DIR`, a Kerberos ticket. None is in a URI.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from storekeeper.errors import ConfigurationError, StorageError, TablesUnreachableError
from storekeeper.whole_files import write_whole

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

SCHEMES = ("abfss", "gs", "hdfs", "s3", "s3a")
"""The schemes that deltalake and Hadoop have in common."""

_COLOURS = re.compile(r"\x1b\[\d+m|↳|\[0m")
_OF_A_STORE = re.compile(r"Generic \w+ error|Error performing (DELETE|GET|HEAD|POST|PUT|list request)")
_MISSING = re.compile(r"not found|NoSuchKey", re.IGNORECASE)
_MOST_CHARS = 400
_PART_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class FileState:
    """A file's size, and when it was last changed, as its file system says: nanoseconds, of no known clock."""

    size: int
    changed_ns: int


@dataclass(frozen=True, slots=True, order=True)
class RemoteFolder:
    """A folder or file of a store. It has the methods of a `Path` that its users need.

    Each that reads or writes raises `TablesUnreachableError` if the store does not answer.
    """

    uri: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.uri.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its last suffix."""
        return self.name.rpartition(".")[0] or self.name

    @property
    def parent(self) -> RemoteFolder:
        """The folder that it is in."""
        return RemoteFolder(self.uri.rpartition("/")[0])

    def with_name(self, name: str) -> RemoteFolder:
        """What has this name in the same folder."""
        return self.parent / name

    def __truediv__(self, name: str) -> RemoteFolder:
        """What has this name in the folder; the folder itself for an empty name."""
        return RemoteFolder(f"{self.uri}/{name}" if name else self.uri)

    def __str__(self) -> str:
        """The URI."""
        return self.uri

    def exists(self) -> bool:
        """Whether there is such a file or folder."""
        return self._info().type.name != "NotFound"

    def is_dir(self) -> bool:
        """Whether there is such a folder. Stores of objects have no empty ones."""
        return self._info().type.name == "Directory"

    def iterdir(self) -> Iterator[RemoteFolder]:
        """What is directly in the folder; nothing if there is no such folder."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415 (a node that reads no table does without)

        with reaching(self):
            entries = self._files().get_file_info(FileSelector(self._path, allow_not_found=True))
        # Hadoop's client of S3 marks a folder by an empty object of its name, which is listed as well.
        return (self / info.base_name for info in entries if info.path.strip("/") != self._path)

    def read_bytes(self) -> bytes:
        """The content of the file.

        Raises:
            FileNotFoundError: there is none.
        """
        with reaching(self), self._files().open_input_file(self._path) as file:
            content: bytes = file.read()
        return content

    def files_below(self) -> dict[str, FileState]:
        """The files in the folder and below, by their paths from it; nothing if there is no such folder."""
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415 (as above)

        with reaching(self):
            found = self._files().get_file_info(FileSelector(self._path, recursive=True, allow_not_found=True))
        start = len(self._path) + 1
        files = {
            info.path.strip("/")[start:]: FileState(info.size, info.mtime_ns)
            for info in found
            if info.type == FileType.File
        }
        # As in `iterdir`: empty objects that mark a folder come and go.
        folders = {""} | {name[:end] for name in files for end, sign in enumerate(name) if sign == "/"}
        return {name: state for name, state in files.items() if name not in folders}

    def sha256(self) -> str:
        """The SHA-256 of the file's content, in hexadecimal digits.

        Raises:
            FileNotFoundError: there is none.
        """
        with reaching(self), self._files().open_input_file(self._path) as file:
            total = hashlib.sha256()
            while part := file.read(_PART_BYTES):
                total.update(part)
            return total.hexdigest()

    def write_bytes(self, data: bytes) -> None:
        """Makes the file, or replaces it, in one step. What a crash or an error interrupts is not there afterwards."""
        with reaching(self):
            # The client takes data from the stream's buffer alone, and a file exists once it is closed.
            stream = self._files().open_output_stream(self._path, buffer_size=len(data) + 1)
            stream.write(data)
            stream.close()

    def unlink(self, *, missing_ok: Literal[True]) -> None:
        """Deletes the file, if it is there."""
        assert missing_ok  # noqa: S101 (a store does not say whether there was one)
        with reaching(self):
            self._files().delete_file(self._path)

    def delete_files(self) -> None:
        """Deletes all files in the folder and below. Empty folders stay, in S3 as the markers of Hadoop's client."""
        with reaching(self):
            self._files().delete_dir(self._path)

    @property
    def _path(self) -> str:
        return urlsplit(self.uri).path.strip("/")

    def _files(self) -> FileSystem:
        """The store's client, once the store has answered.

        The client lists, opens, writes and deletes with Python's global lock held, so a store that has frozen would
        hold up all threads. It looks a file up without: waiting for that holds up the caller alone.
        """
        self._info()
        return self._client()

    def _info(self) -> FileInfo:
        with reaching(self):
            (info,) = self._client().get_file_info([self._path])
        return info

    def _client(self) -> FileSystem:
        parts = urlsplit(self.uri)
        with reaching(self):
            return _filesystem(f"{parts.scheme}://{parts.netloc}")


Location = Path | RemoteFolder
"""A folder or file: local, or in a store."""


def location(text: str) -> Location:
    """The location that a setting names: an absolute path, or a URI.

    Raises:
        ConfigurationError: it is neither, its scheme is unknown, or it holds credentials.
    """
    if "://" not in text:
        if not text.startswith("/"):
            msg = f"{text!r} is neither an absolute path nor a URI, such as hdfs://namenode:8020/tables"
            raise ConfigurationError(msg)
        return Path(text)
    parts = urlsplit(text)
    if parts.scheme == "file":
        return Path(parts.path)
    if parts.scheme not in SCHEMES:
        raise ConfigurationError(f"{parts.scheme}:// is not a store of files: use file, {', '.join(SCHEMES)}")
    if parts.password is not None or parts.query:
        raise ConfigurationError("a URI can't hold credentials: put them into the environment or a file")
    return RemoteFolder(text.rstrip("/"))


def entries(folder: Location) -> list[Location]:
    """What is directly in a folder; nothing if there is no such folder."""
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def files_below(folder: Location) -> dict[str, FileState]:
    """The files in a folder and below, by their paths from it; nothing if there is no such folder.

    A local file's time is that of its last change of any kind, which programs can't set.
    """
    if not isinstance(folder, Path):
        return folder.files_below()
    found = {}
    seen = {os.path.realpath(folder)}
    for place, folders, names in os.walk(folder, followlinks=True):  # a table may be a link to a larger disk
        folders[:] = [name for name in folders if _is_new(Path(place, name), seen)]
        for name in names:
            file = Path(place, name)
            with suppress(FileNotFoundError):  # removed while the folder is read
                state = file.stat()
                found[str(file.relative_to(folder))] = FileState(state.st_size, state.st_ctime_ns)
    return found


def _is_new(folder: Path, seen: set[str]) -> bool:
    """Whether a folder was not there yet: links may form a circle."""
    place = os.path.realpath(folder)
    is_new = place not in seen
    seen.add(place)
    return is_new


def sha256_of(file: Location) -> str:
    """The SHA-256 of a file's content, in hexadecimal digits.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if not isinstance(file, Path):
        return file.sha256()
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def write_in_one_step(place: Location, data: bytes, *, private: bool = False, durable: bool = False) -> None:
    """Makes a file, or replaces it: a reader sees the old content or the complete new content.

    Args:
        place: the file.
        data: its new content.
        private: as in `write_whole`. In a store, its rules decide who may read.
        durable: as in `write_whole`. What a store has confirmed is durable.
    """
    if isinstance(place, Path):
        write_whole(place, data, private=private, durable=durable)
    else:
        place.write_bytes(data)


def delete_tree(folder: Location) -> None:
    """Deletes a folder and all that is in it, if it is there."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.delete_files()


@contextmanager
def reaching(place: Location) -> Iterator[None]:
    """Turns the errors of a store that does not answer, or refuses, into one that says so.

    Raises:
        TablesUnreachableError: the store at `place` could not be reached.
    """
    try:
        yield
    except OSError as error:
        if isinstance(place, Path) or not _is_of_the_store(error):
            raise
        raise unreachable(place, _reason_of(error)) from error


def unreachable(place: RemoteFolder, why: str) -> TablesUnreachableError:
    """The error for a store that does not answer, or refuses."""
    return TablesUnreachableError(
        f"the store of {place} can't be read or written ({why[:_MOST_CHARS]}): check that it runs, its address "
        "and the credentials, then repeat; nothing was left half done"
    )


def failure(place: Location, error: Exception, what: str) -> StorageError | TablesUnreachableError:
    """The error for something that failed in a place: that of its store, if it doesn't answer or refuses.

    Args:
        place: the place.
        error: what a library says, of any class.
        what: the message otherwise.
    """
    answer = OSError(str(error))
    if isinstance(place, Path) or not _is_of_the_store(answer):
        return StorageError(what)
    return unreachable(place, _reason_of(answer))


def _is_of_the_store(error: OSError) -> bool:
    """Whether an error says something of the store as a whole. That a file is missing does not."""
    text = str(error)
    return not isinstance(error, FileNotFoundError) and bool(_OF_A_STORE.search(text)) and not _MISSING.search(text)


def _reason_of(error: OSError) -> str:
    """The first and the last message of a chain of errors: what failed, and why."""
    lines = [" ".join(_COLOURS.sub("", line).split()) for line in str(error).splitlines()]
    first, *_, last = [line for line in lines if line] * 2
    return first if first == last else f"{first}: {last}"


@cache
def _filesystem(root: str) -> FileSystem:
    from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415 (as above)
    from pyarrow.fs import PyFileSystem  # noqa: PLC0415

    return PyFileSystem(DeltaStorageHandler(root))
