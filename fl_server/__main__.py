"""`python -m fl_server serve|simulate|client …`: the commands without an installation."""

import sys

from fl_server.cli import serve, simulate
from fl_server.device.cli import client

commands = {"serve": serve, "simulate": simulate, "client": client}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        print(f"usage: python -m fl_server {{{'|'.join(commands)}}} …", file=sys.stderr)
        sys.exit(2)
    sys.exit(commands[sys.argv[1]](sys.argv[2:]))
