"""The program `storekeeper`: its commands by name, and how it ends.

A command is loaded when it is called, so that each process loads only what it needs: no node loads Spark, no app
Airflow. Modules of commands load without any extra of the package; a command's body imports what an extra brings.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from pydantic import ValidationError
from typer.core import TyperCommand, TyperGroup

from storekeeper.apps.app_log import configure_logging
from storekeeper.cli.times import is_ago
from storekeeper.configuration import PREFIX, configuration_file, explained, own_file, platform_file
from storekeeper.errors import ConfigurationError, StateError
from storekeeper.program import ERROR_PREFIX, ExitCode, exit_code_of

_HELP = """\
Queryable state stores for PySpark streams.

\b
  storekeeper new-project page_views  a project with one app
  storekeeper up                    start the platform and leave it running
  storekeeper status                every process, its health, its address
  storekeeper get rewards CARD      a customer's row
  storekeeper sql "SELECT ..."      SQL over the Delta tables
  storekeeper verify rewards        compare changelog, SQL and nodes
  storekeeper plan                  what `storekeeper apply` would change
  storekeeper apply                 bring it to what storekeeper.toml says
  storekeeper down                  stop it and leave no process behind

Commands find the platform of the current folder or a folder above, else the one that was started last.
Settings are in storekeeper.toml of that folder; variables STOREKEEPER_* override it.
"""

_SECTIONS: dict[str, dict[str, str]] = {
    "The platform": {
        "up": "storekeeper.cli.platform:up",
        "plan": "storekeeper.cli.platform:plan",
        "apply": "storekeeper.cli.platform:apply",
        "down": "storekeeper.cli.platform:down",
        "status": "storekeeper.cli.platform:status",
        "settings": "storekeeper.cli.platform:settings",
        "jars": "storekeeper.cli.platform:jars",
    },
    "Ask stores": {
        "get": "storekeeper.cli.ask:get",
        "fetch": "storekeeper.cli.ask:fetch",
        "rank": "storekeeper.cli.ask:rank",
        "sql": "storekeeper.cli.platform:sql",
        "history": "storekeeper.cli.history:history",
        "diff": "storekeeper.cli.history:diff",
    },
    "Look after stores": {
        "stores": "storekeeper.cli.cluster:stores",
        "tables": "storekeeper.cli.tables:tables",
        "size": "storekeeper.cli.size:size",
        "token": "storekeeper.cli.token:token_commands",
        "snapshot": "storekeeper.cli.snapshot:snapshot_commands",
        "verify": "storekeeper.cli.verify:verify",
        "check": "storekeeper.cli.quality:check",
        "quarantine": "storekeeper.cli.quality:quarantine_commands",
        "accept-topic": "storekeeper.cli.changelog:accept_topic",
        "skipped": "storekeeper.cli.changelog:skipped",
        "cleanup": "storekeeper.cli.cleanup:commands",
        "erase": "storekeeper.cli.erase:erase",
    },
    "Change apps and stores": {
        "app": "storekeeper.cli.app:app_commands",
        "upgrade-nodes": "storekeeper.cli.app:upgrade_nodes",
        "new-project": "storekeeper.cli.projects:new_project",
        "new-app": "storekeeper.cli.projects:new_app",
        "create-topics": "storekeeper.cli.platform:create_topics",
        "topology": "storekeeper.cli.platform:topology",
        "export-dags": "storekeeper.cli.platform:export_dags",
        "generation": "storekeeper.cli.generation:generation_commands",
    },
    "Processes, in the foreground": {
        "run": "storekeeper.cli.run:run",
        "node": "storekeeper.cli.node:node",
        "control": "storekeeper.cli.platform:control",
        "supervise": "storekeeper.cli.platform:supervise",
    },
}
_PROCESSES = frozenset({"run", "node", "control"})
"""Commands with their own way of taking signals and of logging, which their children inherit."""
_NEED_NO_APP = frozenset({"down", "status", "settings", "--help"})
"""Commands that go on without the apps if one of these can't be loaded."""
_OF_A_PLATFORM = frozenset({"plan", "apply"})
"""Commands that compare a platform, wherever it was started, with the configuration file of its project."""
_OF_THE_USER = frozenset({"up", "supervise", "settings", *_OF_A_PLATFORM})
"""Commands with the user's own configuration file. The others have the settings of the running platform."""
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
_INTERRUPTED = {
    **dict.fromkeys(("up", "supervise"), "interrupted: a platform that was not up before is stopped again"),
    **dict.fromkeys(("apply", "app", "upgrade-nodes"), "interrupted: what was begun goes on, see `storekeeper status`"),
}
"""What becomes of the processes that a command started, when it is interrupted; by command."""
_DISTRIBUTIONS = {
    "airflow": "apache-airflow",
    "delta": "delta-spark",
    "storekeeper_provider": "airflow-provider-storekeeper",
}
"""Distributions whose name differs from their module's."""
_OF_EXTRA = re.compile(r"^(?P<name>[A-Za-z0-9._-]+).*extra == ['\"](?P<extra>[a-z]+)['\"]")


class Program(TyperGroup):
    """The program: its commands are loaded when they are called, help in sections, and one sentence for an error."""

    places: Mapping[str, str] = {name: place for section in _SECTIONS.values() for name, place in section.items()}

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the help."""
        del ctx
        return list(self.places)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name; None if there is none."""
        del ctx
        place = self.places.get(cmd_name)
        return None if place is None else _loaded(cmd_name, place)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands below a heading for each section."""
        limit = formatter.width - 6 - max(map(len, self.places))
        for heading, names in _SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.get_command(ctx, name).get_short_help_str(limit)) for name in names])

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; an error that a user can do something about ends it with a sentence and an exit code."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            explained = _explained(error)
            if explained is None:
                raise
            message, code = explained
            _say(message)
            raise typer.Exit(code) from error


class Command(TyperCommand):
    """A command. An argument such as `-1d` is a time, and no option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments."""
        ctx.ignore_unknown_options = any(map(is_ago, args))
        plain = args[args.index("--") + 1 :] if "--" in args else []  # noted before: the parser empties the list
        left = super().parse_args(ctx, args)
        if ctx.ignore_unknown_options:
            _check_no_option(self, ctx, plain)
        return left


def _check_no_option(command: TyperCommand, ctx: Any, plain: Sequence[str]) -> None:
    """Refuses options that were taken for arguments, as keys, because times were let through.

    `plain` are the words that are no options, whatever they look like. Nor is a lone `-` one.
    """
    for parameter in command.params:
        given = ctx.params.get(parameter.name) if parameter.param_type_name == "argument" else None
        for word in given if isinstance(given, list | tuple) else [given]:
            if isinstance(word, str) and word.startswith("-") and word not in {"-", *plain} and not is_ago(word):
                raise typer.BadParameter(
                    "there is no such option; write `--` before a key that looks like one", param_hint=word
                )


def _loaded(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    loaded = getattr(importlib.import_module(module), attribute)
    if not isinstance(loaded, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(cls=Command)(loaded)
        loaded = alone
    loaded.info.name = name
    # Only the program itself offers shell completion.
    loaded._add_completion = False  # noqa: SLF001
    command = typer.main.get_command(loaded)
    command.name = name
    return command


app = typer.Typer(cls=Program, help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"storekeeper {importlib.metadata.version('storekeeper')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version  # its callback has done the work


def main() -> NoReturn:
    """Runs the program and exits."""
    command = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if command not in _PROCESSES:
        for number in _INTERRUPTS:
            signal.signal(number, _interrupt)
        configure_logging(logging.WARNING)  # standard output is for a command's answer
    try:
        _find_configuration(command)
        if command in _NEED_NO_APP:
            _go_on_without_apps()
    except ConfigurationError as error:
        _say(str(error))
        sys.exit(ExitCode.CONFIGURATION)
    try:
        app(prog_name="storekeeper")
    except SystemExit as stop:
        if stop.code in {128 + number for number in _INTERRUPTS}:
            _say(_INTERRUPTED.get(command, "interrupted"))
        raise
    sys.exit(0)


def _find_configuration(command: str) -> None:
    """Finds and checks the configuration file ahead of the apps, which read it."""
    if command in _OF_THE_USER:
        configuration = platform_file() if command in _OF_A_PLATFORM else own_file()
        os.environ[f"{PREFIX}CONFIG"] = str(configuration or "")  # noqa: TID251 (written, not read)
    path = configuration_file()
    if path is not None:
        # Here, because a command without a file needs no class of settings but its own.
        from storekeeper.ops.settings_reference import check_names  # noqa: PLC0415

        check_names(path)


def _go_on_without_apps() -> None:
    """A platform can be stopped even if one of its apps can't be loaded."""
    try:
        importlib.import_module("storekeeper.apps.registry")
    except ConfigurationError as error:
        _say(str(error))
        _say("going on without the apps")
        os.environ |= {f"{PREFIX}APPS": "", f"{PREFIX}SHARED_APPS": ""}  # noqa: TID251 (written, not read)


def _explained(error: Exception) -> tuple[str, int] | None:
    """An error as a user understands it, and the exit code; None for a mistake in the program itself."""
    if isinstance(error, ValidationError):
        return explained(error), ExitCode.CONFIGURATION
    if isinstance(error, StateError):
        return str(error), exit_code_of(error)
    if isinstance(error, ModuleNotFoundError):
        missing = missing_package(error.name or "")
        return None if missing is None else (missing, ExitCode.CONFIGURATION)
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):  # typer ends quietly on that one
        return _os_sentence(error), ExitCode.FAILED
    kafka = sys.modules.get("confluent_kafka")
    if kafka is not None and isinstance(error, kafka.KafkaException):
        reason = getattr(error.args[0], "str", lambda: str(error))()
        message = f"Kafka failed ({reason}): check that it runs where `kafka_bootstrap` says"
        return message, ExitCode.TRY_AGAIN
    return None


def missing_package(module: str) -> str | None:
    """The sentence about a module that can't be imported; None if no extra brings it. `module` is its full name, as in
    `ModuleNotFoundError.name`.
    """
    top = module.partition(".")[0]
    distribution = _DISTRIBUTIONS.get(top, top).replace("_", "-")
    for requirement in importlib.metadata.requires("storekeeper") or ():
        match = _OF_EXTRA.match(requirement)
        if match and match["name"].replace("_", "-").lower() == distribution:
            return f'this command needs the package {distribution}: run `pip install "storekeeper[{match["extra"]}]"`'
    return None


def _os_sentence(error: OSError) -> str:
    from storekeeper.ops.machine import full_disk, is_full  # noqa: PLC0415 (see above)
    from storekeeper.ops.settings import PlatformSettings  # noqa: PLC0415 (see above)

    if is_full(error):
        return str(full_disk(PlatformSettings.load().run_dir))
    return f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")


def _interrupt(number: int, frame: FrameType | None) -> None:
    del frame
    raise SystemExit(128 + number)  # unlike KeyboardInterrupt, nobody on the way turns it into something else


def _say(message: str) -> None:
    sys.stderr.write("".join(f"{ERROR_PREFIX}{line}\n" for line in message.splitlines()))


if __name__ == "__main__":
    main()
