"""Transactions of an account, found by their sequence numbers."""

from contextlib import closing

from stellar_sdk import TransactionBuilder
from stellar_sdk.operation import BumpSequence

from devnet.stellar.accounts import PASSPHRASE
from indexer.chains.stellar.account_state import StellarAccountNodes
from indexer.config.networks import load_network
from tests.devnet.stellar.chain import Chain, serving
from warehouse_schema.identifiers import Height, StellarAddress


def test_transaction_inside_a_strangers_fee_bump_is_found() -> None:
    chain = Chain()
    alice, stranger = chain.open("alice"), chain.open("stranger")
    since = Height(chain.node.latest.sequence)
    plain = chain.run(alice, BumpSequence(0))
    inner = chain.envelope(alice, [BumpSequence(0)])
    bump = TransactionBuilder.build_fee_bump_transaction(stranger, 200, inner, PASSPHRASE)
    bump.sign(stranger)
    assert chain.node.submit(bump.to_xdr_object()).status == "PENDING"
    chain.node.close_ledger()
    number = inner.transaction.sequence
    account = StellarAddress(alice.public_key)
    with (
        serving(chain) as url,
        closing(StellarAccountNodes(load_network("devnet").stellar, [url], timeout=30.0)) as nodes,
    ):
        found = nodes.find_by_sequence(account, [number - 1, number], since)
    assert found == {
        number - 1: plain.envelope,
        number: inner.to_xdr_object().to_xdr_bytes(),
    }
