"""Entry point of `python -m quality`."""

import sys

from quality.cli import main
from spark_apps.priority import JOB_NICENESS, stand_back

stand_back(JOB_NICENESS)
sys.exit(main(sys.argv[1:]))
