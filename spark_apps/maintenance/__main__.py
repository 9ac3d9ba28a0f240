"""`python -m spark_apps.maintenance`: what Airflow starts, and what may be run by hand.

The last line on standard output is a JSON object; logs go to standard error. Exit codes: 0 done, 4 a check found
something or a clean-up was refused, 1 failed, 75 try again later, 78 wrong settings.
"""

from __future__ import annotations

import sys

import structlog
import typer
from pydantic import ValidationError

from spark_apps.app_log import configure_logging
from spark_apps.cli import EXIT_CONFIGURATION, exit_code
from spark_apps.maintenance.cleanup_commands import commands as cleanup_commands
from spark_apps.maintenance.growth_command import growth
from spark_apps.maintenance.restore_command import restore
from spark_apps.maintenance.tables_command import tables
from spark_apps.maintenance.verify_command import verify
from spark_apps.priority import JOB_NICENESS, stand_back
from state.errors import InvalidArgumentError, StateError
from state.maintenance.cleanup import CleanupRefusedError

EXIT_REFUSED = 4

cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
cli.add_typer(cleanup_commands, name="cleanup")
cli.command()(verify)
cli.command("restore-snapshot")(restore)
cli.command()(tables)
cli.command()(growth)
_log = structlog.get_logger(__name__)


@cli.callback()
def maintenance() -> None:
    """Look after the stores."""


def main() -> None:
    """Runs a command and turns its errors into one sentence and an exit code."""
    configure_logging()
    try:
        cli()
    except ValidationError as error:
        for problem in error.errors(include_input=False, include_url=False):
            name = "_".join(map(str, problem["loc"])).upper()
            _log.error("configuration_error", setting=f"STOREKEEPER_{name}", error=problem["msg"])
        sys.exit(EXIT_CONFIGURATION)
    except (CleanupRefusedError, InvalidArgumentError) as error:
        _log.error("refused", kind=type(error).__name__, error=str(error))
        sys.exit(EXIT_REFUSED)
    except StateError as error:
        _log.error("failed", kind=type(error).__name__, error=str(error))
        sys.exit(exit_code(error))


if __name__ == "__main__":
    stand_back(JOB_NICENESS)
    main()
