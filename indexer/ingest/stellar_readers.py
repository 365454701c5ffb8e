"""Makes the configured readers of Stellar: of ledgers, of the lake, and of accounts."""

from collections.abc import Sequence

from indexer.chains.ports import ChainReader
from indexer.chains.stellar.accounts import AccountReader
from indexer.chains.stellar.lake import LakeReader
from indexer.chains.stellar.lake_fallback import LakeFallbackReader
from indexer.chains.stellar.lake_store import LakeStore
from indexer.chains.stellar.reader import StellarReader
from indexer.config.networks import StellarChain
from indexer.config.settings import Settings, rpc_variable
from indexer.errors import ConfigurationError


def stellar_reader(settings: Settings, chain: StellarChain, urls: Sequence[str]) -> ChainReader:
    """The reader of new ledgers: nodes, and the lake for what they do not keep."""
    node = StellarReader(chain, urls)
    lake = settings.lakes.get(chain.id)
    return node if lake is None else LakeFallbackReader(node, lake_reader(chain, lake))


def lake_reader(chain: StellarChain, lake: str) -> LakeReader:
    """The reader of the lake at that URL."""
    return LakeReader(chain, LakeStore(lake))


def open_accounts(settings: Settings) -> AccountReader:
    """A reader of the network's Stellar accounts.

    Raises `ConfigurationError` that names the variable when the chain has no node.
    """
    chain = settings.network.stellar
    urls = settings.nodes.get(chain.id, ())
    if not urls:
        raise ConfigurationError(f"accounts of {chain.id}: set {rpc_variable(chain.id)}")
    return AccountReader(chain, urls)
