"""Where the schema registry is and how to sign in: the lines of the file of Kafka's properties that begin so.

`schema.registry.url` is the base address of the registry's Confluent API. The other names are those of Confluent's
client behind `schema.registry.`, such as `schema.registry.basic.auth.user.info` or `schema.registry.ssl.ca.location`.
With `schema.registry.auto.register.schemas=true` apps register the schemas that they write with when they start.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from storekeeper.errors import ConfigurationError
from storekeeper.kafka.properties import registry_properties
from storekeeper.loopback import is_loopback

_REGISTERS = "auto.register.schemas"
_SIGNS_IN = ("basic.auth.", "bearer.auth.")
_DEFAULTS = {"timeout": 5, "max.retries": 2, "retries.wait.ms": 100, "retries.max.wait.ms": 2000}
"""A registry that doesn't answer is given up after about 15 s."""


@dataclass(frozen=True, slots=True)
class RegistryProperties:
    """How to ask the registry.

    Attributes:
        client: the settings of Confluent's client.
        registers: whether apps register what they write with.
    """

    client: dict[str, Any]
    registers: bool


def read_registry_properties(path: Path) -> RegistryProperties:
    """Reads the file.

    Raises:
        ConfigurationError: it can't be read or isn't private; it names no registry; or credentials would cross a
            network without TLS.
    """
    found = registry_properties(path)
    registers = found.pop(_REGISTERS, "false")
    if registers not in {"true", "false"}:
        msg = f"{path}: schema.registry.{_REGISTERS} must be true or false"
        raise ConfigurationError(msg)
    _check(path, found)
    client = {name: int(value) if value.isdecimal() else value for name, value in found.items()}
    return RegistryProperties({**_DEFAULTS, **client}, registers == "true")


def _check(path: Path, found: dict[str, str]) -> None:
    if "url" not in found:
        msg = f"{path} has no schema.registry.url, which values by schemas need"
        raise ConfigurationError(msg)
    signs_in = any(name.startswith(_SIGNS_IN) for name in found)
    for address in found["url"].split(","):
        url = urlsplit(address.strip())
        if url.scheme not in {"http", "https"} or not url.hostname or url.username:
            msg = f"{path}: schema.registry.url must be http(s)://host:port; credentials are properties of their own"
            raise ConfigurationError(msg)
        if signs_in and url.scheme == "http" and not is_loopback(url.hostname):
            msg = f"{path}: the registry's credentials would cross the network unencrypted: use an https address"
            raise ConfigurationError(msg)
