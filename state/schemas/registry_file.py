"""The file that says where the schema registry is and how to sign in: TOML, readable by its owner alone.

| key                            | value                                                                               |
|--------------------------------|-------------------------------------------------------------------------------------|
| `url`                          | base address of the registry's Confluent API, such as `https://registry:8081`       |
| `user`, `password`             | for basic authentication                                                            |
| `ca_file`                      | PEM file of the authorities that the registry's certificate is signed by            |
| `certificate_file`, `key_file` | PEM files of a certificate to show to the registry                                  |
| `register`                     | whether apps register the schemas that they write with when they start; default no  |
"""

from __future__ import annotations

import ipaddress
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from state.errors import ConfigurationError
from state.private_files import check_regular, check_secret, read_secret

_TIMEOUT_S = 10
_RETRY_MS = {"retries.wait.ms": 100, "retries.max.wait.ms": 2000}


class RegistryFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file: see the module."""

    url: str
    user: str | None = None
    password: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    register: bool = False

    def client_settings(self) -> dict[str, Any]:
        """The settings of Confluent's client."""
        found: dict[str, Any] = {"url": self.url, "timeout": _TIMEOUT_S, **_RETRY_MS}
        if self.user is not None:
            found["basic.auth.user.info"] = f"{self.user}:{self.password or ''}"
        files = {"ca": self.ca_file, "certificate": self.certificate_file, "key": self.key_file}
        return found | {f"ssl.{name}.location": path for name, path in files.items() if path is not None}


def read_registry_file(path: Path) -> RegistryFile:
    """Reads the file.

    Raises:
        ConfigurationError: it isn't there or isn't private; it can't be read; the address is no http(s) address, or
            would take the password over a network without TLS.
    """
    try:
        found = msgspec.convert(tomllib.loads(read_secret(path, "the registry's settings").decode()), RegistryFile)
    except FileNotFoundError as error:
        msg = f"there is no file {path}: correct STOREKEEPER_SCHEMA_REGISTRY_FILE"
        raise ConfigurationError(msg) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        # A message of the parser may have a part of the password.
        why = str(error) if isinstance(error, msgspec.ValidationError) else "it is no TOML"
        msg = f"{path} can't be used: {why}"
        raise ConfigurationError(msg) from None
    _check(path, found)
    return found


def _check(path: Path, found: RegistryFile) -> None:
    url = urlsplit(found.url)
    if url.scheme not in {"http", "https"} or not url.hostname or url.username or url.query:
        msg = f"{path}: `url` must be http(s)://host:port, without a user; `user` and `password` are keys of their own"
        raise ConfigurationError(msg)
    if found.user is not None and url.scheme == "http" and not _is_loopback(url.hostname):
        msg = f"{path}: the password would cross the network unencrypted: use an https address"
        raise ConfigurationError(msg)
    try:
        for name in filter(None, (found.ca_file, found.certificate_file)):
            check_regular(Path(name), "the certificate")
        if found.key_file is not None:
            check_secret(Path(found.key_file), "the key")
    except FileNotFoundError as error:
        msg = f"{path} names a file that is not there: {error.filename}"
        raise ConfigurationError(msg) from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
