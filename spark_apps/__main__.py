"""The commands of apps and jobs: `python -m spark_apps run <app>`, `snapshot <store>`."""

import sys

from spark_apps.priority import niceness, stand_back
from state.errors import ConfigurationError

_EXIT_CONFIGURATION = 78
"""`EXIT_CONFIGURATION` of `spark_apps.cli`, which can't be loaded here."""

if __name__ == "__main__":
    stand_back(niceness(sys.argv[1:]))
    try:
        from spark_apps.cli import main
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(_EXIT_CONFIGURATION)
    main()
