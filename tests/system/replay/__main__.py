"""`make replay`: bring in the recorded genuine data and print what it holds.

    python -m tests.system.replay

The databases are `isthmus_replay_<network>`, dropped and made anew at each run: in an embedded
Postgres of the replay's own under `.isthmus/replay`, or on the server of DATABASE_URL when it is
set. They stay for whoever wants to look into them. The last line is JSON.
"""

import json
import logging
import sys

from indexer.config.settings import load_settings
from tests.system.replay.databases import warehouses
from tests.system.replay.findings import replay
from tests.system.replay.report import page, summary


def main() -> int:
    """Replay and print; 1 when a check failed, 0 otherwise."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    with warehouses(load_settings()) as open_warehouse:
        findings = replay(open_warehouse)
    print(page(findings))
    print()
    print(json.dumps(summary(findings)))
    return 0 if findings.is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
