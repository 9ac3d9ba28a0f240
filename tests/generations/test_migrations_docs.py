"""What docs/how-to/migrate-state.md says of an app of one's own is done as it stands there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from harness import project
from storekeeper.ops.new_project.plan import make_project

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "migrate-state.md"
ROW = '{"Key":"a","Events":2,"Total":250}'

PROGRAM = """
import json
import sys
from storekeeper.generations.planning.declared import declared_stores
from storekeeper.generations.changes.contract import Description, RunningStore
from storekeeper.generations.changes.plan import plan_changes
from storekeeper.serdes.struct import StructSerde
from spark_apps.page_views import Event, with_level  # which can be imported once the apps are known
from state.page_views_totals import Levelled, levelled_row

row = (b"a", sys.argv[1].encode())
(changed,) = levelled_row(*row)
assert StructSerde(Levelled).serialize(with_level("a", Levelled("a", 1, 0), Event(250))) == changed[1]
(totals,) = (store for store in declared_stores() if store.store == "page_views_totals")
runs = RunningStore(totals.store, totals.app, totals.topic, totals.kind, totals.score_field, 1)
(change,) = plan_changes([totals], Description(0, {"page_views_totals": runs})).changes
print(json.dumps({"value": json.loads(changed[1]), "told": change.details, "conf": change.conf}))
"""


def test_the_change_of_an_own_app_is_planned_as_the_page_says(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    added = dict(re.findall(r"```python\n# (state/\S+\.py|spark_apps/\S+\.py)\n(.*?)```", page, re.DOTALL))
    (argument,) = re.findall(r"gets one more argument: `(.*?)`", page)
    (conf,) = re.findall(r"trigger `migrate_state` with\s+`(.*?)`", page)
    make_project("page_views", tmp_path)
    for name, code in added.items():
        file = tmp_path / name
        file.write_text(f"{file.read_text()}\n\n{code}")
    app = tmp_path / "spark_apps" / "page_views.py"
    called = 'topology_app("page_views", topology, '
    assert called in app.read_text()
    app.write_text(app.read_text().replace(called, f"{called}{argument}, "))
    own = project.environment(apps="spark_apps.page_views:PAGE_VIEWS", shared_apps="", project_dir=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ROW],
        env={**os.environ, **own},  # noqa: TID251 (handed on)
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["value"] == {**json.loads(ROW), "Level": 2}
    assert told["conf"] == json.loads(conf)
    assert any("Adds Level" in sentence for sentence in told["told"])
