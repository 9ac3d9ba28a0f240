"""The steps of upgrade.md, followed on a platform with an app of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storekeeper.ops.airflow_home import AIRFLOW_USER, read_airflow_password
from storekeeper.ops.errors import StartError
from storekeeper.ops.waiting import eventually
from tests.integration.running_platform import RUN_S
from tests.integration.shop import APP, CODE, FIRST, LATER, Shop, shop_in
from tests.integration.spending_app import ORDERS
from tests.integration.test_changed_app import DOUBLED, doubled
from tests.watched_airflow import WatchedAirflow

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(2400)),
    pytest.mark.long("test_plan.py has the plan, test_app_actions.py the upgrade, test_node_roll.py the nodes"),
]

BREAKING = CODE.replace("total: int = 0", "spent: int = 0").replace("spent.total +", "spent.spent +")
"""A field of the rows has another name, so those that are there can't be read."""
CHANGED = f"the code of {APP} has changed since its last start"


def test_apps_then_nodes_then_airflow(tmp_path: Path) -> None:
    with shop_in(tmp_path) as shop:
        _is_refused(shop)
        _is_upgraded(shop)
        _has_airflow_of_the_same_version(shop)


def _is_refused(shop: Shop) -> None:
    install(shop, BREAKING)
    assert "**spent** WOULD BREAK" in shop.output("plan", code=4)
    before = pids(shop)
    with pytest.raises(StartError, match="can't take over"):
        run(shop, "stream_apps", app=APP, action="upgrade")
    assert pids(shop) == before
    shop.write(ORDERS, LATER)
    assert shop.equals(FIRST + LATER), "the app goes on unchanged"


def _is_upgraded(shop: Shop) -> None:
    install(shop, DOUBLED)
    assert CHANGED in shop.output("plan")
    before = pids(shop)
    run(shop, "stream_apps", app=APP, action="upgrade")
    upgraded = pids(shop)
    assert changed(before, upgraded) == {APP}
    assert CHANGED not in shop.output("plan")
    run(shop, "upgrade_nodes")
    assert changed(upgraded, pids(shop)) == {"node-a", "node-b"}
    assert shop.equals(FIRST + LATER), "it has read on from its old position"
    shop.write(ORDERS, LATER)
    assert shop.equals(FIRST + LATER + doubled(LATER)), "new rows follow the new logic"


def _has_airflow_of_the_same_version(shop: Shop) -> None:
    names = shop.layout.dags / "storekeeper_names.json"
    written = names.read_text()
    names.write_text(json.dumps({**json.loads(written), "version": "0.0.9"}))
    (shop.layout.dags / "stream_apps.py").touch()
    with airflow_of(shop) as airflow:
        assert eventually(lambda: "version 0.0.9" in "".join(airflow.import_errors()), RUN_S, poll_s=1)
    shop.down()
    shop.up()
    assert names.read_text() == written
    with airflow_of(shop) as airflow:
        assert eventually(lambda: not airflow.import_errors(), RUN_S, poll_s=1)
    assert shop.equals(FIRST + LATER + doubled(LATER))


def install(shop: Shop, code: str) -> None:
    """Installs other code beside the platform that runs."""
    (shop.run_dir.parent / "spending_app.py").write_text(code)


def airflow_of(shop: Shop) -> WatchedAirflow:
    return WatchedAirflow(shop.airflow, AIRFLOW_USER, read_airflow_password(shop.layout) or "")


def run(shop: Shop, dag: str, **params: str) -> None:
    """Runs a DAG to its end, which must be a success."""
    with airflow_of(shop) as airflow:
        airflow.wait_for_run(dag, airflow.trigger(dag, params), 3 * RUN_S)


def pids(shop: Shop) -> dict[str, int]:
    return {process["name"]: process["pid"] for process in shop.process.status()["processes"]}


def changed(before: dict[str, int], after: dict[str, int]) -> set[str]:
    return {name for name in before if before[name] != after[name]}
