"""The command `isthmus` of a later release: this build, and it reads one protocol more."""

import sys

from indexer.chains.stellar.xdr import ledgers
from indexer.cli.main import main

if __name__ == "__main__":
    # Before the command imports what reads it.
    ledgers.NEWEST_PROTOCOL += 1
    sys.exit(main())
