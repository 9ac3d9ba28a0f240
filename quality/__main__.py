"""Entry point of `python -m quality`."""

import sys

from quality.cli import main

sys.exit(main(sys.argv[1:]))
