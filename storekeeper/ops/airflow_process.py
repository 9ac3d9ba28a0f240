"""A component of Airflow whose children end with it: `python -m storekeeper.ops.airflow_process scheduler`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from storekeeper.ops.ends_with_parent import have_forks_end_with_parent
from storekeeper.ops.environment import airflow_environment
from storekeeper.ops.settings import PlatformSettings


def _main(arguments: Sequence[str]) -> None:
    os.environ |= airflow_environment(PlatformSettings.load())  # noqa: TID251 (written for Airflow, not read)
    have_forks_end_with_parent()
    from airflow.__main__ import main  # noqa: PLC0415 (it reads its configuration when it is imported)

    sys.argv = ["airflow", *arguments]
    main()


if __name__ == "__main__":
    _main(sys.argv[1:])
