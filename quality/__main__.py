"""Entry point of `python -m quality`."""

import sys

from quality.cli import main
from spark_apps.app_log import configure_logging
from spark_apps.priority import JOB_NICENESS, stand_back

stand_back(JOB_NICENESS)
configure_logging()
sys.exit(main(sys.argv[1:]))
