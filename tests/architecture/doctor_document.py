"""Writes docs/doctor.md from the checks of `isthmus doctor`.

python -m tests.architecture.doctor_document
"""

from collections.abc import Mapping
from pathlib import Path

from indexer.doctor.checks import Check
from indexer.doctor.run import COMPLETED, GROUPS, load_group
from tests.architecture.imports import ROOT

PAGE = ROOT / "docs" / "doctor.md"
HEAD = """\
<!-- Written by `make settings` from the checks of the groups. -->

# Checking an installation: `isthmus doctor`

```sh
isthmus doctor                   # every group
isthmus doctor --only nodes -v   # one group, with what each check read
isthmus doctor --json            # one object for programs
```

Asks what the configuration names whether it is what the configuration says: before anything is
switched on, and at any time later. It reads only: no transaction, no row, no file is written.

| exit code | means |
|---|---|
| 0 | no finding |
| 1 | findings, each with what to do |
| 2 | a wrong call, or a setting that is wrong for every group |

The groups run in the order of this page. A node that is of no use is a finding of `nodes`, and its
chain is then left out of `contracts`: one fault, one finding. Each request ends after 5 s without a
piece of its answer, or 15 s in all; several chains are asked at a time.
"""
ABOUT: Mapping[str, str] = {
    "nodes": """\
Reads with the follower's own readers: headers are hashed, logs compared with blooms. Reading starts
at the cursor where the warehouse has one, else at the chain's start. Two nodes are two operators if
their hosts' last two labels differ; whether two companies are one, no check can tell.
""",
    "contracts": """\
Asks at the newest block, of every address that the network file has for a followed chain.

Not asked, because no source that we could verify says how:

- A pause or a rate limit of USDT0's OFTs on EVM chains: their source was not readable. A quote
  stands for both (`contract.oft_limit`).
- Whether Stellar's forwarder of CCTP is paused: no such view is known.
- What sets confirmations and verifiers of a LayerZero path.
- The hash of any EVM contract, and of Stellar's contracts other than CCTP's messenger and
  transmitter: they are not published. `-v` shows a proxy's implementation instead.
""",
    "services": """\
Circle's fees are asked for each direction of each followed chain, five a second.
""",
    "sessions": """\
The API's sessions ([machines](operations/machines.md)). The API asks the same at its start and does
not start with a finding, except of `sessions.reachable`.
""",
    "postgres": """\
Catalogues and settings are read in read-only transactions. A right that the user of `DATABASE_URL`
lacks is a finding of the check that needs it.
""",
    "keys": """\
Each key signs one text that no chain takes for a transaction, and no output names a secret. Run it
as the relay's user: a secret file that the user may not read is a finding, and the other keys are
checked. No trustline is needed: an account of the relay holds native coin alone.
""",
    "senders": """\
By the names of settings and by reports in the warehouse: it needs no key. Before the relay is
started, `senders.reports` says so; `isthmus status` says the same.
""",
    "home": """\
Asks as wallets do, by DNS and TLS with this machine's trusted roots. Run it once the API is
started. Without `ISTHMUS_URL` nothing is public, and nothing is asked.
""",
    "dagster": """\
Definitions are loaded by a process of their own where no code server has loaded them, which takes
some seconds. Before the code servers are started, `dagster.servers` says so.
""",
}


def document() -> str:
    """docs/doctor.md."""
    parts = [HEAD, _table([COMPLETED])]
    for name in GROUPS:
        about = ABOUT.get(name)
        parts.append(f"\n## {name}\n\n{'' if about is None else f'{about}'}")
        parts.append(_table(load_group(name).checks))
    return "".join(parts)


def _table(checks: list[Check] | tuple[Check, ...]) -> str:
    rows = (f"| `{each.id}` | {_cell(each.proves)} | {_cell(each.fix)} |\n" for each in checks)
    return f"\n| check | proves | after a finding |\n|---|---|---|\n{''.join(rows)}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def files() -> dict[Path, str]:
    """What is generated, by path."""
    return {PAGE: document()}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
