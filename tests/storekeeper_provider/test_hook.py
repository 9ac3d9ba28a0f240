from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from storekeeper_provider import VERSION, get_provider_info
from storekeeper_provider.hook import NoAnswerError, StorekeeperHook
from storekeeper_provider.stores_page.plugin import StoresPlugin

pytestmark = pytest.mark.airflow


@pytest.mark.usefixtures("connection")
def test_it_sees_the_platform() -> None:
    hook = StorekeeperHook()
    assert hook.test_connection() == (True, "The control API answers and knows the token.")
    assert hook.status()["healthy"] is False
    assert {store["store"] for store in hook.stores()} > {"rewards", "prices"}
    assert hook.generations("pos")["live"] == 1
    assert {table["name"] for table in hook.overview()["tables"]} > {"stores", "apps", "nodes"}
    assert hook.topology("pos").keys() == {"svg", "text", "mermaid"}
    for name in ("..", "a/b", "../status"):
        for ask in (hook.topology, hook.table):
            with pytest.raises(AirflowFailException, match=r"\(404\)"):
                ask(name)
        with pytest.raises(AirflowFailException, match=r"\(404\)"):
            hook.data_docs(name, "index.html")
    with pytest.raises(AirflowFailException, match=r"\(404\): there is no app 'nobody'"):
        hook.generations("nobody")
    with pytest.raises(AirflowFailException, match=r"\(400\): '.*' can't run as a job"):
        hook.start_job("one", ["down"])
    assert hook.job("one")["state"] == "lost"


@pytest.mark.usefixtures("no_connection")
def test_a_platform_that_does_not_answer_may_do_later() -> None:
    hook = StorekeeperHook()
    with pytest.raises(NoAnswerError, match=r"the control API at http://127.0.0.1:9 doesn't answer") as caught:
        hook.status()
    assert not isinstance(caught.value, AirflowFailException)
    assert hook.test_connection()[0] is False


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"host": "127.0.0.1"}, "the connection has no token"),
        ({"host": "127.0.0.1", "extra": {"token_file": "/nowhere"}}, "the token can't be read"),
        ({"host": "https://x", "password": "t", "extra": {"ca_file": "/nowhere"}}, "can't be used"),
    ],
)
def test_a_connection_that_cannot_be_used_says_why(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], message: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_STOREKEEPER_DEFAULT", json.dumps({"conn_type": "storekeeper", **fields}))
    with pytest.raises(AirflowException, match=message):
        StorekeeperHook().status()


def test_airflow_takes_what_the_provider_says_of_itself() -> None:
    from airflow.providers_manager import _create_provider_info_schema_validator

    info = get_provider_info()
    _create_provider_info_schema_validator().validate(info)
    (connection,) = info["connection-types"]
    assert connection["connection-type"] == StorekeeperHook.conn_type


def test_a_provider_bears_the_name_of_the_distribution_that_it_comes_with() -> None:
    """Airflow doesn't start otherwise."""
    folder = Path(__file__).parents[2] / "storekeeper_provider"
    described = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    module = f"{get_provider_info.__module__}:{get_provider_info.__name__}"
    assert described["entry-points"]["apache_airflow_provider"] == {"provider_info": module}
    plugin = f"{StoresPlugin.__module__}:{StoresPlugin.__name__}"
    assert described["entry-points"]["airflow.plugins"] == {"storekeeper": plugin}
    assert (get_provider_info()["package-name"], VERSION) == (described["name"], described["version"])
