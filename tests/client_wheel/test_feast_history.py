"""The program of docs/how-to/make-training-sets.md for Feast: historical features are those that were known then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.fake_node import Connection, fake_node
from tests.client_wheel.test_feast import BIN, Repository, site
from tests.snapshots.test_training_docs import EXPECTED, FEAST, FEAST_SOURCE, SQL, write_shop

pytestmark = pytest.mark.long("tests/snapshots/test_training_docs.py")
__all__ = ["site"]


def _lists_its_store(connection: Connection, _: str) -> None:
    connection.answer([{"store": "rewards", "kind": "keyvalue"}])


@pytest.fixture
def repository(site: Path, tmp_path: Path) -> Iterator[Repository]:
    if not BIN.exists():
        pytest.fail("Feast is missing: run `make .venv-feast/.ready`")
    with fake_node(_lists_its_store) as node:
        made = Repository(tmp_path / "shop", site, node.address)
        made.declare("{cards: rewards}", more="")
        applied = made.run("feast", "apply")
        assert applied.returncode == 0, applied.stdout + applied.stderr
        yield made


def test_historical_features_are_those_of_then(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shop(repository.folder)
    monkeypatch.chdir(repository.folder)
    exec(SQL + FEAST_SOURCE, {})  # noqa: S102 (the page's)
    points = "training.points.astype(float).fillna(-1).tolist()"
    ran = repository.run("python", "-c", f"{FEAST}\nprint(sorted(zip(training.churned.tolist(), {points})))")
    assert ran.returncode == 0, ran.stderr[-4000:]
    expected = [(number, -1.0 if points is None else points) for number, points in EXPECTED]
    assert ran.stdout.splitlines()[-1] == str(expected)
