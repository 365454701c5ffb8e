"""CCTP on the Stellar stand-in: burns, received messages and mints."""

import pytest
from stellar_sdk import MuxedAccount, StrKey, scval
from stellar_sdk.operation import ChangeTrust

from devnet.evm_messages import CONFIRMED, FINALIZED, SOURCE_BLANKS, BurnMessage
from devnet.stellar.accounts import CCTP_FEES, RELAYER, USDC, keypair
from devnet.stellar.accounts import address as resident
from devnet.stellar.contracts.cctp_forwarder import (
    BAD_FORWARD_RECIPIENT,
    HOOK_TOO_SHORT,
    TOKEN_UNRESOLVED,
    WRONG_HOOK_VERSION,
    WRONG_MINT_RECIPIENT,
    WRONG_RECIPIENT,
)
from devnet.stellar.contracts.cctp_messages import Body, Message, forwarding_hook
from devnet.stellar.contracts.cctp_messenger import (
    BELOW_ONE_UNIT,
    BURN_TOKEN_UNSUPPORTED,
    EMPTY_HOOK,
    FEE_ABOVE_MAX,
    FEE_TOO_HIGH,
    FINALITY_TOO_LOW,
    MAX_FEE_TOO_HIGH,
    MESSAGE_EXPIRED,
    UNKNOWN_DOMAIN,
    WRONG_REMOTE,
    ZERO_AMOUNT,
    ZERO_RECIPIENT,
)
from devnet.stellar.contracts.cctp_transmitter import (
    ATTESTATION_LENGTH,
    ATTESTATION_ORDER,
    NONCE_USED,
    NOT_AN_ATTESTER,
    RECOVERY_FAILED,
    RECOVERY_ID,
    WRONG_CALLER,
    WRONG_DESTINATION,
)
from devnet.stellar.registry import padded
from tests.devnet.stellar.cctp import (
    AT,
    ATTESTERS,
    NONCE,
    RECIPIENT,
    REMOTES,
    TRANSFER_ID,
    code,
    forward,
    inbound,
)
from tests.devnet.stellar.chain import Chain, events


@pytest.fixture
def chain():
    return Chain(REMOTES)


@pytest.fixture
def alice(chain):
    return chain.open("alice", usdc=1_000_0000000)


@pytest.fixture
def relayer():
    return keypair(RELAYER)


# Out of Stellar


def approve(chain, source, amount, until=1_000):
    return chain.invoke(
        source,
        AT.usdc_sac,
        "approve",
        scval.to_address(source.public_key),
        scval.to_address(AT.token_messenger_minter),
        scval.to_int128(amount),
        scval.to_uint32(until),
    )


def burn(chain, source, amount, run="call", hook=None, **fields):
    values = {
        "domain": 0,
        "recipient": RECIPIENT,
        "token": AT.usdc_sac,
        "caller": bytes(32),
        "max_fee": 0,
        "finality": FINALIZED,
    } | fields
    args = [
        scval.to_address(source.public_key),
        scval.to_int128(amount),
        scval.to_uint32(values["domain"]),
        scval.to_bytes(values["recipient"]),
        scval.to_address(values["token"]),
        scval.to_bytes(values["caller"]),
        scval.to_int128(values["max_fee"]),
        scval.to_uint32(values["finality"]),
    ]
    name = "deposit_for_burn"
    if hook is not None:
        name, args = "deposit_for_burn_with_hook", [*args, scval.to_bytes(hook)]
    return getattr(chain, run)(source, AT.token_messenger_minter, name, *args)


def test_burn_keeps_seventh_decimal_and_emits_six(chain, alice):
    approve(chain, alice, 1_234_567)
    row = burn(chain, alice, 1_234_567, max_fee=19, hook=TRANSFER_ID)
    assert row.succeeded
    transfer, burned, sent, deposited = events(row)
    assert transfer[1][:3] == ["transfer", alice.public_key, AT.token_messenger_minter]
    assert (burned[1][0], burned[2]) == ("burn", 1_234_560)
    assert (sent[0], sent[1]) == (AT.message_transmitter, ["message_sent"])
    assert deposited == (
        AT.token_messenger_minter,
        ["deposit_for_burn", AT.usdc_sac, alice.public_key, FINALIZED],
        {
            "amount": 123_456,
            "destination_caller": bytes(32),
            "destination_domain": 0,
            "destination_token_messenger": padded(REMOTES.token_messenger),
            "hook_data": TRANSFER_ID,
            "max_fee": 1,
            "mint_recipient": RECIPIENT,
        },
    )
    assert chain.balance(alice.public_key) == 10_000_000_000 - 1_234_560


def test_burn_message_has_circles_layout(chain, alice):
    approve(chain, alice, 50_000_000)
    row = burn(chain, alice, 50_000_000, max_fee=130, hook=b"hook")
    raw = events(row)[2][2]["message"]
    expected = BurnMessage(
        source_domain=27,
        destination_domain=0,
        sender=AT.raw("token_messenger_minter"),
        recipient=padded(REMOTES.token_messenger),
        burn_token=AT.raw("usdc_sac"),
        mint_recipient=RECIPIENT,
        amount=5_000_000,
        message_sender=alice.raw_public_key(),
        max_fee=13,
        hook_data=b"hook",
    )
    assert raw == expected.encode()
    assert not any(any(raw[blank]) for blank in SOURCE_BLANKS)


def test_unburned_allowance_remains(chain, alice):
    approve(chain, alice, 1_234_567)
    burn(chain, alice, 1_234_567)
    left = chain.invoke(
        alice,
        AT.usdc_sac,
        "allowance",
        scval.to_address(alice.public_key),
        scval.to_address(AT.token_messenger_minter),
    )
    assert left == 7


@pytest.mark.parametrize(
    ("amount", "fields", "expected"),
    [
        (0, {}, ZERO_AMOUNT),
        (9, {}, BELOW_ONE_UNIT),
        (100, {"recipient": bytes(32)}, ZERO_RECIPIENT),
        (100, {"max_fee": 100}, MAX_FEE_TOO_HIGH),
        (100, {"domain": 6}, UNKNOWN_DOMAIN),
        (100, {"token": AT.usdt0_sac}, BURN_TOKEN_UNSUPPORTED),
        (100, {"hook": b""}, EMPTY_HOOK),
        (1_000_000_000, {}, 9),
    ],
)
def test_invalid_burn_fails_with_circles_code(chain, alice, amount, fields, expected):
    approve(chain, alice, 1_000)
    assert code(expected) in burn(chain, alice, amount, run="refused", **fields)
    assert chain.balance(alice.public_key) == 10_000_000_000


def test_allowance_expires_after_its_ledger(chain, alice):
    approve(chain, alice, 1_000, until=chain.node.latest.sequence + 1)
    assert code(9) in burn(chain, alice, 1_000, run="refused")


# Into Stellar


def nonce_used(chain, nonce=NONCE):
    admin = keypair(RELAYER)
    name = "is_nonce_used"
    return chain.invoke(admin, AT.message_transmitter, name, scval.to_bytes(nonce))


def test_attested_burn_is_minted_and_forwarded(chain, relayer):
    bob = chain.open("bob", usdc=0)
    message, attestation = inbound(bob.public_key)
    row = forward(chain, relayer, message, attestation)
    assert row.succeeded
    minted, withdrawn, received, transfer, forwarded = events(row)
    assert (minted[0], minted[1][:2], minted[2]) == (
        AT.usdc_sac,
        ["mint", AT.cctp_forwarder],
        50_000_000,
    )
    assert withdrawn == (
        AT.token_messenger_minter,
        ["mint_and_withdraw", AT.cctp_forwarder, AT.usdc_sac],
        {"amount": 5_000_000, "fee_collected": 0},
    )
    assert received == (
        AT.message_transmitter,
        ["message_received", AT.cctp_forwarder, NONCE, FINALIZED],
        {
            "message_body": message[148:],
            "sender": padded(REMOTES.token_messenger),
            "source_domain": 0,
        },
    )
    assert transfer[1][:3] == ["transfer", AT.cctp_forwarder, bob.public_key]
    assert forwarded == (
        AT.cctp_forwarder,
        ["mint_and_forward"],
        {"amount": 50_000_000, "forward_recipient": bob.public_key, "token": AT.usdc_sac},
    )
    assert chain.balance(bob.public_key) == 50_000_000
    assert nonce_used(chain)


def test_fast_burn_pays_its_fee_to_the_fee_recipient(chain, relayer):
    bob = chain.open("bob", usdc=0)
    message, attestation = inbound(
        bob.public_key,
        amount=27_960_598,
        fee=3_634,
        max_fee=4_360,
        finality=CONFIRMED,
        expiration=10_000,
    )
    row = forward(chain, relayer, message, attestation)
    names = [topics[0] for _, topics, _ in events(row)]
    assert names[:3] == ["mint", "mint", "mint_and_withdraw"]
    assert chain.balance(bob.public_key) == 279_569_640
    assert chain.balance(resident(CCTP_FEES)) == 36_340
    assert Message.parse(message).finality_executed == CONFIRMED
    assert Body.parse(message[148:]).fee_executed == 3_634


def test_message_is_received_once(chain, relayer):
    bob = chain.open("bob", usdc=0)
    message = inbound(bob.public_key)
    forward(chain, relayer, *message, run="invoke")
    assert code(NONCE_USED) in forward(chain, relayer, *message, run="refused")
    assert chain.balance(bob.public_key) == 50_000_000


def test_missing_trustline_reverts_and_retry_works(chain, relayer):
    bob = chain.open("bob")
    message = inbound(bob.public_key)
    assert code(13) in forward(chain, relayer, *message, run="refused")
    assert not nonce_used(chain)
    chain.run(bob, ChangeTrust(USDC))
    forward(chain, relayer, *message, run="invoke")
    assert chain.balance(bob.public_key) == 50_000_000


def test_mint_to_missing_account_fails(chain, relayer):
    message = inbound(keypair("nobody").public_key)
    assert code(13) in forward(chain, relayer, *message, run="refused")


def test_muxed_recipient_is_paid_and_named(chain, relayer):
    bob = chain.open("bob", usdc=0)
    muxed = MuxedAccount(bob.public_key, 77).account_muxed
    row = forward(chain, relayer, *inbound(muxed))
    transfer, forwarded = events(row)[-2:]
    assert transfer[1][2] == bob.public_key
    assert transfer[2] == {"amount": 50_000_000, "to_muxed_id": 77}
    assert forwarded[2]["forward_recipient"] == muxed


def test_contract_recipient_needs_no_trustline(chain, relayer):
    forward(chain, relayer, *inbound(AT.escrow), run="invoke")
    held = chain.invoke(relayer, AT.usdc_sac, "balance", scval.to_address(AT.escrow))
    assert held == 50_000_000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"recipient": b"\1" * 32}, WRONG_RECIPIENT),
        ({"mint_recipient": b"\1" * 32}, WRONG_MINT_RECIPIENT),
        ({"destination_caller": b"\1" * 32}, WRONG_CALLER),
        ({"destination_domain": 5}, WRONG_DESTINATION),
        ({"sender": b"\1" * 32}, WRONG_REMOTE),
        ({"burn_token": b"\1" * 32}, TOKEN_UNRESOLVED),
        ({"source_domain": 9}, TOKEN_UNRESOLVED),
        ({"finality": 499}, FINALITY_TOO_LOW),
        ({"finality": CONFIRMED, "expiration": 5}, MESSAGE_EXPIRED),
        ({"fee": 2, "max_fee": 1}, FEE_ABOVE_MAX),
        ({"fee": 5_000_000}, FEE_TOO_HIGH),
        ({"hook": b"\0" * 31}, HOOK_TOO_SHORT),
        ({"hook": bytes(27) + b"\1" + bytes(4)}, WRONG_HOOK_VERSION),
        ({"hook": bytes(28) + b"\0\0\0\x38" + b"G" * 55}, HOOK_TOO_SHORT),
        ({"hook": forwarding_hook(AT.usdc_sac)}, BAD_FORWARD_RECIPIENT),
        ({"hook": forwarding_hook(AT.cctp_forwarder)}, BAD_FORWARD_RECIPIENT),
    ],
)
def test_mismatching_message_is_refused(chain, relayer, options, expected):
    bob = chain.open("bob", usdc=0)
    keywords = dict(options)
    fee = keywords.pop("fee", 0)
    message = inbound_with(bob.public_key, fee=fee, **keywords)
    assert code(expected) in forward(chain, relayer, *message, run="refused")
    assert chain.balance(bob.public_key) == 0
    assert not nonce_used(chain)


def inbound_with(to, recipient=None, **options):
    """`inbound`, with the header's `recipient` apart from the forwarded one."""
    if recipient is None:
        return inbound(to, **options)
    message, _ = inbound(to, **options)
    changed = message[:76] + recipient + message[108:]
    return changed, ATTESTERS.sign(changed)


def test_hook_without_strkey_is_refused(chain, relayer):
    hook = bytes(31) + b"\x38" + b"G" * 56
    assert "not a strkey" in forward(chain, relayer, *inbound("", hook=hook), run="refused")


def test_each_signature_is_checked(chain, relayer):
    bob = chain.open("bob", usdc=0)
    message, attestation = inbound(bob.public_key)
    first, second = attestation[:65], attestation[65:]
    cases = {
        ATTESTATION_LENGTH: first,
        ATTESTATION_ORDER: first + first,
        RECOVERY_ID: first + second[:64] + b"\x02",
        NOT_AN_ATTESTER: ATTESTERS.sign(message + b"x"),
        RECOVERY_FAILED: bytes(64) + b"\x1b" + second,
    }
    for expected, forged in cases.items():
        assert code(expected) in forward(chain, relayer, message, forged, run="refused")
    swapped = forward(chain, relayer, message, second + first, run="refused")
    assert code(ATTESTATION_ORDER) in swapped
    assert forward(chain, relayer, message, attestation).succeeded


def test_message_without_caller_can_be_received_by_any_account(chain, relayer):
    message, attestation = inbound(AT.escrow, destination_caller=bytes(32))
    row = chain.call(
        relayer,
        AT.message_transmitter,
        "receive_message",
        scval.to_address(relayer.public_key),
        scval.to_bytes(message),
        scval.to_bytes(attestation),
    )
    assert row.succeeded
    assert [topics[0] for _, topics, _ in events(row)][-1] == "message_received"
    stranded = chain.invoke(relayer, AT.usdc_sac, "balance", scval.to_address(AT.cctp_forwarder))
    assert stranded == 50_000_000


def test_only_the_transmitter_can_request_a_mint(chain, relayer):
    message, _ = inbound(AT.escrow)
    error = chain.refused(
        relayer,
        AT.token_messenger_minter,
        "handle_recv_finalized_message",
        scval.to_uint32(0),
        scval.to_bytes(padded(REMOTES.token_messenger)),
        scval.to_uint32(FINALIZED),
        scval.to_bytes(message[148:]),
    )
    assert "has not authorised" in error


def test_forwarding_hook_equals_circles_example():
    """The bytes of a burn toward Stellar that Circle's own documents show."""
    strkey = "GAMNA2Q6NTZSUBLMEXLTIXYORE7OXJJBMEGIX7T2OXDAKIA7CCKN4RJV"
    hook = forwarding_hook(strkey)
    assert len(hook) == 88
    assert hook.hex() == "00" * 24 + "00000000" + "00000038" + strkey.encode().hex()
    assert StrKey.is_valid_ed25519_public_key(hook[32:].decode())
