"""A real broker that is reached through TLS alone, knows its clients, and lets each do what ACLs allow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from harness.authority import Authority, authority_pems, issue, new_authority
from harness.broker import FOR_TESTS, QUICK_START, Broker, format_storage
from harness.ports import free_ports
from harness.token_issuer import SECRET, TokenIssuer
from storekeeper.kafka.connection import Kafka
from storekeeper.ops.broker import server_properties

ADMINISTRATOR = "administrator"
PASSWORD = "let me in; 'please' #}"  # noqa: S105
USER = "storekeeper"
"""A user with this password, through SCRAM and PLAIN. It may do nothing until `allow`."""

_SECURITY = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class SecuredBroker:
    """A broker with two listeners for clients: one for names and passwords, one for certificates.

    Attributes:
        broker: the process; its own clients are those of an administrator.
        folder: where properties and certificates are.
        authority: signs certificates that the broker trusts.
        certified_bootstrap: the address for clients with certificates.
        issuer: issues tokens that the broker takes.
    """

    broker: Broker
    folder: Path
    authority: Authority
    certified_bootstrap: str
    issuer: TokenIssuer

    def stop(self) -> None:
        """Ends the broker and the issuer of tokens."""
        self.broker.stop()
        self.issuer.close()

    def with_token(self, client: str, secret: str = SECRET) -> Kafka:
        """The Kafka for a client that gets tokens for its secret, and whose principal is `User:<client>`."""
        text = "security.protocol=SASL_SSL\nssl.ca.location=ca.pem\nsasl.mechanism=OAUTHBEARER\n"
        text += f"sasl.oauthbearer.method=oidc\nsasl.oauthbearer.client.id={client}\n"
        text += f"sasl.oauthbearer.client.secret={secret}\nsasl.oauthbearer.scope=kafka\n"
        text += f"sasl.oauthbearer.token.endpoint.url={self.issuer.url}/token\n"
        return Kafka(self.broker.bootstrap, _private(self.folder / f"{client}-token.properties", text))

    def with_password(self, user: str, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-512") -> Kafka:
        """The Kafka for a user with a password."""
        return Kafka(self.broker.bootstrap, _password_file(self.folder, user, password, mechanism))

    def with_certificate(
        self, name: str, authority: Authority | None = None, age: dt.timedelta = dt.timedelta()
    ) -> Kafka:
        """The Kafka for a client with a new certificate, whose principal is `User:CN=<name>`.

        Args:
            name: the client's name.
            authority: who signs the certificate; None is who the broker trusts.
            age: how old the certificate is. One of more than ten years has expired.
        """
        certificate, key = issue(authority or self.authority, name, ["localhost"], dt.datetime.now(dt.UTC) - age)
        (self.folder / f"{name}.pem").write_bytes(certificate)
        _private(self.folder / f"{name}.key", key.decode())
        text = f"security.protocol=SSL\nssl.ca.location=ca.pem\nssl.certificate.location={name}.pem\n"
        properties = _private(self.folder / f"{name}.properties", f"{text}ssl.key.location={name}.key\n")
        return Kafka(self.certified_bootstrap, properties)

    def allow(self, bindings: Iterable[AclBinding]) -> None:
        """Adds ACLs."""
        admin = self.broker.admin()
        for future in admin.create_acls(list(bindings)).values():
            future.result(timeout=60)

    def forbid(self, binding: AclBinding) -> None:
        """Removes an ACL that `allow` added."""
        pattern = AclBindingFilter(
            binding.restype, binding.name, binding.resource_pattern_type, binding.principal, binding.host,
            binding.operation, binding.permission_type,
        )  # fmt: skip
        self._forbid(pattern)

    def forbid_all(self, user: str) -> None:
        """Removes all ACLs of a user (`User:name`)."""
        pattern = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, user, None, AclOperation.ANY, AclPermissionType.ANY
        )
        self._forbid(pattern)

    def _forbid(self, pattern: AclBindingFilter) -> None:
        admin = self.broker.admin()
        for future in admin.delete_acls([pattern]).values():
            future.result(timeout=60)


def start_secured_broker(folder: Path) -> SecuredBroker:
    """Formats `folder` for a broker and starts it. The caller stops it."""
    clients = folder / "clients"
    clients.mkdir(parents=True)
    now = dt.datetime.now(dt.UTC)
    authority = new_authority("ca", now)
    (clients / "ca.pem").write_bytes(authority_pems(authority)[0])
    certificate, key = issue(authority, "broker", ["127.0.0.1", "localhost"], now)
    _private(folder / "broker.pem", (key + certificate).decode())
    port, certified_port, controller_port, detour = free_ports(4)
    properties, issuer = folder / "server.properties", TokenIssuer()
    more = {**FOR_TESTS, **_secured(folder, port, certified_port, controller_port), **_tokens(issuer)}
    properties.write_text(server_properties(folder / "log", port, controller_port, more))
    users = [f"SCRAM-SHA-512=[name={user},password={PASSWORD}]" for user in (ADMINISTRATOR, USER)]
    format_storage(properties, *(option for user in users for option in ("--add-scram", user)))
    own = _password_file(clients, ADMINISTRATOR, PASSWORD, "SCRAM-SHA-512")
    options = (*QUICK_START, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.url}/keys")
    broker = Broker(folder, f"127.0.0.1:{port}", detour, detour, options, own)
    broker.start()
    return SecuredBroker(broker, clients, authority, f"127.0.0.1:{certified_port}", issuer)


def _secured(folder: Path, port: int, certified_port: int, controller_port: int) -> dict[str, str]:
    listener = "listener.name.password"
    return {
        "listeners": ",".join(
            f"{name}://127.0.0.1:{number}"
            for name, number in (("PASSWORD", port), ("CERTIFICATE", certified_port), ("CONTROLLER", controller_port))
        ),
        "advertised.listeners": f"PASSWORD://127.0.0.1:{port},CERTIFICATE://127.0.0.1:{certified_port}",
        "listener.security.protocol.map": "PASSWORD:SASL_SSL,CERTIFICATE:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "CERTIFICATE",
        "ssl.client.auth": "required",
        f"{listener}.ssl.client.auth": "none",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "clients" / "ca.pem"),
        f"{listener}.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        f"{listener}.scram-sha-512.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
        f"{listener}.plain.sasl.jaas.config": f'{_SECURITY}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # As Kafka's default is, unlike that of the platform's own broker.
        "auto.create.topics.enable": "true",
        "super.users": f"User:CN=broker;User:{ADMINISTRATOR}",
    }


def _tokens(issuer: TokenIssuer) -> dict[str, str]:
    mechanism, package = "listener.name.password.oauthbearer", f"{_SECURITY}.oauthbearer"
    return {
        f"{mechanism}.sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
        f"{mechanism}.sasl.server.callback.handler.class": f"{package}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
    }


def _password_file(folder: Path, user: str, password: str, mechanism: str) -> Path:
    text = f"security.protocol=SASL_SSL\nssl.ca.location=ca.pem\nsasl.mechanism={mechanism}\n"
    return _private(
        folder / f"{user}-{mechanism}.properties", f"{text}sasl.username={user}\nsasl.password={password}\n"
    )


def _private(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path
