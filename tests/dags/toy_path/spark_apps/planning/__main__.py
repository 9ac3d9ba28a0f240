"""Prints a plan with what it was asked for."""

import json
import sys

sys.stdout.write(json.dumps({"text": "a plan", "asked": sys.argv[1:]}) + "\n")
