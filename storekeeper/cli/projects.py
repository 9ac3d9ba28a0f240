"""`storekeeper new-project` and `new-app`: the files of a project."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from storekeeper.cli.output import say

AppName = Annotated[str, typer.Argument(help="The app's name, such as page_views or till-team.page_views.")]
ProjectFolder = Annotated[Path, typer.Option(help="The project's folder.")]


def new_project(name: AppName, into: ProjectFolder = Path()) -> None:
    """Write a new project with one app.

    Example: storekeeper new-project page_views --into shop
    """
    from storekeeper.ops.new_project.plan import make_project  # noqa: PLC0415

    _tell_of(name, into, make_project(name, into), "storekeeper jars (once on this machine), then storekeeper up")


def new_app(name: AppName, into: ProjectFolder = Path()) -> None:
    """Add a new app to a project, with its tests.

    It also names the app in the project's storekeeper.toml.

    Example: storekeeper new-app page_views
    """
    from storekeeper.ops.new_project.plan import make_app  # noqa: PLC0415

    _tell_of(name, into, make_app(name, into), "storekeeper up, or storekeeper apply if the platform runs")


def _tell_of(name: str, folder: Path, written: Sequence[Path], run: str) -> None:
    from storekeeper.ops.new_project.plan import module_of  # noqa: PLC0415

    for path in written:
        typer.echo(path)
    if folder.resolve() != Path.cwd():
        say(f"Enter it: cd {shlex.quote(str(folder))}")
    say(f"Test it: python -m pytest tests/test_{module_of(name)}.py -m 'not spark'")
    say(f"Run it: {run}")
