from __future__ import annotations

from pathlib import Path

from storekeeper.quality.resolution import Action, Resolution, ResolutionArchive
from storekeeper.quality.verdict import Outcome

RELEASED = Resolution(
    table="hadoop_export",
    action=Action.RELEASED,
    first_version=3,
    last_version=5,
    by="meera",
    reason="totals are rounded",
    accepted=("totals",),
    rows=17,
    decided_at_ms=1_760_000_000_000,
    outcomes=(Outcome("expect_x", "TotalValue", "It adds up.", passed=False, failing_rows=2, rule="totals"),),
)


def test_a_resolution_survives_its_json() -> None:
    assert Resolution.from_json(RELEASED.to_json()) == RELEASED
    assert RELEASED.batch == "3-5"


def test_the_archive_knows_batches_apart(tmp_path: Path) -> None:
    archive = ResolutionArchive(tmp_path / "resolutions")
    assert archive.get(3, 5) is None
    archive.put(RELEASED)
    archive.put(RELEASED)
    assert archive.get(3, 5) == RELEASED
    assert archive.get(3, 4) is None
    assert len(list((tmp_path / "resolutions").iterdir())) == 1
