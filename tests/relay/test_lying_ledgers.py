"""A Stellar node that lies about an account blocks no job for ever and repeats none."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from stellar_sdk import xdr
from stellar_sdk.operation import BumpSequence

from devnet.stellar.accounts import RELAYER, keypair
from indexer.chains.http.operators import SourcesDisagree
from indexer.chains.stellar.account_state import StellarAccountNodes
from indexer.errors import InconsistentAnswer
from relay.account import AccountRelay, TurnReport
from relay.senders.stellar import VALID_SECONDS
from tests.relay.ledger import AMOUNT
from tests.relay.ledger import LedgerStand as Stand
from tests.relay.test_stellar import Lost
from tests.system.faults.fault import Call, Exchange, Reply, ReplyFault, instead
from tests.system.faults.proxy import FaultyHttp


class FarAhead(ReplyFault):
    """Reports a sequence number that is far too high."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "getLedgerEntries" or not reply["result"]["entries"]:
            return reply
        [entry] = reply["result"]["entries"]
        data = xdr.LedgerEntryData.from_xdr_bytes(base64.b64decode(entry["xdr"]))
        if data.account is None:
            return reply
        data.account.seq_num.sequence_number.int64 += 1000
        forged = {**entry, "xdr": data.to_xdr()}
        return instead(reply, {**reply["result"], "entries": [forged]})


class TakenElsewhere(ReplyFault):
    """Reports every transaction as successful, in the first ledger."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "getTransaction" or set(call["params"]["hash"]) == {"0"}:
            return reply
        result = xdr.TransactionResult(
            fee_charged=xdr.Int64(100),
            result=xdr.TransactionResultResult(xdr.TransactionResultCode.txSUCCESS, results=[]),
            ext=xdr.TransactionResultExt(0),
        )
        ledger = reply["result"]["oldestLedger"]
        forged = {"status": "SUCCESS", "ledger": ledger, "resultXdr": result.to_xdr()}
        return instead(reply, {**reply["result"], **forged})


class OtherFee(ReplyFault):
    """Reports transactions with another fee than the one that was signed."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "getTransactions":
            return reply
        forged = []
        for each in reply["result"]["transactions"]:
            envelope = xdr.TransactionEnvelope.from_xdr(each["envelopeXdr"])
            if envelope.v1 is not None:
                envelope.v1.tx.fee.uint32 += 1
            forged.append({**each, "envelopeXdr": envelope.to_xdr()})
        return instead(reply, {**reply["result"], "transactions": forged})


class Tomorrow(ReplyFault):
    """Reports a close time that is a day too late."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "getTransaction":
            return reply
        latest = int(reply["result"]["latestLedgerCloseTime"]) + 86_400
        return instead(reply, {**reply["result"], "latestLedgerCloseTime": str(latest)})


@pytest.fixture
def stand(ledger_stand: Stand) -> Stand:
    return ledger_stand


@pytest.fixture
def nodes(stand: Stand) -> Iterator[tuple[FaultyHttp, FaultyHttp]]:
    """Nodes of two operators."""
    first, second = (FaultyHttp(stand.url, host=f"127.0.0.{n}") for n in (2, 3))
    yield first, second
    for each in (first, second):
        each.close()


def relay_of(stand: Stand, *nodes: FaultyHttp, loses: bool = False) -> AccountRelay[Any]:
    kind = Lost if loses else StellarAccountNodes
    return stand.relay(urls=[each.url for each in nodes], nodes=kind)


def test_first_number_needs_two_operators(stand: Stand, nodes):
    message, before = stand.add_message(), stand.sequence()
    with nodes[0].faulty(FarAhead()), pytest.raises(SourcesDisagree, match="the next number"):
        stand.turns(relay_of(stand, *nodes))
    assert stand.slots_of(message) == []
    relay = relay_of(stand, *nodes)
    assert stand.turns(relay).opened == 1
    stand.close()
    assert (stand.received(message), stand.sequence() - before) == (AMOUNT * 10, 1)


def test_one_operator_cannot_move_the_next_number(stand: Stand, nodes):
    stand.add_message()
    relay = relay_of(stand, *nodes)
    stand.turns(relay)
    stand.close()
    assert stand.turns(relay).confirmed == 1
    message = stand.add_message()
    with nodes[0].faulty(FarAhead()):
        assert stand.turns(relay_of(stand, *nodes)).opened == 1
    stand.turns(relay)
    stand.close()
    assert stand.received(message) == AMOUNT * 10


def test_transaction_that_the_account_did_not_sign_is_not_recorded(stand: Stand, nodes):
    relay = relay_of(stand, *nodes)
    stand.close()
    stand.add_message()
    stand.turns(relay)
    stand.close()
    stand.turns(relay)
    stand.chain.run(keypair(RELAYER), BumpSequence(0))
    stand.ingest_all()
    with stand.relay_engine.connect() as conn:
        with nodes[0].faulty(OtherFee()), pytest.raises(InconsistentAnswer, match="did not sign"):
            relay.reconcile(conn)
        [recorded] = relay.reconcile(conn)
    assert recorded.job is None


@pytest.mark.parametrize("lie", [FarAhead(), Tomorrow()])
def test_one_lying_node_cannot_mark_number_as_taken(stand: Stand, nodes, lie):
    message = stand.add_message()
    stand.turns(relay_of(stand, *nodes, loses=True))
    relay = relay_of(stand, *nodes)
    stand.age_attempts(25)
    with nodes[1].faulty(lie):
        assert stand.turns(relay) == TurnReport(sent=1)
    stand.close(VALID_SECONDS // 2)
    assert stand.received(message) == AMOUNT * 10
    assert stand.turns(relay).confirmed == 1


def test_contradicting_ledgers_are_reported_to_operator(stand: Stand, nodes):
    message = stand.add_message()
    relay = relay_of(stand, *nodes)
    stand.turns(relay_of(stand, *nodes, loses=True))
    with nodes[0].faulty(TakenElsewhere()), pytest.raises(SourcesDisagree, match="has not in"):
        stand.turns(relay)
    assert stand.slots_of(message) == [None]
    stand.age_attempts(25)
    stand.turns(relay)
    stand.close()
    assert stand.turns(relay).confirmed == 1
    assert stand.received(message) == AMOUNT * 10
