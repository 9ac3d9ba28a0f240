"""What the page for new apps shows is what is laid down, and runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from storekeeper.ops.new_project.plan import app_files, make_project

PAGE = (Path(__file__).resolve().parents[3] / "docs/tutorial/first-app.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
SHOWN = ("state/page_views_totals.py", "spark_apps/page_views.py")


def test_the_files_on_the_page_are_those_that_are_laid_down() -> None:
    files = {str(file.path): file.content for file in app_files("page_views")}
    assert BLOCKS[: len(SHOWN)] == [files[name] for name in SHOWN]


def test_the_page_names_every_file_but_the_empty_ones(tmp_path: Path) -> None:
    made = {str(path.relative_to(tmp_path)) for path in make_project("page_views", tmp_path)}
    left = {name for name in made if not name.endswith("__init__.py")} - {"tests/conftest.py"}
    assert left == set(re.findall(r"^\| `(\S+)` \|", PAGE, flags=re.MULTILINE))


def test_the_code_on_the_page_runs(tmp_path: Path) -> None:
    """All but what needs a broker, as one module of the project, below the code of the app alone."""
    make_project("page_views", tmp_path)
    runs = [block for block in BLOCKS[len(SHOWN) :] if "Producer(" not in block]
    assert len(runs) == 4
    names = "from spark_apps.page_views import *\n"
    (tmp_path / "page.py").write_text("\n".join([names, *runs]))
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
