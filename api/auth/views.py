"""`/auth` (SEP-10) and `/.well-known/stellar.toml` (SEP-1).

Wallets are web pages: every answer here, whatever it is, may be read by any of them.
"""

from typing import Any

import orjson
from flask import Blueprint, Flask, Response, request
from werkzeug.exceptions import RequestEntityTooLarge

from api.auth import schema
from api.auth.challenges import use
from api.auth.owner import public
from api.auth.sep10 import Sep10
from api.auth.stellar_toml import stellar_toml
from api.auth.tokens import Tokens
from api.deps import deps
from api.errors import BadRequest, NotFound
from api.parsing import Strict, read_body_or_form, read_query
from api.ports import Accounts
from api.responses import cacheable
from indexer.addresses import stellar_account

AUTH, TOML = "/auth", "/.well-known/stellar.toml"
MAX_BODY_BYTES = 16 * 1024
"""Twice the longest challenge, whose signs a form may write as three bytes each."""

auth = Blueprint("auth", __name__)
auth.before_request(public)


class SignedChallenge(Strict):
    """The body of `POST /auth`."""

    transaction: str


class SignInOff(NotFound):
    """This process has no keys to sign anyone in with."""

    code = "SIGN_IN_OFF"


@auth.get(TOML)
def give_stellar_toml() -> Response:
    """What wallets read before they sign in."""
    world = deps()
    text = stellar_toml(world.network, world.sep10, world.statement, world.webhook_key)
    return cacheable(Response(text, content_type="text/plain; charset=utf-8"))


@auth.get(AUTH)
def give_challenge() -> schema.Challenge:
    """A transaction for the account to sign; nothing is stored of it."""
    sep10, _, _ = _sign_in()
    # Others, `client_domain` too, mean nothing here: its file is never fetched.
    query = read_query(("account", "memo", "home_domain"), others=True)
    if "memo" in query:
        raise BadRequest("memo: an account is one owner here", code="BAD_MEMO")
    home_domain = query.get("home_domain", sep10.home_domain)
    if home_domain not in sep10.home_domains:
        raise BadRequest(f"home_domain: this is {sep10.home_domain}", code="BAD_HOME_DOMAIN")
    try:
        account = stellar_account(query.get("account", ""))
    except ValueError:
        # Not as it stands: somebody may have sent a seed.
        raise BadRequest("account must be a Stellar account, G…", code="BAD_ADDRESS") from None
    return {
        "transaction": sep10.challenge(account, home_domain),
        "network_passphrase": sep10.passphrase,
    }


@auth.post(AUTH)
def take_challenge() -> schema.Token:
    """A token for a challenge that its account has signed: verified, then used up, then issued."""
    sep10, accounts, tokens = _sign_in()
    challenge = sep10.read(_transaction())
    # Before the transaction: no connection waits for a node.
    sep10.check_signers(challenge, accounts.signing_rules(challenge.account))
    with deps().engine.begin() as connection:
        use(connection, challenge)
        return {"token": tokens.issue(challenge.account, jti=challenge.hash)}


def _sign_in() -> tuple[Sep10, Accounts, Tokens]:
    """Raises `SignInOff` unless all of it was set up."""
    world = deps()
    if world.sep10 is None or world.accounts is None or world.tokens is None:
        raise SignInOff("this service signs nobody in")
    return world.sep10, world.accounts, world.tokens


def _transaction() -> str:
    """What a JSON object or a form holds under that name, and nothing else."""
    if len(request.get_data()) > MAX_BODY_BYTES:
        raise RequestEntityTooLarge
    return read_body_or_form(SignedChallenge).transaction


# What browsers need, and clients of SEP-10


def init_sep10_responses(app: Flask) -> None:
    """Say what SEP-10 wants said on every answer of its path, errors of the router too.

    That pages of any origin may read it is said in `api.browser_headers`.
    """
    app.after_request(_as_wallets_want)


def _as_wallets_want(response: Response) -> Response:
    if request.path == AUTH:
        response.headers["Cache-Control"] = "no-store"
        _name_error(response)
    return response


def _name_error(response: Response) -> None:
    """Give an error's message once more under the name that SEP-10 has for it."""
    body: Any = response.get_json(silent=True) if response.status_code >= 400 else None
    if isinstance(body, dict) and "message" in body:
        response.set_data(orjson.dumps({**body, "error": body["message"]}))
