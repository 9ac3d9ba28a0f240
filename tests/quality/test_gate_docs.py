"""What docs/how-to/gate-your-table.md says of an own table is done as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_apps.pos import POS
from storekeeper.apps.checked_table import CheckedTable
from storekeeper.apps.spec import misfit
from storekeeper.clock import ManualClock
from storekeeper.ops.new_project.template.spark_apps.template_app import TEMPLATE_APP
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.table_gate import TableGate
from tests.local_tables import local_table

PAGE = (Path(__file__).parents[2] / "docs/how-to/gate-your-table.md").read_text("utf-8")


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The page's files as modules, by their names."""
    made = {}
    for name, block in re.findall(r"```python\n# \w+/(\w+)\.py\n(.*?)```", PAGE, flags=re.DOTALL):
        made[name] = module = ModuleType(f"{name}_of_the_page")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(block, "docs/how-to/gate-your-table.md", "exec", dont_inherit=True), vars(module))  # noqa: S102 (our own)
    assert len(made) == PAGE.count("```python")
    return made


@pytest.mark.spark
def test_the_table_on_the_page_is_gated(
    files: dict[str, ModuleType], settings: QualitySettings, spark: SparkSession
) -> None:
    gate = TableGate(files["web_orders"].WEB_ORDERS, settings, ManualClock(0), lambda: spark)
    jobs = files["orders"]
    jobs.stage(settings.run_dir, [jobs.order(1, "5"), jobs.order(2, "100001")])
    batch = gate.pending()
    assert batch is not None
    [reason] = gate.decide(batch).reasons
    assert f"reasons  {reason}" in PAGE
    jobs.stage(settings.run_dir, [jobs.order(3, "5")])
    batch = gate.pending()
    assert batch is not None
    assert gate.decide(batch).reasons == ()
    assert DeltaTable(local_table(settings, "web_orders")).count() == 1


def test_what_the_page_says_of_a_store_fits_the_first_app(files: dict[str, ModuleType]) -> None:
    [totals], checks = TEMPLATE_APP.stores, files["page_views_totals"].CHECKS
    assert isinstance(checks, CheckedTable)
    assert checks.name == totals.name.replace("template_app", "page_views")
    assert misfit(totals, checks) is None
    assert misfit(POS.stores[0], checks) is not None
