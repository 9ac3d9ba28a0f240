"""Airflow's provider for Storekeeper: everything goes through the control API of a platform, by a connection."""

from __future__ import annotations

from typing import Any

VERSION = "0.1.0"
"""The version of this package, and of the DAG files that fit it."""
CONNECTION = "storekeeper_default"
"""The connection that is used if none is named."""
POOL = "storekeeper"
"""The pool of tasks that run jobs. It counts deferred tasks; its slots are the jobs that run at once."""


def get_provider_info() -> dict[str, Any]:
    """What Airflow wants to know of a provider."""
    hook = "storekeeper_provider.hook.StorekeeperHook"
    return {
        "package-name": "airflow-provider-storekeeper",
        "name": "Storekeeper",
        "description": "Operates Storekeeper's streams and state stores.",
        "connection-types": [
            {
                "connection-type": "storekeeper",
                "hook-class-name": hook,
                "hook-name": "Storekeeper",
                "conn-fields": {
                    "token_file": {
                        "label": "File with the token, in place of the password",
                        "schema": {"type": ["string", "null"]},
                    },
                    "ca_file": {
                        "label": "PEM file of the authority that signed the server's certificate",
                        "schema": {"type": ["string", "null"]},
                    },
                    "query_page": {"label": "Address of the stores' page", "schema": {"type": ["string", "null"]}},
                    "spark_ui": {"label": "Address of the Spark UI", "schema": {"type": ["string", "null"]}},
                },
                "ui-field-behaviour": {
                    "hidden-fields": ["login", "schema"],
                    "relabeling": {"password": "Token", "host": "Address of the control API"},
                    "placeholders": {"host": "https://storekeeper.example:18091"},
                },
            }
        ],
        "hooks": [{"integration-name": "Storekeeper", "python-modules": ["storekeeper_provider.hook"]}],
        "operators": [{"integration-name": "Storekeeper", "python-modules": ["storekeeper_provider.operators"]}],
        "sensors": [{"integration-name": "Storekeeper", "python-modules": ["storekeeper_provider.sensors"]}],
        "triggers": [
            {
                "integration-name": "Storekeeper",
                "python-modules": ["storekeeper_provider.operators", "storekeeper_provider.sensors"],
            }
        ],
        "notifications": ["storekeeper_provider.notifications.WebhookNotifier"],
        "extra-links": [
            "storekeeper_provider.operators.QueryPageLink",
            "storekeeper_provider.operators.SparkUiLink",
        ],
    }
