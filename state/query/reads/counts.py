"""The number of rows of partitions, as estimated by their stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from state.query.answers.origins import Origin, read_with_origins, with_origins
from state.query.forwarding import PeerRequest
from state.replicas.replica import Replica

INTERNAL_PATH = "/internal/count/"
_LARGEST_COUNT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CountQuery:
    """The number of rows of a store."""

    store: str

    def request(self, _partitions: Sequence[int], rest: str) -> PeerRequest:
        """As the internal route reads it."""
        return PeerRequest(f"{INTERNAL_PATH}{self.store}?of=rows&{rest}")

    def local(self, replicas: Sequence[Replica]) -> int:
        """The sum over replicas of this node."""
        return sum(replica.approximate_num_entries() for replica in replicas)

    def encode(self, found: int, origins: Sequence[Origin]) -> bytes:
        """As `decode` reads it."""
        return with_origins(origins, rows=found)

    def decode(self, body: bytes) -> tuple[int, list[Origin]]:
        """Reads another node's count."""
        fields, origins = read_with_origins(body)
        return int(fields["rows"]), origins


def saturating_sum(counts: Iterable[int]) -> int:
    """The sum, at most the largest signed 64-bit number: like Kafka Streams' sum it saturates and never wraps."""
    return min(sum(counts), _LARGEST_COUNT)
