"""Several keys in one request: this node's keys are read together, others with one request per node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import msgspec
import orjson

from storekeeper.errors import InvalidArgumentError
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.query.answers.json_rows import no_row_json, row_json
from storekeeper.node.query.answers.origins import Origin
from storekeeper.node.query.forwarding import PeerRequest
from storekeeper.node.query.reads.cooperative_scheduler import Steps, finished
from storekeeper.node.query.reads.freshness_gate import Asked
from storekeeper.node.query.reads.gather import Gathered, Gatherer, complete, unpacked
from storekeeper.node.replicas.replica import Replica
from storekeeper.protocol.keys import decode_base64url

INTERNAL_PATH = "/internal/keys/"
READ_AT_ONCE = 256
_NEWLINE = b"\n"

Rows = Mapping[bytes, bytes | None]
"""A row as JSON by key; None where there is none."""


@dataclass(frozen=True, slots=True)
class KeysQuery:
    """A query for the rows of some keys of a store, by partition."""

    store: str
    keys: Mapping[int, Sequence[bytes]]

    @classmethod
    def of(cls, catalog: Catalog, store: str, keys: Iterable[bytes]) -> Self:
        """The query for keys, wherever they are. Raises as `Catalog.partition` does."""
        by_partition: dict[int, list[bytes]] = {}
        for key in dict.fromkeys(keys):
            by_partition.setdefault(catalog.partition(store, key), []).append(key)
        return cls(store, by_partition)

    def request(self, partitions: Sequence[int], rest: str) -> PeerRequest:
        """As the internal route reads it, with the keys in the body."""
        keys = [key for number in partitions for key in self.keys[number]]
        return PeerRequest(f"{INTERNAL_PATH}{self.store}?of=keys&{rest}", "POST", msgspec.msgpack.encode(keys))

    def local(self, replicas: Sequence[Replica]) -> dict[bytes, bytes | None] | Steps[dict[bytes, bytes | None]]:
        """The rows of this node's replicas."""
        steps = self._steps(replicas)
        return steps if sum(map(len, self.keys.values())) > READ_AT_ONCE else finished(steps)

    def _steps(self, replicas: Sequence[Replica]) -> Steps[dict[bytes, bytes | None]]:
        rows: dict[bytes, bytes | None] = {}
        for replica in replicas:
            wanted = self.keys.get(replica.replica_id.partition, ())
            for at in range(0, len(wanted), READ_AT_ONCE):
                if len(rows) >= READ_AT_ONCE:
                    yield
                keys = wanted[at : at + READ_AT_ONCE]
                for key, row in replica.get_many(keys).items():
                    rows[key] = None if row is None else row_json(key, row.value)
        return rows

    def decode(self, body: bytes) -> tuple[dict[bytes, bytes | None], list[Origin]]:
        """Reads another node's answer."""
        return unpacked(body, dict[bytes, bytes | None])


async def rows_of_keys(
    gatherer: Gatherer, query: KeysQuery, keys: Sequence[bytes], asked: Asked
) -> tuple[bytes, Gathered[dict[bytes, bytes | None]]]:
    """The rows of `keys`: `{"rows": [{"key": …, "value": …}, …], "complete": true}`, null for keys without one.

    With `partial=ok`, keys of which no node can say now whether they have a row are left out, and `complete` is false.
    Raises as `Gatherer.complete` does.
    """
    gathered = await gatherer.gather(query, asked, query.keys)
    rows = {key: row for rows in gathered.contents for key, row in rows.items()}
    # The keys are named, so an answer from a lost log is complete if none of them was left out.
    answered = query.keys.keys() - set(gathered.missing)
    lost = tuple(sorted(number for number in answered if not rows.keys() >= set(query.keys[number])))
    gathered = complete(query.store, replace(gathered, lost=lost), asked)
    written = [rows[key] or no_row_json(key) for key in keys if key in rows]
    flag = b"false" if gathered.lacking else b"true"
    return b'{"rows":[%b],"complete":%b}' % (b",".join(written), flag), gathered


def parse_keys(body: bytes) -> list[bytes]:
    """The keys of a request's body: `{"keys": ["a", "b"], "key_format": "string"}`; `key_format` may be absent.

    Raises:
        InvalidArgumentError: if the body has another form.
    """
    try:
        fields = orjson.loads(body)
        keys, key_format = fields["keys"], fields.get("key_format", "string")
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise TypeError("keys are text")
        if fields.keys() - {"keys", "key_format"} or key_format not in {"string", "base64url"}:
            raise ValueError("another field or format")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        msg = 'the body must be {"keys": ["…", …]}, with "key_format": "base64url" if they are encoded so'
        raise InvalidArgumentError(msg) from error
    return [decode_base64url(key, "a key") if key_format == "base64url" else key.encode() for key in keys]


def parse_wire_keys(body: bytes) -> list[bytes]:
    """Reads the keys of a request of `KeysQuery`. Raises InvalidArgumentError if they can't be read."""
    try:
        return msgspec.msgpack.decode(body, type=list[bytes])
    except msgspec.MsgspecError as error:
        raise InvalidArgumentError("the body must be a list of keys") from error
