"""Facts of deposits, ingested from a real local chain."""

from contextlib import closing

from sqlalchemy import Engine, func, select

from devnet.evm_messages import FINALIZED
from devnet.evm_node import encode_call
from indexer.bridges.deposit_address.factory import burn_call, refund_call
from indexer.chains.evm.reader import EvmReader
from indexer.decode.evm import event_topics
from tests.factories.ingesting import ingest_once
from tests.indexer.bridges.deposit_address.conftest import MALLORY, OPERATOR, PAYER, Stand
from warehouse_schema.events import cctp_burns, deposit_refunds
from warehouse_schema.facts import evm_logs
from warehouse_schema.identifiers import BaseUnits


def ingest(engine: Engine, stand: Stand) -> None:
    """All of the chain, with the bridges deployed."""
    with closing(
        EvmReader(stand.network.evm[0], [stand.devnet.rpc.url], event_topics, timeout=30.0)
    ) as reader:
        while ingest_once(engine, reader, stand.network) is not None:
            pass


def test_burn_and_refund_facts_name_the_deposit_address(
    stand: Stand, indexer_engine: Engine
) -> None:
    deposit = stand.deposit(refund_to=PAYER.address.lower())
    at = stand.pay(deposit, deposit.amount + 7)
    burn = burn_call(stand.network, deposit, max_fee=BaseUnits(0), min_finality=FINALIZED)
    refund = refund_call(stand.network, deposit, stand.usdc)
    stand.send(OPERATOR, burn)
    receipt = stand.send(OPERATOR, refund)
    ingest(indexer_engine, stand)
    burns = select(cctp_burns.c.depositor, cctp_burns.c.amount)
    with indexer_engine.connect() as conn:
        assert conn.execute(burns).all() == [(at, deposit.amount)]
        [row] = conn.execute(select(deposit_refunds)).all()
    assert (row.deposit, row.token, row.refund_to, row.amount) == (
        *(at, stand.usdc, deposit.refund_to),
        7,
    )
    assert row.tx_hash == receipt.transaction_hash


def test_unknown_token_writes_no_row(stand: Stand, indexer_engine: Engine) -> None:
    """Any account can make the factory emit a refund of its own token."""
    deposit = stand.released(operator=MALLORY.address.lower())
    token = stand.make("SilentCoin")
    mint = encode_call("mint(address,uint256)", stand.address(deposit), 2**255)
    stand.devnet.send(MALLORY, token, mint)
    receipt = stand.send(MALLORY, refund_call(stand.network, deposit, token))
    assert len(receipt.logs) == 1
    ingest(indexer_engine, stand)
    factory = stand.network.evm[0].deposit_factory
    kept = select(func.count()).select_from(evm_logs).where(evm_logs.c.address == factory)
    with indexer_engine.connect() as conn:
        assert conn.scalar(kept) == 0
        assert conn.scalar(select(func.count()).select_from(deposit_refunds)) == 0
