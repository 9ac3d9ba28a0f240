"""Whether Kafka lets this process in, and why not."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException

from storekeeper.errors import ConfigurationError
from storekeeper.kafka.clients import CONNECT_AT_ONCE, new_admin
from storekeeper.kafka.connection import Kafka
from storekeeper.kafka.properties import principal_of, read_properties

_POLL_S = 0.5
_AROUND = re.compile(r"^\w+://[^ ]*: |\(after .*$")
_OWN_CHECK = "certificate verify failed"
"""What OpenSSL says about the other side's certificate. A refusal by the other side arrives as an alert."""
_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
}


def check_login(kafka: Kafka, timeout_s: float) -> bool:
    """Whether a broker answers within `timeout_s`.

    Raises:
        ConfigurationError: the brokers refuse this client, or it refuses them; or see `new_admin`.
    """
    check_certificate(kafka)
    failures: list[KafkaError] = []
    admin = new_admin(kafka, {"error_cb": failures.append, **CONNECT_AT_ONCE})
    deadline_s = time.monotonic() + timeout_s
    while (left_s := deadline_s - time.monotonic()) > 0:
        with suppress(KafkaException):
            admin.list_topics(timeout=min(left_s, _POLL_S))
            return True
        admin.poll(0)
        reason = refusal(kafka, failures)
        if reason is not None:
            raise ConfigurationError(reason)
    return False


def check_certificate(kafka: Kafka) -> None:
    """Checks that the client's own certificate, if it has one, is valid now.

    Raises:
        ConfigurationError: it is missing, has expired or is not valid yet.
    """
    certificate = _certificate(kafka)
    if certificate is None:
        return
    path, _, begin, end = certificate
    if not begin <= dt.datetime.now(dt.UTC) <= end:
        msg = f"the certificate {path} is valid from {begin:%Y-%m-%d} to {end:%Y-%m-%d}: have a new one signed"
        raise ConfigurationError(msg)


def principal(kafka: Kafka) -> str:
    """The user that brokers see, as ACLs name it, as far as this client can know."""
    given = {} if kafka.properties is None else read_properties(kafka.properties)
    if given.get("security.protocol", "plaintext").upper() in {"PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL"}:
        return principal_of(given) or ("User:ANONYMOUS" if "sasl.mechanism" not in given else "the user of this login")
    certificate = _certificate(kafka)
    return "User:ANONYMOUS" if certificate is None else f"User:{certificate[1]}"


def denial(kafka: Kafka, error: KafkaError, name: str, operation: str) -> ConfigurationError | None:
    """What to tell about a request that ACLs don't allow. None if that is not why it failed.

    Args:
        kafka: the Kafka.
        error: why the request failed.
        name: of the topic, group or transactional id.
        operation: what was to be done with it, as an ACL names it.
    """
    resource = _DENIED.get(error.code())
    return None if resource is None else denied(kafka, resource, name, operation)


def denied(kafka: Kafka, resource: str, name: str, operation: str) -> ConfigurationError:
    """What to tell about an operation that ACLs don't allow. The arguments are those of `denial`."""
    return ConfigurationError(
        f"Kafka at {kafka} doesn't allow {principal(kafka)} the operation {operation} on {resource} {name}: have an "
        "administrator add the ACLs that `storekeeper create-topics --dry-run` prints"
    )


def refusal(kafka: Kafka, failures: Sequence[KafkaError]) -> str | None:
    """Why the brokers refuse this client, or it refuses them, and what to do; None if no failure says so.

    Args:
        kafka: the Kafka.
        failures: what the client reported, in this order.
    """
    for failure in failures:
        reason = _AROUND.sub("", failure.str()).strip()
        if failure.code() == KafkaError._AUTHENTICATION and "acquire" not in reason:  # noqa: SLF001 (librdkafka's own)
            return f"Kafka at {kafka} refuses the login of {principal(kafka)} ({reason}): correct {kafka.properties}"
        # On a busy machine the library was seen to report this failure without its code.
        if failure.code() == KafkaError._SSL or _OWN_CHECK in reason:  # noqa: SLF001
            return f"the connection to Kafka at {kafka} isn't safe ({reason}): correct {kafka.properties}"
        if "SSL routines" in reason:
            certificate = _certificate(kafka)
            shown = "a client without certificate" if certificate is None else f"the certificate {certificate[0]}"
            return (
                f"Kafka at {kafka} refuses {shown} of {principal(kafka)} ({reason}): have one signed by an "
                f"authority that the brokers trust, and name it in {kafka.properties}"
            )
    return None


def _certificate(kafka: Kafka) -> tuple[Path, str, dt.datetime, dt.datetime] | None:
    """The client's certificate: file, subject, begin and end. None if there is none, or nothing here can read it."""
    given = {} if kafka.properties is None else read_properties(kafka.properties)
    if "ssl.certificate.location" not in given:
        return None
    path = Path(given["ssl.certificate.location"])
    with suppress(ModuleNotFoundError):
        from cryptography import x509  # noqa: PLC0415 (of the extra `platform` alone)

        try:
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError) as error:
            msg = f"the certificate {path} can't be read ({error}): correct {kafka.properties}"
            raise ConfigurationError(msg) from error
        return (
            path,
            certificate.subject.rfc4514_string(),
            certificate.not_valid_before_utc,
            certificate.not_valid_after_utc,
        )
    return None
