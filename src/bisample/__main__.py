"""`python -m bisample`."""

import sys

from bisample.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
