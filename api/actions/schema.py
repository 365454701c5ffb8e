"""Types of the actions that an owner can take; `responses.py` builds them."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

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
"""Why there is nothing to do: it is somebody else's turn, it is over, time has run out; the
recipient has no trustline, one that the issuer has not authorized, or one without room; the owner's
transaction would fail as things stand; or, on an EVM chain, the asset's issuer refuses the
recipient, or issuer or bridge are paused."""


class EvmCall(TypedDict):
    """A call of an EVM chain."""

    to: Annotated[str, Field(pattern="^0x[0-9a-f]{40}$", description="Whom.")]
    data: Annotated[str, Field(pattern="^0x([0-9a-f]{2})*$", description="With what.")]
    value: Annotated[BaseUnitsText, Field(description="Wei that it carries.")]


class EvmCalls(TypedDict):
    """Calls that who pays sends one after the other, or in one bundle; the last moves the money."""

    kind: Literal["evm_calls"]
    chainId: Annotated[int, Field(description="EIP-155 number.", ge=1)]
    calls: list[EvmCall]


class SendToAddress(TypedDict):
    """A deposit is to be paid to an address of its own."""

    kind: Literal["send_to_address"]
    chain: Annotated[str, Field(description="CAIP-2 id.")]
    asset: Annotated[str, Field(description="CAIP-19 id.")]
    address: Annotated[str, Field(description="Compute it yourself: docs/deposit-addresses.md.")]
    amount: BaseUnitsText


class StellarTx(TypedDict):
    """A transaction of the owner's account, which the owner signs and sends to the network."""

    kind: Literal["stellar_tx"]
    xdr: Annotated[str, Field(description="The unsigned envelope, base64.")]
    network_passphrase: Annotated[str, Field(description="Of the network that it is for.")]


class StellarTrustline(TypedDict):
    """A trustline of the owner's, with the account if there is none, that the service pays for.

    The transaction is the service's, which signs it after its owner has submitted it signed, as
    `stellar_tx`. Another owner may have used its sequence number first: then another one is shown.
    """

    kind: Literal["stellar_trustline"]
    asset: Annotated[str, Field(description="`stellar:CODE:ISSUER`.")]
    xdr: Annotated[str, Field(description="The unsigned envelope, base64.")]
    network_passphrase: Annotated[str, Field(description="Of the network that it is for.")]


Action: TypeAlias = EvmCalls | SendToAddress | StellarTx | StellarTrustline


class Actions(TypedDict):
    """What the owner can do now: one action, or none and why."""

    action: Annotated[
        Annotated[Action, Field(discriminator="kind")] | None,
        Field(description="Verify it before anything is signed: docs/verify.md."),
    ]
    reason: Annotated[
        Idle | None,
        Field(
            description=(
                "Why there is none: `waiting` for somebody else, `over`, `expired`; the recipient "
                "has `no_trustline` and has to open one, which `needs_trustline` describes; it has "
                "one that is `not_authorized` by its issuer, or `no_room` in it; or the owner's "
                "transaction `would_fail` as things stand, as for want of money; on an EVM chain, "
                "the issuer refuses the recipient (`recipient_refused`), or issuer or bridge are "
                "`paused`."
            )
        ),
    ]
    needs_trustline: Annotated[
        NeededTrustline | None,
        Field(description="What a deposit's owner has to open first, or meanwhile; else null."),
    ]
