"""`storekeeper plan`: how the code would change the existing state, in a pull request or beside a platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import SystemClock
from storekeeper.errors import InvalidArgumentError, StorageError
from storekeeper.generations.changes.contract import Description
from storekeeper.generations.changes.plan import Plan, plan_changes
from storekeeper.generations.planning.declared import declared_stores, with_topologies
from storekeeper.generations.planning.upgrade_check import with_schemas


def plan_against(description: Description, partitions: Mapping[str, int]) -> Plan:
    """The plan from a description to the current code.

    Args:
        description: what runs.
        partitions: the new number of partitions by store, where it changes.

    Raises:
        SchemaRegistryUnavailableError: an app has schemas, and their registry doesn't answer.
        ConfigurationError: an app has schemas, and no registry is set.
    """
    plan = plan_changes(declared_stores(partitions), description)
    return with_schemas(with_topologies(plan, description), description, APPS)


def described_now() -> Description:
    """The description of what runs in the run directory of the settings."""
    from storekeeper.generations.planning.describe import describe  # noqa: PLC0415 (it takes a second, and a plan of a file needs none)

    return describe(AppSettings.of_platform(), SystemClock())


def read_description(path: Path) -> Description:
    """The description in a file.

    Raises:
        StorageError: it can't be read.
        InvalidArgumentError: it isn't a description.
    """
    try:
        return Description.decode(path.read_bytes())
    except OSError as error:
        msg = f"can't read {path} ({error.strerror}): write one with `storekeeper plan --export {path}`"
        raise StorageError(msg) from error


def parse_partitions(texts: Sequence[str]) -> dict[str, int]:
    """Reads `store=number`, each once.

    Raises:
        InvalidArgumentError: if one is not of this form.
    """
    counts: dict[str, int] = {}
    for text in texts:
        store, _, number = text.partition("=")
        if not store or store in counts or not (number.isascii() and number.isdigit() and 0 < int(number) <= 10_000):
            msg = f"{text[:100]!r} is not of the form store=partitions"
            raise InvalidArgumentError(msg)
        counts[store] = int(number)
    return counts
