"""What `/v1/transfers` shows, as types: `responses.py` makes them, the document is made of them."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from api.text_types import BaseUnitsText, Time, TimeText
from indexer.config.routes import Direction, FundingMode, RouteId
from indexer.transfers.reasons import StageReason
from indexer.transfers.state_machine import ActionBy, Sep24Status, Stage

TransferId = Annotated[
    str, Field(pattern="^[0-9a-f]{32}$", description="16 bytes: the label that its burn carries.")
]
_Url = Annotated[str, Field(description="Of an explorer's page about the transaction.")]
_Hex = Annotated[str, Field(pattern="^0x([0-9a-f]{2})*$", description="Bytes as hex.")]


class Explorer(TypedDict):
    """Where people can look at it; null before there is a transaction, or an explorer."""

    source: _Url | None
    destination: _Url | None


class Step(TypedDict):
    """A stage that the transfer came to."""

    stage: Stage
    at: Annotated[
        Time | None,
        Field(
            description="null where nothing says when. Steps are in the order of cause and effect; "
            "clocks differ, so one may have an earlier time than the step before it."
        ),
    ]
    clock: Annotated[
        str | None,
        Field(description="Whose time `at` is: a chain (CAIP-2), or `service`; null without one."),
    ]
    chain: Annotated[str | None, Field(description="Where that happened, CAIP-2.")]
    tx: Annotated[str | None, Field(description="The transaction with which it did.")]


class DepositAddress(TypedDict):
    """Where the deposit is paid in, and the account of ours that its terms name."""

    address: Annotated[str, Field(description="Compute it yourself: docs/deposit-addresses.md.")]
    operator: Annotated[str, Field(description="Moves the deposit on, and cannot take it.")]


class TillLine(TypedDict):
    """One token at the deposit address: received = swept + returned + what is there."""

    token: Annotated[str, Field(description="Token contract.")]
    received: BaseUnitsText
    swept: Annotated[BaseUnitsText, Field(description="Carried on.")]
    returned: BaseUnitsText
    owed: Annotated[BaseUnitsText, Field(description="Has to go back.")]


class Refund(TypedDict):
    """What was paid to the deposit address, and what of it went back or has to."""

    amount: Annotated[BaseUnitsText, Field(description="Went back, in what was to be paid.")]
    transactions: list[str]
    pending_below_minimum: Annotated[
        BaseUnitsText, Field(description="Owed, and too little to go back by itself.")
    ]
    tokens: list[TillLine]


class SelfFinish(TypedDict):
    """With which anybody can deliver it now: a CCTP message and its attestation."""

    chain: Annotated[str, Field(description="Where it is to be handed in, CAIP-2.")]
    contract: Annotated[
        str,
        Field(description="`receiveMessage` of it on EVM chains, `mint_and_forward` on Stellar."),
    ]
    message: _Hex
    attestation: _Hex


class ExtraSelfFinish(SelfFinish):
    """The same of an extra movement."""

    movement: Annotated[str, Field(description="Which of `extras`.")]


class Transfer(TypedDict):
    """A transfer. Amounts are whole base units of the chain's own asset."""

    id: TransferId
    quote_id: str
    route: RouteId
    direction: Direction
    funding_mode: Annotated[FundingMode | None, Field(description="null but for deposits.")]
    status: Annotated[Sep24Status, Field(description="SEP-24's word for the stage.")]
    stage: Stage
    stage_reason: Annotated[
        StageReason | None,
        Field(description="Why it waits, or what it came to; null when neither."),
    ]
    stage_detail: Annotated[str | None, Field(description="For people: what somebody says of it.")]
    turn: Annotated[ActionBy, Field(description="Who has to do something now.")]
    amount_in: BaseUnitsText
    amount_out: Annotated[BaseUnitsText, Field(description="The least that arrives.")]
    amount_fee: Annotated[BaseUnitsText, Field(description="At most; units of what is sent.")]
    amount_delivered: Annotated[
        BaseUnitsText | None, Field(description="What arrived, once it has.")
    ]
    source_chain: str
    source_asset: str
    source_address: str
    dest_chain: str
    dest_asset: str
    dest_address: str
    deposit: Annotated[DepositAddress | None, Field(description="null unless paid to one.")]
    external_transaction_id: Annotated[
        str | None, Field(description="The EVM transaction: burn or send, or delivery.")
    ]
    stellar_transaction_id: Annotated[str | None, Field(description="The Stellar transaction.")]
    started_at: TimeText
    updated_at: Annotated[
        TimeText,
        Field(description="When what is shown here last changed, by the service's clock."),
    ]
    completed_at: Annotated[Time | None, Field(description="When it was delivered or refunded.")]
    expires_at: Annotated[
        Time, Field(description="It expires if nothing irreversible has happened by then.")
    ]
    eta: Annotated[
        Time | None,
        Field(description="When it usually is there; null while it waits for somebody, or is over"),
    ]
    explorer: Explorer
    timeline: list[Step]
    refund: Annotated[
        Refund | None, Field(description="null unless something was paid to its address.")
    ]
    self_finish: Annotated[
        SelfFinish | None, Field(description="null unless anybody can deliver it.")
    ]
    extras: Annotated[
        list[str],
        Field(
            description="Further burns or sends that pay its recipient: ids. The service delivers "
            "them while the owner's daily limit has room; anybody can."
        ),
    ]
    extras_self_finish: Annotated[
        list[ExtraSelfFinish],
        Field(description="With which anybody can deliver extras now: the oldest 20 that wait."),
    ]


class TransferList(TypedDict):
    """A page of an owner's transfers, newest first."""

    transfers: list[Transfer]
    next_before: Annotated[
        TimeText | None, Field(description="`before` of the next page; null after the last.")
    ]
