"""The web application of a node: the front route, FastAPI behind, errors as problems everywhere."""

from __future__ import annotations

from storekeeper.node.query.answers.answer import SERVED_BY, Answer, problem_of
from storekeeper.node.query.page.routes import page_routes
from storekeeper.node.query.reads.point import Front
from storekeeper.node.query.routes.error_handlers import answer_errors
from storekeeper.node.query.routes.health import health_routes
from storekeeper.node.query.routes.history import history_routes
from storekeeper.node.query.routes.internal import digest_routes, internal_routes, repair_routes
from storekeeper.node.query.routes.keyvalue import keyvalue_routes
from storekeeper.node.query.routes.openapi import NodeApp, operation_id
from storekeeper.node.query.routes.paged import response_of
from storekeeper.node.query.routes.parameters import refuse_unknown_parameters
from storekeeper.node.query.routes.ranked import ranked_routes
from storekeeper.node.query.routes.services import QueryServices
from storekeeper.node.query.routes.stores import store_routes
from storekeeper.node.query.routes.topology import cluster_routes, instance_routes, topology_routes
from storekeeper.node.query.routes.versions import version_routes
from storekeeper.node.query.routes.windowed import session_routes, windowed_routes


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
        version_routes(services),
        history_routes(services),
        ranked_routes(services),
        internal_routes(services),
        repair_routes(services),
        store_routes(services.catalog, services.backend),
        topology_routes(services.catalog),
        cluster_routes(services.catalog),
        digest_routes(services),
        health_routes(services),
        page_routes(),
    ):
        app.include_router(routes)
    refuse_unknown_parameters(app)
    origin = (SERVED_BY, services.catalog.node.encode())
    answer_errors(app, problem_of, lambda problem: response_of(Answer.problem(problem, origin)))
    return Front(services.catalog, services.point, app)
