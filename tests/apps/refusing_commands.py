"""`storekeeper plan` once for each argument, a value of `apps`: `python -m tests.apps.refusing_commands ...`.

Each runs in a fork of this process, which has loaded all that takes long and knows no app yet. Prints a list of pairs
as JSON: the exit code and the standard error.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

import storekeeper.apps.topology_app
import storekeeper.cli.entry
import storekeeper.cli.platform
import storekeeper.generations.changes.plan

LOADED = (storekeeper.cli.platform, storekeeper.apps.topology_app, storekeeper.generations.changes.plan)


def refused(apps: str) -> tuple[int, str]:
    """How the command ends."""
    with tempfile.TemporaryFile() as shown:
        child = os.fork()
        if not child:
            os.dup2(shown.fileno(), 2)
            os.environ["STOREKEEPER_APPS"] = apps  # noqa: TID251 (written, not read)
            sys.argv = ["storekeeper", "plan"]
            storekeeper.cli.entry.main()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        shown.seek(0)
        return code, shown.read().decode()


if __name__ == "__main__":
    assert "storekeeper.apps.registry" not in sys.modules
    print(json.dumps([refused(apps) for apps in sys.argv[1:]]))
