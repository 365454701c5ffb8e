"""Events of one movement between the chains, by either bridge and in either direction.

Amounts are in the 6 decimals that both bridges share.
"""

from dataclasses import dataclass

from eth_utils.crypto import keccak
from stellar_sdk import scval, xdr

from devnet.bridges import DUST, forwarding_hook
from devnet.evm_messages import (
    FINALIZED,
    Attesters,
    BurnMessage,
    Packet,
    address_word,
    message_nonce,
    oft_message,
)
from devnet.history.emitting import Emission, address, evm_event, stellar_event
from indexer.addresses import account_as_bytes32, contract_as_bytes32
from indexer.config.networks import EvmChain, Network, StellarChain
from warehouse_schema.identifiers import StellarAddress

HEADER_SIZE = 148
"""Of a CCTP message; its body follows."""
_OPTIONS = bytes.fromhex("0003")


@dataclass(frozen=True)
class Attestation:
    """A burn's attested message with its signatures."""

    nonce: bytes
    source: bytes
    """The message as the source chain emitted it."""
    message: bytes
    signatures: bytes
    attesters: tuple[str, ...]

    @property
    def hash(self) -> bytes:
        """Of the message: what was signed."""
        return keccak(self.message)


@dataclass(frozen=True)
class Crossing:
    """The events of a movement, by transaction."""

    sent: tuple[Emission, ...]
    delivered: tuple[Emission, ...]
    verified: tuple[Emission, ...] = ()
    """OFT: the endpoint's acceptance on the destination."""
    attestation: Attestation | None = None
    """CCTP."""


class Crossings:
    """Makes the events of movements on a network with one EVM chain."""

    def __init__(self, network: Network) -> None:
        self._stellar: StellarChain = network.stellar
        (self._evm,) = network.evm
        self._attesters = Attesters()
        self._packets = 10**12
        """Far above the nonces of the chains that begin later."""

    def cctp_in(self, payer: str, recipient: str, amount: int, label: bytes) -> Crossing:
        """USDC from an EVM address to a Stellar account, without a fee."""
        evm, stellar = self._evm, self._stellar
        forwarder = _contract(stellar.cctp_forwarder)
        burn = BurnMessage(
            source_domain=_number(evm.cctp_domain),
            destination_domain=_number(stellar.cctp_domain),
            sender=_evm(evm.cctp_token_messenger),
            recipient=_contract(stellar.cctp_token_messenger),
            burn_token=_evm(evm.usdc),
            mint_recipient=forwarder,
            amount=amount,
            message_sender=address_word(payer),
            destination_caller=forwarder,
            hook_data=forwarding_hook(recipient, label),
        )
        attestation = self._attest(burn)
        mint = self._mint_on_stellar(burn, attestation)
        forward = {
            "amount": scval.to_int128(amount * DUST),
            "forward_recipient": address(recipient),
            "token": address(stellar.usdc_contract),
        }
        paid = stellar_event(
            stellar.cctp_forwarder, "mint_and_forward", [], scval.to_struct(forward)
        )
        return Crossing(_burn_on_evm(evm, burn), (*mint, paid), attestation=attestation)

    def cctp_out(self, payer: str, recipient: str, amount: int, label: bytes) -> Crossing:
        """USDC from a Stellar account to an EVM address."""
        evm, stellar = self._evm, self._stellar
        burn = BurnMessage(
            source_domain=_number(stellar.cctp_domain),
            destination_domain=_number(evm.cctp_domain),
            sender=_contract(stellar.cctp_token_messenger),
            recipient=_evm(evm.cctp_token_messenger),
            burn_token=_contract(stellar.usdc_contract),
            mint_recipient=address_word(recipient),
            amount=amount,
            message_sender=bytes.fromhex(account_as_bytes32(StellarAddress(payer))[2:]),
            hook_data=label,
        )
        attestation = self._attest(burn)
        delivered = _mint_on_evm(evm, burn, attestation, recipient)
        return Crossing(self._burn_on_stellar(burn, payer), delivered, attestation=attestation)

    def oft_in(self, payer: str, recipient: str, amount: int) -> Crossing:
        """USDT0 from an EVM address to a Stellar account."""
        to = bytes.fromhex(account_as_bytes32(StellarAddress(recipient))[2:])
        evm, stellar = self._evm, self._stellar
        packet = self._packet(
            *(_number(evm.lz_eid), _evm(evm.oft), _number(stellar.lz_eid), _contract(stellar.oft)),
            oft_message(to, amount),
        )
        sent = (
            evm_event(
                *(evm.lz_endpoint, "PacketSent(bytes,bytes,address)", []),
                *(["bytes", "bytes", "address"], packet.encode(), _OPTIONS, str(evm.lz_endpoint)),
            ),
            evm_event(
                *(evm.oft, "OFTSent(bytes32,uint32,address,uint256,uint256)"),
                [packet.guid, address_word(payer)],
                ["uint32", "uint256", "uint256"],
                *(packet.dst_eid, amount, amount),
            ),
        )
        where = [_origin(packet), address(str(stellar.oft))]
        hashed = scval.to_struct({"payload_hash": scval.to_bytes(packet.payload_hash)})
        received = scval.to_struct({"amount_received_ld": scval.to_int128(amount * DUST)})
        topics = [scval.to_bytes(packet.guid), scval.to_uint32(packet.src_eid), address(recipient)]
        return Crossing(
            sent,
            (
                stellar_event(stellar.lz_endpoint, "packet_delivered", where, scval.to_struct({})),
                stellar_event(stellar.oft, "oft_received", topics, received),
            ),
            verified=(stellar_event(stellar.lz_endpoint, "packet_verified", where, hashed),),
        )

    def oft_out(self, payer: str, recipient: str, amount: int) -> Crossing:
        """USDT0 from a Stellar account to an EVM address."""
        evm, stellar = self._evm, self._stellar
        packet = self._packet(
            *(_number(stellar.lz_eid), _contract(stellar.oft), _number(evm.lz_eid), _evm(evm.oft)),
            oft_message(address_word(recipient), amount),
        )
        units = scval.to_int128(amount * DUST)
        topics = [scval.to_bytes(packet.guid), scval.to_uint32(packet.dst_eid), address(payer)]
        data = {
            "encoded_packet": scval.to_bytes(packet.encode()),
            "options": scval.to_bytes(_OPTIONS),
            "send_library": address(str(stellar.lz_endpoint)),
        }
        amounts = scval.to_struct({"amount_received_ld": units, "amount_sent_ld": units})
        sent = (
            stellar_event(stellar.lz_endpoint, "packet_sent", [], scval.to_struct(data)),
            stellar_event(stellar.oft, "oft_sent", topics, amounts),
        )
        origin = ["(uint32,bytes32,uint64)", "address"]
        where = ((packet.src_eid, packet.sender, packet.nonce), str(evm.oft))
        return Crossing(
            sent,
            (
                evm_event(
                    *(evm.lz_endpoint, "PacketDelivered((uint32,bytes32,uint64),address)", []),
                    *(origin, *where),
                ),
                evm_event(
                    *(evm.oft, "OFTReceived(bytes32,uint32,address,uint256)"),
                    [packet.guid, address_word(recipient)],
                    ["uint32", "uint256"],
                    *(packet.src_eid, amount),
                ),
            ),
            verified=(
                evm_event(
                    evm.lz_endpoint,
                    "PacketVerified((uint32,bytes32,uint64),address,bytes32)",
                    *([], [*origin, "bytes32"], *where, packet.payload_hash),
                ),
            ),
        )

    def _attest(self, burn: BurnMessage) -> Attestation:
        source = burn.encode()
        nonce = message_nonce(source, 0)
        message, signatures = self._attesters.attest(
            source, nonce=nonce, finality_executed=FINALIZED
        )
        return Attestation(nonce, source, message, signatures, self._attesters.addresses)

    def _packet(
        self, src_eid: int, sender: bytes, dst_eid: int, receiver: bytes, message: bytes
    ) -> Packet:
        self._packets += 1
        return Packet(self._packets, src_eid, sender, dst_eid, receiver, message)

    def _burn_on_stellar(self, burn: BurnMessage, payer: str) -> tuple[Emission, ...]:
        stellar = self._stellar
        message = scval.to_struct({"message": scval.to_bytes(burn.encode())})
        topics = [
            address(stellar.usdc_contract),
            address(payer),
            scval.to_uint32(burn.min_finality),
        ]
        data = {
            "amount": scval.to_int128(burn.amount),
            "destination_caller": scval.to_bytes(burn.destination_caller),
            "destination_domain": scval.to_uint32(burn.destination_domain),
            "destination_token_messenger": scval.to_bytes(burn.recipient),
            "hook_data": scval.to_bytes(burn.hook_data),
            "max_fee": scval.to_int128(burn.max_fee),
            "mint_recipient": scval.to_bytes(burn.mint_recipient),
        }
        return (
            stellar_event(stellar.cctp_message_transmitter, "message_sent", [], message),
            stellar_event(
                stellar.cctp_token_messenger, "deposit_for_burn", topics, scval.to_struct(data)
            ),
        )

    def _mint_on_stellar(self, burn: BurnMessage, attested: Attestation) -> tuple[Emission, ...]:
        stellar = self._stellar
        forwarder = address(str(stellar.cctp_forwarder))
        minted = {"amount": scval.to_int128(burn.amount), "fee_collected": scval.to_int128(0)}
        received = {
            "message_body": scval.to_bytes(attested.message[HEADER_SIZE:]),
            "sender": scval.to_bytes(burn.sender),
            "source_domain": scval.to_uint32(burn.source_domain),
        }
        topics = [forwarder, scval.to_bytes(attested.nonce), scval.to_uint32(FINALIZED)]
        return (
            stellar_event(
                stellar.cctp_token_messenger,
                "mint_and_withdraw",
                [forwarder, address(stellar.usdc_contract)],
                scval.to_struct(minted),
            ),
            stellar_event(
                *(stellar.cctp_message_transmitter, "message_received"),
                *(topics, scval.to_struct(received)),
            ),
        )


def _burn_on_evm(evm: EvmChain, burn: BurnMessage) -> tuple[Emission, ...]:
    threshold = burn.min_finality.to_bytes(32, "big")
    types = ["uint256", "bytes32", "uint32", "bytes32", "bytes32", "uint256", "bytes"]
    return (
        evm_event(
            *(evm.cctp_message_transmitter, "MessageSent(bytes)", []),
            *(["bytes"], burn.encode()),
        ),
        evm_event(
            evm.cctp_token_messenger,
            "DepositForBurn(address,uint256,address,bytes32,uint32,bytes32,bytes32,uint256,uint32"
            ",bytes)",
            [burn.burn_token, burn.message_sender, threshold],
            *(types, burn.amount, burn.mint_recipient, burn.destination_domain, burn.recipient),
            *(burn.destination_caller, burn.max_fee, burn.hook_data),
        ),
    )


def _mint_on_evm(
    evm: EvmChain, burn: BurnMessage, attested: Attestation, recipient: str
) -> tuple[Emission, ...]:
    caller = keccak(text="history relay")[12:].rjust(32, b"\0")
    return (
        evm_event(
            *(evm.cctp_token_messenger, "MintAndWithdraw(address,uint256,address,uint256)"),
            [address_word(recipient), _evm(evm.usdc)],
            ["uint256", "uint256"],
            *(burn.amount, 0),
        ),
        evm_event(
            evm.cctp_message_transmitter,
            "MessageReceived(address,uint32,bytes32,bytes32,uint32,bytes)",
            [caller, attested.nonce, FINALIZED.to_bytes(32, "big")],
            *(["uint32", "bytes32", "bytes"], burn.source_domain, burn.sender),
            attested.message[HEADER_SIZE:],
        ),
    )


def _origin(packet: Packet) -> xdr.SCVal:
    return scval.to_struct(
        {
            "nonce": scval.to_uint64(packet.nonce),
            "sender": scval.to_bytes(packet.sender),
            "src_eid": scval.to_uint32(packet.src_eid),
        }
    )


def _contract(strkey: str | None) -> bytes:
    assert strkey is not None
    return bytes.fromhex(contract_as_bytes32(StellarAddress(strkey))[2:])


def _evm(contract: str | None) -> bytes:
    assert contract is not None
    return address_word(contract)


def _number(value: int | None) -> int:
    assert value is not None
    return value
