"""Opens the configured readers of chains and of Stellar's accounts, and attestation services."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from indexer.chains.evm.reader import EvmReader
from indexer.chains.http.node_pool import require_node
from indexer.chains.http.operators import MIN_OPERATORS, http_urls, operator_of
from indexer.chains.ports import ChainReader
from indexer.chains.services.circle import Iris
from indexer.chains.services.layerzero_scan import LzScan
from indexer.chains.stellar.accounts import AccountReader
from indexer.chains.stellar.lake import LakeReader
from indexer.chains.stellar.lake_fallback import LakeFallbackReader
from indexer.chains.stellar.lake_store import LakeStore
from indexer.chains.stellar.reader import StellarReader
from indexer.config.networks import Chain, EvmChain, Network
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
    node = StellarReader(chain, urls)
    lake = settings.lakes.get(chain.id)
    return node if lake is None else LakeFallbackReader(node, LakeReader(chain, LakeStore(lake)))


def open_accounts(settings: Settings) -> AccountReader:
    """A reader of the network's Stellar accounts.

    Raises `ConfigurationError` that names the variable when the chain has no node.
    """
    chain = settings.network.stellar
    urls = settings.nodes.get(chain.id, ())
    if not urls:
        raise ConfigurationError(f"accounts of {chain.id}: set {rpc_variable(chain.id)}")
    return AccountReader(chain, urls)


def open_history(settings: Settings, chain: Chain) -> ChainReader:
    """A reader for past ledgers: the lake, which proves their contents, else the chain's node.

    Raises as `open_reader` does.
    """
    lake = settings.lakes.get(chain.id)
    if lake is None or isinstance(chain, EvmChain):
        return open_reader(settings, chain)
    return LakeReader(chain, LakeStore(lake))


@contextmanager
def open_services(network: Network) -> Iterator[tuple[Iris, LzScan | None]]:
    """Circle's service, and LayerZero's explorer if one is named, while the block runs.

    Raises `ConfigurationError` when the network file names no attestation service.
    """
    if network.iris is None:
        raise ConfigurationError(f"{network.name} names no attestation service (`iris`)")
    with closing(Iris(network.iris)) as iris, ExitStack() as stack:
        scan = None
        if network.lz_scan is not None:
            scan = stack.enter_context(closing(LzScan(network.lz_scan)))
        yield iris, scan
