"""Spark's properties: those of the table `[spark]`, those of Spark's own folder, and those that are Storekeeper's.

The name of a property is its place in the table: `ui.enabled` in `[spark]` is `spark.ui.enabled`. Free of Spark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from storekeeper.errors import ConfigurationError

OWNED: Mapping[str, str] = {
    "spark.app.name": "a session has the name of its app",
    "spark.hadoop.fs.file.impl": "local files are made private by Storekeeper's own",
    "spark.local.dir": "a driver unpacks in the run directory; set SPARK_LOCAL_DIRS where the workers start",
    "spark.master": "use the setting spark_master",
    "spark.python.daemon.module": "tasks run in Storekeeper's own daemon",
    "spark.python.use.daemon": "tasks run in Storekeeper's own daemon",
    "spark.speculation": "the second copy of a task would abort the transaction of the first",
    "spark.sql.catalog.spark_catalog": "it is Delta's",
    "spark.sql.session.timeZone": "tables hold times in UTC",
    "spark.submit.deployMode": "the supervisor runs the drivers",
}
"""Properties that no user can set, and what to do instead."""

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
DEFAULT_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Of a driver, unless `JAVA_OPTIONS` is set. They halve the work of starting on a small machine.

With one compiler the JVM keeps 48 MiB of compiled code; a few apps fill that, and then nothing is compiled.
"""
CONF_DIR = "SPARK_CONF_DIR"
_DEFAULTS_FILE = "spark-defaults.conf"
_SECRET = re.compile(r"(secret|password|passwd|token|(access|secret|account)\.?key(\..*)?)$", re.IGNORECASE)


class SparkProperties(dict[str, str]):
    """Properties by their full names. Nobody changes them, so they can be a part of a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        """The same for the same properties."""
        return hash(frozenset(self.items()))


def checked_properties(given: object) -> SparkProperties:
    """The properties of a table.

    Raises:
        ValueError: it is not a table of properties, or one of them can't be set there.
    """
    if not isinstance(given, Mapping):
        raise ValueError("it is not a table of Spark's properties")
    properties = dict(_flat("", given))
    for name in sorted(properties):
        if name in OWNED:
            raise ValueError(f"{name} can't be set: {OWNED[name]}")
        if _SECRET.search(name):
            raise ValueError(
                f"{name} is a secret, and the process list would show it: put it into {_DEFAULTS_FILE} of the "
                f"folder {CONF_DIR}, or use a file or variable that Spark or Hadoop reads"
            )
    return SparkProperties(properties)


PropertiesField = Annotated[SparkProperties, PlainValidator(checked_properties), PlainSerializer(dict)]
"""The type of a setting that holds properties."""


def site_properties() -> SparkProperties:
    """The properties of `spark-defaults.conf` in the folder that `SPARK_CONF_DIR` names; none if it is not set.

    Raises:
        ConfigurationError: the folder is not there, or the file can't be read.
    """
    folder = os.environ.get(CONF_DIR)  # noqa: TID251 (Spark's own variable)
    if not folder:
        return SparkProperties()
    if not Path(folder).is_dir():
        raise ConfigurationError(f"there is no folder {folder}: correct {CONF_DIR}")
    path = Path(folder) / _DEFAULTS_FILE
    try:
        return SparkProperties(_parsed(path.read_text("utf-8"))) if path.exists() else SparkProperties()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} can't be read ({type(error).__name__}): correct it, or {CONF_DIR}") from error


def has_own_log_levels() -> bool:
    """Whether the folder that `SPARK_CONF_DIR` names has a configuration of Log4j, which Spark finds by itself."""
    folder = os.environ.get(CONF_DIR, "")  # noqa: TID251 (Spark's own variable)
    return folder != "" and any(Path(folder).glob("log4j2.*"))


def ui_address(properties: Mapping[str, str]) -> str:
    """The address of Spark's UI, the first app's if there are several; empty if these properties ask for none."""
    if properties.get("spark.ui.enabled") != "true":
        return ""
    return f"http://{properties.get('spark.driver.host', '127.0.0.1')}:{properties.get('spark.ui.port', '4040')}"


def combined(own: Mapping[str, str], table: Mapping[str, str], site: Mapping[str, str]) -> dict[str, str]:
    """What a session is started with: Spark reads `site` by itself, so that no secret of it becomes an argument.

    Args:
        own: Storekeeper's values. A user's value takes their place, except for owned properties; lists are joined.
        table: the properties of the settings, which take precedence over those of `site`.
        site: the properties that Spark reads from its own folder.
    """
    given = {**site, **table}
    kept = {name: value for name, value in own.items() if name in OWNED or name not in given}
    joined = {
        name: separator.join((own[name], given[name]))
        for name, separator in _JOINED.items()
        if name in own and name in given
    }
    return {**kept, **table, **joined}


_JOINED: Mapping[str, str] = {
    "spark.driver.extraClassPath": os.pathsep,
    JAVA_OPTIONS: " ",
    "spark.jars": ",",
    "spark.sql.extensions": ",",
}
"""Properties that are lists, and what separates their items."""


def _flat(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(f"{name}.", value)
        else:
            yield name if name.startswith("spark.") else f"spark.{name}", _text(name, value)


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(_text(name, item) for item in value)
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError(f"the value of {name} is not text, a number, a truth value or a list")


def _parsed(text: str) -> dict[str, str]:
    """The lines of a file of properties: name and value are separated by space, `=` or `:`."""
    lines = (line.strip() for line in text.replace("\\\n", "").splitlines())
    pairs = (re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {name: value for name, *rest in pairs for value in (rest or [""])}
