"""The seal of a table: what its last writer left, file by file, kept outside of the table.

It is written after each commit of ours: version, manifest, and the size and SHA-256 of every file in the table's
folder, with those of the log. Before anything builds on the table, the folder is compared with it. So nothing is
trusted that the table says of itself: an older copy, edited statistics or settings, and a commit of another program
all differ.

A file is read again only if its size or its time differ from those in the seal, or if it was so new then that its time
says nothing. `whole=True` reads all files.

A writer marks the seal before its commit, and writes a new one after it. If it dies in between, the mark stays:
readers go on with the version before, and the next writer proves the whole table first.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.seeds import Report, not_reported
from storekeeper.delta_files import is_table
from storekeeper.errors import SerializationError, SnapshotDamagedError
from storekeeper.locations import FileState, Location, entries, files_below, sha256_of, write_in_one_step
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.delta_log import VerifiedVersion, damaged, newest_manifest, open_table, read_commit
from storekeeper.snapshots.manifest import SnapshotManifest

_RECENT_NS = 2_000_000_000
"""Clocks of file systems may be as coarse as a second: a file that is changed twice in that time keeps its time."""
POINTERS = ("_delta_log/_last_checkpoint", "_delta_log/._last_checkpoint.crc")
"""The files that writers replace. All others never change."""
_LOG_VERSION = re.compile(r"_delta_log/\.?(\d{20})\.")
_COMMIT = re.compile(r"_delta_log/(\d{20})\.json")
_SHOWN_FILES = 3
_TRIES = 3


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A file's size, the SHA-256 of its content, and when it was last changed, see `FileState`."""

    size: int
    sha256: str
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Seal:
    """What a writer left.

    Attributes:
        version: the table's newest version; None: it has no commit yet.
        manifest: that of the newest snapshot; None: there is none yet.
        files: every file in the table's folder, by its path from there.
        made_ns: when it was made, nanoseconds of this machine's clock.
        writing: whether a writer has begun a commit since, and has not yet sealed what it left.
    """

    version: int | None = None
    manifest: SnapshotManifest | None = None
    files: Mapping[str, SealedFile] = field(default_factory=dict)
    made_ns: int = 0
    writing: bool = False

    @property
    def verified(self) -> VerifiedVersion | None:
        """The version, and the manifest of what it holds; None before the first snapshot."""
        if self.version is None or self.manifest is None:
            return None
        return VerifiedVersion(self.version, self.manifest)

    def to_json(self) -> bytes:
        """The seal as JSON, with a checksum of itself."""
        content: dict[str, Any] = {
            "version": self.version,
            "manifest": None if self.manifest is None else self.manifest.as_dict(),
            "made_ns": self.made_ns,
            "writing": self.writing,
            "files": {name: [one.size, one.sha256, one.changed_ns] for name, one in sorted(self.files.items())},
        }
        text = orjson.dumps(content)
        return b'{"sha256":"%s","seal":%s}\n' % (hashlib.sha256(text).hexdigest().encode(), text)

    @classmethod
    def from_json(cls, text: bytes) -> Seal:
        """The seal in such JSON.

        Raises:
            SerializationError: it is not a seal, or was changed.
        """
        try:
            whole = orjson.loads(text)
            content = whole["seal"]
            if hashlib.sha256(orjson.dumps(content)).hexdigest() != whole["sha256"]:
                msg = "its content is not what its checksum says"
                raise SerializationError(msg)
            manifest = content["manifest"]
            return cls(
                content["version"],
                None if manifest is None else SnapshotManifest.from_json(orjson.dumps(manifest)),
                {name: SealedFile(*sealed) for name, sealed in content["files"].items()},
                content["made_ns"],
                content["writing"],
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            msg = "it is no seal of a table"
            raise SerializationError(msg) from error


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A file of a table that isn't as it was sealed."""

    name: str
    kind: Literal["added", "changed", "gone"]

    @property
    def log_version(self) -> int | None:
        """The version of the table that the file is of; None for files that aren't of one version in the log."""
        match = _LOG_VERSION.match(self.name)
        return int(match[1]) if match else None


class SealedTable:
    """A table and its seal. Who writes it holds its lease.

    Args:
        path: the table's folder.
        file: the seal.
    """

    def __init__(self, path: Location, file: Location) -> None:
        self.path = path
        self.file = file
        self._hashed: dict[str, SealedFile] = {}

    @classmethod
    def of(cls, settings: AppSettings, name: str) -> SealedTable:
        """The table of a name."""
        return cls(settings.delta_table(name), settings.seals / f"{name}.json")

    def current(self, *, whole: bool = False, report: Report = not_reported) -> Seal | None:
        """The seal, compared with the folder; None if there is neither.

        While a commit is under way it is the seal before that, whose version is still there.

        Args:
            whole: read the content of all files, also of those that seem to be unchanged.
            report: called with the number of files that were compared, and of all.

        Raises:
            SnapshotDamagedError: the folder is not what the seal says; the message names the first files.
            TablesUnreachableError: the store of the tables doesn't answer.
        """
        for left in reversed(range(_TRIES)):
            seal = self.read()
            found = files_below(self.path)
            if seal is None and not found:
                return None
            wrong = None if seal is None else self._differences(seal, found, whole=whole, report=report)
            if seal is not None and seal.writing and wrong:
                wrong = [one for one in wrong if one.kind == "changed" and one.name not in POINTERS]
            if wrong == []:
                return seal
            if not left or self.read() == seal:  # otherwise a writer was at work while the folder was read
                raise self._differing(seal, wrong or [], is_gone=not found)
        raise AssertionError  # the last turn returns or raises

    def to_build_on(self, prove: Callable[[VerifiedVersion], object]) -> VerifiedVersion | None:
        """The newest version, for its next writer; None before the first snapshot.

        If the last writer died before it could seal its commit, the whole table is proven, and sealed.

        Args:
            prove: raises SnapshotDamagedError if a version does not show what a manifest says.

        Raises:
            SnapshotDamagedError: as `current`, or the proof fails.
        """
        seal = self.current()
        if seal is None or not seal.writing:
            return None if seal is None else seal.verified
        shown = self.shown()
        if shown is not None:
            prove(shown)
        elif is_table(self.path):
            raise damaged(self.path, "holds no snapshot")
        return self.sealed().verified

    def shown(self) -> VerifiedVersion | None:
        """What readers see as the newest version, and the manifest of what it should hold, unproven.

        None without a table, or without a snapshot in it.

        Raises:
                SnapshotDamagedError: the log can't be read, or the last writer died, and its table is an older one.
        """
        seal = Seal()
        with suppress(SnapshotDamagedError):
            seal = self.read() or seal
        manifest = newest_manifest(self.path) if seal.writing or seal.manifest is None else seal.manifest
        version = open_table(self.path).version() if is_table(self.path) else None
        if version is not None and not (self.path / "_delta_log" / f"{version:020}.json").exists():
            raise damaged(self.path, f"shows version {version}, which no commit made")
        if seal.writing and (-1 if version is None else version) < (-1 if seal.version is None else seal.version):
            raise damaged(self.path, f"has version {version}, and was sealed at version {seal.version}")
        return None if manifest is None or version is None else VerifiedVersion(version, manifest)

    @contextmanager
    def writing(self, expected: int | None = None) -> Iterator[None]:
        """Lets the block commit to the table, and seals what it leaves.

        Args:
            expected: the version that the block makes; None for any.

        Raises:
            SnapshotDamagedError: the table isn't as it was sealed, its last writer died, or another program wrote to
                it meanwhile.
        """
        before = self.current() or Seal()
        if before.writing:
            raise self._damaged("was left by its last writer before it could be sealed")
        self._write(replace(before, writing=True))
        try:
            yield
        except BaseException:
            with suppress(Exception):
                if not self._differences(before, files_below(self.path), whole=False):
                    self._write(before)
            raise
        after = self._made(before)
        if expected is not None and after.version != expected:
            msg = f"was changed by something else while it was written: it has version {after.version}, not {expected}"
            raise self._damaged(msg)
        self._write(after)

    def sealed(self) -> Seal:
        """Seals the table as it is. Prove it first.

        Returns:
            The new seal.
        """
        before = Seal()
        with suppress(SnapshotDamagedError):
            before = self.read() or before
        seal = self._made(before)
        self._write(seal)
        return seal

    def differences(self) -> list[FileDifference] | None:
        """Every file that isn't as it was sealed, all read again; None without a seal that says it."""
        with suppress(SnapshotDamagedError):
            seal = self.read()
            if seal is not None and not seal.writing:
                return self._differences(seal, files_below(self.path), whole=True)
        return None

    def read(self) -> Seal | None:
        """The seal, not compared with anything; None if there is none.

        Raises:
            SnapshotDamagedError: its file is damaged.
        """
        try:
            return Seal.from_json(self.file.read_bytes())
        except FileNotFoundError:
            return None
        except SerializationError as error:
            what = f"has a damaged seal, {self.file}: {error}"
            raise self._damaged(what) from error

    def _differences(
        self, seal: Seal, found: Mapping[str, FileState], *, whole: bool, report: Report = not_reported
    ) -> list[FileDifference]:
        wrong: list[FileDifference] = []
        names = sorted({*seal.files, *found})
        for done, name in enumerate(names):
            report(done, len(names))
            sealed, state = seal.files.get(name), found.get(name)
            if sealed is None:
                wrong.append(FileDifference(name, "added"))
            elif state is None:
                wrong.append(FileDifference(name, "gone"))
            elif state.size != sealed.size:
                wrong.append(FileDifference(name, "changed"))
            elif whole or not _is_known(seal, sealed, state):
                try:
                    if self._sha256(name, state, anew=whole) != sealed.sha256:
                        wrong.append(FileDifference(name, "changed"))
                except FileNotFoundError:
                    wrong.append(FileDifference(name, "gone"))
        return wrong

    def _differing(self, seal: Seal | None, wrong: list[FileDifference], *, is_gone: bool) -> SnapshotDamagedError:
        if seal is None:
            return self._damaged(f"has no seal at {self.file}, so nothing says what it should hold")
        if is_gone:
            return SnapshotDamagedError(
                f"table {self.path.name} is gone from {self.path}: it was sealed at version {seal.version}. Put it "
                f"back. Or, to write it anew from the changelog, remove {self.file}, then run "
                f"`storekeeper snapshot create {self.path.name.removesuffix(HISTORY)}`"
            )
        return self._damaged(self._sentence(seal, wrong))

    def _damaged(self, what: str) -> SnapshotDamagedError:
        return damaged(self.path, what)

    def _sentence(self, seal: Seal, wrong: list[FileDifference]) -> str:
        shown = ", ".join(self._described(one) for one in wrong[:_SHOWN_FILES])
        more = f" and {len(wrong) - _SHOWN_FILES} more" if len(wrong) > _SHOWN_FILES else ""
        return f"isn't as it was sealed at version {seal.version}: {shown}{more}"

    def _described(self, one: FileDifference) -> str:
        if one.kind != "added":
            return f"{one.name} is gone" if one.kind == "gone" else f"{one.name} was changed"
        commit = read_commit(self.path / one.name) if _COMMIT.fullmatch(one.name) else None
        what = "" if commit is None else f" by {commit.info.get('operation', 'an unknown operation')}"
        return f"{one.name} was added{what}"

    def _made(self, before: Seal) -> Seal:
        """A seal of the folder as it is. Files that are as they were are not read again."""
        made_ns = time.time_ns()
        files = {name: self._file(before, name, state) for name, state in files_below(self.path).items()}
        commits = [int(match[1]) for name in files if (match := _COMMIT.fullmatch(name))]
        # A history's commits have a manifest of another kind: looking for one would read them all.
        manifest = None if self.path.name.endswith(HISTORY) else newest_manifest(self.path)
        return Seal(max(commits, default=None), manifest, files, made_ns)

    def _file(self, before: Seal, name: str, state: FileState) -> SealedFile:
        """A file as it is; it is read again unless its time says that it is as in an earlier seal."""
        sealed = before.files.get(name)
        if sealed is not None and sealed.size == state.size and _is_known(before, sealed, state):
            return sealed
        try:
            return SealedFile(state.size, self._sha256(name, state), state.changed_ns)
        except FileNotFoundError as error:
            what = f"lost {name} while it was sealed"
            raise self._damaged(what) from error

    def _sha256(self, name: str, state: FileState, *, anew: bool = False) -> str:
        """The hash of a file's content, read once for each of its times, unless that is so new that it may recur."""
        known = self._hashed.get(name)
        if not anew and known is not None and (known.size, known.changed_ns) == (state.size, state.changed_ns):
            return known.sha256
        read_ns, found = time.time_ns(), sha256_of(self.path / name)
        if state.changed_ns < read_ns - _RECENT_NS:
            self._hashed[name] = SealedFile(state.size, found, state.changed_ns)
        return found

    def _write(self, seal: Seal) -> None:
        write_in_one_step(self.file, seal.to_json(), durable=True)


def _is_known(seal: Seal, sealed: SealedFile, state: FileState) -> bool:
    """Whether a file's time alone says that it is as it was sealed."""
    return state.changed_ns == sealed.changed_ns < seal.made_ns - _RECENT_NS


def sealed_tables(settings: AppSettings) -> Iterator[SealedTable]:
    """All tables that have a seal, in the order of their names."""
    names = (file.name for file in entries(settings.seals))
    return (SealedTable.of(settings, name.removesuffix(".json")) for name in sorted(names) if name.endswith(".json"))
