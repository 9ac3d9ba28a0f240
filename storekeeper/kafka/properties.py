"""The file with the properties of every client: how they are authenticated, and how they check the brokers.

Lines are `name=value` with librdkafka's names; `#` begins a comment. Lines that begin with `schema.registry.` are for
clients of a schema registry: see `storekeeper.schemas.registry`. The file is private (mode 0600), since it
may hold passwords. Relative paths begin at its folder. It has neither escapes nor continuation lines, so that Kafka's
own `FileConfigProvider` reads the same values: the JVM gets references to them, never a secret itself.
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
_SAME_IN_JVM = frozenset({
    "client.dns.lookup", "client.id", "client.rack", "connections.max.idle.ms", "metadata.max.age.ms",
    "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retry.backoff.max.ms", "retry.backoff.ms",
    "sasl.oauthbearer.token.endpoint.url", "security.protocol",
})  # fmt: skip
_PROVIDER = "org.apache.kafka.common.config.provider"
_LOGIN = "org.apache.kafka.common.security"
_PKCS8 = re.compile(rb"-----BEGIN (ENCRYPTED )?PRIVATE KEY-----")


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
        msg = f"there is no file {path}: correct `kafka_properties`"
        raise ConfigurationError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path} is not text in UTF-8"
        raise ConfigurationError(msg) from error
    properties: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, value = _property(line, f"{path}:{number}")
            properties[name] = str(path.parent / value) if _is_path(name, value) else value
    return properties


def jvm_properties(path: Path, properties: Mapping[str, str]) -> dict[str, str]:
    """The same for clients in a JVM, by Java's names: those of security, and those with the same name and meaning.

    Values from the file that may be secret are references, which the JVM resolves.

    Args:
        path: the file.
        properties: what `read_properties` found in it.

    Raises:
        ConfigurationError: a value can't be used in a JVM.
    """
    jvm = {name: value for name, value in properties.items() if name in _SAME_IN_JVM}
    if "ssl.endpoint.identification.algorithm" in properties:
        algorithm = properties["ssl.endpoint.identification.algorithm"]
        jvm["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    jvm |= _trust(properties) | _identity(path, properties) | _login(path, properties)
    if any("${" in value for value in jvm.values()):
        jvm |= {
            "config.providers": "file,directory",
            "config.providers.file.class": f"{_PROVIDER}.FileConfigProvider",
            "config.providers.directory.class": f"{_PROVIDER}.DirectoryConfigProvider",
        }
    return jvm


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
    elif value != value.rstrip() or "\\" in value:
        msg = f"{place}: the value of {name} has a backslash or ends with a space, which not every client reads alike"
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


def _trust(properties: Mapping[str, str]) -> dict[str, str]:
    ca = properties.get("ssl.ca.location", "probe")
    return {} if ca == "probe" else {"ssl.truststore.type": "PEM", "ssl.truststore.location": ca}


def _identity(path: Path, properties: Mapping[str, str]) -> dict[str, str]:
    """The client's certificate and key, which the JVM wants in one place: as contents of the two files."""
    jvm = {}
    if "ssl.keystore.location" in properties:
        jvm = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": properties["ssl.keystore.location"]}
        if "ssl.keystore.password" in properties:
            jvm["ssl.keystore.password"] = _reference(path, "ssl.keystore.password")
    elif "ssl.certificate.location" in properties and "ssl.key.location" in properties:
        key = Path(properties["ssl.key.location"])
        if not _PKCS8.search(_content(key)):
            msg = f"{key} is not a key in PKCS#8, which Spark needs: convert it with `openssl pkcs8 -topk8`"
            raise ConfigurationError(msg)
        jvm = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _content_reference(Path(properties["ssl.certificate.location"])),
            "ssl.keystore.key": _content_reference(key),
        }
    if "ssl.key.password" in properties:
        jvm["ssl.key.password"] = _reference(path, "ssl.key.password")
    return jvm


def _login(path: Path, properties: Mapping[str, str]) -> dict[str, str]:
    mechanism = _mechanism(properties)
    if not mechanism:
        return {}
    if mechanism == "PLAIN" or mechanism.startswith("SCRAM-"):
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        options = {"username": "sasl.username", "password": "sasl.password"}
        jvm = {}
    elif mechanism == "OAUTHBEARER":
        module = "oauthbearer.OAuthBearerLoginModule"
        options = {
            "clientId": "sasl.oauthbearer.client.id",
            "clientSecret": "sasl.oauthbearer.client.secret",
            "scope": "sasl.oauthbearer.scope",
        }
        jvm = {"sasl.login.callback.handler.class": f"{_LOGIN}.oauthbearer.OAuthBearerLoginCallbackHandler"}
    else:
        msg = f"{path}: sasl.mechanism {mechanism} is not supported: use PLAIN, SCRAM-SHA-256, -512 or OAUTHBEARER"
        raise ConfigurationError(msg)
    given = {option: name for option, name in options.items() if name in properties}
    for name in given.values():
        if '"' in properties[name]:
            msg = f"{path}: {name} has a quotation mark, which Spark can't be given: choose another value"
            raise ConfigurationError(msg)
    values = " ".join(f'{option}="{_reference(path, name)}"' for option, name in given.items())
    return {**jvm, "sasl.mechanism": mechanism, "sasl.jaas.config": f"{_LOGIN}.{module} required {values};"}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"can't read {path} ({error.strerror}): correct the file of Kafka's properties"
        raise ConfigurationError(msg) from error


def _reference(path: Path, name: str) -> str:
    return f"${{file:{_referable(path)}:{name}}}"


def _content_reference(path: Path) -> str:
    return f"${{directory:{_referable(path.parent)}:{_referable(Path(path.name))}}}"


def _referable(path: Path) -> Path:
    if set(str(path)) & set(":{}"):
        msg = f"{path} has a colon or a brace, which Spark can't be given: use another name"
        raise ConfigurationError(msg)
    return path
