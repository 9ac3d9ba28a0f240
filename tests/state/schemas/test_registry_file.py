from __future__ import annotations

from pathlib import Path

import pytest

from state.errors import ConfigurationError
from state.schemas.registry_file import read_registry_file


def written(folder: Path, content: str, mode: int = 0o600) -> Path:
    path = folder / "registry.toml"
    path.write_text(content)
    path.chmod(mode)
    return path


def test_the_client_gets_what_the_file_has(tmp_path: Path) -> None:
    certificate = tmp_path / "ca.pem"
    certificate.write_text("")
    path = written(
        tmp_path, f'url = "https://r:8081"\nuser = "u"\npassword = "p:w"\nca_file = "{certificate}"\nregister = true\n'
    )
    found = read_registry_file(path)
    settings = found.client_settings()
    assert (settings["url"], settings["basic.auth.user.info"]) == ("https://r:8081", "u:p:w")
    assert settings["ssl.ca.location"] == str(certificate)
    assert found.register
    assert not read_registry_file(written(tmp_path, 'url = "http://127.0.0.1:8081"')).register


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("url = 5", "url"),
        ('url = "https://r"\nadress = "x"', "adress"),
        ("", "url"),
        ("password = hunter2", "no TOML"),
        ('url = "ftp://r"', "must be http"),
        ('url = "https://u:hunter2@r"', "without a user"),
        ('url = "http://r:8081"\nuser = "u"\npassword = "hunter2"', "unencrypted"),
        ('url = "https://r:8081"\nca_file = "/gone.pem"', "not there: /gone.pem"),
    ],
)
def test_what_can_not_work_is_refused_without_the_password(tmp_path: Path, content: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as error:
        read_registry_file(written(tmp_path, content))
    assert "hunter2" not in str(error.value)


def test_the_file_must_be_there_and_private(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="STOREKEEPER_SCHEMA_REGISTRY_FILE"):
        read_registry_file(tmp_path / "gone.toml")
    with pytest.raises(ConfigurationError, match="600"):
        read_registry_file(written(tmp_path, 'url = "https://r"', 0o644))
