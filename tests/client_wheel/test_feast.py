"""Feast reads features from a real node, through the wheels of client and online store, with the files of the guide."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.broker import Broker
from harness.distributions import ROOT, build
from harness.node_process import COMPACTED, NodeProcess, make_nodes, started, write
from tests.client.fake_node import fake_node, refuses

BIN = ROOT / ".venv-feast" / "bin"
PROGRAM = Path(__file__).with_name("feast_program.py")
PAGE = (ROOT / "docs" / "how-to" / "use-feast.md").read_text()
LIMIT_S = 500
PRESENT, NOT_FOUND = 1, 3  # of FieldStatus

pytestmark = [pytest.mark.broker, pytest.mark.long("contrib/feast/tests/test_view.py")]

ROWS: list[tuple[bytes, bytes | None]] = [
    (b"4836051607", b'{"TotalLoyaltyPoints":139.46}'),
    (b"42", b'{"TotalLoyaltyPoints":12.0300,"visits":7,"at":1767268800000,"shops":["s1","s2"]}'),
    (b"text", b'{"TotalLoyaltyPoints":"many"}'),
    (b"half", b'{"TotalLoyaltyPoints":null,"visits":0.5}'),
]
MORE = """
from feast.types import Array, Int64

whole = Entity(name="whole", join_keys=["whole"], value_type=ValueType.INT64)
visits = FeatureView(
    name="visits",
    entities=[whole],
    schema=[
        Field(name="whole", dtype=Int64),
        Field(name="visits", dtype=Int64),
        Field(name="shops", dtype=Array(String)),
    ],
    source=FileSource(path="visits.parquet", timestamp_field="at"),
)
visits_by_card = FeatureView(
    name="visits_by_card",
    entities=[card],
    schema=[Field(name="card", dtype=String), Field(name="visits", dtype=Int64)],
    source=FileSource(path="visits.parquet", timestamp_field="at"),
)
"""


def blocks(language: str) -> list[str]:
    """The code of the page."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(scope="module")
def node(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    for topic in ("feast-changelog", "feast-sales-changelog"):
        broker.create_topic(topic, config=COMPACTED)
    write(broker, "feast-changelog", ROWS)
    served = "rewards=feast-changelog,sales=feast-sales-changelog:window"
    (found,) = make_nodes(broker, tmp_path_factory.mktemp("feast") / "run", served, ["a"], replicas=0)
    with started([found]):
        found.wait_ready()
        yield found


class Repository:
    """A Feast repository with the files of the guide, in an environment that has both wheels."""

    def __init__(self, folder: Path, site: Path, address: str) -> None:
        self.folder = folder
        self._environment = {"PYTHONPATH": str(site), "HOME": str(folder), "PATH": f"{BIN}:/usr/bin:/bin"}
        folder.mkdir()
        (self._yaml,) = blocks("yaml")
        self._yaml = self._yaml.replace("http://127.0.0.1:18101", address)
        self._features, self.reading = blocks("python")
        self.declare()

    def declare(
        self, stores: str = "{cards: rewards, visits: rewards, visits_by_card: rewards}", more: str = MORE
    ) -> None:
        (self.folder / "feature_store.yaml").write_text(self._yaml.replace("{cards: rewards}", stores))
        (self.folder / "features.py").write_text(self._features + more)

    def run(self, *command: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / command[0]), *command[1:]],
            cwd=self.folder,
            env=self._environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    def does(self, *steps: dict[str, Any]) -> list[dict[str, Any]]:
        """The outcomes of steps: see `feast_program.py`."""
        ran = self.run("python", str(PROGRAM), given=json.dumps(steps))
        assert ran.returncode == 0, ran.stderr[-4000:]
        found: list[dict[str, Any]] = json.loads(ran.stdout.splitlines()[-1])
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("client")
    for name in ("storekeeper-client", "storekeeper-feast"):
        zipfile.ZipFile(build(name, folder).wheel).extractall(folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def repository(site: Path, node: NodeProcess, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    if not BIN.exists():
        pytest.fail("Feast is missing: run `make .venv-feast/.ready`")
    made = Repository(tmp_path_factory.mktemp("repository") / "shop", site, node.address)
    applied = made.run("feast", "apply")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    return made


@pytest.fixture
def unapplied(site: Path, node: NodeProcess, tmp_path: Path) -> Repository:
    return Repository(tmp_path / "shop", site, node.address)


def asked(features: list[str], rows: list[dict[str, Any]], **online_store: Any) -> dict[str, Any]:
    return {"do": "read", "features": features, "rows": rows, "online_store": online_store}


def test_the_program_of_the_guide_prints_what_it_says(repository: Repository) -> None:
    ran = repository.run("python", "-c", repository.reading)
    (said,) = re.findall(r"# (\{.*\})", repository.reading)
    assert ran.stdout.strip() == said, ran.stderr[-2000:]


def test_features_are_exact_fields_and_what_is_missing_is_not_found(repository: Repository) -> None:
    visits, decimals = repository.does(
        asked(["visits:visits", "visits:shops"], [{"whole": 42}, {"whole": 43}, {"whole": 4836051607}]),
        asked(["cards:points"], [{"card": "42"}, {"card": "half"}, {"card": ""}]),
    )
    found = visits["answer"]
    assert found["values"]["visits"] == ["7", None, None]
    assert found["values"]["shops"] == ["['s1', 's2']", None, None]
    assert found["statuses"]["visits"] == [PRESENT, NOT_FOUND, NOT_FOUND]
    assert found["times"]["visits"] == [1_767_268_800, 0, 0]
    assert decimals["answer"]["values"]["points"] == ["12.0300", None, None]
    assert decimals["answer"]["statuses"]["points"] == [PRESENT, PRESENT, NOT_FOUND]


def test_more_keys_than_a_node_takes_at_once_are_read(repository: Repository) -> None:
    rows = [{"card": f"{number}"} for number in range(2500)]
    (many,) = repository.does(asked(["visits_by_card:visits"], rows))
    assert {row for row, found in enumerate(many["answer"]["values"]["visits"]) if found is not None} == {42}


def test_what_can_not_be_answered_is_an_error_and_never_a_missing_feature(repository: Repository) -> None:
    with fake_node(refuses(503, "restoring")) as restoring:
        text, fraction, stale, waiting, tokenless = repository.does(
            asked(["cards:points"], [{"card": "42"}, {"card": "text"}]),
            asked(["visits_by_card:visits"], [{"card": "half"}]),
            asked(["cards:points"], [{"card": "42"}], max_staleness_ms=0, timeout_s=2),
            asked(["cards:points"], [{"card": "42"}], addresses=[restoring.address], timeout_s=2),
            asked(["cards:points"], [{"card": "42"}], token_file="token"),
        )
    assert text["error"] == fraction["error"] == "SerializationError"
    assert "field TotalLoyaltyPoints of store rewards can't be feature points: a str is not a DECIMAL" in text["text"]
    assert "many" not in text["text"]
    assert stale["error"] == "TooStaleError"
    assert waiting["error"] == "StoreRestoringError"
    assert tokenless["error"] == "ConfigurationError"
    assert tokenless["text"] == "the token file token can't be read: there is none"


def test_streams_alone_write(repository: Repository) -> None:
    row = {"card": ["42"], "visits": [1], "at": ["2026-01-01T00:00:00"]}
    written, read = repository.does(
        {"do": "write", "view": "visits_by_card", "rows": row}, asked(["visits_by_card:visits"], [{"card": "42"}])
    )
    assert written["error"] == "InvalidArgumentError", written
    assert "can't be written through Feast: the streaming app that owns store rewards writes it" in written["text"]
    assert read["answer"]["values"]["visits"] == ["7"]


def declared(name: str, entities: str, kind: str) -> str:
    """One more view in `features.py`."""
    fields = f"Field(name='card', dtype=String), Field(name='shop', dtype=String), Field(name='where', dtype={kind})"
    return f"""
from feast.types import Json
shop = Entity(name="shop", join_keys=["shop"], value_type=ValueType.STRING)
more = FeatureView(name="{name}", entities=[{entities}], schema=[{fields}], source=cards.batch_source)
"""


@pytest.mark.parametrize(
    ("stores", "more", "says"),
    [
        ("{}", "", "feature view cards has no store cards: the nodes have rewards, sales"),
        ("{cards: sales}", "", "can't be read from sales, a window store"),
        ("{cards: rewards, a: rewards}", declared("a", "card", "Json"), "feature where of view a is JSON, which can't"),
        ("{cards: rewards, a: rewards}", declared("a", "card, shop", "String"), "feature view a needs one entity"),
    ],
    ids=["unknown", "window", "type", "entities"],
)
def test_a_view_that_fits_no_store_is_refused(unapplied: Repository, stores: str, more: str, says: str) -> None:
    unapplied.declare(stores, more)
    applied = unapplied.run("feast", "apply")
    assert applied.returncode != 0
    assert says in " ".join((applied.stdout + applied.stderr).split())


def test_nothing_of_a_store_is_deleted_with_a_repository(unapplied: Repository, node: NodeProcess) -> None:
    assert unapplied.run("feast", "apply").returncode == 0
    assert unapplied.does({"do": "teardown"}) == [{"answer": None}]
    assert node.value("42")["visits"] == 7
