"""Setting copies aside that differ from the changelog, so that their holders restore them from it.

Nothing is deleted: a node and a task keep the folder with the wrong rows, named `….corrupt-<epoch ms>`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from storekeeper.apps.errors import AppRunningError
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.lease import Lease, job_lease
from storekeeper.errors import ConfigurationError
from storekeeper.node.security.cluster_secret import load_cluster_secret
from storekeeper.node.security.hop import HopSigner
from storekeeper.stores.set_aside import set_aside
from storekeeper.verification.node_copies import NodeCopies

ASKS_AS = "verify"
"""The name in signed requests: no member of the cluster, but one who has its secret."""


def repaired_node(
    nodes: NodeCopies, name: str, store: str, partitions: Iterable[int], settings: AppSettings
) -> list[str]:
    """Lets a node set its wrong replicas aside; it restores them at once. Returns a sentence for each.

    Raises:
        ConfigurationError: the cluster's secret can't be read.
        StoreUnavailableError: the node refuses, as when its rows may be the last copy, or doesn't answer.
    """
    signer = HopSigner(ASKS_AS, load_cluster_secret(settings.cluster_secret_file), SystemClock())
    sentences = []
    for partition in partitions:
        nodes.set_aside(name, store, partition, signer)
        sentences.append(
            f"node {name}, partition {partition}: its rows were set aside, and are restored from the changelog"
        )
    return sentences


def repaired_app(folders: Iterable[Path], app: str, settings: AppSettings) -> list[str]:
    """Sets wrong local stores aside; the tasks restore them when the app starts. Returns a sentence for each.

    Raises:
        ConfigurationError: the app runs.
    """
    with ExitStack() as stack:
        for name in (app, job_lease(app, f"gen-{settings.generation}")):
            try:
                lease = stack.enter_context(Lease(settings.lease_file(name), clock=SystemClock(), wait=time.sleep))
                lease.acquire(0)
            except AppRunningError as error:
                msg = f"{app} runs, and has its stores open: `storekeeper app stop {app}`, then repeat this"
                raise ConfigurationError(msg) from error
        moved = {folder: set_aside(folder) for folder in folders}
    return [f"local store {old} was moved to {new.name}: its task restores it" for old, new in moved.items()]
