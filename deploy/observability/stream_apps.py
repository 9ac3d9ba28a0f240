"""The dashboard *Stream apps*: do they run, how fast, how far behind, where their time goes; snapshots and verdicts."""

from __future__ import annotations

from deploy.observability.panel import Dashboard, Panel, Query, Row, Variable

_APP = 'app=~"$app"'


def _rate(metric: str, by: str = "app") -> str:
    return f"sum by ({by}) (rate({metric}{{{_APP}}}[$__rate_interval]))"


_OVERVIEW = Row(
    "Overview",
    (
        Panel(
            "Apps that run",
            (Query(f"sum(spark_app_up{{{_APP}}})"),),
            "short",
            "Apps whose heartbeat says RUNNING and is at most half a minute old.",
            kind="stat",
            width=6,
        ),
        Panel(
            "Records behind",
            (Query(f"sum(spark_app_lag_records{{{_APP}}})"),),
            "short",
            "What the sources hold and the apps have not committed yet, all together.",
            kind="stat",
            width=6,
            thresholds=(10_000, 1_000_000),
        ),
        Panel(
            "Starts in an hour",
            (Query(f"sum(increase(spark_app_starts_total{{{_APP}}}[1h]))"),),
            "short",
            "An app that keeps starting has a cause that a restart does not mend: see its log.",
            kind="stat",
            width=6,
            thresholds=(2, 6),
        ),
        Panel(
            "Dead letters in an hour",
            (Query(f"sum(increase(spark_app_dead_letters_total{{{_APP}}}[1h]))"),),
            "short",
            "Records that could not be processed. They wait in the topics that end in -dlq, with the reason.",
            kind="stat",
            width=6,
            thresholds=(1, 1_000),
        ),
    ),
)

_SPEED = Row(
    "Speed",
    (
        Panel(
            "Records a second",
            (Query(_rate("spark_app_input_rows_total"), "{{app}}"),),
            "cps",
            "What each app reads.",
        ),
        Panel(
            "Time of a batch by phase",
            (
                Query(
                    f"{_rate('spark_app_batch_phase_seconds_total', 'app, phase')}"
                    f" / on (app) group_left () {_rate('spark_app_batches_total')}",
                    "{{app}} {{phase}}",
                ),
            ),
            "s",
            "addBatch is the work itself, walCommit and commitOffsets the log of the checkpoint, latestOffset the "
            "question to the broker; triggerExecution is all of it.",
        ),
        Panel(
            "Batches a second",
            (Query(_rate("spark_app_batches_total"), "{{app}}"),),
            "cps",
            "At most one in each trigger interval; fewer when batches take longer than that.",
        ),
    ),
)

_BACKLOG = Row(
    "Backlog and time",
    (
        Panel(
            "Lag by partition",
            (Query(f"spark_app_lag_records{{{_APP}}}", "{{app}} {{topic}}-{{partition}}"),),
            "short",
            "By offsets. One partition alone: its keys are skewed. All of them: the app is too slow or stands still.",
        ),
        Panel(
            "Event time behind the clock",
            (Query(f"time() - spark_app_watermark_timestamp_seconds{{{_APP}}}", "{{app}}"),),
            "s",
            "Now less the newest event time, of apps with sessions or windows. Replayed data is far behind.",
        ),
        Panel(
            "Since the last progress",
            (Query(f"time() - spark_app_last_progress_timestamp_seconds{{{_APP}}}", "{{app}}"),),
            "s",
            "A committed batch, or having nothing to do, is progress.",
        ),
    ),
)

_STATE = Row(
    "State and life",
    (
        Panel(
            "Rows of state",
            (Query(f"spark_app_state_rows{{{_APP}}}", "{{app}}"),),
            "short",
            "Of Spark's own state. A line that only rises belongs to an app that forgets nothing.",
        ),
        Panel(
            "Bytes of state",
            (
                Query(f"spark_app_state_memory_bytes{{{_APP}}}", "{{app}} in memory"),
                Query(f"spark_app_state_disk_bytes{{{_APP}}}", "{{app}} on disk"),
            ),
            "bytes",
            "RocksDB's memory and table files; the checkpoint holds as much again.",
        ),
        Panel(
            "Starts",
            (Query(f"spark_app_starts_total{{{_APP}}}", "{{app}}"),),
            "short",
            "Each step is a start: by hand, by the watcher, or because the process died.",
        ),
    ),
)

_TABLES = Row(
    "Snapshots and quality",
    (
        Panel(
            "Age of the newest snapshot",
            (Query("time() - state_snapshot_timestamp_seconds", "{{store}}"),),
            "s",
            "SQL reads this old a state. The DAG snapshot_stores runs hourly.",
            thresholds=(7_200, 14_400),
        ),
        Panel(
            "Verdicts: 1 is published",
            (Query("quality_verdict_passed", "{{table}}"),),
            "short",
            "0: the newest rows are quarantined, and readers keep the last good version.",
        ),
        Panel(
            "Since the last verdict",
            (Query("time() - quality_verdict_timestamp_seconds", "{{table}}"),),
            "s",
            "The DAG check_hadoop_export decides hourly, if there are new rows.",
        ),
    ),
)

STREAM_APPS = Dashboard(
    uid="storekeeper-apps",
    title="Storekeeper: Stream apps",
    about="The Spark apps: do they run, how fast, how far behind, where their time goes; snapshots and verdicts.",
    variables=(Variable("app", "spark_app_up"),),
    rows=(_OVERVIEW, _SPEED, _BACKLOG, _STATE, _TABLES),
)
