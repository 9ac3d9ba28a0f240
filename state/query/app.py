"""The web application of a node: the front route, FastAPI behind, errors as problems everywhere."""

from __future__ import annotations

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from state.errors import InvalidArgumentError, StateError
from state.query.answers.answer import SERVED_BY, Answer, Problem, problem_of
from state.query.page.routes import page_routes
from state.query.reads.point import Front
from state.query.routes.digests import digest_routes
from state.query.routes.health import health_routes
from state.query.routes.internal import internal_routes
from state.query.routes.keyvalue import keyvalue_routes
from state.query.routes.openapi import NodeApp, operation_id
from state.query.routes.paged import response_of
from state.query.routes.parameters import refuse_unknown_parameters
from state.query.routes.ranked import ranked_routes
from state.query.routes.services import QueryServices
from state.query.routes.stores import store_routes
from state.query.routes.topology import cluster_routes, instance_routes, topology_routes
from state.query.routes.windowed import session_routes, windowed_routes

log = structlog.get_logger(__name__)

_HTTP_KINDS = {404: "unknown-route", 405: "method-not-allowed"}


def make_app(services: QueryServices) -> Front:
    """The ASGI application of a node. It trusts its requests: put `Guard` in front of it."""
    app = NodeApp(
        title="Storekeeper",
        summary="Reads the state stores of streaming apps from replicas of their changelogs.",
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=operation_id,
        redirect_slashes=False,  # a redirect would repeat the Host header as sent
    )
    for routes in (
        instance_routes(services.catalog),
        keyvalue_routes(services),
        windowed_routes(services),
        session_routes(services),
        ranked_routes(services),
        internal_routes(services),
        store_routes(services.catalog, services.backend),
        topology_routes(services.catalog),
        cluster_routes(services.catalog),
        digest_routes(services),
        health_routes(services),
        page_routes(),
    ):
        app.include_router(routes)
    refuse_unknown_parameters(app)
    _answer_errors(app, services.catalog.node)
    return Front(services.catalog, services.point, app)


def _answer_errors(app: FastAPI, node: str) -> None:
    origin = (SERVED_BY, node.encode())

    async def on_error(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.status == 500:
            log.error("request_failed", path=request.url.path, exc_info=error)
        return response_of(Answer.problem(problem, origin))

    async def on_http_error(_request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        detail = str(error.detail) if isinstance(error, HTTPException) else "internal"
        return response_of(Answer.problem(Problem(_HTTP_KINDS.get(status, "invalid-argument"), status, detail), origin))

    async def on_invalid(request: Request, error: Exception) -> Response:
        problems = error.errors() if isinstance(error, RequestValidationError) else []
        details = "; ".join(f"{'.'.join(map(str, found['loc'][1:]))}: {found['msg']}" for found in problems)
        return await on_error(request, InvalidArgumentError(details))

    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(StateError, on_error)
    app.add_exception_handler(Exception, on_error)
