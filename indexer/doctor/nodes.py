"""Checks of the nodes that `ISTHMUS_RPC_<CHAIN>` names."""

from collections.abc import Iterator
from contextlib import closing

from indexer.chains.evm.jsonrpc import JsonRpc
from indexer.chains.http.client import host_of
from indexer.chains.http.operators import http_urls
from indexer.chains.identity import check_evm_node, check_stellar_node
from indexer.chains.stellar.rpc import StellarRpc
from indexer.config.networks import Chain, EvmChain
from indexer.doctor.checks import Check, CheckGroup, CheckResult, DoctorContext
from indexer.errors import PermanentChainError, RetryableChainError, WrongChain

REQUEST_SECONDS = 5.0
"""Timeout of each piece of a response; a whole one may take three times as long."""

ANSWERS = Check(
    "node.answers",
    "The node answers requests in time.",
    "Look at the URL, its key and the provider's status page.",
)
CHAIN_ID = Check(
    "node.chain_id",
    "The node serves the configured chain: its EIP-155 id, or its network passphrase.",
    "Name a node of this chain.",
)


def check_nodes(context: DoctorContext) -> Iterator[CheckResult]:
    """Check every node of every followed chain."""
    for chain in context.settings.followed:
        for url in http_urls(context.settings.nodes[chain.id]):
            yield from _check_node(context, chain, url)


def _check_node(context: DoctorContext, chain: Chain, url: str) -> Iterator[CheckResult]:
    subject = f"{chain.id} {host_of(url)}"
    context.begin(ANSWERS.id, subject)
    try:
        if isinstance(chain, EvmChain):
            with closing(JsonRpc(url, timeout=REQUEST_SECONDS)) as evm_node:
                check_evm_node(evm_node, chain)
        else:
            with closing(StellarRpc(url, timeout=REQUEST_SECONDS)) as stellar_node:
                check_stellar_node(stellar_node, chain)
    except WrongChain as error:
        yield ANSWERS.ok(subject)
        yield CHAIN_ID.failed(subject, str(error))
    except (RetryableChainError, PermanentChainError) as error:
        yield ANSWERS.failed(subject, str(error))
    else:
        yield ANSWERS.ok(subject)
        yield CHAIN_ID.ok(subject)


GROUP = CheckGroup((ANSWERS, CHAIN_ID), check_nodes)
