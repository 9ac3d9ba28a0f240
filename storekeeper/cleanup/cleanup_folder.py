"""The folder of one store's clean-ups: a folder for each, with its plan, its archive and its last report."""

from __future__ import annotations

from storekeeper.cleanup.archive import Archive
from storekeeper.cleanup.cleanup_plan import CleanupPlan
from storekeeper.errors import InvalidArgumentError
from storekeeper.locations import Location, entries, write_in_one_step


class CleanupFolder:
    """The clean-ups of one store, as files.

    Args:
        path: the folder.
        store: the store's name, for messages.
    """

    def __init__(self, path: Location, store: str) -> None:
        self._path = path
        self._store = store

    def put_plan(self, plan: CleanupPlan) -> None:
        """Keeps the plan of a new clean-up."""
        write_in_one_step(self._path / plan.cleanup_id / "plan.json", plan.to_json(), private=True)

    def plan(self, cleanup_id: str) -> CleanupPlan:
        """The plan of a clean-up.

        Raises:
            InvalidArgumentError: there is none of that id.
        """
        plans = self._plans()
        if cleanup_id not in plans:
            known = ", ".join(plans) or "none"
            msg = f"store {self._store} has no clean-up {cleanup_id[:100]!r}: there are {known}"
            raise InvalidArgumentError(msg)
        return CleanupPlan.from_json(plans[cleanup_id].read_bytes())

    def archive(self, plan: CleanupPlan) -> Archive:
        """The archive of a clean-up, which may be empty."""
        return Archive(self._path / plan.cleanup_id)

    def put_report(self, cleanup_id: str, report: bytes) -> None:
        """Keeps the last report on a clean-up."""
        write_in_one_step(self._path / cleanup_id / "report.json", report, private=True)

    def undo_until_ms(self, plan: CleanupPlan) -> int | None:
        """Until when a clean-up can be undone, in epoch milliseconds; None if it has no archive yet."""
        begun_ms = self.archive(plan).begun_ms
        return None if begun_ms is None else begun_ms + plan.undo_ms

    def forget_old(self, now_ms: int) -> list[str]:
        """Deletes the archives of clean-ups that can't be undone at `now_ms`. Returns their ids, the oldest first."""
        forgotten = []
        for file in self._plans().values():
            plan = CleanupPlan.from_json(file.read_bytes())
            until_ms = self.undo_until_ms(plan)
            if until_ms is not None and now_ms >= until_ms and self.archive(plan).forget():
                forgotten.append(plan.cleanup_id)
        return forgotten

    def _plans(self) -> dict[str, Location]:
        """The files of all plans by the ids of their clean-ups, the oldest first."""
        files = {folder.name: folder / "plan.json" for folder in entries(self._path)}
        return {cleanup_id: files[cleanup_id] for cleanup_id in sorted(files) if files[cleanup_id].exists()}
