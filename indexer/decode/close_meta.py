"""A ledger from its bytes by whichever decoder can read it, or the word that none can.

One transaction that this build cannot read makes all of its ledger unreadable: in XDR nothing says
where a part ends but the part. Anyone may pay for such a transaction, so it must cost no more than
that ledger, and that one only until a newer build reads it.
"""

from stellar_sdk import xdr

from indexer.decode.ledger_hashes import verify_ledger
from indexer.decode.ledgers import Ledger, block_of_meta, parse_meta, read_ledger
from indexer.decode.transaction_set import check_transaction_set
from indexer.decode.xdr_skip import Malformed
from indexer.decode.xdr_walk import walk_ledger
from indexer.errors import InconsistentAnswer, UndecodableLedger
from indexer.networks import StellarChain
from warehouse_schema.identifiers import ChainId


def decode_meta(raw: bytes, chain: StellarChain) -> tuple[Ledger, str | None]:
    """A proven ledger with the events of the chain's contracts; and why only the SDK could read it.

    Raises `UndecodableLedger`, `InconsistentAnswer` when it is damaged, and `UnsupportedProtocol`.
    """
    contracts = [*chain.event_contracts, *chain.tokens]
    try:
        return walk_ledger(raw, chain.id, chain.passphrase, contracts)[0], None
    except Malformed as error:
        meta = parse_whole(raw, chain.id)
        verify_ledger(meta, chain.passphrase)
        return read_ledger(meta, chain.id), str(error)


def parse_whole(raw: bytes, chain: ChainId) -> xdr.LedgerCloseMeta:
    """A ledger as the SDK reads it, not proven. Raises as `decode_meta`."""
    block = block_of_meta(raw, chain)
    try:
        return parse_meta(raw)
    except InconsistentAnswer as error:
        # Header and transactions may still prove that these are the bytes the chain made; then
        # asking again cannot help.
        check_transaction_set(raw, 0, len(raw), block)
        raise UndecodableLedger(f"ledger {block.height} cannot be decoded: {error}") from error
