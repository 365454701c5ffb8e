#!/bin/sh
# The command `isthmus` of a checkout; `make setup` copies it into .venv/bin. It needs no installed
# package: the checkout is the folder above .venv.
# With it, `cd` prints where it went.
unset CDPATH
bin=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$bin/../.." && pwd)
exec "$bin/python" -c '
import sys
sys.path[0] = sys.argv.pop(1)
from indexer.cli.main import main
sys.exit(main())
' "$root" "$@"
