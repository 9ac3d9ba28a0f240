"""Serves S3 at a port: `python s3_server.py PORT`. Each line of its input, `start` or `stop`, changes whether it does.

It runs in the virtual environment of moto, and repeats each line when it is done.
"""

import sys

from moto.server import ThreadedMotoServer


def main(port: int) -> None:
    """Objects stay in memory while nobody listens."""
    server = None
    for line in sys.stdin:
        if line.strip() == "start":
            server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
            server.start()
        elif server is not None:
            server.stop()
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
