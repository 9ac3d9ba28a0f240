"""The archives and the wheels: what each holds, and what it says of itself. `build` makes an error of a warning."""

from __future__ import annotations

import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.distributions import FOLDERS, ROOT, Built
from storekeeper_provider import VERSION
from tests.installing.environment import metadata

PACKAGE = {
    "storekeeper-feast": "storekeeper_feast",
    "storekeeper": "storekeeper",
    "storekeeper-client": "storekeeper",
    "airflow-provider-storekeeper": "storekeeper_provider",
}
NOT_INSTALLED = {"LICENSE", "README.md", "pyproject.toml", "Dockerfile", "ORIGIN.md"}
"""Files beside modules that serve the checkout alone."""
PYTHONS = ("3.11", "3.12", "3.13")
WITH_FEAST = ("3.11",)


def project(name: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / FOLDERS[name] / "pyproject.toml").read_text())["project"]
    return found


def in_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as content:
        return set(content.namelist())


def in_archive(archive: Path) -> set[str]:
    with tarfile.open(archive) as content:
        assert all(member.isfile() or member.isdir() for member in content)
        return {member.name.partition("/")[2] for member in content if member.isfile()}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_takes_one_name_and_holds_the_licence_and_the_types(built: Mapping[str, Built], name: str) -> None:
    names = in_wheel(built[name].wheel)
    tops = {each.partition("/")[0] for each in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {PACKAGE[name]}
    assert f"{PACKAGE[name]}/py.typed" in names
    (licence,) = (each for each in names if each.endswith(".dist-info/licenses/LICENSE"))
    with zipfile.ZipFile(built[name].wheel) as content:
        assert content.read(licence).decode() == (ROOT / "LICENSE").read_text()


def test_an_installation_from_a_checkout_takes_no_other_name() -> None:
    # The archives are made of a copy, which has no other packages.
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    assert found == {"include": ["storekeeper", "storekeeper.*"]}


@pytest.mark.parametrize("name", FOLDERS)
def test_an_archive_has_what_its_wheel_is_built_of(built: Mapping[str, Built], name: str) -> None:
    names = in_archive(built[name].archive)
    assert {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml"} <= names
    assert {each for each in names if each.startswith(("tests/", "benchmarks/", "harness/", "docs/"))} == set()
    stem = built[name].archive.name.removesuffix(".tar.gz")
    assert built[name].wheel.name == f"{stem}-py3-none-any.whl"


@pytest.mark.parametrize("name", FOLDERS)
def test_it_says_where_it_comes_from_and_what_it_was_tried_on(built: Mapping[str, Built], name: str) -> None:
    found = metadata(built[name].wheel)
    assert (found["Name"], found["License-Expression"]) == (name, "Apache-2.0")
    assert {url.partition(",")[0] for url in found.get_all("Project-URL") or ()} == {
        "Changelog",
        "Documentation",
        "Homepage",
        "Issues",
    }
    classifiers = set(found.get_all("Classifier") or ())
    assert {
        f"Programming Language :: Python :: {version}"
        for version in (WITH_FEAST if name == "storekeeper-feast" else PYTHONS)
    } <= classifiers
    assert "Typing :: Typed" in classifiers
    assert found["Requires-Python"] == f">={PYTHONS[0]}"


def test_the_product_holds_every_module_and_data_file_and_the_provider_none_of_them(built: Mapping[str, Built]) -> None:
    product, provider = in_wheel(built["storekeeper"].wheel), in_wheel(built["airflow-provider-storekeeper"].wheel)
    assert product & provider == set()
    for package, names in (("storekeeper", product), ("storekeeper_provider", provider)):
        files = {path for path in (ROOT / package).rglob("*") if path.is_file() and path.name not in NOT_INSTALLED}
        kept = {path for path in files if not any("__pycache__" in part or ".egg-info" in part for part in path.parts)}
        assert {str(path.relative_to(ROOT)) for path in kept} - names == set()


def test_all_are_of_one_version() -> None:
    assert {project(name)["version"] for name in FOLDERS} == {VERSION}
    (wanted,) = (
        each
        for each in project("storekeeper")["optional-dependencies"]["airflow"]
        if each.startswith("airflow-provider")
    )
    assert wanted == f"airflow-provider-storekeeper=={VERSION}"
