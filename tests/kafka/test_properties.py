"""The file with the properties of Kafka's clients, and what a JVM is given of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storekeeper.errors import ConfigurationError
from storekeeper.kafka.clients import new_admin, new_consumer, new_producer, spark_options
from storekeeper.kafka.connection import Kafka
from storekeeper.kafka.properties import jvm_properties, principal_of, read_properties

PASSWORD = "se=cret#'}"


def write(folder: Path, text: str) -> Path:
    path = folder / "kafka.properties"
    path.write_text(text)
    path.chmod(0o600)
    return path


def jvm(folder: Path, text: str) -> dict[str, str]:
    path = write(folder, text)
    return jvm_properties(path, read_properties(path))


def test_lines_are_names_and_values(tmp_path: Path) -> None:
    text = (
        f"# a comment\n\nsecurity.protocol = SASL_SSL\n  # another\nsasl.password={PASSWORD}\nssl.ca.location=ca.pem\n"
    )
    assert read_properties(write(tmp_path, text)) == {
        "security.protocol": "SASL_SSL",
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(tmp_path / "ca.pem"),
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("security.protocol", "is not a line of the form name=value"),
        ("security.protocol=", "is not a line of the form name=value"),
        ("sasl.password=a\\tb", "has a backslash"),
        ("sasl.password=a ", "ends with a space"),
        ("bootstrap.servers=a:9092", "set bootstrap.servers in the setting kafka_bootstrap"),
        ("isolation.level=read_uncommitted", "Storekeeper sets it for each client"),
        ("plugin.library.paths=/tmp/x.so", "can't be set"),
    ],
)
def test_other_lines_are_refused_with_their_place_and_without_their_value(
    tmp_path: Path, line: str, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason) as refused:
        read_properties(write(tmp_path, f"\n{line}\n"))
    assert "kafka.properties:2" in str(refused.value)
    assert "a\\tb" not in str(refused.value)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "security.protocol=SSL\n")
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_properties(path)
    path.unlink()
    with pytest.raises(ConfigurationError, match="correct `kafka_properties`"):
        read_properties(path)


def test_every_client_refuses_a_property_that_there_is_not(tmp_path: Path) -> None:
    kafka = Kafka("127.0.0.1:1", write(tmp_path, "sasl.usrname=x\n"))
    made: tuple[Callable[[], object], ...] = (
        lambda: new_admin(kafka),
        lambda: new_producer(kafka, {}),
        lambda: new_consumer(kafka, "x", {}),
    )
    for make in made:
        with pytest.raises(ConfigurationError, match=r'kafka.properties can\'t be used .*"sasl.usrname"'):
            make()


def test_the_group_that_a_reader_must_name_begins_with_the_clusters_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storekeeper.kafka.clients.Consumer", lambda settings: settings)
    found: Any = new_consumer(Kafka("b:1", cluster="till-team.query"), "range", {})
    assert found["group.id"] == "till-team.query-range"


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")],
)
def test_a_jvm_gets_references_to_name_and_password(tmp_path: Path, mechanism: str, module: str) -> None:
    text = f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nsasl.username=me\nsasl.password={PASSWORD}\n"
    found = jvm(tmp_path, text + "ssl.ca.location=ca.pem\nssl.endpoint.identification.algorithm=none\n")
    path = tmp_path / "kafka.properties"
    assert found["sasl.jaas.config"] == (
        f"org.apache.kafka.common.security.{module} required "
        f'username="${{file:{path}:sasl.username}}" password="${{file:{path}:sasl.password}}";'
    )
    assert (found["security.protocol"], found["sasl.mechanism"]) == ("SASL_SSL", mechanism)
    assert (found["ssl.truststore.type"], found["ssl.truststore.location"]) == ("PEM", str(tmp_path / "ca.pem"))
    assert found["ssl.endpoint.identification.algorithm"] == ""
    assert found["config.providers"] == "file,directory"
    assert principal_of(read_properties(path)) == "User:me"


def test_a_jvm_gets_a_token_endpoint_and_references_to_id_and_secret(tmp_path: Path) -> None:
    found = jvm(
        tmp_path,
        "security.protocol=SASL_SSL\nsasl.mechanisms=OAUTHBEARER\nsasl.oauthbearer.method=oidc\n"
        "sasl.oauthbearer.client.id=me\nsasl.oauthbearer.client.secret=x\nsasl.oauthbearer.scope=kafka\n"
        "sasl.oauthbearer.token.endpoint.url=https://id.example/token\n",
    )
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://id.example/token"
    assert found["sasl.login.callback.handler.class"].endswith(".OAuthBearerLoginCallbackHandler")
    assert 'clientSecret="${file:' in found["sasl.jaas.config"]
    assert 'scope="${file:' in found["sasl.jaas.config"]
    assert "sasl.oauthbearer.method" not in found


def test_a_jvm_gets_references_to_certificate_and_key(tmp_path: Path) -> None:
    key = tmp_path / "me.key"
    key.write_text("-----BEGIN EC PRIVATE KEY-----\n")
    text = "security.protocol=SSL\nssl.certificate.location=me.pem\nssl.key.location=me.key\nssl.key.password=x\n"
    with pytest.raises(ConfigurationError, match="openssl pkcs8 -topk8"):
        jvm(tmp_path, text)
    key.write_text("-----BEGIN PRIVATE KEY-----\n")
    found = jvm(tmp_path, text)
    assert found["ssl.keystore.type"] == "PEM"
    assert found["ssl.keystore.certificate.chain"] == f"${{directory:{tmp_path}:me.pem}}"
    assert found["ssl.keystore.key"] == f"${{directory:{tmp_path}:me.key}}"
    assert found["ssl.key.password"] == f"${{file:{tmp_path}/kafka.properties:ssl.key.password}}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('sasl.mechanism=PLAIN\nsasl.username=me\nsasl.password=a"b\n', "has a quotation mark"),
        ("sasl.mechanism=GSSAPI\n", "GSSAPI is not supported"),
    ],
)
def test_what_a_jvm_can_not_be_given_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        jvm(tmp_path, f"security.protocol=SASL_SSL\n{text}")


def test_spark_gets_no_secret(tmp_path: Path) -> None:
    text = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=me\nsasl.password=hidden\n"
    found = spark_options(Kafka("a:1,b:2", write(tmp_path, text)))
    assert found["kafka.bootstrap.servers"] == "a:1,b:2"
    assert "hidden" not in str(found)
    assert spark_options(Kafka("a:1")) == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.allow.auto.create.topics": "false",
    }
