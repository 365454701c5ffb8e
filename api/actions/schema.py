"""Types of the actions that an owner can take; `responses.py` builds them."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from api.amounts import amount
from api.text_types import BaseUnitsText
from api.trustlines import NeededTrustline

Idle: TypeAlias = Literal[
    "waiting",
    "over",
    "expired",
    "no_trustline",
    "not_authorized",
    "no_room",
    "would_fail",
    "recipient_refused",
    "paused",
]
"""Why there is nothing to do: another party has to act, it is over, time has run out; the
recipient has no trustline, one that the issuer has not authorized, or one without room; the owner's
transaction would fail as things stand; or, on an EVM chain, the asset's issuer refuses the
recipient, or issuer or bridge are paused."""


class EvmCall(TypedDict):
    """A call of an EVM chain."""

    to: Annotated[str, Field(pattern="^0x[0-9a-f]{40}$", description="Contract to call.")]
    data: Annotated[str, Field(pattern="^0x([0-9a-f]{2})*$", description="Call data.")]
    value: Annotated[BaseUnitsText, amount("wei", "0", "Value of the call.")]


class EvmCalls(TypedDict):
    """Calls that the payer sends one by one, or in one bundle; the last one moves the money."""

    kind: Literal["evm_calls"]
    chainId: Annotated[int, Field(description="EIP-155 number.", ge=1)]
    calls: list[EvmCall]


class SendToAddress(TypedDict):
    """A payment to the deposit address of the transfer."""

    kind: Literal["send_to_address"]
    chain: Annotated[str, Field(description="CAIP-2 id.")]
    asset: Annotated[str, Field(description="CAIP-19 id.")]
    address: Annotated[str, Field(description="Compute it yourself: docs/deposit-addresses.md.")]
    amount: Annotated[BaseUnitsText, amount("base units of `asset`", "20000000")]


class StellarTx(TypedDict):
    """A transaction of the owner's account, for the owner to sign and submit."""

    kind: Literal["stellar_tx"]
    xdr: Annotated[str, Field(description="The unsigned envelope, base64.")]
    network_passphrase: Annotated[str, Field(description="Passphrase of its network.")]


class StellarTrustline(TypedDict):
    """A trustline of the owner that the service pays for, with the account if there is none.

    The owner signs the transaction and submits it as `stellar_tx`; then the service, whose account
    is its source, signs it. If another transaction uses its sequence number first, a new one is
    shown.
    """

    kind: Literal["stellar_trustline"]
    asset: Annotated[str, Field(description="`stellar:CODE:ISSUER`.")]
    xdr: Annotated[str, Field(description="The unsigned envelope, base64.")]
    network_passphrase: Annotated[str, Field(description="Passphrase of its network.")]


Action: TypeAlias = EvmCalls | SendToAddress | StellarTx | StellarTrustline


class Actions(TypedDict):
    """The owner's next action, or the reason why there is none."""

    action: Annotated[
        Annotated[Action, Field(discriminator="kind")] | None,
        Field(description="Verify it before anything is signed: docs/verify.md."),
    ]
    reason: Annotated[
        Idle | None,
        Field(
            description=(
                "Why there is no action. `waiting`: another party has to act. `over`, `expired`: "
                "the transfer has ended. `no_trustline`: the recipient has to open one, see "
                "`needs_trustline`. `not_authorized`: the issuer has not authorized it. `no_room`: "
                "it cannot hold the amount. `would_fail`: the owner's transaction would fail now, "
                "for example without the money. `recipient_refused`: the issuer refuses the EVM "
                "recipient. `paused`: issuer or bridge are paused."
            )
        ),
    ]
    needs_trustline: Annotated[
        NeededTrustline | None,
        Field(description="Trustline that a deposit's owner has to open; null without one."),
    ]
