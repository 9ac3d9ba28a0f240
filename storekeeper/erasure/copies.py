"""The copies of a store on nodes and tasks: made anew from a changelog that has nothing of the keys any more.

Files of RocksDB keep bytes of deleted rows, in more places than a compaction reaches. So the files go as a whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from storekeeper.apps.errors import AppRunningError
from storekeeper.apps.settings import AppSettings, ClientSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.clock import Clock, SystemClock
from storekeeper.engine.runtime.lease import Lease, job_lease
from storekeeper.erasure.folder import Noted
from storekeeper.erasure.keys import ErasedKeys
from storekeeper.node.security.cluster_secret import load_cluster_secret
from storekeeper.node.security.hop import HopSigner
from storekeeper.stores.row_digest import bucket_of
from storekeeper.stores.unwanted import is_unwanted, mark_unwanted, remove_unwanted
from storekeeper.verification.node_copies import NodeCopies
from storekeeper.verification.repair import ASKS_AS


@dataclass
class ErasedCopies:
    """The copies of one store.

    Attributes:
        store, app: the store and its app.
        nodes: the query nodes.
        expected: the names of nodes that must answer.
        root: the folder of the local stores of the app's live generation on this machine.
        settings: those of the live generation.
        clock: signs requests.
    """

    store: str
    app: str
    nodes: NodeCopies
    expected: Collection[str]
    root: Path
    settings: AppSettings
    clock: Clock

    @classmethod
    def of(cls, store: StoreSpec, nodes: NodeCopies, settings: ClientSettings, live: AppSettings) -> ErasedCopies:
        """The copies of a store whose app runs with the settings `live`."""
        root = live.state_dir / store.app / f"gen-{live.generation}"
        return cls(store.name, store.app, nodes, list(settings.node_addresses), root, live, SystemClock())

    def renew(self, keys: ErasedKeys, noted: Noted) -> list[str]:
        """Has all of them made anew, and looks for the keys' rows in them. Returns what is awaited, in sentences.

        Raises:
            StoreUnavailableError: a node doesn't answer, or still restores its rows.
        """
        waits = self._local(noted)
        if not self.expected:
            return waits
        members = self.nodes.members()
        absent = sorted(set(self.expected) - set(members))
        if absent:
            waits.append(f"node {absent[0]} doesn't answer: start it, or take it out of `peers`")
        signer = HopSigner(ASKS_AS, load_cluster_secret(self.settings.cluster_secret_file), self.clock)
        for name in members:
            renewed = noted.renewed.setdefault(name, [])
            for partition in noted.partitions:
                if partition not in renewed and self.nodes.renew(name, self.store, partition, signer):
                    renewed.append(partition)
        for name, address in members.items():
            waits += self._shown(name, address, keys, noted)
        return waits

    def _shown(self, name: str, address: str, keys: ErasedKeys, noted: Noted) -> Iterator[str]:
        wanted = sorted({bucket_of(key) for key in map(bytes.fromhex, noted.row_keys)})
        for partition in noted.partitions:
            held = self.nodes.keys_in(name, address, self.store, partition, wanted)
            if any(map(keys.holds, held)):
                yield f"node {name}, partition {partition}: rows of the keys are still there"

    def _local(self, noted: Noted) -> list[str]:
        folders = [
            folder
            for partition in noted.partitions
            for folder in self.root.glob(f"*/{partition}/{self.store}*")
            if folder.is_dir() and (folder.name == self.store or folder.name.startswith(f"{self.store}.corrupt-"))
        ]
        for folder in folders:
            if folder.name != self.store:
                shutil.rmtree(folder)  # it was set aside: nobody has it open
            elif str(folder) not in noted.local_stores:
                mark_unwanted(folder)
                noted.local_stores.append(str(folder))
        unwanted = list(map(Path, noted.local_stores))
        with ExitStack() as stack:
            try:
                for name in (self.app, job_lease(self.app, f"gen-{self.settings.generation}")):
                    lease = Lease(self.settings.lease_file(name), clock=self.clock, wait=lambda _: None)
                    stack.enter_context(lease).acquire(0)
            except AppRunningError:
                pass
            else:
                for folder in unwanted:
                    remove_unwanted(folder)
        if any(map(is_unwanted, unwanted)):
            wait = (
                f"tasks of {self.app} make their local stores of {self.store} anew with the next batch: give the app "
                f"input, or `storekeeper app stop {self.app}`, and repeat this"
            )
            return [wait]
        return []
