"""Health of a node: live while its loop and its follower run, ready once every replica answers."""

from __future__ import annotations

from dataclasses import dataclass

from state.query.catalog import Catalog
from state.replicas.states import ReplicaState, ReplicaStatus


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a node can answer for all that it holds, and what is missing."""

    ready: bool
    reason: str
    replicas: list[ReplicaStatus]


def readiness(catalog: Catalog) -> Readiness:
    """Looks at all replicas of a node. Lag does not matter here: a follower that caught up once answers.

    Replicas of a topic that doesn't answer for its store now are not missed. One that the node gained since it was
    ready first isn't either, if another node answers for it meanwhile.
    """
    statuses = [catalog.replicas[replica].status() for replica in sorted(catalog.replicas)]
    if not catalog.is_complete:
        return Readiness(ready=False, reason="waiting for the broker to describe the changelog topics", replicas=[])
    if not catalog.is_seated:
        return Readiness(ready=False, reason="it has just joined, and takes its partitions over soon", replicas=[])
    answering = {catalog.variant(store) for store in catalog.names}
    missing = [status for status in statuses if not status.serving and status.replica.store in answering]
    if catalog.was_ready:
        missing = [status for status in missing if not catalog.others_ready(status.replica)]
    if missing:
        failed = [status for status in missing if status.state in {ReplicaState.FAILED, ReplicaState.SUSPENDED}]
        reason = f"{len(missing)} of {len(statuses)} replicas can't answer yet"
        if failed:
            reason += f"; {failed[0].replica}: {failed[0].error}"
        return Readiness(ready=False, reason=reason, replicas=statuses)
    catalog.was_ready = catalog.was_ready or bool(statuses)
    return Readiness(ready=True, reason="every replica answers", replicas=statuses)
