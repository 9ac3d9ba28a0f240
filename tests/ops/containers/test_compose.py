"""No engine is needed to know that the compose file fits its schema and our code."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shlex
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pyspark
import pytest
import yaml  # type: ignore[import-untyped]

from storekeeper.apps.registry import store_definitions
from storekeeper.apps.settings import AppSettings, ClientSettings
from storekeeper.node.settings import NodeSettings, load_node_settings
from storekeeper.ops.machine import LEAST_MB
from storekeeper.ops.programs import STOP_TIMEOUT_S
from storekeeper.ops.settings import PlatformSettings
from storekeeper.quality.settings import QualitySettings
from storekeeper_provider import POOL
from tests.ops.containers.compose_file import OURS, PROJECT, compose, our_services, services
from tests.ops.containers.prepared import NODES, SERVERS, STREAM_APPS, prepared
from tests.ops.test_documents import wrong_in

FOREIGN_PROGRAMS = {"spark-class", "spark-submit", "airflow", "bash", "curl", "grep", "sed"}
SETTINGS = (PlatformSettings, AppSettings, NodeSettings, ClientSettings, QualitySettings)
KNOWN_SETTINGS = {f"STOREKEEPER_{name.upper()}" for settings in SETTINGS for name in settings.model_fields}


def test_the_file_fits_the_compose_specification() -> None:
    schema = json.loads(Path(__file__).with_name("compose-spec.json").read_text("utf-8"))
    assert not list(jsonschema.Draft7Validator(schema).iter_errors(compose()))


@pytest.mark.parametrize(("name", "service"), services().items())
def test_every_image_is_pinned_and_every_service_is_bounded_and_watched(name: str, service: dict[str, Any]) -> None:
    assert re.fullmatch(r"[a-z/]+:v?\d+\.\d+(\.\d+)?", service["image"])
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}
    assert service["security_opt"] == ["no-new-privileges:true"]
    runs_once = service.get("restart", "").startswith("on-failure")
    assert runs_once or "healthcheck" in service, name
    assert service["logging"]["options"]["max-size"]


def test_our_containers_cannot_write_outside_the_run_directory_and_run_as_its_owner() -> None:
    for service in our_services().values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        # Docker forbids to map libraries from a tmpfs, as Spark's compression does, unless it is told.
        assert service["tmpfs"] == ["/tmp:mode=1777,exec"]
        assert service["user"].startswith("${STOREKEEPER_UID:?")
        assert {volume.split(":")[0] for volume in service["volumes"]} <= {
            "./.containers/run",
            "./.containers/run/delta",
        }


def test_the_broker_starts_when_its_disk_has_room(tmp_path: Path) -> None:
    shell, option, script = services()["kafka"]["command"]
    free = tmp_path / "free"
    free.write_text(f"{LEAST_MB - 1}")
    programs = {
        "df": f'test "$*" = "-Pm /var/lib/kafka/data" && echo Filesystem && echo "disk 900 100 $(cat {free}) 11% /"',
        "sleep": f"echo waits && echo {LEAST_MB} > {free}",
        "run": "echo runs",
    }
    for name, code in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{code}\n")
        (tmp_path / name).chmod(0o700)
    written = script.replace("$$", "$").replace("/etc/kafka/docker/run", str(tmp_path / "run"))
    environment = {"PATH": f"{tmp_path}:{os.defpath}"}
    done = subprocess.run([shell, option, written], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["waits", "runs"]
    assert "is full" in done.stderr


def test_ports_are_open_to_this_machine_alone() -> None:
    published = [port for service in services().values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert len({port.rsplit(":", 1)[0] for port in published}) == len(published)


def test_whoever_listens_beyond_loopback_has_an_address_that_nobody_else_is_given() -> None:
    (pool,) = compose()["networks"]["inside"]["ipam"]["config"]
    fixed = {}
    for name, service in services().items():
        networks = service.get("networks", {})
        address = (networks.get("inside") or {}).get("ipv4_address") if isinstance(networks, dict) else None
        if address is not None:
            told = (*service["command"], service["environment"].get("STOREKEEPER_CONTROL_HOST", ""))
            assert any(argument.partition(":")[0] == address for argument in told), name
            fixed[name] = ipaddress.ip_address(address)
    assert set(fixed) == set(SERVERS)
    assert len(set(fixed.values())) == len(fixed)
    assert all(address in ipaddress.ip_network(pool["subnet"]) for address in fixed.values())
    assert not any(address in ipaddress.ip_network(pool["ip_range"]) for address in fixed.values())


def test_programs_have_as_long_to_end_as_under_supervisor_and_systemd() -> None:
    unit = (PROJECT / "storekeeper/ops/systemd/storekeeper.service").read_text("utf-8")
    assert {services()[name]["stop_grace_period"] for name in (*NODES, "kafka")} == {f"{STOP_TIMEOUT_S}s"}
    assert services()[STREAM_APPS]["stop_grace_period"] == f"{re.findall('TimeoutStopSec=([0-9]+)', unit)[0]}s"


def test_every_setting_is_one_that_our_code_reads() -> None:
    for name, service in our_services().items():
        given = {key for key in service.get("environment", {}) if key.startswith("STOREKEEPER_")}
        assert given <= KNOWN_SETTINGS, name


def test_the_settings_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for service in our_services().values():
        with monkeypatch.context() as patched:
            for key, value in service.get("environment", {}).items():
                patched.setenv(key, value)
            PlatformSettings()  # type: ignore[call-arg]
            AppSettings()
            load_node_settings()


def test_nodes_serve_every_store_that_there_is() -> None:
    for name in NODES:
        assert services()[name]["environment"]["STOREKEEPER_STORES"] == store_definitions()


def test_nodes_announce_the_names_that_their_certificates_have() -> None:
    """Without this a node announces the address on which it listens, and the others refuse its certificate."""
    for name in NODES:
        assert services()[name]["environment"]["STOREKEEPER_ADVERTISED_ADDRESS"] == f"https://{name}:18101"


def test_a_node_is_healthy_when_it_can_answer_so_that_the_next_one_may_stop() -> None:
    for name in NODES:
        check = services()[name]["healthcheck"]
        assert "/readyz" in " ".join(check["test"])
        assert "prometheus_token" in services()[name]["secrets"], "a monitor may ask for it"
        assert check["start_period"] == "1h", "to restore large stores takes long, and is no fault"


def test_airflow_knows_every_option_that_it_is_given() -> None:
    from airflow.configuration import conf

    described = conf.configuration_description
    sensitive = set(conf.sensitive_config_values)
    for key in services()["airflow-scheduler"]["environment"]:
        if key.startswith("AIRFLOW__"):
            section, option = key.removeprefix("AIRFLOW__").lower().split("__")
            plain = option.removesuffix("_cmd")
            assert plain in described[section]["options"], key
            assert plain == option or (section, plain) in sensitive, f"{key} is not read from a command"


def test_the_pool_of_the_dags_is_made() -> None:
    """Without it Airflow schedules none of their tasks."""
    assert f"airflow pools set {POOL} " in services()["airflow-database"]["command"][2]


@pytest.mark.parametrize(("name", "service"), our_services().items())
def test_every_command_is_there(name: str, service: dict[str, Any]) -> None:
    for program, *arguments in _commands(service):
        if program == "storekeeper":
            assert wrong_in(["storekeeper", *arguments]) is None, name
        else:
            assert program in FOREIGN_PROGRAMS
        for class_name in (argument for argument in arguments if argument.startswith("org.apache.spark.")):
            if "=" not in class_name:
                assert _jar_has(class_name), class_name


def _commands(service: dict[str, Any]) -> list[list[str]]:
    """A service's command and its health check, those of a shell apart."""
    check = service.get("healthcheck", {}).get("test", ["CMD"])
    whole = [service["command"], ["sh", "-c", check[1]] if check[0] == "CMD-SHELL" else check[1:]]
    return [
        command
        for words in whole
        for command in (_of_shell(words[2]) if words[:2] == ["sh", "-c"] else [words])
        if command
    ]


def _of_shell(script: str) -> list[list[str]]:
    commands = [shlex.split(part) for part in re.split(r" (?:\|\|?) |; ", script)]
    return [command for command in commands if command != ["set", "-e"]]


def _jar_has(class_name: str) -> bool:
    package = class_name.rsplit(".", 1)[0].replace(".", "/")
    jars = (Path(pyspark.__file__).parent / "jars").glob("spark-*.jar")
    entry = class_name.replace(".", "/") + ".class"
    return bool(package) and any(entry in zipfile.ZipFile(jar).namelist() for jar in jars)


def test_every_secret_is_one_that_is_generated_and_no_password_is_written_down(tmp_path: Path) -> None:
    prepared(tmp_path / "made")
    for secret in compose()["secrets"].values():
        assert (tmp_path / "made" / secret["file"].removeprefix("./.containers/")).stat().st_mode & 0o777 == 0o600
    for name, service in services().items():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN|FERNET", key):
                assert value.startswith(("/run/", "cat /run/secrets/")), f"{name}: {key}"
        used = {one["source"] if isinstance(one, dict) else one for one in service.get("secrets", [])}
        assert used <= set(compose()["secrets"]), name


def test_every_mounted_secret_is_listed_where_it_is_read() -> None:
    for name, service in services().items():
        text = json.dumps([service.get("environment", {}), service.get("command", []), service.get("healthcheck", {})])
        read = set(re.findall(r"/run/secrets/([a-z_]+)", text))
        listed = {one["target"] if isinstance(one, dict) else one for one in service.get("secrets", [])}
        assert read <= listed, name


def test_every_mounted_file_is_there_or_is_prepared(tmp_path: Path) -> None:
    prepared(tmp_path / "made")
    named = set(compose()["volumes"])
    for service in services().values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./.containers/"):
                assert (tmp_path / "made" / source.removeprefix("./.containers/")).is_dir()
            elif source.startswith("./"):
                assert (PROJECT / source).exists(), source
            else:
                assert source in named


def test_prometheus_asks_every_node_and_the_metrics_of_apps_with_what_it_is_given() -> None:
    config = yaml.safe_load((PROJECT / "storekeeper/ops/containers/prometheus.yml").read_text("utf-8"))
    targets = [job["static_configs"][0]["targets"] for job in config["scrape_configs"]]
    assert targets == [[f"{node}:18101" for node in NODES], [f"{STREAM_APPS}:18091"]]
    assert PlatformSettings.load().control_port == 18091
    for path in re.findall(r"/run/secrets/([a-z_]+)", json.dumps(config)):
        assert path in services()["prometheus"]["secrets"]


def test_airflow_reaches_the_control_api_by_its_name_with_a_token_and_the_authority() -> None:
    connection = json.loads(services()["airflow-scheduler"]["environment"]["AIRFLOW_CONN_STOREKEEPER_DEFAULT"])
    port = PlatformSettings.load().control_port
    assert (connection["conn_type"], connection["host"]) == ("storekeeper", f"https://{STREAM_APPS}:{port}")
    assert services()[STREAM_APPS]["hostname"] == STREAM_APPS
    assert connection["extra"]["token_file"] == "/run/secrets/airflow_token"
    assert connection["extra"]["ca_file"] == "/run/secrets/ca"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_takes_the_configuration(tmp_path: Path) -> None:
    prepared(tmp_path / "made")
    text = (PROJECT / "storekeeper/ops/containers/prometheus.yml").read_text("utf-8")
    text = text.replace("/run/secrets/ca", str(tmp_path / "made/secrets/ca.pem"))
    text = text.replace("/run/secrets/prometheus_token", str(tmp_path / "made/secrets/prometheus-token"))
    text = text.replace("rules/*.yml", str(PROJECT / "storekeeper/ops/observability/prometheus/rules/*.yml"))
    (tmp_path / "prometheus.yml").write_text(text)
    checked = subprocess.run(
        ["promtool", "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_the_image_is_built_from_files_that_are_there_and_not_ignored() -> None:
    dockerfile = (PROJECT / "storekeeper/ops/containers/Dockerfile").read_text("utf-8")
    kept = {line[1:] for line in (PROJECT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    copied = [
        line.split()[1:-1] for line in dockerfile.splitlines() if line.startswith("COPY ") and "--from" not in line
    ]
    for path in (path for paths in copied for path in paths):
        assert (PROJECT / path).exists(), path
        assert path.split("/")[0] in kept, path
    assert "USER storekeeper" in dockerfile
    assert OURS.split(":")[1] in (PROJECT / "pyproject.toml").read_text("utf-8")
