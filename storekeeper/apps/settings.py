"""The settings of a project, an app or a job. Free of Spark, for processes that only watch apps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import platformdirs
from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from storekeeper.apps.records import MAX_RECORD_BYTES
from storekeeper.apps.spark_properties import PropertiesField, SparkProperties
from storekeeper.configuration import LIVE, Settings, parse_pairs
from storekeeper.kafka.settings import KafkaSettings
from storekeeper.locations import Location

_PROJECT = Path(__file__).resolve().parents[2]


def default_jars_dir() -> Path:
    """The default folder of the jars: in the checkout, or in the user's data folder for a wheel."""
    in_checkout = (_PROJECT / "pyproject.toml").is_file()
    return _PROJECT / ".jars" if in_checkout else platformdirs.user_data_path("storekeeper") / "jars"


class AppSettings(KafkaSettings):
    """All settings of an app."""

    change = "restart of the apps"

    jars_dir: Path = Field(
        default=default_jars_dir(),
        description="Folder of the jars; `make setup` or `storekeeper jars` puts them into its subfolder `spark`.",
    )

    spark_master: str = Field(
        default="local[2]", min_length=1, description="Spark master URL: local, standalone, YARN or k8s."
    )
    spark: PropertiesField = Field(
        default=SparkProperties(),
        description="Spark's properties: a table, whose names begin after `spark.`. In the environment: JSON.",
    )
    state_memory_mb: int = Field(
        default=128,
        ge=8,
        description="Memory for the local stores of each worker process; each core has one such process.",
    )
    executor_state_dir: Path | None = Field(
        default=None,
        description="Folder of the tasks' local stores; by default in the run directory. "
        "On a cluster, set it where the workers start: each machine has its own.",
    )

    generation: int = Field(
        default=1,
        ge=1,
        description="Generation of the app's state: each has a checkpoint and changelogs of its own.",
        json_schema_extra={"unit": "number"},
    )
    trigger_interval_ms: int = Field(default=500, ge=0, description="Shortest time from one micro-batch to the next.")
    max_offsets_per_trigger: int = Field(
        default=100_000,
        ge=1,
        description="Most input records in one micro-batch; repartition topics are read to their ends.",
        json_schema_extra={"unit": "records"},
    )

    progress_timeout_s: float = Field(
        default=300,
        ge=10,
        description="An app that starts, or has input, and commits nothing for this long ends itself, and is started "
        "again.",
    )
    transaction_timeout_ms: int = Field(
        default=120_000,
        ge=1000,
        le=900_000,
        description="Longest transaction of a task. A crashed app blocks its consumers for this time.",
    )
    max_dead_letter_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="An app stops for good if a larger share of its input can't be processed.",
        json_schema_extra={"unit": "0 to 1"},
    )

    max_record_bytes: int = Field(default=MAX_RECORD_BYTES, ge=1, description="A larger record becomes a dead letter.")

    @field_validator("jars_dir")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        return path.expanduser().resolve()

    @property
    def is_local(self) -> bool:
        """Whether Spark runs all tasks in the driver's JVM."""
        return self.spark_master == "local" or self.spark_master.startswith("local[")

    def with_spark(self, properties: Mapping[str, str]) -> Self:
        """These settings, with some of Spark's properties changed."""
        return self.model_copy(update={"spark": SparkProperties({**self.spark, **properties})})

    @property
    def fixes_generation(self) -> bool:
        """Whether the setting `generation` says which generation all apps run. Journals don't count then."""
        return "generation" in self.model_fields_set

    def in_generation(self, number: int) -> Self:
        """These settings for one generation of an app. They fix the generation only if these do."""
        own = self.model_copy(update={"generation": number})
        if not self.fixes_generation:
            own.model_fields_set.discard("generation")
        return own

    @property
    def checkpoints(self) -> Location:
        """The folder of all apps' checkpoints, one folder for each app."""
        return self.durable / "checkpoints"

    def checkpoint_dir(self, app: str) -> Location:
        """Where Spark keeps the progress of this generation of an app."""
        return self.checkpoints / app / f"gen-{self.generation}"

    def generation_dir(self, app: str) -> Path:
        """Where tasks of this generation of an app report what they restore."""
        return self.run_dir / "generations" / app / f"gen-{self.generation}"

    @property
    def state_dir(self) -> Path:
        """Where tasks keep their local stores."""
        return self.executor_state_dir or self.run_dir / "tasks"

    @property
    def redis_url_file(self) -> Path:
        """The file with the URL of the Redis server of stores with `backend="redis"`."""
        return self.run_dir / "secrets" / "redis.url"

    @property
    def cluster_secret_file(self) -> Path:
        """The secret that signs messages to nodes, in the nodes' default file."""
        return self.run_dir / "secrets" / "cluster.key"

    def delta_table(self, name: str) -> Location:
        """Where a Delta table lives."""
        return self.tables / name

    def heartbeat_file(self, app: str) -> Path:
        """The file where an app reports that it is alive."""
        return self.run_dir / "heartbeats" / f"{app}.json"

    def scale_file(self, app: str) -> Path:
        """The file with an app's size, if one was set."""
        return self.run_dir / "scale" / f"{app}.json"

    def lease_file(self, name: str) -> Path:
        """The lock that only one copy of an app or job holds."""
        return self.run_dir / "leases" / f"{name}.lock"

    def scratch_dir(self, name: str) -> Path:
        """Where an app's Spark spills and unpacks; emptied at each start."""
        return self.run_dir / "spark" / name


_Specs = Annotated[tuple[str, ...], NoDecode]


class ProjectSettings(Settings):
    """The apps of a project, and where they are."""

    change = "restart of the control API"

    apps: _Specs = Field(
        default=(), description="The apps with a driver of their own: `<module>:<variable>` of each spec."
    )
    shared_apps: _Specs = Field(
        default=(), description="The apps that share one driver, `shared_driver`: `<module>:<variable>` of each spec."
    )
    project_dir: Path | None = Field(
        default=None,
        description="Folder of their packages, unless they are installed. Airflow runs the DAG files of its `dags` "
        "beside ours.",
        json_schema_extra={"change": "restart of the apps, the control API and Airflow"},
    )

    @field_validator("apps", "shared_apps", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @field_validator("project_dir")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return None if path is None else path.expanduser().resolve()

    @property
    def own_dags(self) -> Path | None:
        """The folder of the project's DAG files; None if there is none."""
        folder = None if self.project_dir is None else self.project_dir / "dags"
        return folder if folder is not None and folder.is_dir() else None


if TYPE_CHECKING:
    from storekeeper.client.credentials import Credentials


class ClientSettings(AppSettings):
    """Addresses of the nodes, and credentials for them. Each field is `STOREKEEPER_<NAME>`."""

    change = LIVE

    peers: str = Field(
        default="",
        description="Query nodes: name=address,… Links lead to the first one's page. Without nodes, verification "
        "does not compare them.",
    )
    client_token_file: Path | None = Field(default=None, description="File with the bearer token to show to nodes.")
    client_ca_file: Path | None = Field(
        default=None, description="PEM file of the authorities that sign the nodes' certificates."
    )
    client_certificate_file: Path | None = Field(
        default=None, description="PEM file with a certificate to show to nodes."
    )
    client_key_file: Path | None = Field(default=None, description="PEM file of its key, if that is another file.")

    @property
    def node_addresses(self) -> dict[str, str]:
        """Each query node's base address, in the order of the setting."""
        return parse_pairs(self.peers)

    @property
    def credentials(self) -> Credentials:
        """The credentials for the nodes."""
        # Imported here, so that a job that asks no node loads no client.
        from storekeeper.client.credentials import Credentials  # noqa: PLC0415

        return Credentials(
            token_file=self.client_token_file,
            ca_file=self.client_ca_file,
            certificate_file=self.client_certificate_file,
            key_file=self.client_key_file,
        )


class SnapshotSettings(ClientSettings):
    """Settings of maintenance jobs. Each field is `STOREKEEPER_<NAME>`."""

    table_history_days: float = Field(
        default=7, ge=1, description="Every version of a Delta table stays readable for this time."
    )
    history_days: float = Field(
        default=90, ge=1, description="Every change of a store stays in its history for this time; then its newest do."
    )
