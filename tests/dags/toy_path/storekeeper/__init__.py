"""In front of the real package: all of it, but with a toy instead of the commands that DAGs run."""

from pathlib import Path

__path__.append(str(Path(__file__).parents[4] / "storekeeper"))
