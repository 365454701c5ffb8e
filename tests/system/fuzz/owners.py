"""Who signs in while the API is fuzzed, and which signatures a login of theirs needs."""

import base64
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from textwrap import wrap

from hypothesis import strategies as st
from stellar_sdk import Keypair

from api.auth.tokens import Tokens
from indexer.chains.stellar.xdr.ledger_entries import Signer, SigningRules, account_key
from tests.factories.accounts import make_account_entry
from tests.factories.sep10 import WALLET, key, make_rules, sign
from tests.factories.tokens import URL, private_key
from warehouse_schema.identifiers import StellarAddress, UnixSeconds

COSIGNER, NEWCOMER, STRANGER = key("cosigner"), key("newcomer"), key("stranger")
TOKEN_KEY = "fuzz"
_WEIGHTS = {WALLET.public_key: 1, COSIGNER.public_key: 1}
_MEDIUM = 2


@dataclass(frozen=True)
class Owner:
    """One with an account on the ledger, which two keys sign for, or one with none yet."""

    key: Keypair
    is_on_ledger: bool

    @property
    def account(self) -> StellarAddress:
        """Who a token of theirs says is asking."""
        return StellarAddress(self.key.public_key)

    def is_signed(self, signers: Sequence[Keypair]) -> bool:
        """Whether these signatures, beside the server's, sign the owner in."""
        names = [each.public_key for each in signers]
        if not self.is_on_ledger:
            return names == [self.account]
        known = len(set(names)) == len(names) and set(names) <= _WEIGHTS.keys()
        return known and sum(_WEIGHTS[name] for name in names) >= _MEDIUM


OWNERS = (Owner(WALLET, is_on_ledger=True), Owner(NEWCOMER, is_on_ledger=False))


def ledger_entries() -> dict[str, str]:
    """What a node has of them: base64 LedgerEntryData by base64 key."""
    account = StellarAddress(WALLET.public_key)
    keys = {COSIGNER.public_key: _WEIGHTS[COSIGNER.public_key]}
    return {account_key(account): make_account_entry(account, medium=_MEDIUM, keys=keys)}


def ledger_rules() -> SigningRules:
    """The same as the service reads it."""
    rules = make_rules(medium=_MEDIUM)
    cosigner = Signer(StellarAddress(COSIGNER.public_key), _WEIGHTS[COSIGNER.public_key])
    return SigningRules(rules.account, rules.medium_threshold, (*rules.signers, cosigner))


def issuing(name: str = TOKEN_KEY) -> Callable[[Owner], str]:
    """Gives an owner a new token of the service's own, each with an id of its own."""
    now = lambda: UnixSeconds(int(time.time()))  # noqa: E731
    tokens = Tokens(private_key(name), issuer=URL, clock=now)
    run, number = time.time_ns(), count()
    return lambda owner: tokens.issue(owner.account, jti=f"fuzz-{run}-{next(number)}")


@dataclass(frozen=True)
class Attempt:
    """A login to try: who, signed by whom, and what is changed in the envelope afterwards."""

    owner: Owner
    signers: tuple[Keypair, ...]
    flips: tuple[tuple[int, int], ...] = ()
    """Place (modulo the length) and the bits that are turned there."""
    width: int = 0
    """Characters in a line; 0: all in one. Some clients wrap what they send."""

    def envelope(self, challenge: str, passphrase: str) -> str:
        """The challenge as it is sent back."""
        # `sign` takes none for the wallet.
        signed = (
            sign(challenge, *self.signers, passphrase=passphrase) if self.signers else challenge
        )
        raw = bytearray(base64.b64decode(signed))
        for place, bits in self.flips:
            raw[place % len(raw)] ^= bits
        text = base64.b64encode(bytes(raw)).decode()
        return "\n".join(wrap(text, self.width)) if self.width else text

    def opens(self, challenge: str, passphrase: str) -> bool:
        """Whether it signs the owner in: rightly signed, and as it was."""
        untouched = replace(self, flips=())
        return self.owner.is_signed(self.signers) and (
            self.envelope(challenge, passphrase) == untouched.envelope(challenge, passphrase)
        )


_SIGNERS = st.lists(st.sampled_from([WALLET, COSIGNER, NEWCOMER, STRANGER]), max_size=4)
_FLIPS = st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 255)), min_size=1, max_size=3)
_RIGHT: list[tuple[Owner, tuple[Keypair, ...]]] = [
    (OWNERS[0], (WALLET, COSIGNER)),
    (OWNERS[1], (NEWCOMER,)),
]
RIGHT = st.sampled_from(_RIGHT)
_WIDTHS = st.integers(0, 300)
ATTEMPTS = st.one_of(
    st.builds(lambda right, width: Attempt(right[0], right[1], width=width), RIGHT, _WIDTHS),
    st.builds(Attempt, st.sampled_from(OWNERS), _SIGNERS.map(tuple), width=_WIDTHS),
    st.builds(lambda right, flips: Attempt(right[0], right[1], tuple(flips)), RIGHT, _FLIPS),
)


def torn(token: str, place: int, letter: str) -> str:
    """The token with one letter of it replaced."""
    place %= len(token)
    return token[:place] + letter + token[place + 1 :]


TEARS = st.tuples(
    st.sampled_from(OWNERS),
    st.integers(0, 1000),
    st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."),
)
