from __future__ import annotations

from pathlib import Path

import pytest

from storekeeper.errors import ConfigurationError
from storekeeper.kafka.properties import read_properties
from storekeeper.schemas.registry import SchemaRegistry, read_registry_properties


def written(folder: Path, content: str, mode: int = 0o600) -> Path:
    path = folder / "kafka.properties"
    path.write_text(content)
    path.chmod(mode)
    return path


FULL = """# for both
security.protocol=SSL
schema.registry.url=https://r:8081
schema.registry.basic.auth.user.info=u:p:w
schema.registry.ssl.ca.location=ca.pem
schema.registry.max.retries=1
"""


def test_the_registry_and_kafka_have_their_own_lines_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, FULL)
    found = read_registry_properties(path)
    assert found.client.items() >= {
        "url": "https://r:8081", "basic.auth.user.info": "u:p:w", "ssl.ca.location": str(tmp_path / "ca.pem"),
        "max.retries": 1,
    }.items()  # fmt: skip
    assert "security.protocol" not in found.client
    assert read_properties(path) == {"security.protocol": "SSL"}


def test_apps_register_only_where_the_file_says_so(tmp_path: Path) -> None:
    url = "schema.registry.url=http://127.0.0.1:8081\n"
    assert not read_registry_properties(written(tmp_path, url)).registers
    found = read_registry_properties(written(tmp_path, f"{url}schema.registry.auto.register.schemas=true"))
    assert found.registers
    assert "auto.register.schemas" not in found.client


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "has no schema.registry.url"),
        ("schema.registry.url=ftp://r", "must be http"),
        ("schema.registry.url=https://u:hunter2@r", "properties of their own"),
        ("schema.registry.url=http://r:8081\nschema.registry.basic.auth.user.info=u:hunter2", "unencrypted"),
        ("schema.registry.url=http://r:8081\nschema.registry.auto.register.schemas=yes", "true or false"),
        ("schema.registry.url", "form name=value"),
    ],
)
def test_what_can_not_work_is_refused_without_the_password(tmp_path: Path, content: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as error:
        read_registry_properties(written(tmp_path, content))
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "content",
    ["schema.registry.adress=https://r", "schema.registry.ssl.ca.location=gone.pem"],
)
def test_what_the_client_refuses_is_told(tmp_path: Path, content: str) -> None:
    path = written(
        tmp_path, f"schema.registry.url=https://r\nschema.registry.basic.auth.user.info=u:hunter2\n{content}"
    )
    with pytest.raises(ConfigurationError, match=r"kafka\.properties") as error:
        SchemaRegistry(path).connect()
    assert "hunter2" not in str(error.value)


def test_the_file_must_be_there_and_private(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="`kafka_properties`"):
        read_registry_properties(tmp_path / "gone.properties")
    with pytest.raises(ConfigurationError, match="600"):
        read_registry_properties(written(tmp_path, "schema.registry.url=https://r", 0o644))
