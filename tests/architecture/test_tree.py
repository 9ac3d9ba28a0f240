"""The tree keeps its promises: small files, plain names, no second map beside the real one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("storekeeper", "storekeeper_provider")
VAGUE = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}


def tracked(*patterns: str) -> list[Path]:
    """Files that git knows, or would add, under the patterns."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for line in listing.stdout.splitlines() if (path := ROOT / line).is_file()]


def test_no_python_file_is_longer_than_500_lines() -> None:
    long = {str(p.relative_to(ROOT)): n for p in tracked("*.py") if (n := len(p.read_text().splitlines())) > 500}
    assert long == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [p.relative_to(ROOT) for p in tracked("*.py") if p.stem in VAGUE or p.parent.name in VAGUE]
    assert vague == []


def test_no_file_in_dags_bears_the_name_of_a_package() -> None:
    # Airflow puts the folder that they are exported to on the module path, where such a file would hide the package.
    packages = {*PACKAGES, "tests", "supervisor", "airflow"}
    clashes = [p.name for p in (ROOT / "storekeeper_provider" / "dags").iterdir() if p.stem in packages]
    assert clashes == []


def test_every_path_that_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    folders = "|".join({path.relative_to(ROOT).parts[0] for path in tracked("*/*")})
    named = set(re.findall(rf"`((?:{folders})/[\w./-]*)`", text))
    assert named, "ARCHITECTURE.md names no path"
    missing = sorted(path for path in named if not (ROOT / path).exists())
    assert missing == []


def test_every_module_on_the_way_of_a_read_exists() -> None:
    folder = ROOT / "storekeeper" / "node" / "query"
    named = re.findall(r"`([\w./]+\.py)`", (folder / "__init__.py").read_text())
    assert "reads/point.py" in named
    assert [path for path in named if not (folder / path).exists() and not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    ("what", "pattern", "places"),
    [
        ("clients of Kafka", r"(?<!class )\b(Consumer|Producer|AdminClient)\(", ["storekeeper/kafka/clients.py"]),
        # `paced_exec` runs at each start, with the standard library alone.
        (
            "files in one step",
            r"\b(draft|partial|temporary)\.replace\(|os\.replace",
            ["storekeeper/ops/paced_exec.py", "storekeeper/whole_files.py"],
        ),
    ],
)
def test_one_place_makes(what: str, pattern: str, places: list[str]) -> None:
    sources = {str(p.relative_to(ROOT)): p.read_text() for package in PACKAGES for p in tracked(f"{package}/*.py")}
    assert sorted(name for name, source in sources.items() if re.search(pattern, source)) == places, what


def test_make_runs_each_file_of_tests_once() -> None:
    parts = re.findall(r"^IN_(\w+)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    shown = subprocess.run(
        ["make", "--dry-run", *(f"test-{part}" for part in parts)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    named = re.findall(r"\s((?:tests|contrib)/\S+)", shown.stdout)
    files = [str(path.relative_to(ROOT)) for path in tracked("tests/*.py", "contrib/*.py") if path.match("test_*.py")]
    runs = {file: sum(file == one or (one.endswith("/") and file.startswith(one)) for one in named) for file in files}
    assert len(runs) > 100
    assert {file: times for file, times in runs.items() if times != 1} == {}


def test_views_of_the_platform_read_the_model_alone() -> None:
    reads = re.compile(r"read_heartbeat|run_files|running_supervisor|processes_of|StateClient|Archive|httpx2?\b|open\(")
    views = [ROOT / "storekeeper" / "ops" / "overview" / f"{name}.py" for name in ("tables", "status", "prometheus")]
    views.append(ROOT / "storekeeper" / "ops" / "control" / "views.py")
    assert [view.name for view in views if reads.search(view.read_text())] == []


def test_nodes_ask_one_another_in_one_way() -> None:
    connects = re.compile(r"create_connection|open_connection|\bhttpx2?\b")
    sources = {p.name: p.read_text() for p in (ROOT / "storekeeper" / "node" / "query").rglob("*.py")}
    assert [name for name, source in sources.items() if connects.search(source)] == ["forwarding.py"]


def test_the_lock_names_no_index_and_pins_every_hash() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert "--index" not in lock
    requirements = re.split(r"\n(?=[A-Za-z0-9])", lock.strip())
    unpinned = [r.splitlines()[0] for r in requirements if "==" not in r or "--hash=sha256:" not in r]
    assert unpinned == []


def test_every_package_that_pyproject_asks_for_is_in_the_lock() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    names = {re.match(r"[A-Za-z0-9_-]+", w).group().lower().replace("_", "-") for w in wanted}  # type: ignore[union-attr]
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE))
    ours = {project["name"], "airflow-provider-storekeeper"}  # extras build on one another
    assert names - locked - ours == set()
