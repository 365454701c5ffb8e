"""SEP-10 challenges: made, read back and weighed. Nothing here reaches a network or a database.

The library checks what it knows of; the rules it does not enforce stand here:

- exactly the envelope that we make: two operations, no memo, plain `G…` accounts, 15 minutes
- `web_auth_domain` is there, not only right if it is
- a signer of weight 0 does not count, nor does our own key, and some weight is always needed
- an account that is not on the ledger is signed for by its master key alone

Time is the library's: this machine's clock.
"""

import base64
import re
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

import xdrlib3
from stellar_sdk import Keypair, xdr
from stellar_sdk.exceptions import Ed25519SecretSeedInvalidError
from stellar_sdk.sep import stellar_web_authentication as library
from stellar_sdk.sep.ed25519_public_key_signer import Ed25519PublicKeySigner
from stellar_sdk.sep.exceptions import InvalidSep10ChallengeError

from api.errors import BadRequest
from api.settings import ApiSettings
from indexer.addresses import bytes32_as_account
from indexer.chains.stellar.xdr.ledger_entries import SigningRules
from indexer.errors import ConfigurationError
from warehouse_schema.identifiers import StellarAddress, TxHash, UnixSeconds, bytes32

WINDOW_SECONDS = 900
"""How long a challenge is good for."""
MAX_CHALLENGE_LENGTH = 8 * 1024
"""Characters of base64. Ours with the 20 signatures that an envelope can have are under 3000."""
MAX_HOME_DOMAIN_LENGTH = 59
"""The name of an entry holds 64 bytes, and ` auth` comes after it."""
MAX_WEB_AUTH_DOMAIN_LENGTH = 64

_SIGNATURE_BYTES = 64
_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9][0-9]{0,4})?")
_LOOPBACK_NAMES = ("localhost", "127.0.0.1")
_LOOPBACK = (*_LOOPBACK_NAMES, "::1")
_MASTER_KEY_WEIGHT = 1
_UNREADABLE = (ValueError, EOFError, TypeError, xdrlib3.Error)
"""What the library raises for bytes that are no envelope."""


class ChallengeRefused(BadRequest):
    """Not a challenge of ours, not signed as it must be, expired or used. A new one is free."""

    code = "BAD_CHALLENGE"


@dataclass(frozen=True, slots=True)
class SignInChallenge:
    """One of ours, signed by us, in time, with more signatures that are not looked at yet."""

    account: StellarAddress
    hash: TxHash
    """Of the transaction: it covers the nonce and not the signatures."""
    expires_at: UnixSeconds
    text: str = field(repr=False)
    """The envelope in base64."""
    signatures: int
    """Ours among them."""


@dataclass(frozen=True, slots=True)
class Sep10:
    """Makes challenges and knows them again."""

    key: Keypair = field(repr=False)
    """Signs challenges, and must never sign anything else: what it signed is believed."""
    home_domain: str
    web_auth_domain: str
    passphrase: str
    endpoint: str
    """URL of `/auth`."""
    other_home_domains: tuple[str, ...] = ()
    """Further names of this machine, where it serves itself alone."""

    @property
    def home_domains(self) -> tuple[str, ...]:
        """Those that a challenge may be for."""
        return (self.home_domain, *self.other_home_domains)

    @property
    def signing_key(self) -> str:
        """The public key, `G…`."""
        return self.key.public_key

    def challenge(self, account: StellarAddress, home_domain: str | None = None) -> str:
        """A new one for an account, in base64, for one of `home_domains`."""
        return library.build_challenge_transaction(
            self.key.secret,
            account,
            home_domain or self.home_domain,
            self.web_auth_domain,
            self.passphrase,
            timeout=WINDOW_SECONDS,
        )

    def read(self, text: str) -> SignInChallenge:
        """A challenge that came back. Raises `ChallengeRefused`."""
        raw = _bytes(text)
        parts = _parts(_envelope(raw))
        canonical = base64.b64encode(raw).decode()
        try:
            read = library.read_challenge_transaction(
                canonical,
                self.signing_key,
                self.home_domains,
                self.web_auth_domain,
                self.passphrase,
            )
        except (InvalidSep10ChallengeError, *_UNREADABLE) as error:
            raise ChallengeRefused(f"not a challenge that we take: {error}") from error
        if parts.account == self.signing_key or parts.server != self.signing_key:
            raise ChallengeRefused("the operations must be the account's, then the server's")
        return SignInChallenge(
            parts.account,
            TxHash(read.transaction.hash_hex()),
            parts.expires_at,
            canonical,
            parts.signatures,
        )

    def check_signers(self, challenge: SignInChallenge, rules: SigningRules | None) -> None:
        """Hold the signatures against an account's rules; None: the ledger has no such account.

        Raises `ChallengeRefused` unless every signature but ours is one of its signers', each
        once, and they weigh what moving funds takes.
        """
        if rules is None:
            if challenge.signatures != 2:
                raise ChallengeRefused("an account not on the ledger signs once, with its key")
            signers = [Ed25519PublicKeySigner(challenge.account, _MASTER_KEY_WEIGHT)]
            threshold = _MASTER_KEY_WEIGHT
        else:
            signers = [
                Ed25519PublicKeySigner(signer.key, signer.weight)
                for signer in rules.signers
                if signer.weight > 0 and signer.key != self.signing_key
            ]
            # 0 is what every new account has, and would let no signature at all be enough.
            threshold = max(1, rules.medium_threshold)
        try:
            library.verify_challenge_transaction_threshold(
                challenge.text,
                self.signing_key,
                self.home_domains,
                self.web_auth_domain,
                self.passphrase,
                threshold,
                signers,
            )
        except InvalidSep10ChallengeError as error:
            raise ChallengeRefused(f"not signed as the account requires: {error}") from error


def sep10_from_settings(settings: ApiSettings, passphrase: str) -> Sep10 | None:
    """As an operator set it; None without a key. Raises `ConfigurationError`."""
    if settings.sep10_key is None:
        return None
    try:
        key = Keypair.from_secret(settings.sep10_key)
    except Ed25519SecretSeedInvalidError:
        # Not as the cause: it quotes the key.
        raise ConfigurationError("ISTHMUS_SEP10_KEY is no secret seed (S…)") from None
    if settings.token_key is None or settings.url is None:
        raise ConfigurationError("ISTHMUS_SEP10_KEY needs ISTHMUS_TOKEN_KEY and ISTHMUS_URL")
    parts = urlsplit(settings.url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise ConfigurationError(f"ISTHMUS_URL is {settings.url}; wallets sign in over https alone")
    home_domain = settings.home_domain or parts.netloc
    others: tuple[str, ...] = ()
    if home_domain == parts.netloc and parts.hostname in _LOOPBACK_NAMES:
        names = (home_domain.replace(parts.hostname, name) for name in _LOOPBACK_NAMES)
        others = tuple(name for name in names if name != home_domain)
    return Sep10(
        key,
        _domain("ISTHMUS_HOME_DOMAIN", home_domain, MAX_HOME_DOMAIN_LENGTH),
        _domain(
            "ISTHMUS_WEB_AUTH_DOMAIN",
            settings.web_auth_domain or parts.netloc,
            MAX_WEB_AUTH_DOMAIN_LENGTH,
        ),
        passphrase,
        f"{settings.url}/auth",
        others,
    )


def _domain(variable: str, text: str, longest: int) -> str:
    if not _DOMAIN.fullmatch(text) or len(text) > longest:
        raise ConfigurationError(
            f"{variable} is {text!r}; it must be a host or host:port in small letters, "
            f"of at most {longest} characters"
        )
    return text


def _bytes(text: str) -> bytes:
    if len(text) > MAX_CHALLENGE_LENGTH:
        raise ChallengeRefused(f"longer than {MAX_CHALLENGE_LENGTH} characters")
    try:
        # Some clients wrap their lines.
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError as error:
        raise ChallengeRefused("not base64") from error


def _envelope(raw: bytes) -> xdr.TransactionEnvelope:
    try:
        envelope = xdr.TransactionEnvelope.from_xdr_bytes(raw)
    except _UNREADABLE as error:
        raise ChallengeRefused("not a transaction envelope in XDR") from error
    if envelope.to_xdr_bytes() != raw:
        # Such as a yes that is neither 0 nor 1, which the library takes.
        raise ChallengeRefused("not the one way to write an envelope in XDR")
    return envelope


class _Parts(NamedTuple):
    """What an envelope made as ours says, before anybody has looked at who signed it."""

    account: StellarAddress
    """Source of the first operation."""
    server: StellarAddress
    """And of the second."""
    expires_at: UnixSeconds
    signatures: int


def _parts(envelope: xdr.TransactionEnvelope) -> _Parts:
    """Raises `ChallengeRefused` for an envelope that is not made as ours are.

    It stands before the library, which so meets nothing that is far from a challenge.
    """
    if envelope.v1 is None:
        raise ChallengeRefused(f"an envelope of type {envelope.type.name}")
    transaction = envelope.v1.tx
    _account(transaction.source_account)
    if transaction.memo.type != xdr.MemoType.MEMO_NONE:
        raise ChallengeRefused("a memo: accounts that share a key are not served")
    account, server = _sources(transaction.operations)
    return _Parts(
        account, server, _end(transaction.cond), _count_signatures(envelope.v1.signatures)
    )


def _sources(operations: list[xdr.Operation]) -> tuple[StellarAddress, StellarAddress]:
    """Of the two entries, the second of which is `web_auth_domain`."""
    if len(operations) != 2:
        raise ChallengeRefused(f"{len(operations)} operations; a challenge of ours has two")
    entries = [operation.body.manage_data_op for operation in operations]
    if entries[0] is None or entries[1] is None:
        raise ChallengeRefused("an operation that is no manage_data")
    if entries[1].data_name.string64 != b"web_auth_domain":
        raise ChallengeRefused("the second operation must be web_auth_domain")
    client, server = (_account(operation.source_account) for operation in operations)
    return client, server


def _end(conditions: xdr.Preconditions) -> UnixSeconds:
    bounds = conditions.time_bounds
    if conditions.type != xdr.PreconditionType.PRECOND_TIME or bounds is None:
        raise ChallengeRefused("no time bounds, or more conditions than those")
    start, end = bounds.min_time.time_point.uint64, bounds.max_time.time_point.uint64
    if not 0 <= end - start <= WINDOW_SECONDS:
        raise ChallengeRefused(f"good for {end - start} s; {WINDOW_SECONDS} are the most")
    return UnixSeconds(end)


def _count_signatures(signatures: list[xdr.DecoratedSignature]) -> int:
    if any(len(each.signature.signature) != _SIGNATURE_BYTES for each in signatures):
        raise ChallengeRefused("a signature that is not of 64 bytes")
    if len(signatures) < 2:
        raise ChallengeRefused("not signed by the account and by us")
    return len(signatures)


def _account(source: xdr.MuxedAccount | None) -> StellarAddress:
    """A plain account. Raises `ChallengeRefused` for a muxed one and for none."""
    if source is None or source.ed25519 is None:
        raise ChallengeRefused("an operation without an account, or of a muxed one")
    return bytes32_as_account(bytes32(source.ed25519.uint256))
