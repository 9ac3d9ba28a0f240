"""A component of Airflow whose children end with it: `python -m deploy.airflow_process COMPONENT OPTION...`."""

from __future__ import annotations

import sys

from dags.operators.ends_with_parent import have_forks_end_with_parent


def main(arguments: list[str]) -> None:
    """Runs the component in this process."""
    have_forks_end_with_parent()
    from airflow.__main__ import main as airflow  # noqa: PLC0415 (it reads its configuration when it is imported)

    sys.argv = ["airflow", *arguments]
    airflow()


if __name__ == "__main__":
    main(sys.argv[1:])
