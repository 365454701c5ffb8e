"""Opens the configured readers of chains.

Stellar's are imported where a Stellar chain is read: a process reads one chain, and Stellar's SDK
takes half a second of processor time to import.
"""

from indexer.chains.evm.reader import EvmReader
from indexer.chains.http.node_pool import require_node
from indexer.chains.http.operators import MIN_OPERATORS, http_urls, operator_of
from indexer.chains.ports import ChainReader
from indexer.config.networks import Chain, EvmChain
from indexer.config.settings import Settings, log_proof_variable, rpc_variable
from indexer.decode.evm import event_topics
from indexer.errors import ConfigurationError


def open_reader(settings: Settings, chain: Chain) -> ChainReader:
    """The reader of a chain; its identity is not checked yet.

    Raises `ConfigurationError` that names the variable when the chain has no node, or too few for
    its `log_proof`.
    """
    urls = require_node(settings.nodes[chain.id], chain.id, ConfigurationError)
    if isinstance(chain, EvmChain):
        needs_operators = chain.log_proof in ("header", "operators")
        # With too few operators, transfers on the chain would wait for a proof for ever.
        if needs_operators and len({operator_of(url) for url in http_urls(urls)}) < MIN_OPERATORS:
            raise ConfigurationError(
                f"{chain.id}: log_proof = {chain.log_proof} needs nodes of {MIN_OPERATORS}"
                f" operators: name another one in {rpc_variable(chain.id)}, or believe one node"
                f" without proof: {log_proof_variable(chain.id)}=none"
            )
        return EvmReader(chain, urls, event_topics)
    from indexer.ingest.stellar_readers import stellar_reader

    return stellar_reader(settings, chain, urls)


def open_history(settings: Settings, chain: Chain) -> ChainReader:
    """A reader for past ledgers: the lake, which proves their contents, else the chain's node.

    Raises as `open_reader` does.
    """
    lake = settings.lakes.get(chain.id)
    if lake is None or isinstance(chain, EvmChain):
        return open_reader(settings, chain)
    from indexer.ingest.stellar_readers import lake_reader

    return lake_reader(chain, lake)
