"""Every metric that the platform itself exports, beside those of the nodes (`state.metrics.names`)."""

from __future__ import annotations

from state.metrics.names import Kind, Metric

_BY_APP = ("app",)

UP = Metric(
    "spark_app_up", Kind.GAUGE, "1 when the app says that it runs and said so in the last half minute.", _BY_APP
)
STATE = Metric("spark_app_state", Kind.GAUGE, "1 for the state that the app says it is in.", ("app", "state"))
HEARTBEAT = Metric("spark_app_heartbeat_timestamp_seconds", Kind.GAUGE, "When the app last said anything.", _BY_APP)
STARTED = Metric("spark_app_started_timestamp_seconds", Kind.GAUGE, "When its process began.", _BY_APP)
STARTS = Metric("spark_app_starts_total", Kind.COUNTER, "Starts of the app in this run directory.", _BY_APP)
GENERATION = Metric("spark_app_generation", Kind.GAUGE, "The generation of its state.", _BY_APP)
PROGRESS = Metric(
    "spark_app_last_progress_timestamp_seconds", Kind.GAUGE,
    "When it last committed a batch, restored records or had nothing to do.", _BY_APP,
)  # fmt: skip
BATCHES = Metric("spark_app_batches_total", Kind.COUNTER, "Batches committed since its process began.", _BY_APP)
BATCH_SECONDS = Metric("spark_app_last_batch_seconds", Kind.GAUGE, "How long the last batch took.", _BY_APP)
PHASE_SECONDS = Metric(
    "spark_app_batch_phase_seconds_total", Kind.COUNTER,
    "Time that batches took, by Spark's name of the phase; `triggerExecution` is all of them together.",
    ("app", "phase"),
)  # fmt: skip
INPUT_ROWS = Metric(
    "spark_app_input_rows_total", Kind.COUNTER, "Records read since its process began.", _BY_APP,
    "process-total",
)  # fmt: skip
DEAD_LETTERS = Metric(
    "spark_app_dead_letters_total", Kind.COUNTER, "Records that could not be processed, since its process began.",
    _BY_APP,
)  # fmt: skip
DROPPED = Metric(
    "spark_app_dropped_records_total", Kind.COUNTER,
    "Records that came too late or had no key, since its process began.", _BY_APP, "dropped-records-total",
)  # fmt: skip
WATERMARK = Metric(
    "spark_app_watermark_timestamp_seconds", Kind.GAUGE,
    "The newest timestamp that the app has seen since its process began.", _BY_APP, "record-lateness",
)  # fmt: skip
STATE_ROWS = Metric(
    "spark_app_state_rows", Kind.GAUGE,
    "About how many rows the stores have, of the tasks that have run since its process began.", _BY_APP,
    "estimate-num-keys",
)  # fmt: skip
RESTORE_LEFT = Metric(
    "spark_app_restore_remaining_records", Kind.GAUGE, "Offsets of changelogs that its tasks have still to restore.",
    _BY_APP, "restore-remaining-records-total",
)  # fmt: skip
OFFSET = Metric(
    "spark_app_offset", Kind.GAUGE, "The next offset that the app will read.", ("app", "topic", "partition")
)
LAG = Metric(
    "spark_app_lag_records", Kind.GAUGE, "Offsets that the app has still to read; markers of transactions count.",
    ("app", "topic", "partition"), "records-lag",
)  # fmt: skip
SNAPSHOT = Metric(
    "state_snapshot_timestamp_seconds", Kind.GAUGE, "When the newest snapshot of a store was committed.", ("store",)
)
VERDICT_TIME = Metric(
    "quality_verdict_timestamp_seconds", Kind.GAUGE, "When the quality gate last decided on new rows.", ("table",)
)
VERDICT_PASSED = Metric(
    "quality_verdict_passed", Kind.GAUGE,
    "0 while the newest rows are quarantined and nobody has released or discarded them, else 1.", ("table",),
)  # fmt: skip
VERDICT_ROWS = Metric("quality_verdict_rows", Kind.GAUGE, "Rows that the last verdict was on.", ("table",))
_CHECK = ("check", "store")
CHECK_TIME = Metric(
    "quality_check_timestamp_seconds", Kind.GAUGE,
    "When a check of a store last came to a verdict: `verify`, `snapshot`, `growth` or `cleanup`.", _CHECK,
)  # fmt: skip
CHECK_PASSED = Metric("quality_check_passed", Kind.GAUGE, "1 when that verdict was good.", _CHECK)
GROWTH_ROWS = Metric(
    "quality_growth_rows_per_day", Kind.GAUGE, "Rows a day that a store grew by when it was last measured.", ("store",)
)
GROWTH_BYTES = Metric("quality_growth_bytes_per_day", Kind.GAUGE, "Bytes a day, likewise; keys and values.", ("store",))


def platform_metrics() -> tuple[Metric, ...]:
    """Every metric in this table."""
    return tuple(value for value in globals().values() if isinstance(value, Metric))
