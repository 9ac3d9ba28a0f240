"""Answers the errors of an application as problem documents, those of the framework included."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from storekeeper.errors import InvalidArgumentError, StateError
from storekeeper.masked_keys import masked_path
from storekeeper.node.query.answers.answer import Problem

_log = structlog.get_logger(__name__)
_HTTP_KINDS = {404: "unknown-route", 405: "method-not-allowed"}


def answer_errors(
    app: FastAPI, problem_of: Callable[[Exception], Problem], response_of: Callable[[Problem], Response]
) -> None:
    """Answers each error of a request by its problem. A defect (status 500) is logged.

    Args:
        app: the application.
        problem_of: the problem for an error.
        response_of: the response for a problem.
    """

    async def on_error(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.status == 500:
            _log.error("request_failed", path=masked_path(request.url.path), exc_info=error)
        return response_of(problem)

    async def on_http_error(_request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        detail = str(error.detail) if isinstance(error, HTTPException) else "internal"
        response = response_of(Problem(_HTTP_KINDS.get(status, "invalid-argument"), status, detail))
        response.headers.update(getattr(error, "headers", None) or {})
        return response

    async def on_invalid(request: Request, error: Exception) -> Response:
        problems = error.errors() if isinstance(error, RequestValidationError) else []
        details = "; ".join(f"{'.'.join(map(str, problem['loc'][1:]))}: {problem['msg']}" for problem in problems)
        return await on_error(request, InvalidArgumentError(details))

    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(StateError, on_error)
    app.add_exception_handler(Exception, on_error)
