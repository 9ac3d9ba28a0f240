"""Says in one sentence what this machine lacks, before `make setup` builds anything.

Run as `python3 storekeeper/ops/preflight.py`, with whatever Python the machine calls python3: hence the standard
library only, no annotations and no f-strings, so that an old Python prints the sentence too and not a syntax error.
"""

# ruff: noqa: UP010, UP031  (the file must parse on the Pythons that it turns away)
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import print_function

import os
import re
import subprocess
import sys

MINIMUM_PYTHON = (3, 11)
MINIMUM_JAVA = 17
# The environment is 1.9 GB, the jars 0.2 GB; a run writes up to 1 GB.
MINIMUM_FREE_MB = 3500


def python_problem(version):
    """The sentence about a Python older than the minimum, or None. `version` is a tuple such as `sys.version_info`."""
    if tuple(version[:2]) >= MINIMUM_PYTHON:
        return None
    return "Python %d.%d is too old: install Python %d.%d or later and run `make setup PYTHON=/path/to/it`." % (
        version[0],
        version[1],
        MINIMUM_PYTHON[0],
        MINIMUM_PYTHON[1],
    )


def venv_problem():
    """The sentence about a Python that can't make virtual environments (Debian splits them off), or None."""
    try:
        import ensurepip  # noqa: F401, PLC0415
        import venv  # noqa: F401, PLC0415
    except ImportError:
        return "This Python has no venv module: install it (on Debian and Ubuntu: apt install python3-venv)."
    return None


def java_command(environment):
    """The java that will run: `JAVA_HOME`'s when it is set, otherwise the one on the PATH."""
    home = environment.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"  # noqa: PTH118


def java_major(text):
    """The major version in the output of `java -version`, or None. Understands `1.8.0_392` as 8."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not match:
        return None
    major = int(match.group(1))
    return int(match.group(2) or 0) if major == 1 else major


def java_problem(environment):
    """The sentence about a missing, broken or old Java, or None."""
    command = java_command(environment)
    remedy = "install a JDK %d or later and put it on the PATH or in JAVA_HOME." % MINIMUM_JAVA
    output = _output_of([command, "-version"], environment)
    if output is None:
        return "Java was not found or does not run (%s): %s" % (command, remedy)
    major = java_major(output)
    if major is None:
        return "The version of %s can't be found out: %s" % (command, remedy)
    if major < MINIMUM_JAVA:
        return "Java %d (%s) is too old: %s" % (major, command, remedy)
    return None


def maven_problem(environment):
    """The sentence about a missing or broken Maven, or None."""
    if _output_of(["mvn", "-v"], environment) is None:
        return "Maven was not found or does not run (mvn): install Maven 3.6 or later (Debian: apt install maven)."
    return None


def disk_problem(folder, minimum_mb=MINIMUM_FREE_MB):
    """The sentence about too little free disk under `folder`, or None."""
    import shutil  # noqa: PLC0415

    free_mb = shutil.disk_usage(folder).free // (1024 * 1024)
    if free_mb >= minimum_mb:
        return None
    return "Only %d MB of disk are free under %s: free at least %d MB." % (free_mb, folder, minimum_mb)


def first_problem(environment, folder, version):
    """The first thing that keeps the set-up from working, as a sentence with its remedy, or None."""
    return (
        python_problem(version)
        or venv_problem()
        or java_problem(environment)
        or maven_problem(environment)
        or disk_problem(folder)
    )


def _output_of(command, environment):
    """Standard output and error of a command together, or None when it can't run or fails."""
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
        output = process.communicate()[0]
    except OSError:
        return None
    return output.decode("utf-8", "replace") if process.returncode == 0 else None


def main():
    """Exit code 0 when the machine will do, 1 after one sentence on standard error."""
    environment = dict(os.environ)  # noqa: TID251 (runs before the settings classes are installed)
    problem = first_problem(environment, os.getcwd(), sys.version_info)  # noqa: PTH109
    if problem is None:
        return 0
    sys.stderr.write("preflight: " + problem + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
