"""CCTP on the local EVM chain: burns, attestations and mints."""

import pytest
from eth_abi.abi import decode

from devnet.evm import EvmDevnet, deployer, expected_addresses, fee_recipient
from devnet.evm_messages import (
    CONFIRMED,
    FINALIZED,
    SOURCE_BLANKS,
    ZERO_WORD,
    Attesters,
    BurnMessage,
    address_word,
    message_nonce,
)
from devnet.evm_node import Reverted, encode_call
from tests.devnet.evm.stand import (
    ALICE,
    BOB,
    GENUINE,
    ONE,
    RECIPIENT,
    RELAYER,
    REMOTES,
    address_of,
    attested,
    inbound_burn,
    names,
    signers,
    the_log,
)

# CCTP, outbound


def test_burn_logs_match_order_of_real_contracts(devnet: EvmDevnet):
    at = devnet.addresses
    receipt = devnet.deposit_for_burn(ALICE, amount=3 * ONE, mint_recipient=RECIPIENT, max_fee=7)
    assert names(receipt) == ["Transfer", "Burn", "Transfer", "MessageSent", "DepositForBurn"]
    pulled, burn, destroyed, sent, deposit = receipt.logs
    assert [log.address for log in receipt.logs] == [
        at.usdc,
        at.usdc,
        at.usdc,
        at.message_transmitter,
        at.token_messenger,
    ]
    assert [address_of(topic) for topic in pulled.topics[1:]] == [
        ALICE.address.lower(),
        at.token_minter,
    ]
    assert address_of(burn.topics[1]) == at.token_minter
    assert destroyed.topics[1:] == (address_word(at.token_minter), ZERO_WORD)
    assert decode(["bytes"], sent.data) == devnet.sent_messages(receipt)
    assert deposit.topics[1:] == (
        address_word(at.usdc),
        address_word(ALICE.address),
        FINALIZED.to_bytes(32, "big"),
    )
    assert len(deposit.data) == 256


def test_burn_sends_burn_message_bytes(devnet: EvmDevnet):
    at = devnet.addresses
    receipt = devnet.deposit_for_burn_with_hook(
        ALICE,
        amount=3 * ONE,
        mint_recipient=RECIPIENT,
        hook_data=b"hook",
        destination_caller=RECIPIENT,
        max_fee=7,
        min_finality=CONFIRMED,
    )
    expected = BurnMessage(
        source_domain=0,
        destination_domain=27,
        sender=address_word(at.token_messenger),
        recipient=REMOTES.token_messenger_minter,
        burn_token=address_word(at.usdc),
        mint_recipient=RECIPIENT,
        amount=3 * ONE,
        message_sender=address_word(ALICE.address),
        destination_caller=RECIPIENT,
        max_fee=7,
        min_finality=CONFIRMED,
        hook_data=b"hook",
    )
    assert devnet.sent_messages(receipt) == (expected.encode(),)


def test_burn_repeats_recorded_sepolia_log(devnet: EvmDevnet):
    genuine = GENUINE["deposit_for_burn"]
    data = bytes.fromhex(genuine["data"][2:])
    amount, recipient, _, _, caller, max_fee, hook = decode(
        ["uint256", "bytes32", "uint32", "bytes32", "bytes32", "uint256", "bytes"], data
    )
    receipt = devnet.deposit_for_burn_with_hook(
        ALICE,
        amount=amount,
        mint_recipient=recipient,
        hook_data=hook,
        destination_caller=caller,
        max_fee=max_fee,
        min_finality=int(genuine["topics"][3], 16),
    )
    log = the_log(receipt, "DepositForBurn")
    assert log.data == data
    assert [log.topics[0].hex(), log.topics[3].hex()] == [
        genuine["topics"][0][2:],
        genuine["topics"][3][2:],
    ]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"amount": 0}, "Amount must be nonzero"),
        ({"mint_recipient": ZERO_WORD}, "Mint recipient must be nonzero"),
        ({"max_fee": ONE}, "Max fee must be less than amount"),
        ({"destination_domain": 6}, "No TokenMessenger for domain"),
        ({"amount": 1001 * ONE}, "ERC20: transfer amount exceeds allowance"),
    ],
)
def test_invalid_burn_reverts_with_real_text(devnet: EvmDevnet, change, text):
    burn = {"amount": ONE, "mint_recipient": RECIPIENT} | change
    with pytest.raises(Reverted) as refused:
        devnet.deposit_for_burn(ALICE, **burn)
    assert refused.value.name == text


def test_burn_with_empty_hook_is_refused(devnet: EvmDevnet):
    with pytest.raises(Reverted, match="Hook data is empty"):
        devnet.deposit_for_burn_with_hook(ALICE, amount=1, mint_recipient=RECIPIENT, hook_data=b"")


@pytest.mark.parametrize(
    ("contract", "call", "text"),
    [
        (
            "token_messenger",
            encode_call("denylist(address)", ALICE.address),
            "Denylistable: account is on denylist",
        ),
        ("token_minter", encode_call("pause()"), "Pausable: paused"),
        ("message_transmitter", encode_call("pause()"), "Pausable: paused"),
        ("token_messenger", encode_call("setMinFee(uint256)", 10), "Insufficient max fee"),
        (
            "token_minter",
            encode_call(
                "setMaxBurnAmountPerMessage(address,uint256)", expected_addresses().usdc, 9
            ),
            "Burn amount exceeds per tx limit",
        ),
        (
            "usdc",
            encode_call("blacklist(address)", ALICE.address),
            "Blacklistable: account is blacklisted",
        ),
    ],
)
def test_owner_measure_stops_burns(devnet: EvmDevnet, contract, call, text):
    devnet.send(deployer(), getattr(devnet.addresses, contract), call)
    with pytest.raises(Reverted) as refused:
        devnet.deposit_for_burn(ALICE, amount=ONE, mint_recipient=RECIPIENT)
    assert refused.value.name == text


def test_owner_measure_by_other_account_reverts(devnet: EvmDevnet):
    with pytest.raises(Reverted, match="caller is not the owner"):
        devnet.send(ALICE, devnet.addresses.token_minter, encode_call("pause()"))


# CCTP, attestation and inbound


def test_attestation_fills_only_the_four_zeroed_ranges():
    for genuine in GENUINE["attested_messages"]:
        final = bytes.fromhex(genuine["message"][2:])
        source = bytearray(final)
        for blank in SOURCE_BLANKS:
            source[blank] = bytes(blank.stop - blank.start)
        message, _ = Attesters().attest(
            bytes(source),
            nonce=final[12:44],
            finality_executed=int.from_bytes(final[144:148], "big"),
            fee_executed=int.from_bytes(final[312:344], "big"),
            expiration=int.from_bytes(final[344:376], "big"),
        )
        assert message == final, genuine["id"]


def test_recorded_message_equals_encoding_of_its_fields():
    [genuine] = [each for each in GENUINE["attested_messages"] if "attestation" in each]
    final = bytes.fromhex(genuine["message"][2:])
    message = BurnMessage(
        source_domain=6,
        destination_domain=27,
        sender=final[44:76],
        recipient=REMOTES.token_messenger_minter,
        burn_token=final[152:184],
        mint_recipient=final[184:216],
        amount=2 * ONE,
        message_sender=final[248:280],
        destination_caller=final[108:140],
        max_fee=261,
        min_finality=CONFIRMED,
        hook_data=final[376:],
    )
    nonce = final[12:44]
    attested_bytes, _ = Attesters().attest(
        message.encode(),
        nonce=nonce,
        finality_executed=CONFIRMED,
        fee_executed=260,
        expiration=int.from_bytes(final[344:376], "big"),
    )
    assert attested_bytes == final


def test_attestations_have_the_shape_of_a_recorded_one():
    [genuine] = [each for each in GENUINE["attested_messages"] if "attestation" in each]
    real = bytes.fromhex(genuine["attestation"][2:])
    real_signers = signers(bytes.fromhex(genuine["message"][2:]), real)
    assert real_signers == [
        "0x49fd63506e0d88e07511ad95bae7b2a31af98b28",
        "0x8867a67cda4bc788c6e819baeaec60b867865287",
    ]
    message, ours = attested(inbound_burn())
    assert len(ours) == len(real) == 130
    assert {ours[64], ours[129], real[64], real[129]} <= {27, 28}
    assert tuple(signers(message, ours)) == Attesters().addresses
    assert list(Attesters().addresses) == sorted(Attesters().addresses)


def test_nonce_depends_on_message_and_counter():
    source = inbound_burn()
    assert message_nonce(source, 0) == message_nonce(source, 0)
    assert message_nonce(source, 0) != message_nonce(source, 1)
    assert message_nonce(source, 0) != message_nonce(inbound_burn(amount=1), 0)


@pytest.mark.parametrize(
    ("source", "nonce", "text"),
    [
        (inbound_burn()[:375], bytes(32), "376 bytes"),
        (attested(inbound_burn())[0], bytes(32), "attested already"),
        (inbound_burn(), bytes(31), "32 bytes"),
    ],
    ids=["too short", "attested already", "short nonce"],
)
def test_only_whole_unattested_burns_are_attested(source, nonce, text):
    with pytest.raises(ValueError, match=text):
        Attesters().attest(source, nonce=nonce, finality_executed=FINALIZED)


def test_burn_of_this_chain_can_be_attested(devnet: EvmDevnet):
    receipt = devnet.deposit_for_burn(ALICE, amount=3 * ONE, mint_recipient=RECIPIENT, max_fee=9)
    [source] = devnet.sent_messages(receipt)
    message, attestation = attested(source, CONFIRMED, fee_executed=8, expiration=1234)
    assert tuple(signers(message, attestation)) == Attesters().addresses
    assert message[312:376] == (8).to_bytes(32, "big") + (1234).to_bytes(32, "big")


def test_standard_mint_logs_match_order_of_real_contracts(devnet: EvmDevnet):
    at = devnet.addresses
    message, attestation = attested(inbound_burn())
    receipt = devnet.receive_message(RELAYER, message, attestation)
    genuine = [log["topics"][0][2:] for log in GENUINE["mint_logs"]]
    assert [log.topics[0].hex() for log in receipt.logs] == genuine
    mint, transfer, withdraw, received = receipt.logs
    assert mint.topics[1:] == (address_word(at.token_minter), address_word(BOB.address))
    assert transfer.topics[1:] == (ZERO_WORD, address_word(BOB.address))
    assert withdraw.topics[1:] == (address_word(BOB.address), address_word(at.usdc))
    assert decode(["uint256", "uint256"], withdraw.data) == (5 * ONE, 0)
    assert received.topics[1:] == (
        address_word(RELAYER.address),
        message[12:44],
        FINALIZED.to_bytes(32, "big"),
    )
    assert decode(["uint32", "bytes32", "bytes"], received.data) == (
        27,
        REMOTES.token_messenger_minter,
        message[148:],
    )
    assert [len(log.data) for log in receipt.logs] == [
        # The genuine body has a hook of 96 bytes, this one none.
        len(bytes.fromhex(log["data"][2:])) - (96 if log is GENUINE["mint_logs"][3] else 0)
        for log in GENUINE["mint_logs"]
    ]
    assert devnet.balance_of(at.usdc, BOB.address) == 5 * ONE
    used = devnet.call(
        at.message_transmitter, "usedNonces(bytes32)", message[12:44], returns="(uint256)"
    )
    assert used == (1,)


def test_fast_mint_withholds_its_fee(devnet: EvmDevnet):
    at = devnet.addresses
    source = inbound_burn(max_fee=700, min_finality=CONFIRMED)
    message, attestation = attested(
        source, CONFIRMED, fee_executed=650, expiration=devnet.block_number() + 100
    )
    receipt = devnet.receive_message(RELAYER, message, attestation)
    assert names(receipt) == [
        "Mint",
        "Transfer",
        "Mint",
        "Transfer",
        "MintAndWithdraw",
        "MessageReceived",
    ]
    withdraw = the_log(receipt, "MintAndWithdraw")
    assert decode(["uint256", "uint256"], withdraw.data) == (5 * ONE - 650, 650)
    assert devnet.balance_of(at.usdc, BOB.address) == 5 * ONE - 650
    assert devnet.balance_of(at.usdc, fee_recipient().address) == 650


def test_used_nonce_is_refused(devnet: EvmDevnet):
    message, attestation = attested(inbound_burn())
    devnet.receive_message(RELAYER, message, attestation)
    with pytest.raises(Reverted, match="Nonce already used"):
        devnet.receive_message(RELAYER, message, attestation)


def test_only_destination_caller_can_deliver(devnet: EvmDevnet):
    message, attestation = attested(inbound_burn(destination_caller=address_word(RELAYER.address)))
    with pytest.raises(Reverted, match="Invalid caller for message"):
        devnet.receive_message(ALICE, message, attestation)
    assert devnet.receive_message(RELAYER, message, attestation).succeeded


def test_expired_message_needs_a_new_attestation(devnet: EvmDevnet):
    source = inbound_burn(max_fee=10, min_finality=CONFIRMED)
    now = devnet.block_number()
    message, attestation = attested(source, CONFIRMED, fee_executed=1, expiration=now + 2)
    devnet.mine(3)
    with pytest.raises(Reverted, match="Message expired and must be re-signed"):
        devnet.receive_message(RELAYER, message, attestation)
    message, attestation = attested(source, FINALIZED, fee_executed=1)
    assert devnet.receive_message(RELAYER, message, attestation).succeeded


def swapped(attestation: bytes) -> bytes:
    return attestation[65:] + attestation[:65]


def doubled(attestation: bytes) -> bytes:
    return attestation[:65] * 2


def shortened(attestation: bytes) -> bytes:
    return attestation[:-1]


def high_s(attestation: bytes) -> bytes:
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    s = order - int.from_bytes(attestation[32:64], "big")
    v = 55 - attestation[64]
    return attestation[:32] + s.to_bytes(32, "big") + bytes([v]) + attestation[65:]


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (swapped, "Invalid signature order or dupe"),
        (doubled, "Invalid signature order or dupe"),
        (shortened, "Invalid attestation length"),
        (high_s, "ECDSA: invalid signature 's' value"),
    ],
)
def test_damaged_attestation_is_refused(devnet: EvmDevnet, damage, text):
    message, attestation = attested(inbound_burn())
    with pytest.raises(Reverted) as refused:
        devnet.receive_message(RELAYER, message, damage(attestation))
    assert refused.value.name == text


def test_signature_of_unknown_attester_is_refused(devnet: EvmDevnet):
    message, _ = attested(inbound_burn())
    strangers = Attesters(tuple(sorted((ALICE, BOB), key=lambda each: int(each.address, 16))))
    with pytest.raises(Reverted, match="Invalid signature: not attester"):
        devnet.receive_message(RELAYER, message, strangers.sign(message))


@pytest.mark.parametrize(
    ("change", "finality", "values", "text"),
    [
        ({"destination_domain": 6}, FINALIZED, {}, "Invalid destination domain"),
        ({"source_domain": 6}, FINALIZED, {}, "Remote TokenMessenger unsupported"),
        ({"sender": RECIPIENT}, FINALIZED, {}, "Remote TokenMessenger unsupported"),
        ({"burn_token": RECIPIENT}, FINALIZED, {}, "Mint token not supported"),
        ({}, 499, {}, "Unsupported finality threshold"),
        ({"max_fee": 5}, CONFIRMED, {"fee_executed": 6}, "Fee exceeds max fee"),
        (
            {"amount": 5, "max_fee": 9},
            CONFIRMED,
            {"fee_executed": 5},
            "Fee equals or exceeds amount",
        ),
    ],
)
def test_invalid_message_reverts_with_real_text(devnet: EvmDevnet, change, finality, values, text):
    message, attestation = attested(inbound_burn(**change), finality, **values)
    with pytest.raises(Reverted) as refused:
        devnet.receive_message(RELAYER, message, attestation)
    assert refused.value.name == text


@pytest.mark.parametrize(
    ("offset", "text"),
    [(3, "Invalid message version"), (151, "Invalid message body version")],
)
def test_other_message_version_is_refused(devnet: EvmDevnet, offset, text):
    message, _ = attested(inbound_burn())
    other = message[:offset] + b"\2" + message[offset + 1 :]
    with pytest.raises(Reverted, match=text):
        devnet.receive_message(RELAYER, other, Attesters().sign(other))


def test_only_the_transmitter_can_make_the_messenger_mint(devnet: EvmDevnet):
    call = encode_call(
        "handleReceiveFinalizedMessage(uint32,bytes32,uint32,bytes)",
        27,
        REMOTES.token_messenger_minter,
        FINALIZED,
        inbound_burn()[148:],
    )
    with pytest.raises(Reverted, match="Invalid message transmitter"):
        devnet.send(ALICE, devnet.addresses.token_messenger, call)
