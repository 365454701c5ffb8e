"""Layouts of CCTP's EVM events for the columnar decoder; `decode_evm` decodes single logs."""

import polars as pl

from indexer.bridges.cctp.message import BURN_BODY_SIZE, HEADER_SIZE
from indexer.chains.evm.abi_columns import (
    WORD,
    address,
    address_word,
    amount,
    bytes32,
    bytes_at,
    has_words,
    keccak_hex,
    padded,
    uint,
    uint32_hex,
    word,
)
from indexer.chains.layouts import (
    EventLayout,
    Field,
    LayoutTable,
    prefixed,
    topic,
)
from indexer.config.networks import EvmChain

_BURN_BODY = 2 * BURN_BODY_SIZE
_ATTESTED = (2 * 164, 2 * 228)
"""Digits of a burn body that the attestation service fills in: executed fee, expiration block."""

_hook_data, _hook_is_whole = bytes_at(6, 7 * 32)
_DEPOSIT_FOR_BURN = EventLayout(
    "DepositForBurn",
    topics=4,
    fields={
        "burn_token": address(topic(1)),
        "amount": amount(word(0)),
        "depositor": address(topic(2)),
        "mint_recipient": bytes32(word(1)),
        "destination_domain": uint(word(2), 32),
        "destination_token_messenger": bytes32(word(3)),
        "destination_caller": bytes32(word(4)),
        "max_fee": amount(word(5)),
        "min_finality_threshold": uint(topic(3), 32),
        "hook_data": Field(prefixed(_hook_data), _hook_is_whole),
    },
)
_MINT_AND_WITHDRAW = EventLayout(
    "MintAndWithdraw",
    topics=3,
    fits=[has_words(2)],
    fields={
        "mint_recipient": address(topic(1)),
        "amount": amount(word(0)),
        "mint_token": address(topic(2)),
        "fee_collected": amount(word(1)),
    },
)


def _message_sent(chain: EvmChain) -> EventLayout:
    """`MessageV2`: version, both domains, nonce, sender, recipient, caller, thresholds, body."""
    message, is_whole = bytes_at(0, 32)
    sender, body = message.str.slice(88, WORD), message.str.slice(2 * HEADER_SIZE)
    is_burn = _is_burn_body(body) & (sender == address_word(chain.cctp_token_messenger))
    domains = message.str.slice(8, 16)
    return EventLayout(
        "MessageSent",
        topics=1,
        fits=[
            message.str.starts_with("00000001"),
            message.str.slice(8, 8) == uint32_hex(chain.cctp_domain),
            message.str.len_bytes() >= 2 * HEADER_SIZE,
        ],
        fields={
            "message": Field(prefixed(message), is_whole),
            "source_domain": uint(padded(message.str.slice(8, 8), 8), 32),
            "destination_domain": uint(padded(message.str.slice(16, 8), 8), 32),
            "sender": bytes32(sender),
            "recipient": bytes32(message.str.slice(152, WORD)),
            "burn_key": Field(pl.when(is_burn).then(_burn_key_preimage(domains, sender, body))),
        },
        computed={"burn_key": keccak_hex},
    )


def _message_received(chain: EvmChain) -> EventLayout:
    body, is_whole = bytes_at(2, 3 * 32)
    here = uint32_hex(chain.cctp_domain)
    domains = pl.concat_str(word(0).str.slice(56), pl.lit(here))
    preimage = _burn_key_preimage(domains, word(1), body)
    return EventLayout(
        "MessageReceived",
        topics=4,
        fits=[pl.lit(here is not None)],
        fields={
            "caller": address(topic(1)),
            "source_domain": uint(word(0), 32),
            "nonce": bytes32(topic(2)),
            "sender": bytes32(word(1)),
            "finality_threshold_executed": uint(topic(3), 32),
            "message_body": Field(prefixed(body), is_whole),
            "burn_key": Field(pl.when(_is_burn_body(body)).then(preimage)),
        },
        computed={"burn_key": keccak_hex},
    )


def _is_burn_body(body: pl.Expr) -> pl.Expr:
    return (body.str.len_bytes() >= _BURN_BODY) & body.str.starts_with("00000001")


def _burn_key_preimage(domains: pl.Expr, sender: pl.Expr, body: pl.Expr) -> pl.Expr:
    """As `message.burn_key`: both domains, the messenger, and the body as the source sent it."""
    start, end = _ATTESTED
    unattested = [body.str.slice(0, start), pl.lit("0" * (end - start)), body.str.slice(end)]
    return pl.concat_str(domains, sender, *unattested)


LAYOUTS: LayoutTable = {
    "cctp_token_messenger": {
        "DepositForBurn(address,uint256,address,bytes32,uint32,bytes32,bytes32,uint256,uint32"
        ",bytes)": _DEPOSIT_FOR_BURN,
        "MintAndWithdraw(address,uint256,address,uint256)": _MINT_AND_WITHDRAW,
    },
    "cctp_message_transmitter": {
        "MessageSent(bytes)": _message_sent,
        "MessageReceived(address,uint32,bytes32,bytes32,uint32,bytes)": _message_received,
    },
}
