"""The operator that runs a job of a platform through its control API, its buttons, and the trigger that waits for it.

No worker is held meanwhile.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferralTimeout
from airflow.triggers.base import BaseTrigger, TriggerEvent

from storekeeper_provider import CONNECTION, POOL
from storekeeper_provider.hook import NoAnswerError, StorekeeperHook

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import TaskInstanceKey


class _ConnectionLink(BaseOperatorLink):
    """Links to an address in the extra of the task's connection."""

    field: ClassVar[str]

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page's address; empty if the connection has none. Called in the task's process once it has ended."""
        del ti_key
        return StorekeeperHook(getattr(operator, "storekeeper_conn_id", CONNECTION)).connection_extra(self.field)


class QueryPageLink(_ConnectionLink):
    """Links to the page that shows and queries the stores."""

    name = "Query page"
    field = "query_page"


class SparkUiLink(_ConnectionLink):
    """Links to the app's Spark UI."""

    name = "Spark UI"
    field = "spark_ui"


TASK_ENDED = "somebody has ended its task"
"""Why a trigger cancels a job."""
NO_ANSWER_S = 600.0
"""How long the control API may be away before the wait fails, and a retry starts or finds the job."""
FIRST_PAUSE_S = conf.getint("workers", "min_heartbeat_interval") + 2.0
"""Airflow fails a task that goes on before the scheduler has seen the end of the process that deferred it, which takes
up to a heartbeat's interval and a loop: https://github.com/apache/airflow/issues/72716."""
PAUSE_S = 5.0
_FINDING = 4
_FINAL = {
    2: "wrong usage: an option or argument can't be used",
    3: "there is no such key or row",
    _FINDING: "a check found something",
    5: "refused: the step isn't safe now, and a person must decide",
    78: "a setting, a name, an installation or a table must be corrected first",
}
"""Exit codes after which a retry would end the same way, and what they mean."""
_LOG_PREFIX = "storekeeper: "
"""How the lines of the program begin that say why it failed."""
_LAST_LINES = 20
_MOST_LOG = 1 << 20


class JobTrigger(BaseTrigger):
    """Fires once a job is over. The event is {"job": its id}, or {"error": why nobody can say}.

    A triggerer that takes over from a killed one asks again, with the same result. If somebody ends the task, the job
    is cancelled.
    """

    def __init__(self, *, name: str, storekeeper_conn_id: str) -> None:
        super().__init__()
        self.name = name
        self.storekeeper_conn_id = storekeeper_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and arguments, which Airflow stores."""
        path = f"{type(self).__module__}.{type(self).__name__}"
        return path, {"name": self.name, "storekeeper_conn_id": self.storekeeper_conn_id}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Asks once the scheduler has seen that the task is deferred, and then every five seconds."""
        hook = await StorekeeperHook.connected(self.storekeeper_conn_id)
        yield await awaited({"job": self.name}, lambda: hook.job(self.name)["state"] != "running")

    async def on_kill(self) -> None:
        """Cancels the job, as somebody has ended the task."""
        hook = await StorekeeperHook.connected(self.storekeeper_conn_id)
        await asyncio.to_thread(hook.cancel_job, self.name, TASK_ENDED)


async def awaited(payload: dict[str, Any], reached: Callable[[], bool]) -> TriggerEvent:
    """Waits until `reached` returns true, and gives up if the control API is away for too long."""
    answered_s = time.monotonic()
    pause_s = FIRST_PAUSE_S
    while True:  # it happens in other processes: nothing could set an event
        await asyncio.sleep(pause_s)
        pause_s = PAUSE_S
        try:
            if await asyncio.to_thread(reached):
                return TriggerEvent(payload)
            answered_s = time.monotonic()
        except NoAnswerError as error:
            if time.monotonic() - answered_s > NO_ANSWER_S:
                return TriggerEvent({"error": str(error)})
        except Exception as error:
            return TriggerEvent({"error": str(error)})


class StorekeeperJobOperator(BaseOperator):
    """Runs `storekeeper ARGUMENTS` as a job of the platform, and returns the JSON object that it prints last.

    The job's id follows from DAG, run, task and map index. So a try whose worker was killed is followed by one that
    finds the same job if it still runs; otherwise the command runs again, which is harmless. Its log is in the task's.
    An exit code of 2, 3, 4, 5 or 78 fails the task for good, others leave it to retries, as does a job that was lost
    with the control process. When the task times out, or somebody ends or clears it, the job is cancelled. A job that
    somebody cancels otherwise fails the task for good.

    Its pool is `storekeeper`, which says how many jobs run at once. Give `pool` to `partial` for mapped tasks.

    Args:
        arguments: the command and its arguments; empty ones are left out. Templated.
        finding: what it means if the command ends with exit code 4.
        storekeeper_conn_id: the connection. Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("arguments", "storekeeper_conn_id")
    operator_extra_links = (QueryPageLink(), SparkUiLink())
    ui_color = "#dfe7f5"

    def __init__(
        self,
        *,
        arguments: list[str],
        finding: str = _FINAL[_FINDING],
        storekeeper_conn_id: str = CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"pool": POOL, **kwargs})
        self.arguments = arguments
        self.finding = finding
        self.storekeeper_conn_id = storekeeper_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Starts or finds the job, and waits for its end.

        Raises:
            AirflowFailException: the platform refuses it; or it failed, and a retry can't help.
            AirflowException: it failed otherwise; or the platform doesn't answer.
        """
        name, arguments = job_id(context), [argument for argument in self.arguments if argument]
        self.log.info("storekeeper %s, as job %s", " ".join(arguments), name)
        StorekeeperHook(self.storekeeper_conn_id).start_job(name, arguments)
        trigger = JobTrigger(name=name, storekeeper_conn_id=self.storekeeper_conn_id)
        self.defer(trigger=trigger, method_name="on_over", timeout=self.execution_timeout)
        raise AssertionError("unreachable: a deferred task ends by an exception")

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Goes on after the wait. Cancels the job if that took too long."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout as error:
            StorekeeperHook(self.storekeeper_conn_id).cancel_job(job_id(context), TASK_ENDED)
            msg = f"it took longer than its execution_timeout, {self.execution_timeout}: the job is cancelled"
            raise AirflowException(msg) from error

    def on_over(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Called when the job is over: shows its log, and returns its result. Raises as `execute`."""
        del context
        if "error" in event:
            raise AirflowException(event["error"])
        hook, name = StorekeeperHook(self.storekeeper_conn_id), event["job"]
        job = hook.job(name)
        self._relay_log(hook, name)
        if job["state"] != "succeeded":
            # Of its end, whatever of it was relayed: that is where the reason is.
            log = [line for line in job["log"].splitlines() if line.strip()]
            raise self._failure(job, log[-_LAST_LINES:])
        if job["result"] is None:
            msg = f"storekeeper {job['arguments'][0]} ended well, but its last line of output is no JSON object"
            raise AirflowException(msg)
        result: dict[str, Any] = job["result"]
        return result

    def _relay_log(self, hook: StorekeeperHook, name: str) -> None:
        """Writes the job's log to the task's, or the first MiB of it."""
        position, text = 0, ""
        while position < _MOST_LOG:
            part = hook.job(name, position)
            if part["log_position"] <= position:
                break
            position, text = part["log_position"], text + part["log"]
        for line in text.splitlines():
            if line.strip():
                self.log.info("%s", line)
        if position >= _MOST_LOG:
            self.log.warning("what follows of the log is left out, as it is long")

    def _failure(self, job: dict[str, Any], log: list[str]) -> AirflowException:
        """The error, whose first line has the reason: Airflow shows that line alone."""
        end = "\nThe end of its log:\n" + "\n".join(log)
        if job["state"] == "cancelled" and job["cancel_reason"] == TASK_ENDED:
            return AirflowException("the end of an earlier try has cancelled the job" + end)
        if job["state"] == "cancelled":
            reason = f": {job['cancel_reason']}" if job["cancel_reason"] else ""
            return AirflowFailException(f"somebody has cancelled the job{reason}{end}")
        if job["state"] == "lost":
            return AirflowException("the job was lost: it ended with the control process")
        code = job["exit_code"]
        if code not in _FINAL:
            logged = "; ".join(reasons_in(log)) or "it logged nothing"
            return AirflowException(f"it failed with exit code {code}: {logged}{end}")
        meaning = self.finding if code == _FINDING else _FINAL[code]
        reasons = (job["result"] or {}).get("reasons") or reasons_in(log)
        return AirflowFailException(f"{meaning}: " + "\n".join(map(str, reasons)))


def job_id(context: Context) -> str:
    """The id of a task's job: the same for each try, and for no other task, run or map index."""
    instance = context["ti"]
    whole = [instance.dag_id, instance.run_id, instance.task_id, str(instance.map_index)]
    readable = re.sub(r"[^A-Za-z0-9._-]", "-", f"{instance.dag_id}.{instance.task_id}")[:80].lstrip("._-")
    return f"{readable or 'task'}.{hashlib.sha256(chr(0).join(whole).encode()).hexdigest()[:32]}"


def reasons_in(log: Sequence[str]) -> list[str]:
    """What the program says in its log about why it failed; the last line if it says nothing."""
    return [line.removeprefix(_LOG_PREFIX) for line in log if line.startswith(_LOG_PREFIX)] or list(log[-1:])
