"""The routes of the control API. Put `Gate` in front of it: it trusts that the caller is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response, Security
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from storekeeper.node.query.answers.answer import MEDIA_TYPE, Problem
from storekeeper.node.query.routes.error_handlers import answer_errors
from storekeeper.node.query.routes.parameters import refuse_unknown_parameters
from storekeeper.node.security.access import Caller, ForbiddenError, Role
from storekeeper.ops.control.access import caller_of
from storekeeper.ops.control.jobs import Job, Jobs, JobState, check_allowed
from storekeeper.ops.control.problems import control_problem
from storekeeper.ops.control.views import PlatformViews

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


class JobOrder(BaseModel, extra="forbid"):
    """What to run."""

    arguments: list[str] = Field(
        description="The command line behind `storekeeper`, such as `snapshot create rewards`.",
        examples=[["snapshot", "create", "rewards"]],
    )


class JobView(BaseModel):
    """A job, and the end of what it wrote."""

    id: str
    arguments: list[str]
    state: JobState
    caller: str = Field(description="The name of the token that it was asked for with.")
    started_at_ms: int
    ended_at_ms: int | None = None
    cancel_reason: str | None = Field(
        None, description="Why it was cancelled, in the caller's words. None if nobody has cancelled it."
    )
    exit_code: int | None = Field(None, description="Of the command; negative after a signal. None if it is unknown.")
    result: dict[str, Any] | None = Field(None, description="The JSON object on the last line of its output.")
    output: str = Field(default="", description="The end of its standard output.")
    log: str = Field(default="", description="A part of its standard error.")
    log_position: int = Field(default=0, description="The position behind that part: `log_from` of the next request.")


def make_app(jobs: Jobs, views: PlatformViews, metrics: Callable[[], bytes]) -> FastAPI:
    """The ASGI application. `metrics` collects them in Prometheus' text format."""
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

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    def prometheus() -> Response:
        """The metrics of apps, snapshots and checks. On loopback it needs no token."""
        return Response(metrics(), media_type=CONTENT_TYPE_LATEST)

    app.include_router(_views(views), dependencies=[token, Depends(_may(Role.OPERATOR, Role.MONITOR, Role.READER))])
    app.include_router(_jobs(jobs), dependencies=[token, Depends(_may(Role.OPERATOR))])
    refuse_unknown_parameters(app)
    answer_errors(app, control_problem, _response)
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


def _jobs(jobs: Jobs) -> APIRouter:
    router = APIRouter(prefix="/jobs", responses={status: _PROBLEMS[status] for status in (400, 401, 403, 404, 409)})

    @router.get("")
    async def all_jobs() -> list[JobView]:
        """The jobs that run, and those that ended last; the newest first, without what they wrote."""
        return [_view(job) for job in jobs.all()]

    @router.put("/{name}", status_code=200, responses={201: {"model": JobView, "description": "It is new."}})
    async def start(name: JobId, order: JobOrder, request: Request, response: Response) -> JobView:
        """Start a job, or find it: one of that id that runs is never started again."""
        check_allowed(order.arguments)
        caller: Caller = caller_of(request.scope)
        job, is_new = await jobs.start(name, order.arguments, caller.name)
        response.status_code = 201 if is_new else 200
        return _view(job)

    @router.get("/{name}")
    async def get(
        name: JobId,
        log_from: Annotated[
            int | None, Query(ge=0, le=1 << 62, description="Position in its log; without it, the log's end.")
        ] = None,
    ) -> JobView:
        """A job: its state, its exit code, its result and what it wrote."""
        job = jobs.get(name)
        log, position = job.log_from(log_from)
        more = {"result": job.result(), "output": job.output_end(), "log": log, "log_position": position}
        return _view(job).model_copy(update=more)

    @router.post("/{name}/cancel")
    async def cancel(
        name: JobId,
        reason: Annotated[str, Query(max_length=200, description="For the caller that waits for the job.")] = "",
    ) -> JobView:
        """Begin to end a job: a process by TERM, a change of an app at its next step. Safe to repeat."""
        return _view(jobs.cancel(name, reason))

    return router


def _view(job: Job) -> JobView:
    """A job, without what it wrote."""
    return JobView(
        id=job.name,
        arguments=list(job.arguments),
        state=job.state,
        caller=job.caller,
        started_at_ms=job.started_at_ms,
        ended_at_ms=job.ended_at_ms,
        cancel_reason=job.cancel_reason,
        exit_code=job.exit_code,
        result=None,
    )


def _response(problem: Problem) -> Response:
    return Response(
        problem.body(), problem.status, {name.decode(): value.decode() for name, value in problem.headers()}
    )
