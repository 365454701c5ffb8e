"""The checks of nodes. `evm_nodes` and `stellar_nodes` make them."""

import time

from indexer.chains.raw import Block
from indexer.config.networks import Chain
from indexer.doctor.checks import Check, CheckResult

REQUEST_SECONDS = 5.0
"""Timeout of each piece of a response; a whole one may take three times as long."""
_LATE_SECONDS, _LATE_BLOCKS = 60, 20
"""As `indexer.facts.health`: age of a newest block from which on a chain is late."""
_AHEAD_SECONDS = 15
"""A block may be that far ahead of this machine's clock: Ethereum's time between blocks."""

ANSWERS = Check(
    "node.answers",
    "The node answers, in time and in the shape of its protocol.",
    "Look at the URL, its key and the provider's status page; or name another node.",
)
CHAIN_ID = Check(
    "node.chain_id",
    "The node serves the configured chain: its EIP-155 id, or its network passphrase.",
    "Name a node of this chain.",
)
HEALTHY = Check(
    "node.healthy",
    "A Stellar node calls itself healthy: it has ledgers, and the newest is not old.",
    "Wait until the node has caught up, or name another one.",
)
VERSION = Check(
    "node.version",
    "Stellar RPC is new enough that `getEvents` leaves no event out.",
    "Name a node with a newer Stellar RPC.",
)
PROTOCOL = Check(
    "node.protocol",
    "This build reads the protocol that a Stellar node runs, and the one that it is ready for.",
    "Bring in a newer build before the upgrade: the follower stops at the first ledger of a newer "
    "protocol.",
)
CLOCK = Check(
    "node.clock",
    "The newest block is about as old as it should be by this machine's clock.",
    "Compare this machine's clock with a time server (`timedatectl timesync-status`). If it is "
    "right, the node stands still or its chain does: name another node.",
)
HISTORY = Check(
    "node.history",
    "The node has the block from which reading starts, or goes on; on an EVM chain with its logs.",
    "Name an archive node, set a later start (ISTHMUS_START_<CHAIN>), or, on Stellar, a data lake "
    "(ISTHMUS_LAKE_<CHAIN>).",
)
LOGS = Check(
    "node.logs",
    "The node answers the follower's request for the newest blocks and their logs or events, at "
    "the follower's width.",
    "Nothing is lost: the follower halves a refused range. Name a node with a wider limit if "
    "catching up takes too long.",
)
FINALITY = Check(
    "node.finality_tags",
    "The node names `safe` and `finalized` blocks, if another node of the chain does.",
    "Name nodes that all have the tags, or none: the follower believes no node without them once "
    "one had them.",
)
WEB_SOCKET = Check(
    "node.web_socket",
    "A `ws(s)` URL takes a subscription to new heads.",
    "Correct the URL, or leave it out: heads are then polled for.",
)
OPERATORS = Check(
    "node.operators",
    "An EVM chain has nodes of two operators, where two must agree: for what owners submit on a "
    "public network, and for logs whose `log_proof` is `header` or `operators`. Their hosts have "
    "different addresses.",
    "Name a node of another operator in ISTHMUS_RPC_<CHAIN>.",
)
AGREEMENT = Check(
    "node.agreement",
    "All nodes of the chain have the same block at a finalized height.",
    "Find out which node is wrong, by an explorer for example, and leave it out. Nothing is "
    "settled until then.",
)

TOO_YOUNG = (
    "Ask it for this block: it may keep too short a history, which grows on a young chain, or fail "
    "(look at the URL, its key and the provider's status page)."
)


def check_clock(chain: Chain, subject: str, head: Block) -> CheckResult:
    """The age of the newest block by this machine's clock."""
    age = time.time() - head.time
    limit = _LATE_SECONDS + _LATE_BLOCKS * chain.block_seconds
    if age > limit:
        problem = f"its newest block {head.height} is {age:.0f} s old, more than {limit:.0f} s"
        return CLOCK.failed(subject, problem)
    if age < -_AHEAD_SECONDS:
        return CLOCK.failed(
            subject, f"its newest block {head.height} is {-age:.0f} s ahead of this machine's clock"
        )
    return CLOCK.ok(subject, f"block {head.height} is {age:.0f} s old")
