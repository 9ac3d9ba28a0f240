"""The erasures of a store, as files: a plan for a person to read, the keys until they are erased, the certificate.

The keys are in a file that only its owner can read. It goes when the certificate is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import msgspec
import orjson

from storekeeper.erasure.keys import ErasedKeys
from storekeeper.errors import InvalidArgumentError, SerializationError, StorageError
from storekeeper.locations import Location, entries, write_in_one_step
from storekeeper.stores.store_definitions import ServedKind

_ID = re.compile(r"\d{8}T\d{9}Z")


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """What an erasure concerns. It names no key.

    Attributes:
        erasure_id: names it, and its folder.
        store, app, kind, topic, topic_id, generation: the store, and its changelog as it is live.
        created_ms: when it was planned.
        salt, hashes: a hash of each key, made with `salt`.
        records: by partition, how many records of the keys the changelog has.
        topics: the topics of the project that are searched in the end.
        users_topics: the topics that apps read and write for others: nothing is erased there.
        unknown: the hashes of keys of which neither the changelog nor the history has a record.
    """

    erasure_id: str
    store: str
    app: str
    kind: ServedKind
    topic: str
    topic_id: str
    generation: int
    created_ms: int
    salt: str
    hashes: tuple[str, ...]
    records: Mapping[int, int]
    topics: tuple[str, ...]
    users_topics: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON's own types."""
        return {**asdict(self), "records": {str(at): count for at, count in self.records.items()}}

    def as_text(self) -> str:
        """The plan in Markdown, for the person who approves it."""
        counted = "one key" if len(self.hashes) == 1 else f"{len(self.hashes)} keys"
        lines = [
            f"Erase **{counted}** of store **{self.store}** of app {self.app} **for good**: nothing brings them back.",
            "",
            *self._unknown(),
            f"- Records of them in changelog `{self.topic}`: {sum(self.records.values())}. They go by compaction.",
            "- Deletions go after the topic's `delete.retention.ms`: the erasure is repeated until then.",
            f"- Tables `{self.store}` and `{self.store}_history` lose them, and **all earlier versions**.",
            "- Nodes and tasks restore the partitions concerned.",
            f"- Searched in the end: the project's {len(self.topics)} topics; tables; archives of clean-ups; verdicts.",
            f"- **Yours, and left as they are**: {', '.join(self.users_topics) or 'no topic'}; backups.",
        ]
        return "\n".join(lines)

    def _unknown(self) -> list[str]:
        if not self.unknown:
            return []
        of = f"{len(self.unknown)} of {len(self.hashes)} keys"
        return [f"- **No record was found of {of}**, neither in the changelog nor in the history: are they misspelt?"]


@dataclass(slots=True)
class Noted:
    """What is known of the keys while their erasure is under way.

    Attributes:
        keys: the keys.
        row_keys: those of their rows that were seen, in the changelog or the history.
        offsets: by partition, the offsets of their records that were seen.
        partitions: the partitions that may have had rows of them.
        renewed: by node, the partitions that it has restored from the changelog without them.
        local_stores: the folders of tasks that were to be made anew.
        topic_config: the changelog's own configuration, as long as it is changed.
        done: what was done, in sentences.
    """

    keys: list[str]
    row_keys: list[str] = field(default_factory=list)
    offsets: dict[int, list[int]] = field(default_factory=dict)
    partitions: list[int] = field(default_factory=list)
    renewed: dict[str, list[int]] = field(default_factory=dict)
    local_stores: list[str] = field(default_factory=list)
    topic_config: dict[str, str | None] | None = None
    done: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, keys: Iterable[bytes]) -> Self:
        """The keys alone."""
        return cls([key.hex() for key in keys])

    def erased_keys(self, kind: ServedKind) -> ErasedKeys:
        """The keys."""
        return ErasedKeys(kind, tuple(sorted(map(bytes.fromhex, self.keys))))

    def see(self, row_keys: Iterable[bytes]) -> None:
        """Notes rows of the keys."""
        self.row_keys = sorted({*self.row_keys, *(key.hex() for key in row_keys)})

    def unknown(self, keys: ErasedKeys, hashes: Iterable[str]) -> tuple[str, ...]:
        """The hashes of the keys of which no row was seen. `hashes` are those of all, in their order."""
        unknown = keys.without_rows(map(bytes.fromhex, self.row_keys))
        return tuple(one for key, one in zip(keys.keys, hashes, strict=True) if key in unknown)

    def note(self, sentence: str) -> None:
        """Notes what was done, once."""
        if sentence not in self.done:
            self.done.append(sentence)


class ErasureFolder:
    """The erasures of one store, as files.

    Args:
        path: the folder.
        store: the store's name, for messages.
    """

    def __init__(self, path: Location, store: str) -> None:
        self._path = path
        self._store = store

    def put(self, plan: ErasurePlan, noted: Noted) -> None:
        """Keeps a new plan and its keys."""
        self.put_noted(plan.erasure_id, noted)
        content = orjson.dumps(plan.as_dict(), option=orjson.OPT_INDENT_2)
        write_in_one_step(self._path / plan.erasure_id / "plan.json", content, private=True, durable=True)

    def plan(self, erasure_id: str) -> ErasurePlan:
        """The plan of an erasure.

        Raises:
            InvalidArgumentError: there is none of that id.
            SerializationError: its file is none.
        """
        try:
            if not _ID.fullmatch(erasure_id):
                raise FileNotFoundError
            return msgspec.json.decode((self._path / erasure_id / "plan.json").read_bytes(), type=ErasurePlan)
        except FileNotFoundError:
            known = ", ".join(sorted(folder.name for folder in entries(self._path))) or "none"
            msg = f"store {self._store} has no erasure {erasure_id[:100]!r}: there are {known}"
            raise InvalidArgumentError(msg) from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            msg = f"erasure {erasure_id} of {self._store} has a damaged plan: make another with `storekeeper erase`"
            raise SerializationError(msg) from error

    def noted(self, erasure_id: str) -> Noted:
        """The keys of an erasure that is under way, and what is known of them.

        Raises:
            StorageError: the file is gone or damaged.
        """
        try:
            return msgspec.json.decode((self._path / erasure_id / "keys.json").read_bytes(), type=Noted)
        except (FileNotFoundError, msgspec.MsgspecError) as error:
            msg = (
                f"erasure {erasure_id} of {self._store} has lost its keys: make another with `storekeeper erase "
                f"{self._store}`"
            )
            raise StorageError(msg) from error

    def put_noted(self, erasure_id: str, noted: Noted) -> None:
        """Keeps what is known."""
        content = msgspec.json.encode(noted)
        write_in_one_step(self._path / erasure_id / "keys.json", content, private=True, durable=True)

    def certificate(self, erasure_id: str) -> dict[str, Any] | None:
        """The certificate; None before the erasure is complete. The keys go, if they are still there."""
        try:
            found: dict[str, Any] = orjson.loads((self._path / erasure_id / "certificate.json").read_bytes())
        except FileNotFoundError:
            return None
        (self._path / erasure_id / "keys.json").unlink(missing_ok=True)
        return found

    def certify(self, erasure_id: str, certificate: Mapping[str, Any]) -> None:
        """Keeps the certificate, and then forgets the keys."""
        content = orjson.dumps(certificate, option=orjson.OPT_INDENT_2)
        write_in_one_step(self._path / erasure_id / "certificate.json", content, private=True, durable=True)
        self.certificate(erasure_id)
