"""Requests made up from the OpenAPI document of a real node: none of them brings it to a 5xx that is a defect."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import BaseSchema
from schemathesis.generation import GenerationMode

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes, started, write
from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.versions import version_row_key
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.stores.versioned import version_of

pytestmark = pytest.mark.broker

STORES = {
    "rewards": "", "players": ":ranked:score", "sales": ":window", "visits": ":session", "prices": ":versioned",
    "places": ":global",
}  # fmt: skip
MAY_BE_UNAVAILABLE = {"too-stale", "deadline-exceeded"}
"""A caller may ask for more freshness, or sooner, than there is: that is answered with 503 by contract."""
EXAMPLES = 5
MORE_EXAMPLES = 100


def rows(store: str) -> list[tuple[bytes, bytes]]:
    keys = [f"k{number:02d}".encode() for number in range(40)]
    if store == "sales":
        keys = [window_row_key(key, 60_000 * number) for number, key in enumerate(keys)]
    if store == "visits":
        keys = [session_row_key(key, 60_000 * number, 60_000 * number + 500) for number, key in enumerate(keys)]
    if store == "prices":
        keys = [version_row_key(key, 60_000 * number) for number, key in enumerate(keys)]
    mark = version_of(b"") if store == "prices" else b""
    return [
        (key, mark + json.dumps({"score": number, "name": str(number)}).encode()) for number, key in enumerate(keys)
    ]


@pytest.fixture(scope="module")
def node(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    for store in STORES:
        broker.create_topic(f"openapi-{store}", config=COMPACTED)
        write(broker, f"openapi-{store}", rows(store))
    served = ",".join(f"{store}=openapi-{store}{kind}" for store, kind in STORES.items())
    (found,) = make_nodes(broker, tmp_path_factory.mktemp("openapi") / "run", served, ["a"], replicas=0)
    with started([found]):
        found.wait_ready()
        yield found


@pytest.fixture(scope="module")
def document(node: NodeProcess) -> BaseSchema:
    return schemathesis.openapi.from_url(node.address + "/openapi.json")


def operations(document: BaseSchema) -> list[Any]:
    found: list[Any] = list(document.get_all_operations())
    return [operation.ok() for operation in found]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_no_request_brings_a_node_to_a_server_error(
    node: NodeProcess, document: BaseSchema, pytestconfig: pytest.Config
) -> None:
    examples = MORE_EXAMPLES if pytestconfig.getoption("--long") else EXAMPLES
    statuses: Counter[int] = Counter()
    with requests.Session() as session:
        session.trust_env = False
        for operation in operations(document):
            for mode in GenerationMode:
                _ask(operation, mode, node, session, statuses, examples)
    assert statuses[200] > 0, statuses
    assert sum(count for status, count in statuses.items() if 400 <= status < 500) > 0, statuses
    assert not node.events("request_failed")
    assert not node.events("point_query_failed")
    assert node.is_ready()


def _ask(  # noqa: PLR0917 - one call
    operation: Any,
    mode: GenerationMode,
    node: NodeProcess,
    session: requests.Session,
    statuses: Counter[int],
    examples: int,
) -> None:
    @seed(20)
    @settings(
        max_examples=examples,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(mode), store=st.sampled_from([None, *STORES]))
    def ask(case: Any, store: str | None) -> None:
        if store is not None and "store" in (case.path_parameters or {}):
            case.path_parameters["store"] = store
        answer = case.call(base_url=node.address, session=session, timeout=20)
        statuses[answer.status_code] += 1
        if answer.status_code >= 500:
            kind = str(answer.json()["type"]).rpartition(":")[2]
            assert (answer.status_code, kind in MAY_BE_UNAVAILABLE) == (503, True), (
                f"{case.as_curl_command()}\n{answer.status_code} {answer.text[:500]}"
            )

    try:
        ask()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "an operation without parameters can't be asked wrongly"
