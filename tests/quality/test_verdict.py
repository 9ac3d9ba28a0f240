from __future__ import annotations

from pathlib import Path

import pytest

from storekeeper.quality import verdict as verdict_module
from storekeeper.quality.verdict import Outcome, Status, Verdict, VerdictArchive


def _verdict(first: int, last: int, status: Status = Status.PUBLISHED) -> Verdict:
    outcomes = (
        Outcome("expect_a", "City", "City is a city.", status is Status.PUBLISHED, 2),
        Outcome("b", None, "B.", True),
    )
    return Verdict("hadoop_export", status, first, last, 10, 1, outcomes)


def test_a_verdict_survives_its_json() -> None:
    verdict = _verdict(0, 3, Status.QUARANTINED)
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_reasons_are_what_was_not_met() -> None:
    assert _verdict(0, 3).reasons == ()
    assert _verdict(0, 3, Status.QUARANTINED).reasons == ("City is a city. Failing rows: 2.",)


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", '{"passed": true}', '{"app": "hadoop_export"}'])
def test_another_writers_metadata_is_no_verdict(content: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Verdict.from_json(content)


def test_the_archive_tells_the_newest_by_version_and_not_by_time(tmp_path: Path) -> None:
    archive = VerdictArchive(tmp_path / "verdicts")
    assert (archive.last(), archive.last_version()) == (None, -1)
    archive.put(_verdict(9, 10))
    archive.put(_verdict(0, 8))
    assert archive.last() == _verdict(9, 10)
    assert archive.last_version() == 10


def test_the_archive_forgets_the_oldest_published_but_no_quarantined_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_module, "_KEPT_PUBLISHED", 2)
    archive = VerdictArchive(tmp_path)
    archive.put(_verdict(0, 0, Status.QUARANTINED))
    for version in range(1, 5):
        archive.put(_verdict(version, version))
    assert [path.stem for path in sorted(tmp_path.iterdir())] == [
        "000000000000-000000000000",
        "000000000003-000000000003",
        "000000000004-000000000004",
    ]
