"""What a transfer costs at most and brings at least: pure, in whole base units.

What is promised is held by the transaction that the user signs, and not by anybody's word: a CCTP
burn names its `maxFee`, an OFT send its `minAmountLD` and carries the message's fee as its value.
"""

from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction

from indexer.actions.onboarding import reserves
from indexer.chain_state.fees import BurnTerms, SendTerms
from indexer.config.routes import EVM_DECIMALS, STELLAR_DECIMALS
from warehouse_schema.identifiers import BaseUnits, ChainId, is_evm

BURN_HEADROOM = Fraction(6, 5)
"""Circle takes its fee of the time of the burn, and one that is too low makes the burn slow: as
much more is allowed for as integrators usually do."""

NATIVE_HEADROOM = Fraction(11, 10)
"""LayerZero's fee moves with gas prices until the send; what is too much of it is refunded."""

RECEIVE_MESSAGE_GAS = 200_000
"""About what a mint by `receiveMessage` burns; the operator's cost, shown and not charged."""

SWEEP_GAS = 300_000
"""About what a burn or send from a deposit address takes that was never used; shown likewise."""

PRICE_DIGITS = 12

_BPS = 10_000


@dataclass(frozen=True, slots=True)
class Fee:
    """One fee. `chain` is None for base units of what is sent, else whose native token it is in."""

    name: str
    amount: BaseUnits
    chain: ChainId | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """What was worked out. Every fee in `fees` is paid out of `amount_in`."""

    amount_in: BaseUnits
    amount_out: BaseUnits
    """Least that arrives, base units of what is received."""
    fees: tuple[Fee, ...] = ()
    native_fees: tuple[Fee, ...] = ()
    operator_fees: tuple[Fee, ...] = ()
    finality_threshold: int | None = None
    native_fee: BaseUnits | None = None

    @property
    def total(self) -> BaseUnits:
        """All that is taken out of `amount_in`."""
        return BaseUnits(sum(fee.amount for fee in self.fees))


def decimals(chain: ChainId) -> int:
    """Of USDC and USDT0 on that chain."""
    return EVM_DECIMALS if is_evm(chain) else STELLAR_DECIMALS


def burn_price(
    source: ChainId, dest: ChainId, amount: BaseUnits, terms: BurnTerms, gas_price: BaseUnits | None
) -> Price:
    """By CCTP, which carries 6 decimals; `gas_price` is that of an EVM destination."""
    step = 10 ** (decimals(source) - EVM_DECIMALS)
    carried = _exactly(amount, step)
    most = Fraction(terms.minimum_fee_bps) * BURN_HEADROOM * carried / _BPS
    max_fee = -(-most.numerator // most.denominator)
    name = "cctp_fast_fee" if is_evm(source) else "cctp_standard_fee"
    fees = (Fee(name, BaseUnits(max_fee * step)),) if max_fee or is_evm(source) else ()
    mint = () if gas_price is None else (Fee("relay_gas", _mint_cost(gas_price), dest),)
    return Price(
        amount_in=amount,
        amount_out=BaseUnits((carried - max_fee) * 10 ** (decimals(dest) - EVM_DECIMALS)),
        fees=(*fees, _service_fee()),
        operator_fees=mint,
        finality_threshold=terms.finality_threshold,
    )


def send_price(source: ChainId, dest: ChainId, amount: BaseUnits, terms: SendTerms) -> Price:
    """By an OFT, which carries 6 decimals.

    Raises `ValueError` when more of them would arrive.
    """
    kept = BaseUnits(amount - terms.received)
    carried = _exactly(terms.received, 10 ** (decimals(source) - EVM_DECIMALS))
    native = terms.native_fee * NATIVE_HEADROOM
    value = BaseUnits(-(-native.numerator // native.denominator))
    return Price(
        amount_in=amount,
        amount_out=BaseUnits(carried * 10 ** (decimals(dest) - EVM_DECIMALS)),
        fees=(*((Fee("oft_fee", kept),) if kept else ()), _service_fee()),
        native_fees=(Fee("lz_native_fee", value, source),),
        native_fee=value,
    )


def by_address(price: Price, source: ChainId, gas_price: BaseUnits) -> Price:
    """The same where the deposit is paid to an address: the operator moves it on, and pays for it.

    `gas_price` is the source chain's.
    """
    sweep = Fee("deposit_sweep", BaseUnits(gas_price * SWEEP_GAS), source)
    paid = (*price.operator_fees, *price.native_fees, sweep)
    return replace(price, native_fees=(), operator_fees=paid)


def with_sponsor(price: Price, chain: ChainId, *, is_new: bool) -> Price:
    """The same where the operator pays the reserves of the owner's trustline.

    `is_new`: and of the owner's account.
    """
    reserve = Fee("sponsored_reserve", BaseUnits(reserves(creates_account=is_new)), chain)
    return replace(price, operator_fees=(*price.operator_fees, reserve))


def payment_price(amount: BaseUnits) -> Price:
    """A payment on one ledger takes nothing out of itself."""
    return Price(amount_in=amount, amount_out=amount, fees=(_service_fee(),))


def unit_price(sold: int, sold_decimals: int, bought: int, bought_decimals: int) -> str:
    """Bought for one sold, whole units: `PRICE_DIGITS` significant digits, cut off, no exponent.

    Cut off and not rounded: it promises no more than the amounts do.
    """
    context = Context(prec=PRICE_DIGITS, rounding=ROUND_DOWN)
    # Both whole, so that nothing is rounded before the one division.
    scale = 10 ** abs(sold_decimals - bought_decimals)
    above, below = (scale, 1) if sold_decimals > bought_decimals else (1, scale)
    quotient = context.divide(Decimal(bought * above), Decimal(sold * below))
    return f"{quotient.normalize(context):f}"


def _service_fee() -> Fee:
    """`indexer.config.routes.SERVICE_FEE_BPS` is 0: no call could collect one yet."""
    return Fee("service_fee", BaseUnits(0))


def _mint_cost(gas_price: BaseUnits) -> BaseUnits:
    return BaseUnits(gas_price * RECEIVE_MESSAGE_GAS)


def _exactly(amount: int, step: int) -> int:
    carried, rest = divmod(amount, step)
    if rest:
        raise ValueError(f"{amount} is no multiple of {step}")
    return carried
