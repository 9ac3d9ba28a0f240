"""The command `storekeeper jars`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from deploy.errors import NotSetUpError
from deploy.jars.fetch import POMS, fetch_jars
from deploy.preflight import java_problem, maven_problem


def fetch_all(folder: Path, environment: Mapping[str, str]) -> None:
    """Fetches the jars of every pom into `folder`.

    Raises:
        NotSetUpError: Java or Maven is missing, or Maven failed.
    """
    problem = java_problem(environment) or maven_problem(environment)  # type: ignore[no-untyped-call]
    if problem is not None:
        raise NotSetUpError(problem)
    for pom in POMS:
        try:
            fetch_jars(pom, folder)
        except subprocess.CalledProcessError as error:
            msg = f"Maven could not fetch the {pom} jars: see its message above, and run `storekeeper jars` again."
            raise NotSetUpError(msg) from error
