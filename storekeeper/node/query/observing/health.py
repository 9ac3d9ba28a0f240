"""Health of a node: live while its loop and its follower run, ready once every replica answers and none has failed."""

from __future__ import annotations

from dataclasses import dataclass

from storekeeper.node.cluster.catalog import Catalog
from storekeeper.protocol.replica_states import ReplicaState, ReplicaStatus


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a node can answer for all its replicas, and what is missing. `lost`: a changelog of its rows is gone."""

    ready: bool
    reason: str
    replicas: list[ReplicaStatus]
    lost: bool = False


def readiness(catalog: Catalog) -> Readiness:
    """Looks at all replicas of a node. Lag does not matter here: a follower that caught up once answers.

    Replicas of a topic that doesn't serve its store now don't count. Once the node has been ready, a replica that
    doesn't serve doesn't count either while another node serves it. A failed replica always counts as missing, even if
    it still answers from its rows: only a person can repair it. Skipped records leave a node ready.
    """
    statuses = [catalog.replicas[replica].status() for replica in sorted(catalog.replicas)]
    if not catalog.is_complete:
        return Readiness(ready=False, reason="waiting for the broker to describe the changelog topics", replicas=[])
    if not catalog.is_assigned:
        return Readiness(ready=False, reason="it has just joined, and takes its partitions over soon", replicas=[])
    answering = {catalog.variant(store) for store in catalog.names}
    missing = [status for status in statuses if status.replica.store in answering and _is_missed(catalog, status)]
    if missing:
        troubles = [
            f"; {status.replica}: {trouble}" for status in missing if (trouble := status.error or status.trouble)
        ]
        reason = f"{len(missing)} of {len(statuses)} replicas can't answer yet or have failed{''.join(troubles[:1])}"
        lost = any(catalog.replicas[status.replica].lost is not None for status in missing)
        return Readiness(ready=False, reason=reason, replicas=statuses, lost=lost)
    catalog.was_ready = catalog.was_ready or bool(statuses)
    return Readiness(ready=True, reason=f"every replica answers{_skipped(statuses)}", replicas=statuses)


def _is_missed(catalog: Catalog, status: ReplicaStatus) -> bool:
    if status.state is ReplicaState.FAILED or status.trouble is not None or catalog.replicas[status.replica].lost:
        return True
    return not status.serving and not (catalog.was_ready and catalog.others_ready(status.replica))


def _skipped(statuses: list[ReplicaStatus]) -> str:
    """A note on skipped changelog records; empty if there are none."""
    touched = [status for status in statuses if status.skipped.records]
    if not touched:
        return ""
    records = sum(status.skipped.records for status in touched)
    return f"; {records} changelog records are skipped in {len(touched)} replicas: see `storekeeper skipped`"
