"""The commands of apps and jobs: `python -m spark_apps run <app>`, `snapshot <store>`, `verify <store>`."""

import sys

from spark_apps.cli import main
from spark_apps.priority import niceness, stand_back

if __name__ == "__main__":
    stand_back(niceness(sys.argv[1:]))
    main()
