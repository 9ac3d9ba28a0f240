"""The replicas of query nodes, as copies."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

import httpx2

from storekeeper.client.answers import Reply, failure_of
from storekeeper.client.credentials import Credentials
from storekeeper.errors import StoreUnavailableError
from storekeeper.node.security.hop import HopSigner
from storekeeper.stores.row_digest import bucket_of, from_hex
from storekeeper.verification.copies import Copy, Held, differing_buckets, of_stored_row

_ASKED_BUCKETS = 8
_MISDIRECTED = 421
_UNKNOWN_CALLER = (401, 403)
_TIMEOUT_S = 120.0
_PATIENCE_S = 60.0
"""How long they are waited for in all. They take partitions over, and restore them, mostly soon after their start."""
_DEADLINE_MS = 10_000
REPAIR_PATH = "/internal/repair/"
"""A node sets its replica aside for `POST <path><store>/<partition>`, signed with the cluster's secret."""


RENEW_PATH = "/internal/renew/"
"""Likewise it deletes its replica with all files, and restores it."""


class NodeCopies:
    """The nodes of a cluster, by their addresses. A context manager. Not thread-safe.

    Attributes: notices: what nodes say about replicas that they healed, one sentence each. Nodes that have no address
    here are learnt from the others. `transport` replaces the network, and `wait` waits for a number of seconds.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        credentials: Credentials,
        *,
        transport: httpx2.BaseTransport | None = None,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._addresses = list(addresses)
        self._http = httpx2.Client(
            timeout=_TIMEOUT_S,
            trust_env=False,
            transport=transport,
            verify=credentials.ssl_context() if any(address.startswith("https") for address in addresses) else True,
        )
        self._credentials = credentials
        self._wait = wait
        self._waited_s = 0.0
        self.notices: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def members(self) -> dict[str, str]:
        """Name and address of every node in the first answer.

        Raises:
            StoreUnavailableError: no node answers.
        """
        reasons = []
        for address in self._addresses:
            try:
                listed = self._get(address, "/state/cluster")
            except httpx2.HTTPError as error:
                reasons.append(f"{address}: {failure_of(error, _TIMEOUT_S).reason}")
                continue
            return {member["name"]: member["address"] for member in listed["members"]}
        msg = f"no query node answers ({'; '.join(reasons) or 'none is named'}): see `storekeeper status`"
        raise StoreUnavailableError(msg)

    def of_partition(self, members: Mapping[str, str], store: str, topic: str, partition: int) -> list[Copy]:
        """The replicas of a partition that follow `topic`.

        Raises:
            StoreUnavailableError: a node doesn't answer.
        """
        return [
            copy
            for name, address in members.items()
            if (copy := self._copy(name, address, f"/state/digest/{store}/{partition}", topic)) is not None
        ]

    def _copy(self, name: str, address: str, path: str, topic: str) -> Copy | None:
        answer = self._asked(name, address, path)
        if answer is None or answer["topic"] != topic:
            return None
        if answer["set_aside_ms"] is not None:
            at = datetime.fromtimestamp(answer["set_aside_ms"] / 1000, UTC).isoformat(timespec="seconds")
            self.notices.append(f"node {name}, {_partition(path)}: damaged rows were set aside at {at}, and restored")
        buckets = list(map(from_hex, answer["buckets"]))

        def held(ours: Mapping[bytes, int]) -> Iterator[Held]:
            for part in _askable(differing_buckets(buckets, ours)):
                now = self._asked(name, address, f"{path}?{_query(part)}") or {"offset": 0, "entries": []}
                entries = {_decoded(key): from_hex(entry) for key, entry in now["entries"]}
                yield Held(now["offset"], entries, partial(_is_in, part))

        digest = from_hex(answer["digest"])
        return Copy(f"node {name}", answer["offset"], answer["rows"], digest, held, of_stored_row)

    def renew(self, name: str, store: str, partition: int, signer: HopSigner) -> bool:
        """Lets a node delete its replica of a partition with all files, and restore it; whether it holds one.

        Raises:
            StoreUnavailableError: it refuses, or doesn't answer.
        """
        what = f"restore partition {partition} of {store} anew"
        return self._ordered(name, f"{RENEW_PATH}{store}/{partition}", signer, what) != _MISDIRECTED

    def keys_in(self, name: str, address: str, store: str, partition: int, buckets: Sequence[int]) -> set[bytes]:
        """The row keys that a node has in some buckets of a partition; none if it doesn't hold that.

        Raises:
            StoreUnavailableError: it doesn't answer, or still restores the partition.
        """
        found: set[bytes] = set()
        path = f"/state/digest/{store}/{partition}"
        for part in _askable(buckets):
            answer = self._asked(name, address, f"{path}?{_query(part)}")
            found |= {_decoded(key) for key, _ in (answer or {"entries": []})["entries"]}
        return found

    def set_aside(self, name: str, store: str, partition: int, signer: HopSigner) -> None:
        """Lets a node set its replica of a partition aside.

        Raises:
            StoreUnavailableError: it refuses, or doesn't answer.
        """
        what = f"set partition {partition} of {store} aside"
        if self._ordered(name, f"{REPAIR_PATH}{store}/{partition}", signer, what) == _MISDIRECTED:
            raise StoreUnavailableError(f"node {name} doesn't {what}: it doesn't hold that")

    def _ordered(self, name: str, path: str, signer: HopSigner, what: str) -> int:
        """The status of a node's answer to a signed request: success, or that it doesn't hold the partition."""
        address = self.members()[name]
        try:
            answer = self._http.post(f"{address}{path}", headers=signer(name, "POST", path, b"", _DEADLINE_MS))
        except httpx2.HTTPError as error:
            msg = f"node {name} doesn't {what}: {failure_of(error, _TIMEOUT_S).reason}"
            raise StoreUnavailableError(msg) from error
        if answer.is_success or answer.status_code == _MISDIRECTED:
            return answer.status_code
        reply = Reply(answer.status_code, answer.headers, answer.content)
        raise StoreUnavailableError(f"node {name} doesn't {what}: {reply.detail}")

    def _asked(self, name: str, address: str, path: str) -> Any:
        """An answer of a node; None if it doesn't hold the partition. While that restores it is waited for a while."""
        while True:
            try:
                return self._get(address, path)
            except httpx2.HTTPStatusError as error:
                reply = Reply(error.response.status_code, error.response.headers, error.response.content)
                if reply.status == _MISDIRECTED:
                    return None
                if not reply.retry_after_s or self._waited_s >= _PATIENCE_S:
                    remedy = ": name a token file that it knows" if reply.status in _UNKNOWN_CALLER else ""
                    waited = f" within {self._waited_s:.0f} s" if reply.retry_after_s else ""
                    msg = f"node {name} doesn't show its rows{waited}: {reply.detail}{remedy}"
                    raise StoreUnavailableError(msg) from error
            except httpx2.HTTPError as error:
                msg = f"node {name} at {address} {failure_of(error, _TIMEOUT_S).reason}: see `storekeeper status`"
                raise StoreUnavailableError(msg) from error
            pause_s = min(reply.retry_after_s, _PATIENCE_S - self._waited_s)
            self._wait(pause_s)
            self._waited_s += pause_s

    def _get(self, address: str, path: str) -> Any:
        answer = self._http.get(f"{address}{path}", headers=self._credentials.headers())
        answer.raise_for_status()
        return answer.json()


def _askable(buckets: Sequence[int]) -> Iterator[Sequence[int]]:
    """Buckets in parts of which a node lists the rows at once."""
    return (buckets[start : start + _ASKED_BUCKETS] for start in range(0, len(buckets), _ASKED_BUCKETS))


def _is_in(buckets: Collection[int], key: bytes) -> bool:
    return bucket_of(key) in buckets


def _query(buckets: Sequence[int]) -> str:
    return "&".join(f"bucket={number}" for number in buckets)


def _partition(path: str) -> str:
    return f"partition {path.rpartition('/')[2]}"


def _decoded(key: str) -> bytes:
    return base64.urlsafe_b64decode(key + "=" * (-len(key) % 4))
