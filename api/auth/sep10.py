"""SEP-10 challenges: creation, parsing and verification, without network or database.

The Stellar library verifies what SEP-10 says. Stricter rules here:

- exactly the envelope that we create: two operations, no memo, plain `G…` accounts, 15 minutes
- `web_auth_domain` must be present, not only correct if present
- a signer of weight 0 does not count, nor does our own key, and some weight is always required
- an account that is not on the ledger signs with its master key alone

The library uses this machine's clock.
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
"""Lifetime of a challenge."""
MAX_CHALLENGE_LENGTH = 8 * 1024
"""Characters of base64. Ours with 20 signatures, the most of an envelope, are under 3000."""
MAX_HOME_DOMAIN_LENGTH = 59
"""The name of an entry holds 64 bytes, of which ` auth` takes 5."""
MAX_WEB_AUTH_DOMAIN_LENGTH = 64

_SIGNATURE_BYTES = 64
_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9][0-9]{0,4})?")
_LOOPBACK_NAMES = ("localhost", "127.0.0.1")
_LOOPBACK = (*_LOOPBACK_NAMES, "::1")
_MASTER_KEY_WEIGHT = 1
_XDR_ERRORS = (ValueError, EOFError, TypeError, xdrlib3.Error)
"""Errors of the library for invalid XDR."""


class ChallengeRefused(BadRequest):
    """Not a challenge of ours, not signed as required, expired or used."""

    code = "BAD_CHALLENGE"


@dataclass(frozen=True, slots=True)
class SignInChallenge:
    """A challenge that we signed and that is not expired; its other signatures are unverified."""

    account: StellarAddress
    hash: TxHash
    """Of the transaction: it covers the nonce and not the signatures."""
    expires_at: UnixSeconds
    text: str = field(repr=False)
    """The envelope in base64."""
    signatures: int
    """Ours included."""
    server: StellarAddress
    """Our key that signed it."""


@dataclass(frozen=True, slots=True)
class Sep10:
    """Creates and verifies challenges."""

    key: Keypair = field(repr=False)
    """Signs challenges, and must never sign anything else: its signature makes a challenge."""
    home_domain: str
    web_auth_domain: str
    passphrase: str
    endpoint: str
    """URL of `/auth`."""
    other_home_domains: tuple[str, ...] = ()
    """Further names of this machine, where it serves itself alone."""
    other_signing_key: StellarAddress | None = None
    """Public key whose challenges are accepted too, while one key replaces the other."""

    @property
    def home_domains(self) -> tuple[str, ...]:
        """Accepted home domains of challenges."""
        return (self.home_domain, *self.other_home_domains)

    @property
    def signing_key(self) -> str:
        """The public key, `G…`."""
        return self.key.public_key

    @property
    def signing_keys(self) -> tuple[str, ...]:
        """Public keys of accepted challenges."""
        return (self.signing_key, *filter(None, [self.other_signing_key]))

    def challenge(self, account: StellarAddress, home_domain: str | None = None) -> str:
        """A new challenge in base64, for one of `home_domains`."""
        return library.build_challenge_transaction(
            self.key.secret,
            account,
            home_domain or self.home_domain,
            self.web_auth_domain,
            self.passphrase,
            timeout=WINDOW_SECONDS,
        )

    def read(self, text: str) -> SignInChallenge:
        """Raises `ChallengeRefused` for anything but a challenge of ours."""
        if len(text) > MAX_CHALLENGE_LENGTH:
            raise ChallengeRefused(
                f"the challenge is longer than {MAX_CHALLENGE_LENGTH} characters"
            )
        try:
            # Some clients wrap their lines.
            raw = base64.b64decode("".join(text.split()), validate=True)
        except ValueError as error:
            raise ChallengeRefused("the challenge is not base64") from error
        parts = _parse_envelope(raw)
        canonical = base64.b64encode(raw).decode()
        # The library then requires the signature of this key.
        server = parts.server if parts.server in self.signing_keys else self.signing_key
        try:
            read = library.read_challenge_transaction(
                canonical,
                server,
                self.home_domains,
                self.web_auth_domain,
                self.passphrase,
            )
        except (InvalidSep10ChallengeError, *_XDR_ERRORS) as error:
            raise ChallengeRefused(f"not a valid challenge: {error}") from error
        if parts.account in self.signing_keys or parts.server != server:
            raise ChallengeRefused("the operations must be the account's, then the server's")
        return SignInChallenge(
            parts.account,
            TxHash(read.transaction.hash_hex()),
            parts.expires_at,
            canonical,
            parts.signatures,
            parts.server,
        )

    def check_signers(self, challenge: SignInChallenge, rules: SigningRules | None) -> None:
        """`rules` is None for an account that is not on the ledger.

        Raises `ChallengeRefused` unless every signature but ours is of a signer of the account,
        each once, and their weight reaches the threshold for moving funds.
        """
        if rules is None:
            if challenge.signatures != 2:
                raise ChallengeRefused(
                    "an account that is not on the ledger signs once, with its key"
                )
            signers = [Ed25519PublicKeySigner(challenge.account, _MASTER_KEY_WEIGHT)]
            threshold = _MASTER_KEY_WEIGHT
        else:
            signers = [
                Ed25519PublicKeySigner(signer.key, signer.weight)
                for signer in rules.signers
                if signer.weight > 0 and signer.key not in self.signing_keys
            ]
            # A new account has a threshold of 0, for which no signature at all would be enough.
            threshold = max(1, rules.medium_threshold)
        try:
            library.verify_challenge_transaction_threshold(
                challenge.text,
                challenge.server,
                self.home_domains,
                self.web_auth_domain,
                self.passphrase,
                threshold,
                signers,
            )
        except InvalidSep10ChallengeError as error:
            raise ChallengeRefused(f"the signatures are not sufficient: {error}") from error


def sep10_from_settings(settings: ApiSettings, passphrase: str) -> Sep10 | None:
    """None without a key. Raises `ConfigurationError`."""
    if settings.sep10_key is None:
        return None
    try:
        key = Keypair.from_secret(settings.sep10_key)
    except Ed25519SecretSeedInvalidError:
        # Not as the cause: it quotes the key.
        raise ConfigurationError("ISTHMUS_SEP10_KEY_FILE is no secret seed (S…)") from None
    if settings.token_key is None or settings.url is None:
        raise ConfigurationError(
            "ISTHMUS_SEP10_KEY_FILE needs ISTHMUS_TOKEN_KEY_FILE and ISTHMUS_URL"
        )
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
        _validate_domain("ISTHMUS_HOME_DOMAIN", home_domain, MAX_HOME_DOMAIN_LENGTH),
        _validate_domain(
            "ISTHMUS_WEB_AUTH_DOMAIN",
            settings.web_auth_domain or parts.netloc,
            MAX_WEB_AUTH_DOMAIN_LENGTH,
        ),
        passphrase,
        f"{settings.url}/auth",
        others,
        _other_signing_key(settings, key),
    )


def _other_signing_key(settings: ApiSettings, key: Keypair) -> StellarAddress | None:
    other = settings.sep10_public_key_other
    if other == key.public_key:
        raise ConfigurationError(
            "ISTHMUS_SEP10_PUBLIC_KEY_OTHER is the key of ISTHMUS_SEP10_KEY_FILE"
        )
    return None if other is None else StellarAddress(other)


def _validate_domain(variable: str, text: str, max_length: int) -> str:
    if not _DOMAIN.fullmatch(text) or len(text) > max_length:
        raise ConfigurationError(
            f"{variable} is {text!r}; it must be a host or host:port in small letters, "
            f"of at most {max_length} characters"
        )
    return text


class _EnvelopeParts(NamedTuple):
    account: StellarAddress
    """Source of the first operation."""
    server: StellarAddress
    """Source of the second operation."""
    expires_at: UnixSeconds
    signatures: int


def _parse_envelope(raw: bytes) -> _EnvelopeParts:
    """Parts of an envelope with the structure of ours; signatures are unverified.

    Raises `ChallengeRefused` for any other, before the library parses it.
    """
    try:
        envelope = xdr.TransactionEnvelope.from_xdr_bytes(raw)
    except _XDR_ERRORS as error:
        raise ChallengeRefused("the challenge is not an envelope in XDR") from error
    if envelope.to_xdr_bytes() != raw:
        # For example a bool that is neither 0 nor 1, which the library accepts.
        raise ChallengeRefused("the challenge is not canonical XDR")
    if envelope.v1 is None:
        raise ChallengeRefused(f"the envelope must not be of type {envelope.type.name}")
    transaction, signatures = envelope.v1.tx, envelope.v1.signatures
    _plain_account(transaction.source_account)
    if transaction.memo.type != xdr.MemoType.MEMO_NONE:
        raise ChallengeRefused("memos are not supported")
    operations = transaction.operations
    if len(operations) != 2:
        raise ChallengeRefused(f"the challenge has {len(operations)} operations and must have 2")
    entries = [operation.body.manage_data_op for operation in operations]
    if entries[0] is None or entries[1] is None:
        raise ChallengeRefused("the operations must be manage_data")
    if entries[1].data_name.string64 != b"web_auth_domain":
        raise ChallengeRefused("the second operation must be web_auth_domain")
    account, server = (_plain_account(operation.source_account) for operation in operations)
    conditions = transaction.cond
    bounds = conditions.time_bounds
    if conditions.type != xdr.PreconditionType.PRECOND_TIME or bounds is None:
        raise ChallengeRefused("the preconditions must be time bounds alone")
    start, end = bounds.min_time.time_point.uint64, bounds.max_time.time_point.uint64
    if not 0 <= end - start <= WINDOW_SECONDS:
        raise ChallengeRefused(
            f"the challenge is valid for {end - start} s; the maximum is {WINDOW_SECONDS}"
        )
    if any(len(each.signature.signature) != _SIGNATURE_BYTES for each in signatures):
        raise ChallengeRefused("each signature must have 64 bytes")
    if len(signatures) < 2:
        raise ChallengeRefused("the account and the server must sign")
    return _EnvelopeParts(account, server, UnixSeconds(end), len(signatures))


def _plain_account(source: xdr.MuxedAccount | None) -> StellarAddress:
    """Raises `ChallengeRefused` for a muxed account and for none."""
    if source is None or source.ed25519 is None:
        raise ChallengeRefused("each operation must have an account that is not muxed")
    return bytes32_as_account(bytes32(source.ed25519.uint256))
