"""SEP-10: a token for the holder of an account's key. Challenges are verified before signing."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
from pydantic import TypeAdapter
from stellar_sdk import Keypair, TransactionEnvelope
from stellar_sdk.sep.exceptions import InvalidSep10ChallengeError
from stellar_sdk.sep.stellar_web_authentication import read_challenge_transaction

from isthmus_client.errors import BadAnswer, ChallengeNotTrusted
from isthmus_client.http import Http, read
from isthmus_client.models import Challenge, Token

_CHALLENGE, _TOKEN = TypeAdapter(Challenge), TypeAdapter(Token)

Signer = Callable[[str, str], str]
"""Signs a transaction (XDR in base64, network passphrase), such as by asking a wallet."""


@dataclass(frozen=True)
class SignIn:
    """The trusted server: a challenge must name it and be signed by its key, on this network.

    A member that is None comes from the server's stellar.toml, so it is trusted as far as TLS is.
    """

    network_passphrase: str
    """Never learned: no server may choose the network that something is signed for."""
    home_domain: str | None = None
    signing_key: str | None = None
    web_auth_domain: str | None = None


@dataclass(frozen=True)
class Login:
    """An account, its signer, and the server that it signs in to."""

    account: str
    signer: Signer = field(repr=False)
    server: SignIn

    @classmethod
    def with_key(cls, key: Keypair, server: SignIn) -> "Login":
        """Signs with a key in memory."""

        def sign(transaction: str, passphrase: str) -> str:
            envelope = TransactionEnvelope.from_xdr(transaction, passphrase)
            envelope.sign(key)
            return envelope.to_xdr()

        return cls(key.public_key, sign, server)

    def token(self, http: Http, base_url: httpx.URL) -> str:
        """A new token. Raises `ChallengeNotTrusted` and the errors of a request."""
        server = self._known(http, base_url)
        query = {"account": self.account}
        challenge = read(_CHALLENGE, http.ask("GET", "/auth", query=query)).transaction
        self._check(challenge, server)
        signed = self.signer(challenge, server.network_passphrase)
        answer = http.ask("POST", "/auth", body={"transaction": signed})
        return read(_TOKEN, answer).token

    def _known(self, http: Http, base_url: httpx.URL) -> SignIn:
        """The server with its defaults filled in."""
        server = self.server
        host = base_url.netloc.decode()
        key = server.signing_key or _signing_key(http, server.network_passphrase)
        return SignIn(
            server.network_passphrase,
            server.home_domain or host,
            key,
            server.web_auth_domain or host,
        )

    def _check(self, challenge: str, server: SignIn) -> None:
        try:
            read_ = read_challenge_transaction(
                challenge,
                str(server.signing_key),
                str(server.home_domain),
                str(server.web_auth_domain),
                server.network_passphrase,
            )
        except (InvalidSep10ChallengeError, ValueError, EOFError, AttributeError) as error:
            raise ChallengeNotTrusted(str(error)) from error
        if read_.client_account_id != self.account or read_.memo is not None:
            raise ChallengeNotTrusted(f"the challenge is for {read_.client_account_id}")


def _signing_key(http: Http, passphrase: str) -> str:
    text = http.ask("GET", "/.well-known/stellar.toml").text
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise BadAnswer(f"stellar.toml: {error}") from error
    if document.get("NETWORK_PASSPHRASE") != passphrase:
        raise ChallengeNotTrusted(f"the server is on {document.get('NETWORK_PASSPHRASE')!r}")
    key = document.get("SIGNING_KEY")
    if not isinstance(key, str):
        raise BadAnswer("stellar.toml names no SIGNING_KEY: this server signs nobody in")
    return key
