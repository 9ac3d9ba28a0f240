"""Reads the rewards store over HTTP, as any client would."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import httpx2

from demo.oracle import Reward
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.engine.runtime.topics import Topics
from storekeeper.kafka.connection import Kafka
from storekeeper.ops.errors import StartError
from storekeeper.ops.waiting import eventually

_STORE = "rewards"
_PAGE_ROWS = 1000
_NEXT_CURSOR = "storekeeper-next-cursor"
_COMPLETE = "storekeeper-complete"


class StoreReader:
    """The rewards store as each query node serves it. Addresses have no trailing slash. Not thread-safe."""

    def __init__(self, node_urls: Mapping[str, str], http: httpx2.Client | None = None) -> None:
        """Takes the addresses by name, and a client with credentials if the nodes want any."""
        self._urls = node_urls
        self._http = http or httpx2.Client(timeout=10.0, trust_env=False)

    def close(self) -> None:
        """Closes its connections."""
        self._http.close()

    def get(self, node: str, card: str) -> Reward | None:
        """A customer's entry, from one node, which forwards the request if needed; None if there is none."""
        answer = self._http.get(f"{self._urls[node]}/state/keyvalue/{_STORE}/{card}")
        if answer.status_code == httpx2.codes.NOT_FOUND:
            return None
        answer.raise_for_status()
        return _reward(_parsed(answer)["value"])

    def all(self, node: str) -> dict[str, Reward]:
        """Every entry that a node serves.

        Raises:
            StartError: it could not see all partitions.
        """
        found: dict[str, Reward] = {}
        parameters: dict[str, str] = {"limit": str(_PAGE_ROWS)}
        while True:
            answer = self._http.get(f"{self._urls[node]}/state/keyvalues/{_STORE}/all", params=parameters)
            answer.raise_for_status()
            if answer.headers.get(_COMPLETE, "true") != "true":
                msg = f"Query node {node} can't see all partitions of store {_STORE}: see its log."
                raise StartError(msg)
            found |= {row["key"]: _reward(row["value"]) for row in _parsed(answer)}
            cursor = answer.headers.get(_NEXT_CURSOR)
            if not cursor:
                return found
            parameters = {"limit": str(_PAGE_ROWS), "cursor": cursor}

    def nodes_behind(self, ends: Mapping[str, Mapping[int, int]]) -> list[str]:
        """The nodes that have not reached the ends of all changelogs, by topic and partition, or don't answer."""
        return [node for node in self._urls if not self._has_reached(node, ends)]

    def _has_reached(self, node: str, ends: Mapping[str, Mapping[int, int]]) -> bool:
        try:
            answer = self._http.get(f"{self._urls[node]}/state/lag").raise_for_status()
        except httpx2.HTTPError:
            return False  # it is being restarted
        replicas = [replica for replica in answer.json()["replicas"] if replica["topic"] in ends]
        ahead = all((one["offset"] or 0) >= ends[one["topic"]][one["partition"]] for one in replicas)
        return ahead and {one["topic"] for one in replicas} == set(ends)


def wait_until_served(stores: StoreReader, kafka: Kafka, changelogs: Sequence[str], timeout_s: float) -> None:
    """Waits until every node has applied its partitions of all changelogs to their end offsets.

    Raises:
        StartError: it took longer than `timeout_s`.
    """
    topics = Topics(kafka)
    behind = "every node"

    def served() -> bool:
        nonlocal behind
        try:
            ends = topics.end(changelogs).offsets
        except BrokerUnavailableError:
            return False  # it is being restarted
        nodes = stores.nodes_behind(ends)
        behind = ", ".join(nodes)
        return not nodes

    if not eventually(served, timeout_s, poll_s=0.3):
        msg = f"Query node {behind} has not caught up with its changelogs after {timeout_s:.0f} s: see its log."
        raise StartError(msg)


def _reward(value: dict[str, Any]) -> Reward:
    return Reward(Decimal(value["TotalLoyaltyPoints"]), value["InvoiceCount"], value["LastInvoiceTime"])


def _parsed(answer: httpx2.Response) -> Any:
    return json.loads(answer.text, parse_float=Decimal)
