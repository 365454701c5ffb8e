"""A reader for each configured chain, and one of Stellar's accounts."""

from collections.abc import Sequence

from indexer.chains.evm.reader import EvmReader
from indexer.chains.http.operators import MIN_OPERATORS, http_urls, operator_of
from indexer.chains.ports import ChainReader
from indexer.chains.stellar.accounts import AccountReader
from indexer.chains.stellar.lake import LakeReader
from indexer.chains.stellar.lake_fallback import LakeFallbackReader
from indexer.chains.stellar.lake_store import LakeStore
from indexer.chains.stellar.reader import StellarReader
from indexer.config.networks import Chain, EvmChain
from indexer.config.settings import Settings, log_proof_variable, rpc_variable
from indexer.decode.evm import event_topics
from indexer.errors import ConfigurationError


def open_reader(settings: Settings, chain: Chain) -> ChainReader:
    """The reader of a chain, identity not yet checked.

    Raises `ConfigurationError` that names the variable when the chain has no node, or too few for
    its `log_proof`.
    """
    urls = settings.nodes[chain.id]
    if not urls:
        raise ConfigurationError(f"{chain.id} has no node: set {rpc_variable(chain.id)}")
    if isinstance(chain, EvmChain):
        _check_log_proof(chain, urls)
        return EvmReader(chain, urls, event_topics)
    node = StellarReader(chain, urls)
    lake = settings.lakes.get(chain.id)
    return node if lake is None else LakeFallbackReader(node, LakeReader(chain, LakeStore(lake)))


def _check_log_proof(chain: EvmChain, urls: Sequence[str]) -> None:
    """Raise unless the chain's logs can be proven: transfers on it would wait for ever."""
    if chain.log_proof not in ("header", "operators"):
        return
    if len({operator_of(url) for url in http_urls(urls)}) < MIN_OPERATORS:
        raise ConfigurationError(
            f"{chain.id}: log_proof = {chain.log_proof} needs nodes of {MIN_OPERATORS} operators:"
            f" name another one in {rpc_variable(chain.id)}, or believe one node without proof:"
            f" {log_proof_variable(chain.id)}=none"
        )


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
    """For ledgers that are read again: a lake, which proves what each holds, if there is one.

    Else the chain's node. Raises as `open_reader` does.
    """
    lake = settings.lakes.get(chain.id)
    if lake is None or isinstance(chain, EvmChain):
        return open_reader(settings, chain)
    return LakeReader(chain, LakeStore(lake))
