"""Stand-in of Circle's attestation service: attestations, fees and reattestation."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from devnet.circle import Attestations, fast_fee, serving
from devnet.evm import DOMAIN, STELLAR_DOMAIN
from devnet.evm_messages import CONFIRMED, FINALIZED, Attesters, BurnMessage
from indexer.chains.services.circle import Iris
from indexer.config.networks import load_network
from warehouse_schema.identifiers import Bytes32, TxHash

AMOUNT = 10_000_000
FEE = 1_300
BURN = BurnMessage(
    source_domain=DOMAIN,
    destination_domain=STELLAR_DOMAIN,
    sender=bytes(32),
    recipient=bytes(32),
    burn_token=bytes(32),
    mint_recipient=bytes(32),
    amount=AMOUNT,
    message_sender=bytes(32),
    max_fee=FEE,
    min_finality=CONFIRMED,
)
TX, AGAIN = TxHash("0x" + "11" * 32), TxHash("0x" + "22" * 32)


@pytest.fixture
def sent() -> dict[str, list[bytes]]:
    """What transactions sent, of both chains."""
    return {}


@pytest.fixture
def iris(sent: dict[str, list[bytes]]) -> Iterator[Iris]:
    attestations = Attestations({DOMAIN: sent.get, STELLAR_DOMAIN: sent.get})
    with serving(0, attestations) as url, closing(Iris(url)) as iris:
        yield iris


def test_fast_burn_with_enough_fee_is_attested_at_once(sent, iris):
    sent[TX] = [BURN.encode()]
    [attested] = iris.messages_of_transaction(DOMAIN, TX).messages
    assert attested.usable
    wanted = Attesters().attest(
        BURN.encode(),
        nonce=bytes.fromhex(attested.event_nonce[2:]),
        finality_executed=CONFIRMED,
        fee_executed=FEE,
    )
    assert (attested.message, attested.attestation) == wanted
    assert load_network("devnet").attesters == Attesters().addresses


@pytest.mark.parametrize(
    ("changed", "reason"),
    [({"min_finality": FINALIZED}, None), ({"max_fee": FEE - 1}, "insufficient_fee")],
)
def test_burn_that_waits_for_finality_is_pending(sent, iris, changed, reason):
    sent[TX] = [replace(BURN, **changed).encode()]
    [attested] = iris.messages_of_transaction(DOMAIN, TX).messages
    assert not attested.usable
    assert (attested.status, attested.delay_reason) == ("pending_confirmations", reason)


def test_stellar_burn_is_final_at_once_without_fee(sent, iris):
    sent[TX] = [replace(BURN, min_finality=FINALIZED, max_fee=0).encode()]
    [attested] = iris.messages_of_transaction(STELLAR_DOMAIN, TX).messages
    assert attested.usable


def test_equal_burns_have_distinct_stable_attestations(sent, iris):
    sent[TX] = [BURN.encode(), BURN.encode()]
    sent[AGAIN] = [BURN.encode()]
    first = iris.messages_of_transaction(DOMAIN, TX)
    nonces = {
        each.event_nonce
        for tx in (TX, AGAIN)
        for each in iris.messages_of_transaction(DOMAIN, tx).messages
    }
    assert len(nonces) == 3
    assert iris.messages_of_transaction(DOMAIN, TX) == first


def test_transaction_in_no_block_is_not_found(iris):
    assert not iris.messages_of_transaction(DOMAIN, TX).seen


@pytest.mark.parametrize(("amount", "fee"), [(0, 0), (1, 1), (100_000, 13), (100_001, 14)])
def test_fast_fee_is_1_3_basis_points_rounded_up(amount, fee):
    assert fast_fee(amount) == fee


def test_reattestation_of_fast_burn_has_no_expiration(sent):
    sent[TX] = [BURN.encode()]
    ends = iter([7, 8])
    attestations = Attestations({DOMAIN: sent.get}, expires=lambda _: next(ends))
    with serving(0, attestations) as url, closing(Iris(url)) as iris:
        [first] = iris.messages_of_transaction(DOMAIN, TX).messages
        [unchanged] = iris.messages_of_transaction(DOMAIN, TX).messages
        taken = iris.reattest(Bytes32(first.event_nonce))
        [anew] = iris.messages_of_transaction(DOMAIN, TX).messages
        unknown = iris.reattest(Bytes32("0x" + "33" * 32))
    assert (taken.accepted, unknown.accepted) == (True, False)
    assert unchanged == first
    assert _executed(first.message) == (CONFIRMED, 7)
    assert _executed(anew.message) == (FINALIZED, 0)
    assert anew.event_nonce == first.event_nonce


def _executed(message: bytes) -> tuple[int, int]:
    """Finality, and the block at which the attestation ends."""
    return int.from_bytes(message[144:148], "big"), int.from_bytes(message[344:376], "big")
