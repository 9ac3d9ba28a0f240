"""Every metric that the platform itself exports, beside those of the nodes (`storekeeper.metrics.node_metrics`)."""

from __future__ import annotations

from storekeeper.metrics.node_metrics import Kind, Metric

_BY_APP = ("app",)

UP = Metric("spark_app_up", Kind.GAUGE, "1 if the app reported within the last half minute that it runs.", _BY_APP)
STATE = Metric("spark_app_state", Kind.GAUGE, "1 for the state that the app reports.", ("app", "state"))
HEARTBEAT = Metric("spark_app_heartbeat_timestamp_seconds", Kind.GAUGE, "Time of the app's last heartbeat.", _BY_APP)
STARTED = Metric("spark_app_started_timestamp_seconds", Kind.GAUGE, "Start of its process.", _BY_APP)
STARTS = Metric("spark_app_starts_total", Kind.COUNTER, "Starts of the app in this run directory.", _BY_APP)
GENERATION = Metric("spark_app_generation", Kind.GAUGE, "Generation of its state.", _BY_APP)
PROGRESS = Metric(
    "spark_app_last_progress_timestamp_seconds", Kind.GAUGE,
    "Last time that it committed a batch, restored records or had nothing to do.", _BY_APP,
)  # fmt: skip
BATCHES = Metric("spark_app_batches_total", Kind.COUNTER, "Batches committed since the process started.", _BY_APP)
BATCH_SECONDS = Metric("spark_app_last_batch_seconds", Kind.GAUGE, "Duration of the last batch.", _BY_APP)
PHASE_SECONDS = Metric(
    "spark_app_batch_phase_seconds_total", Kind.COUNTER,
    "Time of batches, by phase, with Structured Streaming's names; `triggerExecution` is their sum.",
    ("app", "phase"),
)  # fmt: skip
INPUT_ROWS = Metric(
    "spark_app_input_rows_total", Kind.COUNTER, "Records read since the process started.", _BY_APP,
    "process-total",
)  # fmt: skip
DEAD_LETTERS = Metric(
    "spark_app_dead_letters_total", Kind.COUNTER, "Records that could not be processed.",
    _BY_APP,
)  # fmt: skip
DROPPED = Metric(
    "spark_app_dropped_records_total", Kind.COUNTER,
    "Records that were late or had no key.", _BY_APP, "dropped-records-total",
)  # fmt: skip
WATERMARK = Metric(
    "spark_app_watermark_timestamp_seconds", Kind.GAUGE,
    "Newest timestamp that the app has read since the process started.", _BY_APP, "record-lateness",
)  # fmt: skip
RESTORE_LEFT = Metric(
    "spark_app_restore_remaining_records", Kind.GAUGE, "Changelog offsets that its tasks still have to restore.",
    _BY_APP, "restore-remaining-records-total",
)  # fmt: skip
OFFSET = Metric("spark_app_offset", Kind.GAUGE, "Next offset that the app reads.", ("app", "topic", "partition"))
LAG = Metric(
    "spark_app_lag_records", Kind.GAUGE, "Offsets that the app still has to read, including transaction markers.",
    ("app", "topic", "partition"), "records-lag",
)  # fmt: skip
SNAPSHOT = Metric(
    "state_snapshot_timestamp_seconds", Kind.GAUGE, "Commit time of the newest snapshot of a store.", ("store",)
)
VERDICT_TIME = Metric(
    "quality_verdict_timestamp_seconds", Kind.GAUGE,
    "Time of the quality gate's last verdict on new rows of a table, or on a snapshot of a store.", ("table",),
)  # fmt: skip
VERDICT_PASSED = Metric(
    "quality_verdict_passed", Kind.GAUGE,
    "0 while the newest rows, or the newest snapshot, are in quarantine, 1 otherwise.", ("table",),
)  # fmt: skip
VERDICT_ROWS = Metric("quality_verdict_rows", Kind.GAUGE, "Rows of the last verdict.", ("table",))
_CHECK = ("check", "store")
CHECK_TIME = Metric(
    "quality_check_timestamp_seconds", Kind.GAUGE,
    "Time of the last verdict of a check: `verify` or `cleanup`.", _CHECK,
)  # fmt: skip
CHECK_PASSED = Metric("quality_check_passed", Kind.GAUGE, "1 if that verdict was good.", _CHECK)


def platform_metrics() -> tuple[Metric, ...]:
    """Every metric in this table."""
    return tuple(value for value in globals().values() if isinstance(value, Metric))
