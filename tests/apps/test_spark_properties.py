from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spark_properties import (
    OWNED,
    SparkProperties,
    checked_properties,
    combined,
    has_own_log_levels,
    site_properties,
)
from storekeeper.configuration import explained
from storekeeper.errors import ConfigurationError


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The configuration file."""
    path = tmp_path / "storekeeper.toml"
    monkeypatch.setenv("STOREKEEPER_CONFIG", str(path))
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    return path


def test_a_name_is_its_place_in_the_table(file: Path) -> None:
    file.write_text(
        '[spark]\nui.enabled = true\nexecutor.cores = 2\n"spark.jars.packages" = ["a:b:1", "c:d:2"]\n'
        '[spark.eventLog]\ndir = "hdfs:///logs"\n'
    )
    assert AppSettings().spark == {
        "spark.ui.enabled": "true",
        "spark.executor.cores": "2",
        "spark.jars.packages": "a:b:1,c:d:2",
        "spark.eventLog.dir": "hdfs:///logs",
    }


def test_the_environment_overrides_single_properties(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('[spark]\nui.enabled = true\nexecutor.memory = "1g"\n')
    monkeypatch.setenv("STOREKEEPER_SPARK", '{"spark.executor.memory": "2g"}')
    assert AppSettings().spark == {"spark.ui.enabled": "true", "spark.executor.memory": "2g"}


@pytest.mark.parametrize("name", sorted(OWNED))
def test_a_property_of_storekeeper_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(ValidationError) as refused:
        AppSettings(spark={name: "another"})  # type: ignore[arg-type]
    assert explained(refused.value) == (
        f"The setting `spark` can't be used ({name} can't be set: {OWNED[name]}): correct it."
    )


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.bucket.b.session.token",
        "spark.hadoop.fs.azure.account.key.mine.dfs.core.windows.net",
        "spark.ssl.keyPassword",
        "spark.authenticate.secret",
    ],
)
def test_a_secret_is_refused_because_it_would_be_an_argument(name: str) -> None:
    with pytest.raises(ValueError, match=r"is a secret, .*spark-defaults\.conf"):
        checked_properties({name: "s3cr3t"})


@pytest.mark.parametrize(
    "name", ["spark.kubernetes.driver.secrets.mine", "spark.kubernetes.authenticate.oauthTokenFile", "spark.ui.port"]
)
def test_what_only_sounds_like_a_secret_is_none(name: str) -> None:
    assert checked_properties({name: "a"}) == {name: "a"}


@pytest.mark.parametrize("given", ["a=b", {"spark.a": None}, {"spark.a": [{"b": 1}]}])
def test_what_is_no_table_of_properties_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match=r"is not a table|is not text"):
        checked_properties(given)


def test_spark_reads_its_own_folder_and_its_secrets_are_no_arguments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = ("# a comment", "spark.executor.memory   4g", "spark.authenticate.secret = x", "spark.ui.enabled:true")
    (tmp_path / "spark-defaults.conf").write_text("\n".join([*lines, "spark.a\\", " 1"]))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    site = site_properties()
    assert site == {
        "spark.executor.memory": "4g",
        "spark.authenticate.secret": "x",
        "spark.ui.enabled": "true",
        "spark.a": "1",
    }
    own = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.sql.session.timeZone": "UTC"}
    started = combined(own, SparkProperties({"spark.executor.memory": "8g"}), site)
    assert started == {
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.executor.memory": "8g",
    }


def test_what_is_owned_stands_against_sparks_own_folder() -> None:
    assert combined({"spark.sql.session.timeZone": "UTC"}, {}, {"spark.sql.session.timeZone": "CET"}) == {
        "spark.sql.session.timeZone": "UTC"
    }


def test_lists_are_joined() -> None:
    own = {"spark.jars": "delta.jar", "spark.sql.extensions": "Delta", "spark.driver.extraJavaOptions": "-Da=1"}
    table = {"spark.jars": "mine.jar", "spark.driver.extraJavaOptions": "-Xss8m"}
    assert combined(own, table, {"spark.sql.extensions": "Mine"}) == {
        "spark.jars": "delta.jar,mine.jar",
        "spark.sql.extensions": "Delta,Mine",
        "spark.driver.extraJavaOptions": "-Da=1 -Xss8m",
    }


def test_a_folder_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert site_properties() == {}
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert site_properties() == {}, "a folder without the file"
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "gone"))
    with pytest.raises(ConfigurationError, match=r"there is no folder .*gone: correct SPARK_CONF_DIR"):
        site_properties()


def test_log_levels_of_sparks_own_folder_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert not has_own_log_levels()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert not has_own_log_levels()
    (tmp_path / "log4j2.properties").touch()
    assert has_own_log_levels()


def test_the_page_names_every_property_that_is_refused() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "configure-spark.md").read_text()
    assert [name for name in OWNED if f"`{name}`" not in page] == []


def test_settings_with_properties_can_be_a_key() -> None:
    one, other = (AppSettings(spark={"spark.a": "1"}) for _ in range(2))  # type: ignore[arg-type]
    assert {one: 1}[other] == 1
    assert one.with_spark({"spark.b": "2"}).spark == {"spark.a": "1", "spark.b": "2"}
