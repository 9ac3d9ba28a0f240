"""The routes of the control API. Put `Gate` in front of it: it trusts that the caller is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field

from storekeeper.clock import Clock
from storekeeper.errors import ConfigurationError, InvalidArgumentError
from storekeeper.node.query.answers.answer import MEDIA_TYPE, Problem, problem_of
from storekeeper.node.query.routes.error_handlers import answer_errors
from storekeeper.node.query.routes.parameters import refuse_unknown_parameters
from storekeeper.node.security.access import Caller, ForbiddenError, Role
from storekeeper.ops.control.access import caller_of
from storekeeper.ops.control.allowed import check_allowed
from storekeeper.ops.control.jobs import JobConflictError, Jobs, UnknownJobError
from storekeeper.ops.control.views import NothingToShowError, PlatformViews, UnknownAppError, UnknownTableError
from storekeeper.ops.job_files import JobFolder, JobRequest, JobState
from storekeeper.quality.errors import StagedTableError

_LONGEST_JOB_S = 7 * 24 * 3600
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": why, "content": {MEDIA_TYPE: {"schema": {"type": "object"}}}}
    for status, why in (
        (400, "an argument can't be used"),
        (401, "no valid token"),
        (403, "the token lacks the role"),
        (404, "not found"),
        (409, "the request conflicts with the job's state"),
        (503, "not available now: ask again"),
    )
}
_DATA_DOCS: dict[str, Any] = {"description": "The file.", "content": {"text/html": {}, "text/css": {}}}
_STAGED: dict[str, Any] = {**_PROBLEMS[409], "description": "the staged table can't be checked as it is"}
JobId = Annotated[
    str, Path(description="The job's id, which the caller chooses.", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
]


_KINDS: tuple[tuple[type[Exception], str, int], ...] = (
    (UnknownJobError, "unknown-job", 404),
    (UnknownAppError, "unknown-app", 404),
    (UnknownTableError, "unknown-table", 404),
    (NothingToShowError, "nothing-to-show", 404),
    (StagedTableError, "staged-table", 409),
    (JobConflictError, "job-conflict", 409),
)


class JobOrder(BaseModel, extra="forbid"):
    """What to run."""

    arguments: list[str] = Field(
        description="The command line behind `storekeeper`, such as `snapshot create rewards`.",
        examples=[["snapshot", "create", "rewards"]],
    )
    timeout_s: float = Field(
        3600, gt=0, le=_LONGEST_JOB_S, description="How long it may run. The time in the queue doesn't count."
    )


class JobView(BaseModel):
    """A job, and the end of what it wrote."""

    id: str
    arguments: list[str]
    state: JobState
    caller: str = Field(description="The name of the token that it was asked for with.")
    timeout_s: float
    created_at_ms: int
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    cancel_reason: str | None = Field(
        None, description="Why it was cancelled, in the caller's words. None if nobody has cancelled it."
    )
    exit_code: int | None = Field(None, description="Of the command; negative after a signal. None if it is unknown.")
    result: dict[str, Any] | None = Field(None, description="The JSON object on the last line of its output.")
    output: str = Field(default="", description="The end of its standard output.")
    log: str = Field(default="", description="A part of its standard error.")
    log_position: int = Field(default=0, description="The position behind that part: `log_from` of the next request.")


def make_app(jobs: Jobs, views: PlatformViews, clock: Clock) -> FastAPI:
    """The ASGI application. `clock` is for the times of jobs."""
    app = FastAPI(
        title="Storekeeper control",
        summary="Jobs beside a platform, its apps, and what there is to see of it.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    token = Security(HTTPBearer(auto_error=False, description="A token of `storekeeper token add --role operator`."))

    @app.get("/livez", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    def live() -> Response:
        """Whether the process answers. It needs no token."""
        return Response("alive\n", media_type="text/plain")

    app.include_router(_views(views), dependencies=[token, Depends(_may(Role.OPERATOR, Role.MONITOR, Role.READER))])
    app.include_router(_jobs(jobs, views, clock), dependencies=[token, Depends(_may(Role.OPERATOR))])
    refuse_unknown_parameters(app)
    answer_errors(app, _problem, _response)
    return app


def _may(*roles: Role) -> Callable[[Request], None]:
    """A check that the caller has one of the roles."""

    def check(request: Request) -> None:
        caller = caller_of(request.scope)
        if caller.roles.isdisjoint(roles):
            msg = f"the token {caller.name!r} may not do this: its role is none of {', '.join(sorted(roles))}"
            raise ForbiddenError(msg)

    return check


def _views(views: PlatformViews) -> APIRouter:
    router = APIRouter(responses={status: _PROBLEMS[status] for status in (400, 401, 403, 503)})

    @router.get("/status")
    def status() -> dict[str, Any]:
        """Every process of the platform and its health."""
        return views.status()

    @router.get("/programs")
    def programs() -> dict[str, list[str]]:
        """The processes of apps that must run here, and the apps of each."""
        return views.programs()

    @router.get("/stores")
    def stores() -> list[dict[str, Any]]:
        """The stores that there are snapshots of, with their apps, and whether these have ever run here."""
        return views.stores()

    @router.get("/generations/{app}", responses={404: _PROBLEMS[404]})
    def generations(app: str) -> dict[str, Any]:
        """The generations of an app, and how far a change between them is."""
        return views.generations(app)

    @router.get("/overview")
    def overview() -> dict[str, Any]:
        """Apps, stores, nodes, verdicts and processes, also as tables of words: what Airflow's page *Stores* shows."""
        return views.overview()

    @router.get("/topology/{app}", responses={404: _PROBLEMS[404]})
    def topology(app: str) -> dict[str, str]:
        """The topology that an app's live generation runs: `svg`, `text` and `mermaid`."""
        return views.topology(app)

    @router.get("/data-docs/{table}", response_class=Response, responses={200: _DATA_DOCS, 404: _PROBLEMS[404]})
    def data_docs(
        table: str, file: Annotated[str, Query(description="Such as `index.html`.", max_length=200)]
    ) -> Response:
        """A page or style sheet of the Data Docs of the newest verdict on a table."""
        media_type = "text/css" if file.endswith(".css") else "text/html"
        return Response(views.data_docs(table, file), media_type=media_type)

    @router.get("/tables/{table}", responses={404: _PROBLEMS[404], 409: _STAGED})
    def table(table: str) -> dict[str, Any]:
        """A table that the quality gate publishes: the staged versions that nobody has checked, and their rows."""
        return {"table": table, "waiting": views.waiting(table)}

    return router


def _jobs(jobs: Jobs, views: PlatformViews, clock: Clock) -> APIRouter:
    router = APIRouter(prefix="/jobs", responses={status: _PROBLEMS[status] for status in (400, 401, 403, 404, 409)})

    @router.get("")
    def all_jobs() -> list[JobView]:
        """The jobs that are there, the newest first, without what they wrote."""
        return [_view(folder) for folder in jobs.all()]

    @router.put("/{name}", status_code=200, responses={201: {"model": JobView, "description": "It is new."}})
    def put(name: JobId, order: JobOrder, request: Request, response: Response) -> JobView:
        """Start a job, or find it: a job that is there with the same arguments is never started again."""
        check_allowed(order.arguments)
        caller: Caller = caller_of(request.scope)
        wanted = JobRequest(tuple(order.arguments), order.timeout_s, caller.name, clock.now_ms())
        folder, made = jobs.put(name, wanted)
        response.status_code = 201 if made else 200
        return _view(folder)

    @router.get("/{name}")
    def get(
        name: JobId,
        log_from: Annotated[
            int | None, Query(ge=0, le=1 << 62, description="Position in its log; without it, the log's end.")
        ] = None,
    ) -> JobView:
        """A job: its state, its exit code, its result and what it wrote."""
        return _whole_view(jobs.get(name), log_from, views)

    @router.post("/{name}/cancel")
    def cancel(
        name: JobId,
        reason: Annotated[str, Query(max_length=200, description="For the caller that waits for the job.")] = "",
    ) -> JobView:
        """Begin to end a job: by TERM if it runs; a queued one never starts. Safe to repeat."""
        return _view(jobs.cancel(name, reason))

    @router.delete("/{name}", status_code=204)
    def forget(name: JobId) -> None:
        """Collect a job that is over, so that its id is free again."""
        jobs.forget(name)

    return router


def _view(folder: JobFolder) -> JobView:
    """A job, without what it wrote and what it is about."""
    try:
        request, state = folder.request, folder.state()
    except FileNotFoundError as error:  # somebody has collected it meanwhile
        msg = f"there is no job {folder.path.name}: it was collected"
        raise UnknownJobError(msg) from error
    ended = folder.ended or {}
    return JobView(
        id=folder.path.name,
        arguments=list(request.arguments),
        state=state,
        caller=request.caller,
        timeout_s=request.timeout_s,
        created_at_ms=request.created_at_ms,
        started_at_ms=(folder.started or {}).get("started_at_ms"),
        ended_at_ms=ended.get("ended_at_ms"),
        cancel_reason=folder.cancel_reason,
        exit_code=ended.get("exit_code"),
        result=folder.result() if state.is_over else None,
    )


def _whole_view(folder: JobFolder, log_from: int | None, views: PlatformViews) -> JobView:
    view = _view(folder)
    log, position = folder.log_from(log_from)
    return view.model_copy(update={"output": folder.output_end(), "log": log, "log_position": position})


def _problem(error: Exception) -> Problem:
    for kind, name, status in _KINDS:
        if isinstance(error, kind):
            return Problem(name, status, str(error))
    if isinstance(error, ConfigurationError) and not isinstance(error, InvalidArgumentError):
        return Problem("invalid-argument", 400, str(error))
    return problem_of(error)


def _response(problem: Problem) -> Response:
    return Response(
        problem.body(), problem.status, {name.decode(): value.decode() for name, value in problem.headers()}
    )
