"""What the paths of `/v1/session` show, as types."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from api.text_types import AccountText, Time


class Challenge(TypedDict):
    """What the account has to sign (SEP-10)."""

    transaction: Annotated[str, Field(description="A transaction envelope, XDR in base64.")]
    network_passphrase: Annotated[str, Field(description="Of the network to sign it for.")]


class Token(TypedDict):
    """What to send as `Authorization: Bearer …` from now on."""

    token: Annotated[str, Field(description="A JWT whose subject is the account.")]


class Session(TypedDict):
    """Who is asking."""

    account: Annotated[AccountText, Field(description="The Stellar account that owns all this.")]
    issuer: Annotated[str, Field(description="Who gave the token out.")]
    expires_at: Annotated[Time, Field(description="Until when the token is good.")]


class Revoked(TypedDict):
    """The token is given up."""

    revoked: Literal[True]
