"""Events of Circle's CCTP V2 contracts on Stellar.

Shapes: the contracts' own event specs. The two messenger events carry 6 decimals although the
functions take 7; `mint_and_forward` alone carries 7.
"""

from collections.abc import Mapping

from indexer.addresses import contract_as_bytes32
from indexer.bridges.cctp.events import (
    DepositForBurn,
    MessageReceived,
    MessageSent,
    MintAndForward,
    MintAndWithdraw,
)
from indexer.bridges.cctp.message import burn_key, parse_message, sent_event
from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.scval import (
    EventDecoder,
    ScMap,
    Topics,
    address,
    amount,
    blob,
    u32,
    word,
)
from indexer.config.networks import StellarChain
from indexer.errors import Undecodable
from warehouse_schema.identifiers import Address


def _deposit_for_burn(event: StellarEvent, _chain: StellarChain) -> DepositForBurn:
    """TokenMessengerMinter: topics burn_token, depositor, min_finality_threshold."""
    topics, data = Topics.of(event, 4), ScMap.of(event)
    return DepositForBurn(
        seen=event.seen,
        burn_token=Address(topics.read(1, address)),
        amount=data.read("amount", amount),
        depositor=Address(topics.read(2, address)),
        mint_recipient=data.read("mint_recipient", word),
        destination_domain=data.read("destination_domain", u32),
        destination_token_messenger=data.read("destination_token_messenger", word),
        destination_caller=data.read("destination_caller", word),
        max_fee=data.read("max_fee", amount),
        min_finality_threshold=topics.read(3, u32),
        hook_data=data.read("hook_data", blob),
    )


def _mint_and_withdraw(event: StellarEvent, _chain: StellarChain) -> MintAndWithdraw:
    """TokenMessengerMinter: topics mint_recipient, mint_token."""
    topics, data = Topics.of(event, 3), ScMap.of(event)
    return MintAndWithdraw(
        seen=event.seen,
        mint_recipient=Address(topics.read(1, address)),
        amount=data.read("amount", amount),
        mint_token=Address(topics.read(2, address)),
        fee_collected=data.read("fee_collected", amount),
    )


def _message_sent(event: StellarEvent, chain: StellarChain) -> MessageSent:
    """MessageTransmitter: no topic but the name."""
    Topics.of(event, 1)
    raw = ScMap.of(event).read("message", blob)
    messenger = chain.cctp_token_messenger
    sender = None if messenger is None else contract_as_bytes32(messenger)
    return sent_event(event.seen, raw, parse_message(raw), sender)


def _message_received(event: StellarEvent, chain: StellarChain) -> MessageReceived:
    """MessageTransmitter: topics caller, nonce, finality_threshold_executed.

    The destination domain is not in the event: it is the chain's own.
    """
    topics, data = Topics.of(event, 4), ScMap.of(event)
    source_domain = data.read("source_domain", u32)
    sender = data.read("sender", word)
    body = data.read("message_body", blob)
    if chain.cctp_domain is None:
        raise Undecodable(f"message_received: {chain.id} has no CCTP domain")
    return MessageReceived(
        seen=event.seen,
        caller=Address(topics.read(1, address)),
        source_domain=source_domain,
        nonce=topics.read(2, word),
        sender=sender,
        finality_threshold_executed=topics.read(3, u32),
        message_body=body,
        burn_key=burn_key(source_domain, chain.cctp_domain, sender, body),
    )


def _mint_and_forward(event: StellarEvent, _chain: StellarChain) -> MintAndForward:
    """CctpForwarder: no topic but the name. The recipient may be a muxed account."""
    Topics.of(event, 1)
    data = ScMap.of(event)
    return MintAndForward(
        seen=event.seen,
        amount=data.read("amount", amount),
        forward_recipient=data.read("forward_recipient", address),
        token=data.read("token", address),
    )


DECODERS: Mapping[str, Mapping[str, EventDecoder]] = {
    "cctp_token_messenger": {
        "deposit_for_burn": _deposit_for_burn,
        "mint_and_withdraw": _mint_and_withdraw,
    },
    "cctp_message_transmitter": {
        "message_sent": _message_sent,
        "message_received": _message_received,
    },
    "cctp_forwarder": {
        "mint_and_forward": _mint_and_forward,
    },
}
"""Field of `StellarChain` that names the contract → topic 0 → decoder."""
