"""Logs of Circle's TokenMessengerV2 and MessageTransmitterV2."""

from collections.abc import Mapping

from indexer.addresses import evm_as_bytes32
from indexer.bridges.cctp.events import (
    DepositForBurn,
    MessageReceived,
    MessageSent,
    MintAndWithdraw,
)
from indexer.bridges.cctp.message import burn_key, parse_message, sent_event
from indexer.chains.events import Event
from indexer.chains.evm import abi
from indexer.chains.evm.abi import LogDecoder
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain
from indexer.errors import Undecodable


def _deposit_for_burn(log: EvmLog, _chain: EvmChain) -> DepositForBurn:
    _, burn_token, depositor, threshold = abi.topics(log, 4)
    return DepositForBurn(
        seen=log.seen,
        burn_token=abi.topic_address(burn_token),
        amount=abi.shared_amount(log, 0),
        depositor=abi.topic_address(depositor),
        mint_recipient=abi.word_bytes32(log, 1),
        destination_domain=abi.uint(log, 2, 32),
        destination_token_messenger=abi.word_bytes32(log, 3),
        destination_caller=abi.word_bytes32(log, 4),
        max_fee=abi.amount(log, 5),
        min_finality_threshold=abi.topic_uint(threshold, 32),
        hook_data=abi.dynamic_bytes(log, 6),
    )


def _mint_and_withdraw(log: EvmLog, _chain: EvmChain) -> MintAndWithdraw:
    _, recipient, token = abi.topics(log, 3, words=2)
    return MintAndWithdraw(
        seen=log.seen,
        mint_recipient=abi.topic_address(recipient),
        amount=abi.shared_amount(log, 0),
        mint_token=abi.topic_address(token),
        fee_collected=abi.shared_amount(log, 1),
    )


def _message_sent(log: EvmLog, chain: EvmChain) -> MessageSent:
    abi.topics(log, 1)
    raw = abi.dynamic_bytes(log, 0)
    message = parse_message(raw)
    if message.source_domain != chain.cctp_domain:
        raise Undecodable(
            f"the message says source domain {message.source_domain}, the chain is"
            f" {chain.cctp_domain}"
        )
    messenger = chain.cctp_token_messenger
    sender = None if messenger is None else evm_as_bytes32(messenger)
    return sent_event(log.seen, raw, message, sender)


def _message_received(log: EvmLog, chain: EvmChain) -> MessageReceived:
    _, caller, nonce, threshold = abi.topics(log, 4)
    source_domain, sender, body = (
        abi.uint(log, 0, 32),
        abi.word_bytes32(log, 1),
        abi.dynamic_bytes(log, 2),
    )
    return MessageReceived(
        seen=log.seen,
        caller=abi.topic_address(caller),
        source_domain=source_domain,
        nonce=abi.topic_bytes32(nonce),
        sender=sender,
        finality_threshold_executed=abi.topic_uint(threshold, 32),
        message_body=body,
        # The event has no destination domain: it is here.
        burn_key=burn_key(
            source_domain, abi.required(chain.cctp_domain, "cctp_domain"), sender, body
        ),
    )


def _cctp_v1(_log: EvmLog, _chain: EvmChain) -> Event:
    raise Undecodable("this is an event of CCTP V1: the configured contract is not a V2 one")


DECODERS: Mapping[str, Mapping[str, LogDecoder]] = {
    "cctp_token_messenger": {
        "DepositForBurn(address,uint256,address,bytes32,uint32,bytes32,bytes32,uint256,uint32"
        ",bytes)": _deposit_for_burn,
        "MintAndWithdraw(address,uint256,address,uint256)": _mint_and_withdraw,
        "DepositForBurn(uint64,address,uint256,address,bytes32,uint32,bytes32,bytes32)": _cctp_v1,
        "MintAndWithdraw(address,uint256,address)": _cctp_v1,
    },
    "cctp_message_transmitter": {
        "MessageSent(bytes)": _message_sent,
        "MessageReceived(address,uint32,bytes32,bytes32,uint32,bytes)": _message_received,
        "MessageReceived(address,uint32,uint64,bytes32,bytes)": _cctp_v1,
    },
}
"""Field of `EvmChain` that names the contract → event signature → decoder."""
