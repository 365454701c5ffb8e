"""`/auth` (SEP-10) and `/.well-known/stellar.toml` (SEP-1)."""

from typing import Any

import orjson
from flask import Blueprint, Response, request
from werkzeug.exceptions import RequestEntityTooLarge

from api.auth import schema
from api.auth.challenges import use
from api.auth.owner import public
from api.auth.sep10 import Sep10
from api.auth.stellar_toml import stellar_toml
from api.auth.tokens import Tokens
from api.deps import deps
from api.errors import BadRequest, NotFound
from api.operation import NO_STORE, HeaderDoc, Parameter, Schema, operation
from api.parsing import Strict, read_body_or_form, read_query
from api.ports import Accounts
from api.responses import cacheable
from indexer.addresses import stellar_account

AUTH, TOML = "/auth", "/.well-known/stellar.toml"
MAX_BODY_BYTES = 16 * 1024
"""Twice the longest challenge: a form may encode a character as three bytes."""

_ACCOUNT: Schema = {"type": "string", "format": "stellar-account", "pattern": "^G[A-Z2-7]{55}$"}
_ANY_ORIGIN = HeaderDoc("Access-Control-Allow-Origin", "`*`, for wallets in browsers.")

auth = Blueprint("auth", __name__)
auth.before_request(public)


class SignedChallenge(Strict):
    """The body of `POST /auth`."""

    transaction: str


@auth.get(TOML)
@operation(
    "showStellarToml",
    "Authentication",
    {200: "The file."},
    shape=str,
    media_type="text/plain",
    headers=(_ANY_ORIGIN,),
    cached=True,
)
def give_stellar_toml() -> Response:
    """The stellar.toml of this service (SEP-1)."""
    configured = deps()
    text = stellar_toml(
        configured.network, configured.sep10, configured.statement, configured.webhook_key
    )
    return cacheable(Response(text, content_type="text/plain; charset=utf-8"))


@auth.get(AUTH)
@operation(
    "getChallenge",
    "Authentication",
    {200: "The challenge."},
    headers=(NO_STORE, _ANY_ORIGIN),
    parameters=(
        Parameter("account", "The account that logs in.", _ACCOUNT, required=True),
        Parameter("home_domain", "Home domain of this service."),
    ),
    refusals=("BAD_ADDRESS", "BAD_MEMO", "BAD_HOME_DOMAIN", "SIGN_IN_OFF"),
)
def give_challenge() -> schema.Challenge:
    """A challenge for an account to sign (SEP-10).

    The service stores nothing of it.
    """
    sep10, _, _ = _require_sign_in()
    # Ignores other parameters, also `client_domain`: its stellar.toml is never fetched.
    query = read_query(("account", "memo", "home_domain"), others=True)
    if "memo" in query:
        raise BadRequest("memo is not supported: an account is one owner", code="BAD_MEMO")
    home_domain = query.get("home_domain", sep10.home_domain)
    if home_domain not in sep10.home_domains:
        raise BadRequest(f"home_domain must be {sep10.home_domain}", code="BAD_HOME_DOMAIN")
    try:
        account = stellar_account(query.get("account", ""))
    except ValueError:
        # Without the value: a client may have sent a seed.
        raise BadRequest("account must be a Stellar account, G…", code="BAD_ADDRESS") from None
    return {
        "transaction": sep10.challenge(account, home_domain),
        "network_passphrase": sep10.passphrase,
    }


@auth.post(AUTH)
@operation(
    "signIn",
    "Authentication",
    {200: "The token."},
    headers=(NO_STORE, _ANY_ORIGIN),
    # Of two media types openapi-python-client 0.29 makes a module that cannot be imported.
    body=SignedChallenge,
    refusals=(
        *("BAD_CHALLENGE", "CHALLENGE_USED", "BAD_BODY"),
        *("UNKNOWN_PARAMETER", "REPEATED_PARAMETER", "SIGN_IN_OFF"),
        *("UNSUPPORTED_MEDIA_TYPE", "LEDGER_UNAVAILABLE", "DATABASE_UNAVAILABLE"),
    ),
)
def take_challenge() -> schema.Token:
    """A token for a signed challenge (SEP-10).

    The signatures must reach the account's medium threshold. A challenge gives one token.
    Errors have their `message` also as `error`. As SEP-10 requires, the body may also be a form
    (`application/x-www-form-urlencoded`).
    """
    sep10, accounts, tokens = _require_sign_in()
    if len(request.get_data()) > MAX_BODY_BYTES:
        raise RequestEntityTooLarge
    challenge = sep10.read(read_body_or_form(SignedChallenge).transaction)
    # Before the database transaction: no connection waits for a node.
    sep10.check_signers(challenge, accounts.signing_rules(challenge.account))
    with deps().engine.begin() as connection:
        use(connection, challenge)
        return {"token": tokens.issue(challenge.account, jti=challenge.hash)}


def _require_sign_in() -> tuple[Sep10, Accounts, Tokens]:
    """Raises `NotFound` unless all of them are configured."""
    configured = deps()
    sep10, accounts, tokens = configured.sep10, configured.accounts, configured.tokens
    if sep10 is None or accounts is None or tokens is None:
        raise NotFound("this service has no SEP-10 login", code="SIGN_IN_OFF")
    return sep10, accounts, tokens


@auth.after_app_request
def add_sep10_members(response: Response) -> Response:
    """Headers and errors of SEP-10 on every response of its path, also errors of the router.

    `api.browser_headers` lets pages of any origin read them.
    """
    if request.path != AUTH:
        return response
    response.headers["Cache-Control"] = "no-store"
    body: Any = response.get_json(silent=True) if response.status_code >= 400 else None
    if isinstance(body, dict) and "message" in body:
        # SEP-10's name of the member.
        response.set_data(orjson.dumps({**body, "error": body["message"]}))
    return response
