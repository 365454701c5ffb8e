"""Types of the answers of `/v1/transfers`; `responses.py` builds them."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from api.amounts import amount
from api.text_types import BaseUnitsText, Time, TimeText
from indexer.config.routes import Direction, FundingMode, RouteId
from indexer.transfers.reasons import StageReason
from indexer.transfers.state_machine import ActionBy, Sep24Status, Stage

TransferId = Annotated[
    str, Field(pattern="^[0-9a-f]{32}$", description="16 bytes: the label that its burn carries.")
]
_Url = Annotated[str, Field(description="Explorer page of the transaction.")]
_SOURCE = "base units of `source_asset`"
_DEST = "base units of `dest_asset`"
_HELD = "base units of `token`"
_Hex = Annotated[str, Field(pattern="^0x([0-9a-f]{2})*$", description="Bytes as hex.")]


class Explorer(TypedDict):
    """Explorer pages of the transfer; null without a transaction, or without an explorer."""

    source: _Url | None
    destination: _Url | None


class Step(TypedDict):
    """A stage that the transfer reached."""

    stage: Stage
    at: Annotated[
        Time | None,
        Field(
            description="null where the time is unknown. Steps are in the order of cause and "
            "effect; clocks differ, so a step may have an earlier time than the one before it."
        ),
    ]
    clock: Annotated[
        str | None,
        Field(description="Clock of `at`: a chain (CAIP-2), or `service`; null without `at`."),
    ]
    chain: Annotated[str | None, Field(description="Chain of the transaction, CAIP-2.")]
    tx: Annotated[str | None, Field(description="Transaction that caused the step.")]


class DepositAddress(TypedDict):
    """Address of the deposit, and the operator's account that its terms name."""

    address: Annotated[str, Field(description="Compute it yourself: docs/deposit-addresses.md.")]
    operator: Annotated[str, Field(description="Moves the deposit on; it cannot take it.")]


class DepositTokenBalance(TypedDict):
    """One token at the deposit address: received = swept + returned + current balance."""

    token: Annotated[str, Field(description="Token contract.")]
    received: Annotated[BaseUnitsText, amount(_HELD, "20000000")]
    swept: Annotated[BaseUnitsText, amount(_HELD, "0", "Burned or sent to the recipient.")]
    returned: Annotated[BaseUnitsText, amount(_HELD, "0")]
    owed: Annotated[BaseUnitsText, amount(_HELD, "20000000", "To be refunded.")]


class Refund(TypedDict):
    """Payments to the deposit address, and their refunds."""

    amount: Annotated[
        BaseUnitsText, amount(_SOURCE, "20000000", "Refunded amount of the asset to be paid.")
    ]
    transactions: list[str]
    pending_below_minimum: Annotated[
        BaseUnitsText,
        amount(_SOURCE, "500000", "Owed, but less than the minimum of an automatic refund."),
    ]
    tokens: list[DepositTokenBalance]


class SelfFinish(TypedDict):
    """A CCTP message and its attestation, with which anyone can deliver the transfer now."""

    chain: Annotated[str, Field(description="Chain of the delivery, CAIP-2.")]
    contract: Annotated[
        str,
        Field(description="Call `receiveMessage` on EVM chains, `mint_and_forward` on Stellar."),
    ]
    message: _Hex
    attestation: _Hex


class ExtraSelfFinish(SelfFinish):
    """Message and attestation of an extra movement."""

    movement: Annotated[str, Field(description="Its id in `extras`.")]


class Transfer(TypedDict):
    """A transfer. Amounts are whole base units of the chain's own asset."""

    id: TransferId
    quote_id: str
    route: RouteId
    direction: Direction
    funding_mode: Annotated[FundingMode | None, Field(description="null except for deposits.")]
    status: Annotated[Sep24Status, Field(description="SEP-24 status of the stage.")]
    stage: Stage
    stage_reason: Annotated[
        StageReason | None,
        Field(description="Why the transfer waits, or why it ended; null when neither."),
    ]
    stage_detail: Annotated[str | None, Field(description="Explanation of the reason, for people.")]
    turn: Annotated[ActionBy, Field(description="Party that has to act now.")]
    amount_in: Annotated[BaseUnitsText, amount(_SOURCE, "10000000")]
    amount_out: Annotated[BaseUnitsText, amount(_DEST, "99984400", "Minimum that arrives.")]
    amount_fee: Annotated[BaseUnitsText, amount(_SOURCE, "1560", "Maximum.")]
    amount_delivered: Annotated[
        BaseUnitsText | None, amount(_DEST, "99990000", "Amount that arrived; null before.")
    ]
    source_chain: str
    source_asset: str
    source_address: str
    dest_chain: str
    dest_asset: str
    dest_address: str
    deposit: Annotated[DepositAddress | None, Field(description="null without a deposit address.")]
    external_transaction_id: Annotated[
        str | None, Field(description="The EVM transaction: burn or send, or delivery.")
    ]
    stellar_transaction_id: Annotated[str | None, Field(description="The Stellar transaction.")]
    started_at: TimeText
    updated_at: Annotated[
        TimeText,
        Field(description="Time of the last change of this answer, by the service's clock."),
    ]
    completed_at: Annotated[Time | None, Field(description="Time of the delivery or refund.")]
    expires_at: Annotated[
        Time, Field(description="The transfer expires if nothing irreversible happened by then.")
    ]
    eta: Annotated[
        Time | None,
        Field(description="Usual time of arrival; null while it waits for a party, or is over."),
    ]
    explorer: Explorer
    timeline: list[Step]
    refund: Annotated[
        Refund | None, Field(description="null before a payment to the deposit address.")
    ]
    self_finish: Annotated[
        SelfFinish | None, Field(description="null unless anyone can deliver it.")
    ]
    extras: Annotated[
        list[str],
        Field(
            description="Ids of further burns or sends that pay the recipient. The service "
            "delivers them within the owner's daily limit; anyone can deliver them."
        ),
    ]
    extras_self_finish: Annotated[
        list[ExtraSelfFinish],
        Field(description="Messages and attestations of the oldest 20 extras that wait."),
    ]


class TransferList(TypedDict):
    """A page of an owner's transfers, newest first."""

    transfers: list[Transfer]
    next_before: Annotated[
        TimeText | None, Field(description="`before` of the next page; null after the last.")
    ]
