"""Money between the two chains, by hand: CCTP burns and mints, OFT sends and deliveries.

Each step returns the movement as the warehouse must then show it. Amounts are base units of the
chain they are on: 6 decimals on EVM, 7 on Stellar.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

from eth_account.signers.local import LocalAccount
from stellar_sdk import Keypair, StrKey, scval, xdr

from devnet.evm import DOMAIN, EID, EvmDevnet, packet_verifier
from devnet.evm_messages import (
    CONFIRMED,
    FINALIZED,
    ZERO_WORD,
    Attesters,
    Packet,
    address_word,
    message_nonce,
)
from devnet.evm_sending import Receipt
from devnet.stellar.accounts import PACKET_VERIFIER, RELAYER, keypair
from devnet.stellar.client import DevnetClient, Outcome
from devnet.stellar.contracts.oft import NATIVE_FEE as XLM_FEE
from devnet.stellar.registry import devnet_contracts
from devnet.verify import ExpectedMovement

EVM = "eip155:31337"
STELLAR = "stellar:devnet"

DUST = 10
"""Stellar base units in one of the shared 6 decimals."""
ALLOWANCE_LEDGERS = 1_000


class NoMessage(AssertionError):
    """A transaction that must carry exactly one message carries another number."""


@dataclass(frozen=True)
class Burned:
    """A CCTP burn and its source message, not yet attested."""

    message: bytes
    movement: ExpectedMovement


@dataclass(frozen=True)
class Sent:
    """An OFT send and its packet."""

    packet: bytes
    movement: ExpectedMovement


def forwarding_hook(recipient: str, label: bytes) -> bytes:
    """Hook data that has Stellar's forwarder pay a strkey; it ignores the label that follows."""
    strkey = recipient.encode()
    return bytes(24) + bytes(4) + len(strkey).to_bytes(4, "big") + strkey + label


class Bridges:
    """Both bridges of a world. `stellar` decides when ledgers close."""

    def __init__(self, evm: EvmDevnet, stellar: DevnetClient) -> None:
        self._evm = evm
        self._stellar = stellar
        self._attesters = Attesters()
        self._burns = count(1)

    # CCTP, EVM → Stellar

    def burn_on_evm(
        self, account: LocalAccount, recipient: str, amount: int, *, max_fee: int = 0
    ) -> Burned:
        """Burn USDC towards a Stellar strkey; with a `max_fee` as a Fast transfer."""
        at = self._evm.addresses
        forwarder = devnet_contracts().raw("cctp_forwarder")
        self._evm.approve(account, at.usdc, at.token_messenger, amount)
        receipt = self._evm.deposit_for_burn_with_hook(
            account,
            amount=amount,
            mint_recipient=forwarder,
            destination_caller=forwarder,
            hook_data=forwarding_hook(recipient, self._label()),
            max_fee=max_fee,
            min_finality=CONFIRMED if max_fee else FINALIZED,
        )
        movement = ExpectedMovement(
            mechanism="cctp",
            stage="ATTESTING",
            source_chain=EVM,
            source_tx=receipt.transaction_hash,
            source_address=account.address.lower(),
            amount_in=amount,
            dest_chain=STELLAR,
            dest_address=recipient,
            fee=None,
        )
        return Burned(_one(self._evm.sent_messages(receipt)), movement)

    def mint_on_stellar(self, burned: Burned, *, fee: int = 0) -> ExpectedMovement:
        """Attest a burn and have the relayer mint and forward it; `fee` has 6 decimals."""
        message, attestation = self._attest(burned, fee)
        outcome = self._stellar.invoke(
            keypair(RELAYER),
            devnet_contracts().cctp_forwarder,
            "mint_and_forward",
            scval.to_bytes(message),
            scval.to_bytes(attestation),
        )
        return replace(
            burned.movement,
            stage="COMPLETED",
            dest_tx=outcome.hash,
            amount_out=(burned.movement.amount_in - fee) * DUST,
            fee=fee,
        )

    # CCTP, Stellar → EVM

    def burn_on_stellar(self, holder: Keypair, recipient: str, amount: int) -> Burned:
        """Burn USDC towards an EVM address; the seventh decimal must be zero."""
        at = devnet_contracts()
        who = scval.to_address(holder.public_key)
        latest = self._stellar.server.get_latest_ledger().sequence
        self._stellar.invoke(
            holder,
            at.usdc_sac,
            "approve",
            who,
            scval.to_address(at.token_messenger_minter),
            scval.to_int128(amount),
            scval.to_uint32(latest + ALLOWANCE_LEDGERS),
        )
        outcome = self._stellar.invoke(
            holder,
            at.token_messenger_minter,
            "deposit_for_burn_with_hook",
            who,
            scval.to_int128(amount),
            scval.to_uint32(DOMAIN),
            scval.to_bytes(address_word(recipient)),
            scval.to_address(at.usdc_sac),
            scval.to_bytes(ZERO_WORD),
            scval.to_int128(0),
            scval.to_uint32(FINALIZED),
            scval.to_bytes(self._label()),
        )
        movement = ExpectedMovement(
            mechanism="cctp",
            stage="ATTESTING",
            source_chain=STELLAR,
            source_tx=outcome.hash,
            source_address=holder.public_key,
            amount_in=amount,
            dest_chain=EVM,
            dest_address=recipient.lower(),
            fee=None,
        )
        return Burned(_one(sent_messages(outcome)), movement)

    def mint_on_evm(self, burned: Burned, relayer: LocalAccount) -> ExpectedMovement:
        """Attest a burn and deliver it."""
        message, attestation = self._attest(burned, 0)
        receipt = self._evm.receive_message(relayer, message, attestation)
        return replace(
            burned.movement,
            stage="COMPLETED",
            dest_tx=receipt.transaction_hash,
            amount_out=burned.movement.amount_in // DUST,
            fee=0,
        )

    # OFT, EVM → Stellar

    def send_from_evm(self, account: LocalAccount, recipient: str, amount: int) -> Sent:
        """Send USDT0 to a Stellar account."""
        raw = StrKey.decode_ed25519_public_key(recipient)
        receipt: Receipt = self._evm.oft_send(account, to=raw, amount=amount)
        movement = ExpectedMovement(
            mechanism="oft",
            stage="IN_FLIGHT",
            source_chain=EVM,
            source_tx=receipt.transaction_hash,
            source_address=account.address.lower(),
            amount_in=amount,
            dest_chain=STELLAR,
            # Whether it is an account or a contract is Stellar's to decide, at delivery.
            dest_address=f"0x{raw.hex()}",
            fee=0,
        )
        return Sent(_one(self._evm.sent_packets(receipt)), movement)

    def verify_on_stellar(self, sent: Sent) -> ExpectedMovement:
        """The verifier's word for a packet."""
        self.verify_packet_on_stellar(sent.packet)
        return replace(sent.movement, stage="DELIVERING")

    def verify_packet_on_stellar(self, packet: bytes) -> None:
        """The verifier's word for the packet of any transaction."""
        verifier = keypair(PACKET_VERIFIER)
        self._stellar.invoke(
            verifier,
            devnet_contracts().endpoint,
            "verify",
            scval.to_address(verifier.public_key),
            scval.to_bytes(packet),
        )

    def deliver_on_stellar(self, sent: Sent, recipient: str) -> ExpectedMovement:
        """Have the relayer execute a verified packet."""
        outcome = self.execute_packet_on_stellar(sent.packet)
        return replace(
            sent.movement,
            stage="COMPLETED",
            dest_tx=outcome.hash,
            dest_address=recipient,
            amount_out=sent.movement.amount_in * DUST,
        )

    def execute_packet_on_stellar(self, encoded: bytes) -> Outcome:
        """Have the relayer execute the verified packet of any transaction."""
        packet = Packet.decode(encoded)
        origin = {
            "nonce": scval.to_uint64(packet.nonce),
            "sender": scval.to_bytes(packet.sender),
            "src_eid": scval.to_uint32(packet.src_eid),
        }
        return self._stellar.invoke(
            keypair(RELAYER),
            devnet_contracts().oft,
            "lz_receive",
            scval.to_address(keypair(RELAYER).public_key),
            scval.to_struct(origin),
            scval.to_bytes(packet.guid),
            scval.to_bytes(packet.message),
            scval.to_bytes(b""),
            scval.to_int128(0),
        )

    # OFT, Stellar → EVM

    def send_from_stellar(self, holder: Keypair, recipient: str, amount: int) -> Sent:
        """Send USDT0 to an EVM address; the seventh decimal must be zero."""
        at = devnet_contracts()
        send_param = {
            "amount_ld": scval.to_int128(amount),
            "compose_msg": scval.to_bytes(b""),
            "dst_eid": scval.to_uint32(EID),
            "extra_options": scval.to_bytes(b""),
            "min_amount_ld": scval.to_int128(amount),
            "oft_cmd": scval.to_bytes(b""),
            "to": scval.to_bytes(address_word(recipient)),
        }
        fee = {"native_fee": scval.to_int128(XLM_FEE), "zro_fee": scval.to_int128(0)}
        outcome = self._stellar.invoke(
            holder,
            at.oft,
            "send",
            scval.to_address(holder.public_key),
            scval.to_struct(send_param),
            scval.to_struct(fee),
            scval.to_address(holder.public_key),
        )
        movement = ExpectedMovement(
            mechanism="oft",
            stage="IN_FLIGHT",
            source_chain=STELLAR,
            source_tx=outcome.hash,
            source_address=holder.public_key,
            amount_in=amount,
            dest_chain=EVM,
            dest_address=recipient.lower(),
            fee=0,
        )
        return Sent(_one(sent_packets(outcome)), movement)

    def deliver_on_evm(self, sent: Sent) -> ExpectedMovement:
        """Verify and execute a packet."""
        receipt = self._evm.lz_verify_and_receive(sent.packet, packet_verifier())
        return replace(
            sent.movement,
            stage="COMPLETED",
            dest_tx=receipt.transaction_hash,
            amount_out=sent.movement.amount_in // DUST,
        )

    def _label(self) -> bytes:
        """16 bytes that tell a burn from every other of this world."""
        return next(self._burns).to_bytes(16, "big")

    def _attest(self, burned: Burned, fee: int) -> tuple[bytes, bytes]:
        return self._attesters.attest(
            burned.message,
            nonce=message_nonce(burned.message, 0),
            finality_executed=CONFIRMED if fee else FINALIZED,
            fee_executed=fee,
        )


def sent_messages(outcome: Outcome) -> tuple[bytes, ...]:
    """The CCTP messages that a Stellar transaction sent, in order."""
    transmitter = devnet_contracts().message_transmitter
    return _event_bytes(outcome, transmitter, "message_sent", "message")


def sent_packets(outcome: Outcome) -> tuple[bytes, ...]:
    """The LayerZero packets that a Stellar transaction sent, in order."""
    return _event_bytes(outcome, devnet_contracts().endpoint, "packet_sent", "encoded_packet")


def _event_bytes(outcome: Outcome, contract: str, event: str, member: str) -> tuple[bytes, ...]:
    """The bytes under `member` in each event of that contract and name, in order."""
    return tuple(
        scval.from_bytes(scval.from_struct(body.data)[member])
        for each in outcome.events
        if (body := each.body.v0) is not None
        and _emitter(each) == contract
        and scval.to_symbol(event) in body.topics[:1]
    )


def _emitter(event: xdr.ContractEvent) -> str | None:
    emitter = event.contract_id
    return None if emitter is None else StrKey.encode_contract(emitter.contract_id.hash)


def _one(messages: tuple[bytes, ...]) -> bytes:
    if len(messages) != 1:
        raise NoMessage(f"expected one message, found {len(messages)}")
    return messages[0]
