"""An app in the script that was started is refused where Spark would run it."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import described, topology_app
from storekeeper.engine.importable import check_importable
from storekeeper.errors import ConfigurationError
from storekeeper.testkit.plain_driver import plain_driver
from storekeeper.testkit.spark_driver import SparkDriver
from storekeeper.topology import Store, StreamsBuilder


class Row(msgspec.Struct, frozen=True):
    n: int = 0


class Main(msgspec.Struct, frozen=True):
    n: int = 0


Main.__module__ = "__main__"


def of(kind: Any, streams: StreamsBuilder, _: Any) -> None:
    streams.stream("in", kind).group_by_key().reduce(lambda one, _: one, store=Store("rows", kind))


def rows(streams: StreamsBuilder, _: Any) -> None:
    of(Row, streams, _)


def mains(streams: StreamsBuilder, _: Any) -> None:
    of(list[Main | None], streams, _)


def started(streams: StreamsBuilder, _: Any) -> None:
    of(Row, streams, _)


started.__module__ = "__main__"


@pytest.mark.parametrize("describe", [mains, started, functools.partial(started)])
def test_what_is_in_the_script_is_refused_on_spark_alone(describe: Any, tmp_path: Path) -> None:
    spec = topology_app("app", describe, title="a test")
    plain_driver(spec)
    with pytest.raises(ConfigurationError, match="module of its own"):
        SparkDriver(spec, AppSettings(), None, tmp_path)  # type: ignore[arg-type]


def test_what_is_in_a_module_is_not() -> None:
    check_importable("app", rows, described("app", rows, AppSettings()))


def test_a_script_with_an_app(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            from pathlib import Path
            import msgspec
            from storekeeper.apps.settings import AppSettings
            from storekeeper.testkit.plain_driver import plain_driver
            from storekeeper.testkit.spark_driver import SparkDriver
            from storekeeper.apps.topology_app import topology_app

            class View(msgspec.Struct):
                user: str

            def describe(streams, settings):
                streams.table("views", View, store="views")

            app = topology_app("views", describe, title="views")
            driver = plain_driver(app)
            driver.pipe("views", "a", View("ada"))
            print(driver.rows("views"))
            SparkDriver(app, AppSettings(), None, Path())
            """
        )
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=Path.cwd(), check=False,
                         env={"PYTHONPATH": str(Path.cwd()), "PATH": "/usr/bin:/bin"})  # fmt: skip
    assert "View(user='ada')" in ran.stdout
    assert "app views: describe is defined in the script" in ran.stderr
