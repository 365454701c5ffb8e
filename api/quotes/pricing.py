"""Prices of transfers, in whole base units. Only `price_transfer` reads fees.

The transaction that the owner signs enforces the price: a CCTP burn contains its `maxFee`, an OFT
send its `minAmountLD`, and the message fee as its value.
"""

from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from math import ceil
from typing import assert_never

from api.errors import BadRequest, FeesUnavailable
from api.ports import FeeSource
from api.quotes.requests import QuoteRequest
from indexer.actions.onboarding import reserves
from indexer.addresses import account_as_bytes32, evm_as_bytes32
from indexer.chain_state.fees import BurnTerms, SendTerms
from indexer.config.routes import EVM_DECIMALS, STELLAR_DECIMALS
from warehouse_schema.identifiers import (
    BaseUnits,
    ChainId,
    EvmAddress,
    NativeAmount,
    StellarAddress,
    Wei,
    is_evm,
    native_amount,
)

BURN_HEADROOM = Fraction(6, 5)
"""Circle charges its fee at the time of the burn, and a `maxFee` below it makes the burn slow.
Integrators usually allow for as much more."""

NATIVE_HEADROOM = Fraction(11, 10)
"""LayerZero's fee moves with gas prices until the send; any excess is refunded."""

RECEIVE_MESSAGE_GAS = 200_000
"""Approximate gas of `receiveMessage`, a cost of the operator: shown and not charged."""

SWEEP_GAS = 300_000
"""Approximate gas of a burn or send from an unused deposit address, likewise the operator's."""

PRICE_DIGITS = 12

_BPS = 10_000


@dataclass(frozen=True, slots=True)
class Fee:
    """`amount` is in base units of the sent asset; with a `chain`, in its native token."""

    name: str
    amount: BaseUnits | NativeAmount
    chain: ChainId | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """`fees` are paid out of `amount_in`."""

    amount_in: BaseUnits
    amount_out: BaseUnits
    """Minimum that arrives, base units of the received asset."""
    fees: tuple[Fee, ...] = ()
    native_fees: tuple[Fee, ...] = ()
    operator_fees: tuple[Fee, ...] = ()
    finality_threshold: int | None = None
    native_fee: NativeAmount | None = None

    @property
    def total(self) -> BaseUnits:
        """Sum of `fees`."""
        return BaseUnits(sum(fee.amount for fee in self.fees))


SERVICE_FEE = Fee("service_fee", BaseUnits(0))
"""`indexer.config.routes.SERVICE_FEE_BPS` is 0: no contract call could collect a fee yet."""


def price_transfer(request: QuoteRequest, fees: FeeSource | None) -> Price:
    """At current fees. Raises `FeesUnavailable`, or `BadRequest` for an amount beyond an OFT's."""
    amount, source, dest = request.amount, request.source.chain, request.dest.chain
    mechanism = request.route.mechanism
    if mechanism == "payment":
        return payment_price(amount)
    if fees is None:
        raise FeesUnavailable("this process reads no fees")
    match mechanism:
        case "cctp":
            terms = fees.burn(source, dest)
            gas_price = fees.gas_price(dest) if is_evm(dest) else None
            price = burn_price(source, dest, amount, terms, gas_price)
        case "oft":
            price = send_price(source, dest, amount, _send_terms(request, fees))
        case _:
            assert_never(mechanism)
    if request.funding_mode != "deposit_address":
        return price
    return with_deposit_address(price, source, fees.gas_price(source))


def _send_terms(request: QuoteRequest, fees: FeeSource) -> SendTerms:
    if is_evm(request.dest.chain):
        to = evm_as_bytes32(EvmAddress(request.dest_address))
    else:
        to = account_as_bytes32(StellarAddress(request.dest_address))
    terms = fees.send(request.source.chain, request.dest.chain, to, request.amount)
    if not terms.min_amount <= request.amount <= terms.max_amount:
        raise BadRequest(
            f"amount_in must be from {max(terms.min_amount, request.source.min_amount)} to "
            f"{min(terms.max_amount, request.source.max_amount)} base units of "
            f"{request.source.asset}: the bridge accepts no other amount now",
            code="AMOUNT_OUT_OF_LIMITS",
        )
    return terms


def decimals(chain: ChainId) -> int:
    """Of USDC and USDT0 on that chain."""
    return EVM_DECIMALS if is_evm(chain) else STELLAR_DECIMALS


def burn_price(
    source: ChainId, dest: ChainId, amount: BaseUnits, terms: BurnTerms, gas_price: Wei | None
) -> Price:
    """By CCTP, which carries 6 decimals; `gas_price` is that of an EVM destination."""
    step = 10 ** (decimals(source) - EVM_DECIMALS)
    carried = _exact_quotient(amount, step)
    max_fee = ceil(Fraction(terms.minimum_fee_bps) * BURN_HEADROOM * carried / _BPS)
    name = "cctp_fast_fee" if is_evm(source) else "cctp_standard_fee"
    fees = (Fee(name, BaseUnits(max_fee * step)),) if max_fee or is_evm(source) else ()
    mint: tuple[Fee, ...] = ()
    if gas_price is not None:
        mint = (Fee("relay_gas", Wei(gas_price * RECEIVE_MESSAGE_GAS), dest),)
    return Price(
        amount_in=amount,
        amount_out=BaseUnits((carried - max_fee) * 10 ** (decimals(dest) - EVM_DECIMALS)),
        fees=(*fees, SERVICE_FEE),
        operator_fees=mint,
        finality_threshold=terms.finality_threshold,
    )


def send_price(source: ChainId, dest: ChainId, amount: BaseUnits, terms: SendTerms) -> Price:
    """By an OFT, which carries 6 decimals. Raises `ValueError` if more of them would arrive."""
    oft_fee = BaseUnits(amount - terms.received)
    carried = _exact_quotient(terms.received, 10 ** (decimals(source) - EVM_DECIMALS))
    native_fee = native_amount(source, ceil(terms.native_fee * NATIVE_HEADROOM))
    return Price(
        amount_in=amount,
        amount_out=BaseUnits(carried * 10 ** (decimals(dest) - EVM_DECIMALS)),
        fees=(*((Fee("oft_fee", oft_fee),) if oft_fee else ()), SERVICE_FEE),
        native_fees=(Fee("lz_native_fee", native_fee, source),),
        native_fee=native_fee,
    )


def with_deposit_address(price: Price, source: ChainId, gas_price: Wei) -> Price:
    """The operator sweeps the deposit and pays the native fees; `gas_price` is the source's."""
    sweep = Fee("deposit_sweep", Wei(gas_price * SWEEP_GAS), source)
    paid = (*price.operator_fees, *price.native_fees, sweep)
    return replace(price, native_fees=(), operator_fees=paid)


def with_sponsor(price: Price, chain: ChainId, *, is_new: bool) -> Price:
    """The operator pays the reserve of the owner's trustline; `is_new`: also of the account."""
    reserve = Fee("sponsored_reserve", reserves(creates_account=is_new), chain)
    return replace(price, operator_fees=(*price.operator_fees, reserve))


def payment_price(amount: BaseUnits) -> Price:
    """A payment on one ledger costs nothing out of its amount."""
    return Price(amount_in=amount, amount_out=amount, fees=(SERVICE_FEE,))


def unit_price(sold: int, sold_decimals: int, bought: int, bought_decimals: int) -> str:
    """Bought for one sold, whole units: `PRICE_DIGITS` significant digits, no exponent.

    Rounded down, so that it promises no more than the amounts do.
    """
    context = Context(prec=PRICE_DIGITS, rounding=ROUND_DOWN)
    # Integers, so that nothing is rounded before the one division.
    scale = 10 ** abs(sold_decimals - bought_decimals)
    above, below = (scale, 1) if sold_decimals > bought_decimals else (1, scale)
    quotient = context.divide(Decimal(bought * above), Decimal(sold * below))
    return f"{quotient.normalize(context):f}"


def _exact_quotient(amount: int, step: int) -> int:
    quotient, rest = divmod(amount, step)
    if rest:
        raise ValueError(f"{amount} is no multiple of {step}")
    return quotient
