"""CCTP and OFT events as both chains of the devnet would give them."""

from dataclasses import replace
from typing import TypeVar

from indexer.addresses import contract_as_bytes32, evm_as_bytes32
from indexer.bridges.cctp.events import (
    DepositForBurn,
    MessageReceived,
    MessageSent,
    MintAndForward,
    MintAndWithdraw,
)
from indexer.bridges.oft.events import (
    LzReceiveAlert,
    OftReceived,
    OftSent,
    PacketSent,
    PacketVerified,
)
from indexer.chains.events import Event, Provenance
from indexer.config.networks import load_network
from warehouse_schema.identifiers import (
    Address,
    BaseUnits,
    BlockHash,
    Bytes32,
    ChainId,
    EvmAddress,
    Height,
    StellarAddress,
    TxHash,
    UnixSeconds,
)

NETWORK = load_network("mainnet")
ETHEREUM = ChainId("eip155:1")
PUBNET = ChainId("stellar:pubnet")
BURN_KEY = Bytes32("0x" + "b0" * 32)
GUID = Bytes32("0x" + "67" * 32)
NONCE = Bytes32("0x" + "01" * 32)
ZERO = Bytes32("0x" + "00" * 32)
ACCOUNT = StellarAddress("GAMNA2Q6NTZSUBLMEXLTIXYORE7OXJJBMEGIX7T2OXDAKIA7CCKN4RJV")
USER = EvmAddress("0x" + "5e" * 20)

assert NETWORK.stellar.cctp_forwarder is not None
FORWARDER = NETWORK.stellar.cctp_forwarder

E = TypeVar("E", bound=Event)


def make_hook(recipient: str = ACCOUNT) -> bytes:
    """CctpForwarder hook data for a recipient."""
    return bytes(24) + bytes(4) + len(recipient).to_bytes(4, "big") + recipient.encode()


def seen(
    chain: ChainId = ETHEREUM, height: int = 100, tx: str = "a", position: int = 0
) -> Provenance:
    """Where an event was seen; block time is 12 seconds a block."""
    prefix = "0x" if chain.startswith("eip155") else ""
    return Provenance(
        chain=chain,
        height=Height(height),
        block_hash=BlockHash(prefix + f"{height:064x}"),
        tx_hash=TxHash(prefix + (tx * 64)[:64]),
        position=position,
        block_time=UnixSeconds(1_700_000_000 + 12 * height),
    )


def make_burn_to_stellar(
    amount: int = 5_000_000,
    hook: bytes | None = None,
    height: int = 100,
    tx: str = "a",
    position: int = 0,
    mint_recipient: Bytes32 | None = None,
    destination_caller: Bytes32 | None = None,
) -> list[Event]:
    """MessageSent and DepositForBurn of one burn on Ethereum."""
    forwarder = contract_as_bytes32(FORWARDER)
    return [
        MessageSent(
            seen=seen(ETHEREUM, height, tx, position),
            message=b"",
            source_domain=0,
            destination_domain=27,
            sender=evm_as_bytes32(USER),
            recipient=forwarder,
            burn_key=BURN_KEY,
        ),
        DepositForBurn(
            seen=seen(ETHEREUM, height, tx, position + 1),
            burn_token=Address(USER),
            amount=BaseUnits(amount),
            depositor=Address(USER),
            mint_recipient=mint_recipient or forwarder,
            destination_domain=27,
            destination_token_messenger=ZERO,
            destination_caller=destination_caller or forwarder,
            max_fee=BaseUnits(0),
            min_finality_threshold=2000,
            hook_data=make_hook() if hook is None else hook,
        ),
    ]


def make_mint_on_stellar(
    amount: int = 4_999_000, fee: int = 1_000, forwarded: bool = True, tx: str = "c"
) -> list[Event]:
    """MintAndWithdraw, MessageReceived and, unless told otherwise, MintAndForward on Stellar."""
    events: list[Event] = [
        MintAndWithdraw(
            seen=seen(PUBNET, 900, tx, 0),
            mint_recipient=Address(FORWARDER),
            amount=BaseUnits(amount),
            mint_token=Address(NETWORK.stellar.usdc_contract),
            fee_collected=BaseUnits(fee),
        ),
        MessageReceived(
            seen=seen(PUBNET, 900, tx, 1),
            caller=Address(FORWARDER),
            source_domain=0,
            nonce=NONCE,
            sender=evm_as_bytes32(USER),
            finality_threshold_executed=2000,
            message_body=b"",
            burn_key=BURN_KEY,
        ),
    ]
    if forwarded:
        events.append(
            MintAndForward(
                seen=seen(PUBNET, 900, tx, 2),
                amount=BaseUnits(amount * 10),
                forward_recipient=ACCOUNT,
                token=NETWORK.stellar.usdc_contract,
            )
        )
    return events


def make_oft_sent(sent: int = 7_000_000, received: int = 7_000_000) -> OftSent:
    """An OFT send from Ethereum to Stellar."""
    return OftSent(
        seen=seen(ETHEREUM),
        guid=GUID,
        dst_eid=30600,
        from_address=Address(USER),
        amount_sent=BaseUnits(sent),
        amount_received=BaseUnits(received),
    )


def make_packet_sent(dst_eid: int = 30600, send_to: Bytes32 = BURN_KEY) -> PacketSent:
    """The packet of that send."""
    return PacketSent(
        seen=seen(position=1),
        guid=GUID,
        nonce=1,
        src_eid=30101,
        sender=ZERO,
        dst_eid=dst_eid,
        receiver=ZERO,
        send_to=send_to,
        amount_shared=BaseUnits(7_000_000),
        packet=b"",
        options=b"",
        send_library=Address(USER),
    )


def make_packet_verified() -> PacketVerified:
    """Its verification on Stellar."""
    return PacketVerified(
        seen=seen(PUBNET, 890, "d"),
        guid=GUID,
        src_eid=30101,
        sender=ZERO,
        nonce=1,
        receiver=Address(ACCOUNT),
        payload_hash=ZERO,
    )


def make_alert() -> LzReceiveAlert:
    """Somebody's report that its delivery failed."""
    return LzReceiveAlert(
        seen=seen(PUBNET, 891, "e"),
        guid=GUID,
        src_eid=30101,
        sender=ZERO,
        nonce=1,
        receiver=Address(ACCOUNT),
        executor=Address(ACCOUNT),
        gas=BaseUnits(0),
        value=BaseUnits(0),
        message=b"",
        extra_data=b"",
        reason=b"",
    )


def make_oft_received(amount: int = 70_000_000) -> OftReceived:
    """Its credit on Stellar, 7 decimals."""
    return OftReceived(
        seen=seen(PUBNET, 900, "f"),
        guid=GUID,
        src_eid=30101,
        to_address=Address(ACCOUNT),
        amount_received=BaseUnits(amount),
    )


def moved(event: E, **changes: object) -> E:
    """The same event seen elsewhere."""
    return replace(event, seen=replace(event.seen, **changes))  # type: ignore[arg-type]
