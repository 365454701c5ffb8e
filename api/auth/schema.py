"""Response bodies of `/auth` and `/v1/session`."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from api.text_types import AccountText, Time


class Challenge(TypedDict):
    """The challenge that the account signs (SEP-10)."""

    transaction: Annotated[str, Field(description="A transaction envelope, XDR in base64.")]
    network_passphrase: Annotated[str, Field(description="Passphrase of the network.")]


class Token(TypedDict):
    """The value of `Authorization: Bearer …` in later requests."""

    token: Annotated[str, Field(description="A JWT whose subject is the account.")]


class Session(TypedDict):
    """The session of a token."""

    account: Annotated[AccountText, Field(description="The owner's Stellar account.")]
    issuer: Annotated[str, Field(description="`iss` of the token.")]
    expires_at: Annotated[Time, Field(description="Expiry of the token.")]


class Revoked(TypedDict):
    """The token is revoked."""

    revoked: Literal[True]
