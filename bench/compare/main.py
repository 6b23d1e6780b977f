"""Entry point of bench/compare/run."""

import sys

from harness import cli

if __name__ == "__main__":
    sys.exit(cli.main())
