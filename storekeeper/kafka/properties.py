"""The file with the properties of every client: how they are authenticated, and how they check the brokers.

Lines are `name=value` with librdkafka's names; `#` begins a comment. Lines that begin with `schema.registry.` are for
clients of a schema registry: see `storekeeper.schemas.registry`. The file is private (mode 0600), since it
may hold passwords. Relative paths begin at its folder. It has neither escapes nor continuation lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from storekeeper.errors import ConfigurationError
from storekeeper.private_files import read_secret

_DECIDED = frozenset({
    "acks", "allow.auto.create.topics", "auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store",
    "enable.idempotence", "enable.partition.eof", "group.id", "group.instance.id", "isolation.level", "log_level",
    "partitioner", "plugin.library.paths", "request.required.acks", "transaction.timeout.ms", "transactional.id",
})  # fmt: skip
"""Properties that exactly-once delivery depends on, or that run foreign code. Each client has its own."""
_REGISTRY = "schema.registry."
_ADDRESSES = frozenset({"bootstrap.servers", "metadata.broker.list"})
_NAME = re.compile(r"[a-z0-9._]+")


def read_properties(path: Path) -> dict[str, str]:
    """The properties of Kafka's clients in a file, with absolute paths. Raises as `_read`."""
    return {name: value for name, value in _read(path).items() if not name.startswith(_REGISTRY)}


def registry_properties(path: Path) -> dict[str, str]:
    """The properties of a schema registry's clients in the file, without their prefix. Raises as `_read`."""
    return {name.removeprefix(_REGISTRY): value for name, value in _read(path).items() if name.startswith(_REGISTRY)}


def _read(path: Path) -> dict[str, str]:
    """All properties in a file, with absolute paths.

    Raises:
        ConfigurationError: it is missing or not private; a line is not `name=value`; or it has a property that
            Storekeeper sets itself.
    """
    try:
        text = read_secret(path, "the properties of Kafka's clients in").decode("utf-8")
    except FileNotFoundError as error:
        raise ConfigurationError(f"there is no file {path}: correct `kafka_properties`") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not text in UTF-8") from error
    properties: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, value = _property(line, f"{path}:{number}")
            properties[name] = str(path.parent / value) if _is_path(name, value) else value
    return properties


def principal_of(properties: Mapping[str, str]) -> str | None:
    """The user that brokers see, as an ACL names it; None if only they know it."""
    if _mechanism(properties) == "PLAIN" or _mechanism(properties).startswith("SCRAM-"):
        return f"User:{properties['sasl.username']}" if "sasl.username" in properties else None
    return None


def _property(line: str, place: str) -> tuple[str, str]:
    name, separator, value = (part.lstrip() for part in line.partition("="))
    name = name.rstrip()
    if not separator or not _NAME.fullmatch(name) or not value:
        msg = f"{place} is not a line of the form name=value"
    elif value != value.rstrip():
        msg = f"{place}: the value of {name} ends with a space"
    elif name in _ADDRESSES:
        msg = f"{place}: set {name} in the setting kafka_bootstrap"
    elif name in _DECIDED:
        msg = f"{place}: {name} can't be set: Storekeeper sets it for each client"
    else:
        return name, value
    raise ConfigurationError(msg)


def _is_path(name: str, value: str) -> bool:
    return name.endswith((".location", ".file", ".keytab")) and value != "probe"


def _mechanism(properties: Mapping[str, str]) -> str:
    if not properties.get("security.protocol", "").upper().startswith("SASL"):
        return ""
    return properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "")).upper()
