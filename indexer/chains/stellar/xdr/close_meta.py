"""A ledger from its bytes, or the word that this build cannot decode it.

One transaction that this build cannot read makes all of its ledger unreadable: in XDR nothing says
where a part ends but the part. Anyone may pay for such a transaction, so it must cost no more than
that ledger, and that one only until a newer build reads it.
"""

from indexer.chains.stellar.xdr.ledgers import Ledger, LedgerProof, block_of_meta
from indexer.chains.stellar.xdr.skip import Malformed
from indexer.chains.stellar.xdr.transaction_set import check_transaction_set
from indexer.chains.stellar.xdr.walk import walk_ledger
from indexer.config.networks import StellarChain
from indexer.errors import UndecodableLedger


def decode_meta(
    raw: bytes, chain: StellarChain, *, every_contract: bool = False
) -> tuple[Ledger, LedgerProof]:
    """A proven ledger with the events of the chain's contracts, or of every contract.

    Raises `UndecodableLedger`, `InconsistentAnswer` when it is damaged, and `UnsupportedProtocol`.
    """
    contracts = None if every_contract else [*chain.event_contracts, *chain.tokens]
    try:
        return walk_ledger(raw, chain.id, chain.passphrase, contracts)
    except Malformed as error:
        # Header and transactions may still prove that these are the bytes the chain made; then
        # asking again cannot help.
        block = block_of_meta(raw, chain.id)
        check_transaction_set(raw, 0, len(raw), block)
        raise UndecodableLedger(f"ledger {block.height} cannot be decoded: {error}") from error
