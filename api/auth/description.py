"""What the paths about who is asking take and answer."""

from collections.abc import Mapping

from api.auth.schema import Challenge, Revoked, Session, Token
from api.auth.views import SignedChallenge
from api.description import (
    CONDITIONS,
    HeaderDoc,
    Operation,
    Parameter,
    RequestBodyDoc,
    ResponseDoc,
    Schema,
    cached,
)

_ACCOUNT: Schema = {"type": "string", "format": "stellar-account", "pattern": "^G[A-Z2-7]{55}$"}
_TAG = "Who is asking"
_NOT_KEPT = HeaderDoc("Cache-Control", "`no-store`")
_OPEN = HeaderDoc("Access-Control-Allow-Origin", "`*`: wallets are web pages.")

OPERATIONS: Mapping[str, Operation] = {
    "auth.give_stellar_toml": Operation(
        name="showStellarToml",
        tag=_TAG,
        summary="What wallets read first (SEP-1)",
        parameters=CONDITIONS,
        answers=cached("The file.", str, media_type="text/plain", headers=(_OPEN,)),
    ),
    "auth.give_challenge": Operation(
        name="getChallenge",
        tag=_TAG,
        summary="A challenge for an account to sign (SEP-10)",
        description="Nothing is stored of it. `home_domain` is this service's own, if it is named.",
        parameters=(
            Parameter("account", "The account that signs in.", _ACCOUNT, required=True),
            Parameter("home_domain", "Of which service a token is wanted.", {"type": "string"}),
        ),
        answers=(ResponseDoc(200, "The challenge.", Challenge, headers=(_NOT_KEPT, _OPEN)),),
        refusals={
            400: ("BAD_ADDRESS", "BAD_MEMO", "BAD_HOME_DOMAIN"),
            404: ("SIGN_IN_OFF",),
        },
    ),
    "auth.take_challenge": Operation(
        name="signIn",
        tag=_TAG,
        summary="A token for a signed challenge (SEP-10)",
        description=(
            "Signed by keys of the account that reach its medium threshold. A challenge gives one "
            "token. Errors carry their `message` once more as `error`. As SEP-10 asks, a form "
            "(`application/x-www-form-urlencoded`) with the same field is read too."
        ),
        # Of two media types openapi-python-client 0.29 makes a module that cannot be imported.
        body=RequestBodyDoc(SignedChallenge),
        answers=(ResponseDoc(200, "The token.", Token, headers=(_NOT_KEPT, _OPEN)),),
        refusals={
            400: (
                *("BAD_CHALLENGE", "CHALLENGE_USED", "BAD_BODY"),
                *("UNKNOWN_PARAMETER", "REPEATED_PARAMETER"),
            ),
            404: ("SIGN_IN_OFF",),
            415: ("UNSUPPORTED_MEDIA_TYPE",),
            503: ("LEDGER_UNAVAILABLE", "DATABASE_UNAVAILABLE"),
        },
    ),
    "session.show": Operation(
        name="showSession",
        tag=_TAG,
        summary="Whose the token is",
        answers=(ResponseDoc(200, "Who is asking, and until when the token is good.", Session),),
    ),
    "session.end": Operation(
        name="endSession",
        tag=_TAG,
        summary="Log out",
        description="The token is refused from the next request on.",
        answers=(ResponseDoc(200, "The token is given up.", Revoked),),
        refusals={400: ("NOT_OUR_TOKEN",)},
    ),
}
