"""Software versions of a Stellar node (getVersionInfo): minimum RPC, and upgrades ahead.

The major version of stellar-core is the newest protocol that it can apply (30.0.0: protocol 30). It
is released weeks before validators vote, which makes it the first sign of an upgrade: a header
names an upgrade only in the ledger that applies it, and nothing gives the date before.
"""

import re

from indexer.chains.raw import Upgrade
from indexer.chains.stellar.rpc import StellarRpc, UnknownMethod
from indexer.chains.stellar.xdr.ledgers import NEWEST_PROTOCOL
from indexer.config.networks import StellarChain, rpc_variable
from indexer.errors import ConfigurationError

MIN_RPC = (28, 0, 0)
"""Before (27.1.1 at the latest), getEvents left events out when filters of one call constrained
different things (stellar-rpc pull request 832)."""
_RPC = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")
_CORE = re.compile(r"(?:stellar-core )?v?(\d+)\.\d+")


def check_software(node: StellarRpc, chain: StellarChain) -> None:
    """Raise `ConfigurationError` for an RPC that loses events; other errors as `StellarRpc.call`.

    A node without getVersionInfo is accepted: a proxy may hide the method.
    """
    try:
        version = str(node.call("getVersionInfo", {}).get("version"))
    except UnknownMethod:
        return
    found = _RPC.match(version)
    if found is not None and tuple(map(int, found.groups())) < MIN_RPC:
        raise ConfigurationError(
            f"{rpc_variable(chain.id)}: {node.host} runs Stellar RPC {found.group()}, which leaves "
            "events out when several filters are asked for at once: use a node of "
            f"{'.'.join(map(str, MIN_RPC))} or newer"
        )


def upgrade_ahead(node: StellarRpc) -> Upgrade | None:
    """Protocol newer than this build that the node can apply; None if there is none.

    Raises as `StellarRpc.call`.
    """
    core = str(node.call("getVersionInfo", {}).get("captiveCoreVersion"))
    found = _CORE.match(core)
    protocol = 0 if found is None else int(found.group(1))
    if protocol <= NEWEST_PROTOCOL:
        return None
    return Upgrade(
        protocol,
        f"{node.host} is ready for protocol {protocol} ({core.partition(' (')[0]}); this build "
        f"reads up to {NEWEST_PROTOCOL}: bring in a newer build. The date of the upgrade is not "
        "known: no node tells it before the upgrade applies",
    )
