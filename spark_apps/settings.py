"""The settings of a Spark app or job. Free of Spark, for processes that only watch apps."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Literal, Self

import platformdirs
from pydantic import Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from spark_apps.records.masked import CODE_DIGITS
from spark_apps.records.poison import MAX_RECORD_BYTES
from state.names import checked_name, dead_letter_topic
from state.run_dir import RunDirSettings

_PROJECT = Path(__file__).resolve().parent.parent


def default_jars_dir() -> Path:
    """The default folder of the jars: in the checkout, or in the user's data folder for a wheel."""
    in_checkout = (_PROJECT / "pyproject.toml").is_file()
    return _PROJECT / ".jars" if in_checkout else platformdirs.user_data_path("storekeeper") / "jars"


class AppSettings(RunDirSettings):
    """All settings of an app. Each field is the environment variable `STOREKEEPER_<NAME>`."""

    model_config = SettingsConfigDict(env_prefix="STOREKEEPER_", extra="ignore", frozen=True)

    kafka_bootstrap: str = Field(default="127.0.0.1:19092", min_length=1, description="host:port of the Kafka brokers.")
    jars_dir: Path = Field(
        default=default_jars_dir(),
        description="Folder of the jars; `make setup` or `storekeeper jars` puts them into its subfolder `spark`.",
    )

    spark_master: str = Field(
        default="local[2]", min_length=1, description="Spark master URL: local, standalone, YARN or k8s."
    )
    driver_host: str = Field(default="127.0.0.1", description="Address at which executors reach the driver.")
    driver_memory: str = Field(default="1g", pattern=r"^\d+[kmgKMG]$", description="Heap of the driver's JVM.")
    driver_java_options: str = Field(
        # With one compiler the JVM keeps 48 MiB of compiled code; a few apps fill that, and then nothing is compiled.
        default="-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
        description="More options of the driver's JVM. The default halves the work of starting on a small machine.",
    )
    max_cores: int = Field(default=2, ge=1, description="Most cores of a cluster that one app takes.")
    executor_memory: str = Field(
        default="1g", pattern=r"^\d+[mgkMG]$", description="Heap of each of its executors on a cluster."
    )
    state_memory_mb: int = Field(
        default=128, ge=8, description="Memory for the local stores of each worker process, of which a core has one."
    )
    executor_state_dir: Path | None = Field(
        default=None,
        description="Folder of the tasks' local stores; by default in the run directory. "
        "On a cluster, set it where the workers start: each machine has its own.",
    )
    spark_log_level: Literal["ERROR", "WARN", "INFO"] = Field(default="ERROR", description="What Spark itself logs.")
    spark_ui_port: int = Field(default=0, ge=0, le=65535, description="Port of Spark's own UI; 0 is without one.")

    generation: int = Field(
        default=1, ge=1, description="Generation of the app's state: each has a checkpoint and changelogs of its own."
    )
    trigger_interval_ms: int = Field(default=500, ge=0, description="Shortest time from one micro-batch to the next.")
    export_interval_ms: int = Field(default=5000, ge=0, description="The same for the export: each batch is a commit.")
    max_offsets_per_trigger: int = Field(default=100_000, ge=1, description="Most input records in one micro-batch.")
    arrow_batch_rows: int = Field(default=20_000, ge=1, description="Most rows handed to Python at once.")
    arrow_batch_bytes: int = Field(
        default=64 * 1024 * 1024, ge=1024, description="Most bytes handed to Python at once."
    )

    transaction_timeout_ms: int = Field(
        default=120_000,
        ge=1000,
        le=900_000,
        description="Longest time of a batch; so long a crashed app that isn't restarted holds up its consumers.",
    )
    max_dead_letter_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="An app stops, and is not restarted, when more of its input than this can't be processed.",
    )
    dead_letter_window_s: float = Field(default=60, gt=0, description="Over how long that share is taken.")
    dead_letter_min_records: int = Field(default=1000, ge=1, description="Fewer records in that time say nothing.")

    topic_pos: str = Field(default="pos", description="Topic of the invoices.")
    topic_shipment: str = Field(default="shipment", description="Topic of the home deliveries.")
    topic_loyalty: str = Field(default="loyalty", description="Topic of the loyalty notifications.")
    topic_hadoop_sink: str = Field(default="hadoop-sink", description="Topic of the masked line items.")

    topic_ticks: str = Field(default="ticks", description="Topic of the last prices: symbol to price.")
    topic_order_events: str = Field(default="order-events", description="Topic of what happens to orders on their way.")
    topic_game_results: str = Field(default="game-results", description="Topic of the results of games.")
    topic_players: str = Field(default="players", description="Topic of the players' names.")
    topic_products: str = Field(default="products", description="Topic of the games' names.")
    topic_user_events: str = Field(default="user-events", description="Topic of what users do.")

    ticks_pattern: str = Field(
        default="[A-Z]{1,5}", max_length=256, description="Regular expression for the symbols whose prices are kept."
    )
    order_memory_ms: int = Field(
        default=7 * 86_400_000,
        ge=1000,
        description="An order event older than this is late; so long a delivered order is known.",
    )
    session_gap_ms: int = Field(default=1_800_000, ge=1, description="A session ends after so long without an event.")
    session_grace_ms: int = Field(
        default=600_000, ge=0, description="An event is late once a session of its own would have ended so long ago."
    )
    session_retention_ms: int = Field(
        default=7 * 86_400_000, ge=1, description="How long an ended session stays in the store."
    )
    sales_window_ms: int = Field(default=3_600_000, ge=1, description="Size of the windows of sales.")
    sales_hop_ms: int = Field(
        default=900_000, ge=1, description="From one hopping window of sales to the next; the size is a multiple."
    )
    sales_grace_ms: int = Field(default=600_000, ge=0, description="How long after its end a window takes late sales.")
    sales_retention_ms: int = Field(
        default=7 * 86_400_000, ge=1, description="How long a window of sales stays in the store after its end."
    )
    max_ahead_ms: int = Field(
        default=86_400_000,
        ge=0,
        description="An event whose time is further ahead of its record's is a poison record: "
        "it would make all others late.",
    )

    loyalty_factor: Decimal = Field(default=Decimal("0.02"), ge=0, le=1, description="Points for one unit of currency.")
    max_record_bytes: int = Field(default=MAX_RECORD_BYTES, ge=1, description="A larger record is a poison record.")
    quality_code_digits: int = Field(
        default=CODE_DIGITS,
        ge=4,
        le=32,
        description="Longest number that may stand alone in a code such as InvoiceNumber; a longer one is masked.",
    )
    max_request_bytes: int = Field(
        default=17 * 1024 * 1024, ge=1024, description="Largest request that a producer sends."
    )

    preflight_timeout_s: float = Field(
        default=20, gt=0, description="How long a starting app waits for broker and topics."
    )
    lease_timeout_s: float = Field(
        default=30, ge=0, description="How long a starting app waits for its previous copy to end."
    )
    drain_timeout_s: float = Field(
        default=45,
        gt=0,
        description="How long a stopping app lets its batch run before it cuts it. "
        "Keep it below STOREKEEPER_STOP_TIMEOUT_S, after which the process is killed.",
    )
    heartbeat_interval_s: float = Field(default=2, gt=0, le=60, description="Time from one heartbeat to the next.")

    @field_validator("jars_dir")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        return path.expanduser().resolve()

    @field_validator(
        *("topic_pos", "topic_shipment", "topic_loyalty", "topic_hadoop_sink"),
        *(
            "topic_ticks",
            "topic_order_events",
            "topic_game_results",
            "topic_players",
            "topic_products",
            "topic_user_events",
        ),
    )
    @classmethod
    def _topic(cls, name: str) -> str:
        return checked_name(name)

    @field_validator("ticks_pattern")
    @classmethod
    def _pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            msg = f"{pattern!r} is no regular expression ({error})"
            raise ValueError(msg) from error
        return pattern

    @model_validator(mode="after")
    def _times(self) -> Self:
        if self.sales_window_ms % self.sales_hop_ms:
            raise ValueError("sales_window_ms must be a multiple of sales_hop_ms")
        if self.sales_retention_ms < self.sales_grace_ms:
            raise ValueError("sales_retention_ms must be at least sales_grace_ms")
        if self.session_retention_ms < 2 * self.session_gap_ms + self.session_grace_ms:
            raise ValueError("session_retention_ms must be at least twice session_gap_ms and session_grace_ms together")
        return self

    @property
    def hadoop_sink_dead_letters(self) -> str:
        """Topic of the masked line items that can't be processed."""
        return dead_letter_topic(self.topic_hadoop_sink)

    def checkpoint_dir(self, app: str) -> Path:
        """Where Spark keeps the progress and state of this generation of an app."""
        return self.run_dir / "checkpoints" / app / f"gen-{self.generation}"

    def generation_dir(self, app: str) -> Path:
        """Where the seed of this generation of an app is."""
        return self.run_dir / "generations" / app / f"gen-{self.generation}"

    @property
    def state_dir(self) -> Path:
        """Where tasks keep their local stores."""
        return self.executor_state_dir or self.run_dir / "tasks"

    @property
    def cluster_secret_file(self) -> Path:
        """The secret that signs messages to nodes, in the nodes' default file."""
        return self.run_dir / "secrets" / "cluster.key"

    def delta_table(self, name: str) -> Path:
        """Where a Delta table lives."""
        return self.run_dir / "delta" / name

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
