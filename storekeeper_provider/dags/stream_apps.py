"""Start, stop, restart, scale and upgrade the stream apps.

**What it does.** Each app is a Spark driver that supervisor keeps alive. This DAG asks the platform's control API for
the wanted state and succeeds when the app's heartbeat confirms it. It never hosts a stream.

**When to run it.** On demand. The default, `start` for `all`, is always safe: apps that run are left alone.

| param | values | meaning |
|---|---|---|
| `app` | `all` or one app | which apps; `shared_driver` for those that share a driver |
| `action` | `start` | leave a running app alone, start an ended one, restart one that is stuck |
| | `stop` | finish the current batch, then end; it stays stopped until somebody starts it |
| | `restart` | stop, then start |
| | `scale` | set the size of one app, and restart it if that changes anything |
| | `upgrade` | check the installed code while the app runs, then drain it, start it, and check that it reads on |
| `cores` | 0 to 1024, or none | for `scale`: Spark's cores; on a cluster, of all executors |
| `memory_mb` | 0, 512 to 1048576, or none | for `scale`: heap of the driver; on a cluster, of each executor |
| `max_offsets_per_trigger` | 0 to 1000000000, or none | for `scale`: most input records in one batch |

For the last three, none leaves the value as it is; 0 unsets it, so that the platform's setting applies again. They are
stored in `scale/<app>.json` of the run directory.

**If it fails.** The task's error has the app's last error and the end of its log. *Ended with exit code 78*: a setting,
a topic or the checkpoint is wrong; correct it, then run `start`. *Doesn't run after 180 s*: the broker may be down; see
`storekeeper status`. *The code that is installed can't take over*: the app was not touched; the reason says what is
missing. *The app was restarted*: it didn't come up with the new size or code. Its old size is restored. To go back to
the old code, install it again, then run `upgrade`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from storekeeper_provider.dag_parts.choose import ACTIONS, ALL_APPS, SCALE, ChooseProgramsOperator
from storekeeper_provider.dag_parts.names import names_beside
from storekeeper_provider.dag_parts.runs import choice_param, operating
from storekeeper_provider.operators import StorekeeperJobOperator

_PROGRAMS = names_beside(__file__).programs
_SIZES = ("cores", "memory_mb", "max_offsets_per_trigger")


def _scale_option(name: str) -> str:
    """The option of `storekeeper app scale` for one of the sizes; empty where it doesn't apply."""
    wanted = f"params.action == '{SCALE}' and params.{name} is not none"
    return f"{{{{ '--{name.replace('_', '-')}=%d' | format(params.{name}) if {wanted} else '' }}}}"


def _scale_param(title: str, meaning: str, *, maximum: int) -> Param:
    description = f"For `scale`: {meaning}. Empty keeps the value, 0 unsets it."
    return Param(None, type=["null", "integer"], minimum=0, maximum=maximum, title=title, description=description)


with DAG(
    "stream_apps",
    dag_display_name="Stream apps: start, stop, scale, upgrade (stream_apps)",
    description="Start, stop, restart, scale and upgrade the stream apps.",
    doc_md=__doc__,
    tags=["streams", "operate"],
    **operating(retries=1, done=timedelta(minutes=15), ended=timedelta(minutes=30), retry_delay=timedelta(seconds=15)),
    params={
        "app": choice_param("App", "One process, or `all` processes of this platform.", [ALL_APPS, *_PROGRAMS]),
        "action": choice_param("Action", "What to do. `start` leaves running apps alone, and is always safe.", ACTIONS),
        "cores": _scale_param("Cores", "cores of Spark", maximum=1024),
        "memory_mb": _scale_param("Memory, MB", "heap of the driver", maximum=1_048_576),
        "max_offsets_per_trigger": _scale_param(
            "Records a batch", "most input records in one batch", maximum=1_000_000_000
        ),
    },
):
    choose = ChooseProgramsOperator(
        task_id="choose",
        task_display_name="Choose apps",
        selected="{{ params.app }}",
        action="{{ params.action }}",
        execution_timeout=timedelta(minutes=5),
    )
    for program, title in _PROGRAMS.items():
        choose >> StorekeeperJobOperator(
            task_id=program,
            task_display_name=title,
            arguments=["app", "{{ params.action }}", program, *map(_scale_option, _SIZES)],
            pool="default_pool",  # a change of an app is short, and waits for no other job
            execution_timeout=timedelta(minutes=10),
        )
