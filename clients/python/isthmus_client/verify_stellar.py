"""Verification of Stellar transactions, as `verify` does of EVM calls.

The one operation is built here again from the request and from known contracts. The members that
the server may choose are read from it and held within the quote. Other conditions, memos and
authorisations of further calls are refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from stellar_sdk import Address, Asset, Transaction, TransactionBuilder, scval, xdr
from stellar_sdk.fee_bump_transaction_envelope import FeeBumpTransactionEnvelope
from stellar_sdk.operation import InvokeHostFunction, Payment
from stellar_sdk.utils import from_xdr_amount

from isthmus_client.amounts import to_base_units
from isthmus_client.contracts import Bridges, EvmBridges, StellarBridges
from isthmus_client.errors import ActionNotTrusted
from isthmus_client.models import Quote, StellarTx

FINALITIES = (1000, 2000)
"""The finality thresholds of CCTP."""
MOST_FEE = 10_000_000
"""Stroops: 1 XLM. The service pays the fee, but another sender could charge it to the owner."""
LONGEST_SECONDS = 24 * 3_600
"""Latest upper time bound of a transaction that is signed now."""
_LAST_LEDGER = 2**32 - 1
_PER_SHARED = 10
"""Stellar's assets have one decimal more."""


@dataclass(frozen=True)
class Outgoing:
    """A withdrawal or payment as its owner requested it, with the terms of the quote."""

    transfer: str
    """Its id."""
    route: Literal["usdc-withdraw", "usdt0-withdraw", "usdc-send", "usdt0-send"]
    account: str
    """The owner's, `G…`, which signs."""
    chain: str
    """CAIP-2 id of the destination chain."""
    recipient: str
    """An address there."""
    amount: int
    """Sent amount, base units on Stellar."""
    least: int
    """Least amount that arrives, base units there."""
    native_fee: int = 0
    """Highest fee of a USDT0 message, stroops."""

    @classmethod
    def quoted(
        cls,
        transfer: str,
        quote: Quote,
        *,
        route: Literal["usdc-withdraw", "usdt0-withdraw", "usdc-send", "usdt0-send"],
        account: str,
        chain: str,
        recipient: str,
        amount: Decimal,
    ) -> "Outgoing":
        """With the terms of a quote, once the user has accepted it; `amount` is whole tokens.

        Raises `ActionNotTrusted` for a quote of another amount.
        """
        units = to_base_units(amount, "stellar")
        if quote.sell_amount != units:
            raise ActionNotTrusted(f"the quote is for {quote.sell_amount}, not {units}")
        least, fee = quote.buy_amount, quote.native_fee
        return cls(transfer, route, account, chain, recipient, units, least, fee)

    @property
    def coin(self) -> str:
        """`usdc` or `usdt0`."""
        return self.route.partition("-")[0]


def check_transaction(shown: StellarTx, wanted: Outgoing, bridges: Bridges, now: int) -> None:
    """Raises `ActionNotTrusted` unless signing it does what is wanted and nothing else.

    `now` is in unix seconds.
    """
    stellar = bridges.stellar
    if shown.network_passphrase != stellar.network:
        raise ActionNotTrusted(f"it is for the network {shown.network_passphrase!r}")
    transaction = read_transaction(shown.xdr, stellar.network)
    _check_frame(transaction, wanted, now)
    [operation] = transaction.operations
    if isinstance(operation, Payment):
        _check_payment(operation, wanted, stellar)
    elif isinstance(operation, InvokeHostFunction):
        _check_call(operation, wanted, bridges)
    else:
        raise ActionNotTrusted(f"its operation is a {type(operation).__name__}")


def read_transaction(text: str, passphrase: str) -> Transaction:
    """Raises `ActionNotTrusted` if the text is not a transaction, or a fee bump."""
    try:
        envelope = TransactionBuilder.from_xdr(text, passphrase)
    except (ValueError, EOFError, TypeError, AttributeError) as error:
        raise ActionNotTrusted("it cannot be read") from error
    if isinstance(envelope, FeeBumpTransactionEnvelope):
        raise ActionNotTrusted("it is a fee bump: whose fee it is to pay is not asked of an owner")
    return envelope.transaction


def _check_frame(transaction: Transaction, wanted: Outgoing, now: int) -> None:
    """Checks source, time bounds, fee, and that there is one operation."""
    source = transaction.source
    if source.account_id != wanted.account or source.account_muxed_id is not None:
        raise ActionNotTrusted(f"it is a transaction of {source.universal_account_id}")
    if len(transaction.operations) != 1 or transaction.operations[0].source is not None:
        raise ActionNotTrusted("it does more than one thing, or for another account")
    if not 0 <= transaction.fee <= MOST_FEE:
        raise ActionNotTrusted(f"it may cost {transaction.fee} stroops")
    check_conditions(transaction, now)


def check_conditions(transaction: Transaction, now: int) -> None:
    """Raises `ActionNotTrusted` for other preconditions than time bounds, or too late ones."""
    if transaction.memo.to_xdr_object().type != xdr.MemoType.MEMO_NONE:
        raise ActionNotTrusted("it carries a memo")
    raw = transaction.to_xdr_object()
    bounds = raw.cond.time_bounds if isinstance(raw, xdr.Transaction) else None
    if bounds is None:
        raise ActionNotTrusted("it has other conditions than a time")
    if not now < bounds.max_time.time_point.uint64 <= now + LONGEST_SECONDS:
        raise ActionNotTrusted("it may be included for too long, or no more")


def _check_payment(payment: Payment, wanted: Outgoing, stellar: StellarBridges) -> None:
    if not wanted.route.endswith("-send"):
        raise ActionNotTrusted(f"a payment is no {wanted.route}")
    destination = payment.destination
    asset = _asset(wanted, stellar)
    if destination.universal_account_id != wanted.recipient:
        raise ActionNotTrusted(f"it pays {destination.universal_account_id}")
    if payment.asset != asset:
        raise ActionNotTrusted(f"it pays with {payment.asset}, not {asset}")
    if payment.amount != from_xdr_amount(wanted.amount):
        raise ActionNotTrusted(f"it pays {payment.amount}")


def _check_call(operation: InvokeHostFunction, wanted: Outgoing, bridges: Bridges) -> None:
    call = operation.host_function.invoke_contract
    if call is None:
        raise ActionNotTrusted("it calls no contract's function")
    name, arguments = call.function_name.sc_symbol, list(call.args)
    contract = Address.from_xdr_sc_address(call.contract_address).address
    expected = _arguments(contract, name, wanted, bridges, arguments)
    if arguments != expected:
        raise ActionNotTrusted(
            f"its call of {name.decode()} differs in its argument {_first(arguments, expected)}"
        )
    _check_consent(operation, wanted, bridges.stellar)


def _arguments(
    contract: str,
    name: bytes,
    wanted: Outgoing,
    bridges: Bridges,
    given: Sequence[xdr.SCVal],
) -> list[xdr.SCVal]:
    """What the call has to say; what the server may choose is taken from what it said."""
    at, stellar = bridges.evm.get(wanted.chain, EvmBridges()), bridges.stellar
    if wanted.route == "usdc-withdraw" and stellar.messenger is not None:
        if (contract, name) == (_token(wanted, stellar), b"approve"):
            return _approval(wanted, stellar.messenger, given)
        if (contract, name) == (stellar.messenger, b"deposit_for_burn_with_hook"):
            return _burn(wanted, stellar, at, given)
    if wanted.route == "usdt0-withdraw" and (contract, name) == (stellar.oft, b"send"):
        return _send(wanted, at, given)
    raise ActionNotTrusted(f"it calls {name.decode(errors='replace')} of {contract}")


def _first(given: Sequence[xdr.SCVal], expected: Sequence[xdr.SCVal]) -> int:
    """Which one differs, counted from 0."""
    pairs = enumerate(zip(given, expected, strict=False))
    return next((at for at, (one, other) in pairs if one != other), len(expected))


def _approval(wanted: Outgoing, messenger: str, given: Sequence[xdr.SCVal]) -> list[xdr.SCVal]:
    """Of the amount exactly; until when it holds may be anything."""
    return [
        scval.to_address(wanted.account),
        scval.to_address(messenger),
        scval.to_int128(wanted.amount),
        scval.to_uint32(min(max(0, _number(given, 3)), _LAST_LEDGER)),
    ]


def _burn(
    wanted: Outgoing, stellar: StellarBridges, at: EvmBridges, given: Sequence[xdr.SCVal]
) -> list[xdr.SCVal]:
    if at.cctp_domain is None:
        raise ActionNotTrusted(f"CCTP is not known to lead to {wanted.chain}")
    max_fee, finality = _number(given, 6), _number(given, 7)
    if not 0 <= max_fee <= wanted.amount - wanted.least * _PER_SHARED:
        raise ActionNotTrusted(f"the fee may be {max_fee}, more than was promised")
    if finality not in FINALITIES:
        raise ActionNotTrusted(f"the burn asks for a finality of {finality}")
    return [
        scval.to_address(wanted.account),
        scval.to_int128(wanted.amount),
        scval.to_uint32(at.cctp_domain),
        scval.to_bytes(_evm_recipient(wanted)),
        scval.to_address(_token(wanted, stellar)),
        scval.to_bytes(bytes(32)),
        scval.to_int128(max_fee),
        scval.to_uint32(finality),
        scval.to_bytes(_transfer_id(wanted)),
    ]


def _send(wanted: Outgoing, at: EvmBridges, given: Sequence[xdr.SCVal]) -> list[xdr.SCVal]:
    if at.lz_eid is None:
        raise ActionNotTrusted(f"the OFT is not known to lead to {wanted.chain}")
    least = _member(given, 1, "min_amount_ld")
    if not wanted.least * _PER_SHARED <= least <= wanted.amount:
        raise ActionNotTrusted(f"{least} may arrive, less than was promised")
    fee = _member(given, 2, "native_fee")
    if not 0 <= fee <= wanted.native_fee:
        raise ActionNotTrusted(f"the message costs {fee} stroops, more than was promised")
    owner, nothing = scval.to_address(wanted.account), scval.to_bytes(b"")
    param = {
        "amount_ld": scval.to_int128(wanted.amount),
        "compose_msg": nothing,
        "dst_eid": scval.to_uint32(at.lz_eid),
        "extra_options": nothing,
        "min_amount_ld": scval.to_int128(least),
        "oft_cmd": nothing,
        "to": scval.to_bytes(_evm_recipient(wanted)),
    }
    paid = {"native_fee": scval.to_int128(fee), "zro_fee": scval.to_int128(0)}
    return [owner, scval.to_struct(param), scval.to_struct(paid), owner]


def _check_consent(
    operation: InvokeHostFunction, wanted: Outgoing, stellar: StellarBridges
) -> None:
    """The signature authorises the call itself, and below a send the tokens that it takes."""
    own = xdr.SorobanCredentialsType.SOROBAN_CREDENTIALS_SOURCE_ACCOUNT
    for entry in operation.auth:
        root = entry.root_invocation
        called = root.function.contract_fn
        if entry.credentials.type != own or called != operation.host_function.invoke_contract:
            raise ActionNotTrusted("signing it would authorise another call")
        for below in root.sub_invocations:
            _check_taken(below, wanted, stellar)


def _check_taken(
    taken: xdr.SorobanAuthorizedInvocation, wanted: Outgoing, stellar: StellarBridges
) -> None:
    """At most the amount of the token, and the message's fee in XLM."""
    call = taken.function.contract_fn
    if call is None or taken.sub_invocations or wanted.route != "usdt0-withdraw":
        raise ActionNotTrusted("signing it would authorise more than its call")
    contract = Address.from_xdr_sc_address(call.contract_address).address
    most = {
        _token(wanted, stellar): wanted.amount,
        Asset.native().contract_id(stellar.network): wanted.native_fee,
    }.get(contract, -1)
    is_known = call.function_name.sc_symbol in (b"burn", b"transfer")
    if not is_known or not 0 <= _number(call.args, len(call.args) - 1) <= most:
        raise ActionNotTrusted(f"signing it would authorise {contract} to take more")


def _asset(wanted: Outgoing, stellar: StellarBridges) -> Asset:
    return asset_of(wanted.route, stellar)


def asset_of(route: str, stellar: StellarBridges) -> Asset:
    """A route's asset on Stellar. Raises `ActionNotTrusted` if it is not known."""
    coin = route.partition("-")[0]
    issuer = stellar.usdc if coin == "usdc" else stellar.usdt0
    if issuer is None:
        raise ActionNotTrusted(f"no asset of {route} is known on this network")
    return Asset(coin.upper(), issuer)


def _token(wanted: Outgoing, stellar: StellarBridges) -> str:
    """The asset's contract, which follows from asset and network."""
    return _asset(wanted, stellar).contract_id(stellar.network)


def _evm_recipient(wanted: Outgoing) -> bytes:
    try:
        raw = bytes.fromhex(wanted.recipient.removeprefix("0x"))
    except ValueError:
        raw = b""
    if len(raw) != 20:
        raise ActionNotTrusted(f"{wanted.recipient!r} is no EVM address")
    return raw.rjust(32, b"\0")


def _transfer_id(wanted: Outgoing) -> bytes:
    try:
        raw = bytes.fromhex(wanted.transfer)
    except ValueError:
        raw = b""
    if len(raw) != 16:
        raise ActionNotTrusted(f"{wanted.transfer!r} is no transfer's id")
    return raw


def _number(values: Sequence[xdr.SCVal], place: int) -> int:
    """An integer argument; -1 for another type, which no expected value equals."""
    if not 0 <= place < len(values):
        return -1
    value = values[place]
    if value.u32 is not None:
        return value.u32.uint32
    return scval.from_int128(value) if value.i128 is not None else -1


def _member(values: Sequence[xdr.SCVal], place: int, name: str) -> int:
    if place >= len(values) or values[place].map is None:
        return -1
    try:
        members = scval.from_struct(values[place])
    except ValueError:
        return -1
    return _number([members[name]], 0) if name in members else -1
