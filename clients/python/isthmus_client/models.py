"""Responses of the API as frozen models. Amounts are `Decimal`, never a float.

A member that this version does not know is kept in `model_extra`.
"""

from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from isthmus_client.amounts import to_decimal

Amount = Annotated[Decimal, PlainSerializer(lambda amount: f"{amount:f}", return_type=str)]
"""Serialised as received: `str` would turn a small one into `1E-7`."""
Direction = Literal["onramp", "offramp"]


class Model(BaseModel):
    """Base of all models."""

    model_config = ConfigDict(frozen=True, extra="allow")

    def as_json(self) -> dict[str, Any]:
        """The JSON of the API: the same names, digits and members."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class BookModel(Model):
    """Base of the order book's models, whose names are in camel case."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)


class Offer(BookModel):
    """An offer that can be taken now."""

    provider: str
    direction: Direction
    available_usdc: Amount
    locked_usdc: Amount
    accepted_rails: tuple[str, ...]
    payment_handles: dict[str, str]
    trust_tier: int
    fee_rate_bps: int
    rate: Amount
    currency: str
    min_amount: Amount
    max_amount: Amount
    completed_orders: int
    avg_fulfillment_seconds: int
    last_active_at: AwareDatetime


class RailDepth(BookModel):
    """Depth of one rail."""

    rail: str
    available_usdc: Amount
    offer_count: int


class DepthSummary(BookModel):
    """Depth of the book; rails do not add up to the total."""

    total_available_usdc: Amount
    total_locked_usdc: Amount
    offer_count: int
    by_rail: tuple[RailDepth, ...]


class Provider(BookModel):
    """A liquidity provider."""

    provider: str
    available_usdc: Amount
    locked_usdc: Amount
    completed_orders: int
    avg_fulfillment_seconds: int
    accepted_rails: tuple[str, ...]
    active_intents: int


class ProviderActivity(BookModel):
    """A provider's orders that were opened from `since` on."""

    provider: str
    since: AwareDatetime
    opened_orders: int
    fulfilled_orders: int
    cancelled_orders: int
    expired_orders: int
    volume_usdc: Amount
    fill_rate: Amount | None
    """Fulfilled orders per ended order, 0 to 1."""
    median_fulfillment_seconds: int | None


class MarketDay(BookModel):
    """One direction of one rail on a UTC day."""

    day: date
    direction: Direction
    rail: str
    rate: Amount | None
    volume_usdc: Amount
    volume_fiat: Amount | None
    opened_orders: int
    fulfilled_orders: int
    cancelled_orders: int
    expired_orders: int


class PriceHistory(BookModel):
    """The last 30 closed days of a currency; a market without a row on a day had no order then."""

    currency: str
    first_day: date | None
    last_day: date | None
    days: tuple[MarketDay, ...]


class Order(BookModel):
    """An order (intent)."""

    intent_id: str
    buyer: str
    provider: str
    direction: Direction
    rail: str
    currency: str
    amount_usdc: Amount
    fiat_amount: Amount
    status: Literal["active", "fulfilled", "cancelled", "expired"]
    trust_tier: int
    created_at: AwareDatetime
    expires_at: AwareDatetime
    nullifier: str | None = None
    """Once a proof has settled it."""
    tx_hash: str | None = None
    """Once it is settled."""
    released_usdc: Amount | None = None
    """Of a settled order, if it is less than `amount_usdc`."""


class RouteFee(Model):
    """A fee of a route's quotes."""

    service_fee_bps: int
    quoted: tuple[str, ...]


class RouteEnd(Model):
    """A chain at which a route begins or ends. Amounts are whole base units of `asset`."""

    chain: str
    asset: str
    min_amount: int
    max_amount: int
    amount_step: int
    funding_modes: tuple[str, ...]
    expected_seconds: int
    available: bool

    @property
    def minimum(self) -> Decimal:
        """`min_amount` in whole tokens."""
        return to_decimal(self.min_amount, self.asset)

    @property
    def maximum(self) -> Decimal:
        """`max_amount` in whole tokens."""
        return to_decimal(self.max_amount, self.asset)


class Route(Model):
    """A coin and a direction, over many chains."""

    id: str
    direction: Literal["deposit", "withdraw", "send"]
    mechanism: Literal["cctp", "oft", "payment"]
    enabled: bool
    fee: RouteFee
    source_chains: tuple[RouteEnd, ...]
    dest_chains: tuple[RouteEnd, ...]


class Moved(Model):
    """Number of movements and their sum, which has 7 decimals."""

    count: int
    amount: int


class Flow(Model):
    """Movements from one chain to another; sent + unexplained = delivered + fees + on the way."""

    mechanism: Literal["cctp", "oft"]
    source_chain: str | None
    dest_chain: str | None
    sent: Moved
    delivered: Moved
    fees: int
    on_the_way: Moved
    unexplained: Moved


class StatusProblem(Model):
    """Something that is not well."""

    kind: str
    text: str


class ChainProgress(Model):
    """How far a chain is ingested."""

    chain: str
    name: str
    height: int | None
    head_height: int | None
    final_height: int | None
    lag_seconds: int | None
    age_seconds: int | None
    reason: str | None


class LaneStatus(Model):
    """A route between two chains.

    `median_seconds` of today's transfers and `p90_seconds` of the last 30 days' (9 of 10 took no
    longer): seconds from payment or submission to delivery; None where it is not known.
    """

    route: str
    source_chain: str
    dest_chain: str
    available: bool
    expected_seconds: int
    median_seconds: int | None
    p90_seconds: int | None = None


class StatusIncident(Model):
    """Alarms of one kind on one chain."""

    chain: str
    kind: str
    began_at: AwareDatetime
    ended_at: AwareDatetime | None


class Status(Model):
    """Whether transfers are moving, and the last reconciliation: whether the money adds up."""

    as_of: AwareDatetime | None = None
    verdict: str | None = None
    sentence: str | None = None
    problems: tuple[StatusProblem, ...] = ()
    chains: tuple[ChainProgress, ...] = ()
    routes: tuple[LaneStatus, ...] = ()
    incidents: tuple[StatusIncident, ...] = ()
    at: AwareDatetime | None
    adds_up: bool | None
    reasons: tuple[str, ...] = ()
    flows: tuple[Flow, ...]
    under_way: dict[str, int]
    findings: dict[str, int]


class FeeDetail(Model):
    """A fee; whole base units of what is sent, or smallest units of `chain`'s own token."""

    name: str
    amount: int
    chain: str | None = None


class QuoteFee(Model):
    """Highest cost of a transfer, in base units of `asset`."""

    total: int
    asset: str
    details: tuple[FeeDetail, ...]
    native_details: tuple[FeeDetail, ...]
    operator_details: tuple[FeeDetail, ...]


class NeededTrustline(Model):
    """A trustline that a deposit's owner has to open before it can be delivered.

    `reserve` is stroops of XLM that it takes; `sponsored` whether the service pays it as things
    stand, once the deposit is paid and irreversible, and `reason` why it does not.
    """

    asset: str
    creates_account: bool
    reserve: int
    sponsored: bool
    reason: str | None


class Quote(Model):
    """A price for one transfer, fixed until `expires_at`. Amounts are base units."""

    id: str
    expires_at: AwareDatetime
    sell_asset: str
    buy_asset: str
    sell_amount: int
    buy_amount: int
    price: Amount
    fee: QuoteFee
    needs_trustline: NeededTrustline | None = None

    @property
    def sell(self) -> Decimal:
        """`sell_amount` in whole tokens: what is paid."""
        return to_decimal(self.sell_amount, self.sell_asset)

    @property
    def buy(self) -> Decimal:
        """`buy_amount` in whole tokens: at least so much arrives."""
        return to_decimal(self.buy_amount, self.buy_asset)

    @property
    def native_fee(self) -> int:
        """Sum of the message fees, in the source chain's native base units."""
        return sum(each.amount for each in self.fee.native_details)


class Explorer(Model):
    """Explorer pages of the transactions, once there are any."""

    source: str | None
    destination: str | None


class Step(Model):
    """A stage that a transfer reached."""

    stage: str
    at: AwareDatetime | None
    clock: str | None = None
    """Clock of `at`: a chain (CAIP-2), or `service`."""
    chain: str | None
    tx: str | None


class DepositAddress(Model):
    """The address that a deposit is paid to, and the service's account in its terms."""

    address: str
    operator: str


class DepositTokenBalance(Model):
    """One token at a deposit address: received = swept + returned + balance."""

    token: str
    received: int
    swept: int
    returned: int
    owed: int


class Refund(Model):
    """Payments to a deposit address, and the refunds made or owed."""

    amount: int
    transactions: tuple[str, ...]
    pending_below_minimum: int
    tokens: tuple[DepositTokenBalance, ...]


class SelfFinish(Model):
    """Message and attestation with which anybody can deliver the transfer; hex."""

    chain: str
    contract: str
    message: str
    attestation: str


class ExtraSelfFinish(SelfFinish):
    """The same for an extra movement; `movement` is its id."""

    movement: str


class Transfer(Model):
    """A transfer. Amounts are whole base units of the chain's own asset.

    `stage` and `status` are open: a version that comes later may know more of them.
    """

    id: str
    quote_id: str
    route: str
    direction: Literal["deposit", "withdraw", "send"]
    funding_mode: str | None
    status: str
    stage: str
    stage_reason: str | None
    stage_detail: str | None
    turn: str
    amount_in: int
    amount_out: int
    amount_fee: int
    amount_delivered: int | None
    source_chain: str
    source_asset: str
    source_address: str
    dest_chain: str
    dest_asset: str
    dest_address: str
    deposit: DepositAddress | None
    external_transaction_id: str | None
    stellar_transaction_id: str | None
    started_at: AwareDatetime
    updated_at: AwareDatetime
    completed_at: AwareDatetime | None
    expires_at: AwareDatetime
    eta: AwareDatetime | None
    explorer: Explorer
    timeline: tuple[Step, ...]
    refund: Refund | None
    self_finish: SelfFinish | None
    extras: tuple[str, ...]
    extras_self_finish: tuple[ExtraSelfFinish, ...] = ()

    @property
    def sent(self) -> Decimal:
        """`amount_in` in whole tokens."""
        return to_decimal(self.amount_in, self.source_asset)

    @property
    def delivered(self) -> Decimal | None:
        """`amount_delivered` in whole tokens; None before."""
        units = self.amount_delivered
        return None if units is None else to_decimal(units, self.dest_asset)


class TransferPage(Model):
    """A page of transfers, newest first; `next_before` is None after the last."""

    transfers: tuple[Transfer, ...]
    next_before: AwareDatetime | None


class EvmCall(Model):
    """A call of an EVM chain; `value` is wei."""

    to: str
    data: str
    value: int


class EvmCalls(Model):
    """Calls that the payer sends in this order."""

    kind: Literal["evm_calls"]
    chain_id: int = Field(alias="chainId")
    calls: tuple[EvmCall, ...]


class StellarTx(Model):
    """A transaction that the owner's account signs; base64."""

    kind: Literal["stellar_tx"]
    xdr: str
    network_passphrase: str


class StellarTrustline(Model):
    """A trustline that the service pays for: its transaction, which the owner signs too."""

    kind: Literal["stellar_trustline"]
    asset: str
    xdr: str
    network_passphrase: str


class SendToAddress(Model):
    """The address that the deposit is paid to; `amount` is base units of `asset`."""

    kind: Literal["send_to_address"]
    chain: str
    asset: str
    address: str
    amount: int

    @property
    def tokens(self) -> Decimal:
        """`amount` in whole tokens: pay exactly this."""
        return to_decimal(self.amount, self.asset)


class OtherAction(Model):
    """An action of a kind that this version cannot verify."""

    kind: str


class Actions(Model):
    """The action that is needed now; `reason` says why there is none."""

    action: EvmCalls | StellarTx | StellarTrustline | SendToAddress | OtherAction | None
    reason: str | None
    needs_trustline: NeededTrustline | None = None


class ChainReadiness(Model):
    """Ingestion of a chain."""

    chain: str
    height: int | None
    lag_seconds: int | None
    age_seconds: int | None
    reason: str | None


class Readiness(Model):
    """Whether a process accepts traffic; `code`, `message` and `reasons` say why not."""

    status: Literal["ready"] | None = None
    chains: tuple[ChainReadiness, ...] = ()
    code: str | None = None
    message: str | None = None
    reasons: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether it accepts traffic."""
        return self.status == "ready"


class Session(Model):
    """The token's account."""

    account: str
    issuer: str
    expires_at: AwareDatetime


class Revoked(Model):
    """A token was revoked."""

    revoked: Literal[True]


class Challenge(Model):
    """A SEP-10 challenge."""

    transaction: str
    network_passphrase: str


class Token(Model):
    """The token for a signed challenge."""

    token: str
