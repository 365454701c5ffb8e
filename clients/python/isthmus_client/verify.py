"""Verification of EVM calls against the owner's own request and published contracts.

A compromised server can return any call. So each byte of a call is built here again from the
requested deposit and from known contracts; the members that the server may choose are read from the
call and held within the quote.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from stellar_sdk import StrKey

from isthmus_client.amounts import to_base_units
from isthmus_client.contracts import Bridges, EvmBridges
from isthmus_client.errors import ActionNotTrusted
from isthmus_client.models import EvmCall, EvmCalls, Quote

# The first 4 bytes of keccak256 of the signatures.
APPROVE = "0x095ea7b3"
"""approve(address,uint256)"""
BURN = "0x779b432d"
"""depositForBurnWithHook(uint256,uint32,bytes32,address,bytes32,uint256,uint32,bytes)"""
SEND = "0xc7c7f5b3"
"""send((uint32,bytes32,uint256,uint256,bytes,bytes,bytes),(uint256,uint256),address)"""

FAST, STANDARD = 1000, 2000
"""The finality thresholds of CCTP."""
_PER_SHARED = 10
"""Stellar's assets have one decimal more."""
_MAX_FEE, _FINALITY, _LEAST = 5, 6, 7
"""Words of a call that the server chooses: of a burn, and of a send."""


@dataclass(frozen=True)
class Deposit:
    """A deposit as its payer requested it, with the terms of the quote."""

    transfer: str
    """Its id."""
    route: Literal["usdc-deposit", "usdt0-deposit"]
    chain: str
    """CAIP-2 id of the EVM chain."""
    payer: str
    """Address that signs, or the smart wallet."""
    recipient: str
    """The Stellar account, `G…`."""
    amount: int
    """Paid amount, base units."""
    least: int
    """Least amount that arrives, base units on Stellar."""
    native_fee: int = 0
    """Highest fee of a USDT0 message, wei."""

    @classmethod
    def quoted(
        cls,
        transfer: str,
        quote: Quote,
        *,
        route: Literal["usdc-deposit", "usdt0-deposit"],
        chain: str,
        payer: str,
        recipient: str,
        amount: Decimal,
    ) -> "Deposit":
        """With the terms of a quote, once the user has accepted it; `amount` is whole tokens.

        Raises `ActionNotTrusted` for a quote of another amount.
        """
        units = to_base_units(amount, chain)
        if quote.sell_amount != units:
            raise ActionNotTrusted(f"the quote is for {quote.sell_amount}, not {units}")
        least, fee = quote.buy_amount, quote.native_fee
        return cls(transfer, route, chain, payer, recipient, units, least, fee)


def check_calls(shown: EvmCalls, deposit: Deposit, bridges: Bridges) -> None:
    """Raises `ActionNotTrusted` unless the calls do what the deposit says and nothing else."""
    at = bridges.evm.get(deposit.chain, EvmBridges())
    if f"eip155:{shown.chain_id}" != deposit.chain:
        raise ActionNotTrusted(f"the calls are for eip155:{shown.chain_id}, not {deposit.chain}")
    is_burn = deposit.route == "usdc-deposit"
    token, bridge = (at.usdc, at.token_messenger) if is_burn else (at.usdt0, at.oft)
    if token is None or bridge is None:
        raise ActionNotTrusted(f"no bridge of {deposit.route} is known on {deposit.chain}")
    if not shown.calls:
        raise ActionNotTrusted("there are no calls")
    *approvals, last = shown.calls
    _check_approvals(approvals, token, bridge, deposit.amount, from_zero=not is_burn)
    if last.to.lower() != bridge:
        raise ActionNotTrusted(f"the last call goes to {last.to}, not to {bridge}")
    if is_burn:
        _check_burn(last, token, deposit, bridges)
    else:
        _check_send(last, deposit, bridges)


def _check_approvals(
    calls: Sequence[EvmCall], token: str, bridge: str, amount: int, *, from_zero: bool
) -> None:
    """Exactly the amount, to the bridge alone; USDT's allowance is set to zero first."""
    allowed = [[], [amount], *([[0, amount]] if from_zero else [])]
    for amounts in allowed:
        expected = [(token, APPROVE + _word(_number(bridge)) + _word(each), 0) for each in amounts]
        if [(call.to.lower(), call.data.lower(), call.value) for call in calls] == expected:
            return
    raise ActionNotTrusted(
        f"before the last call there is more than an approval of {amount} of {token} for {bridge}"
    )


def _check_burn(call: EvmCall, token: str, deposit: Deposit, bridges: Bridges) -> None:
    most, finality = _read(call, _MAX_FEE), _read(call, _FINALITY)
    if deposit.amount - most < shared(deposit.least):
        raise ActionNotTrusted(f"the fee may be {most}, more than was promised")
    if finality not in (FAST, STANDARD):
        raise ActionNotTrusted(f"the burn asks for a finality of {finality}")
    forwarder = StrKey.decode_contract(bridges.cctp_forwarder).hex()
    strkey = strkey_of(deposit).encode("ascii")
    hook = bytes(28) + len(strkey).to_bytes(4, "big") + strkey + transfer_id_of(deposit)
    words = [
        *(_word(deposit.amount), _word(bridges.cctp_domain), forwarder, _word(_number(token))),
        *(forwarder, _word(most), _word(finality)),
    ]
    _compare(call, BURN + "".join(words) + _word(8 * 32) + _bytes(hook), value=0)


def _check_send(call: EvmCall, deposit: Deposit, bridges: Bridges) -> None:
    # Words after the offset of the parameters, the fee and its refund address.
    least = _read(call, _LEAST)
    if not shared(deposit.least) <= least <= deposit.amount:
        raise ActionNotTrusted(f"{least} may arrive, less than was promised")
    if call.value > deposit.native_fee:
        raise ActionNotTrusted(f"the message costs {call.value} wei, more than was promised")
    recipient = StrKey.decode_ed25519_public_key(strkey_of(deposit)).hex()
    head = [_word(4 * 32), _word(call.value), _word(0), _word(_number(deposit.payer))]
    param = [
        *(_word(bridges.lz_eid), recipient, _word(deposit.amount), _word(least)),
        # Three empty byte strings behind their offsets.
        *(_word(7 * 32), _word(8 * 32), _word(9 * 32), 3 * _word(0)),
    ]
    _compare(call, SEND + "".join(head) + "".join(param), value=call.value)


def _compare(call: EvmCall, expected: str, *, value: int) -> None:
    """Byte for byte; the error names the first word that differs."""
    shown = call.data.lower()
    if shown == expected and call.value == value:
        return
    if call.value != value:
        raise ActionNotTrusted(f"the last call carries {call.value} wei, not {value}")
    words = max(len(shown), len(expected)) // 64 + 1
    at = next((n for n in range(words) if _nth(shown, n) != _nth(expected, n)), words)
    raise ActionNotTrusted(
        f"the last call differs in its word {at}: {_nth(shown, at)!r}, not {_nth(expected, at)!r}"
        if shown[:10] == expected[:10]
        else f"the last call begins with {shown[:10]}, not {expected[:10]}"
    )


def _nth(data: str, number: int) -> str:
    return data[10 + 64 * number : 10 + 64 * (number + 1)]


def _read(call: EvmCall, word: int) -> int:
    digits = _nth(call.data, word)
    try:
        return int(digits, 16)
    except ValueError as error:
        raise ActionNotTrusted(f"the last call has no word {word}") from error


def strkey_of(deposit: Deposit) -> str:
    """The recipient. Raises `ActionNotTrusted` unless it is an account."""
    if not StrKey.is_valid_ed25519_public_key(deposit.recipient):
        raise ActionNotTrusted(f"{deposit.recipient!r} is no Stellar account")
    return deposit.recipient


def transfer_id_of(deposit: Deposit) -> bytes:
    """Its 16 bytes. Raises `ActionNotTrusted` for another length."""
    try:
        raw = bytes.fromhex(deposit.transfer)
    except ValueError:
        raw = b""
    if len(raw) != 16:
        raise ActionNotTrusted(f"{deposit.transfer!r} is no transfer's id")
    return raw


def shared(amount: int) -> int:
    """Base units of Stellar in base units of the EVM chain, rounded up."""
    return -(-amount // _PER_SHARED)


def _number(address: str) -> int:
    return int(address, 16)


def _word(number: int) -> str:
    return f"{number:064x}"


def _bytes(data: bytes) -> str:
    """The length, then the bytes padded to whole words."""
    return _word(len(data)) + (data + bytes(-len(data) % 32)).hex()
