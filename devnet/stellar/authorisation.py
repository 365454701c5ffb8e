"""Authorisation of contract calls by addresses: Soroban's rules (CAP-46-11).

An authorisation entry is a tree of calls that one address consents to. The source of the operation
consents by signing the transaction (source-account credentials); any other account by a signature
of the entry itself, good once (a nonce) and until a ledger (address credentials). A contract that
makes a call consents to it by making it. Legacy address credentials are all that the devnet has;
contracts that are accounts themselves (`__check_auth`) do not exist on the devnet.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey
from stellar_sdk import Address, StrKey, scval, xdr

from devnet.stellar.accounts import NETWORK_ID
from devnet.stellar.entries import Account, Layer, contract_data_key

SIGNATURES = 20
LONGEST = 3_110_400
"""Ledgers ahead that a signature may be good until: 180 days, as long as any entry may live."""
_MEDIUM = 2
_CREDENTIALS = xdr.SorobanCredentialsType


class Unauthorised(Exception):
    """An address has not authorised a call; the message says which, and why not."""


@dataclass(eq=False)
class Frame:
    """A call in progress; frames are distinguished by identity."""

    contract: str
    function: xdr.SorobanAuthorizedFunction


def contract_call(call: xdr.InvokeContractArgs) -> xdr.SorobanAuthorizedFunction:
    """The call that an address authorises."""
    kind = xdr.SorobanAuthorizedFunctionType.SOROBAN_AUTHORIZED_FUNCTION_TYPE_CONTRACT_FN
    return xdr.SorobanAuthorizedFunction(kind, contract_fn=call)


class Authorisation(Protocol):
    """Says whether an address that is no caller has authorised the innermost of some frames."""

    def require(self, address: str, frames: Sequence[Frame], layer: Layer) -> None:
        """Raise `Unauthorised` unless it has."""


@dataclass
class _Tree:
    """An entry's calls, and how far the calls in progress match them."""

    address: str
    root: xdr.SorobanAuthorizedInvocation
    credentials: xdr.SorobanCredentials | None = None
    met: list[tuple[Frame, xdr.SorobanAuthorizedInvocation]] = field(default_factory=list)
    used: set[int] = field(default_factory=set)

    def innermost(self, frames: Sequence[Frame]) -> xdr.SorobanAuthorizedInvocation | None:
        """The last authorised call among those that are going on, above the current one."""
        self.met = [pair for pair in self.met if any(pair[0] is frame for frame in frames)]
        if not self.met or self.met[-1][0] is frames[-1]:
            return None
        return self.met[-1][1]

    def extends(self, frames: Sequence[Frame]) -> bool:
        """Is the current call a branch, not met before, of one that is authorised?"""
        above = self.innermost(frames)
        branches = [] if above is None else above.sub_invocations
        return any(self._meets(branch, frames[-1]) for branch in branches)

    def begins(self, frames: Sequence[Frame]) -> bool:
        """Is the current call the tree's root, not met before?"""
        return self._meets(self.root, frames[-1])

    def _meets(self, call: xdr.SorobanAuthorizedInvocation, frame: Frame) -> bool:
        if id(call) in self.used or call.function != frame.function:
            return False
        self.used.add(id(call))
        self.met.append((frame, call))
        return True


class Enforced:
    """The entries that an operation brings; what they do not say is not authorised."""

    def __init__(self, source: str, entries: Sequence[xdr.SorobanAuthorizationEntry]) -> None:
        self._trees = [
            _Tree(_address_of(entry.credentials, source), entry.root_invocation, entry.credentials)
            for entry in entries
        ]

    def require(self, address: str, frames: Sequence[Frame], layer: Layer) -> None:
        """Raise `Unauthorised` when no entry covers the call, or the one that does is not good."""
        trees = [tree for tree in self._trees if tree.address == address]
        if any(tree.extends(frames) for tree in trees):
            return
        for tree in trees:
            if tree.begins(frames):
                _authenticate(tree, layer)
                return
        raise Unauthorised(f"{address} has not authorised this")


class Recorded:
    """Takes every address to consent, and notes what it would have to sign."""

    def __init__(self, source: str, *, allow_nonroot: bool) -> None:
        self._source = source
        self._allow_nonroot = allow_nonroot
        self._trees: list[_Tree] = []

    def require(self, address: str, frames: Sequence[Frame], layer: Layer) -> None:
        """Raise `Unauthorised` for an entry that an address cannot sign."""
        call = xdr.SorobanAuthorizedInvocation(frames[-1].function, [])
        for tree in self._trees:
            above = tree.innermost(frames) if tree.address == address else None
            if above is not None:
                above.sub_invocations.append(call)
                tree.met.append((frames[-1], call))
                return
        if len(frames) > 1 and not self._allow_nonroot:
            raise Unauthorised(
                "[recording authorization only] encountered authorization not tied to the root "
                f"contract invocation for {address}"
            )
        tree = _Tree(address, call, self._credentials(address, layer))
        tree.met.append((frames[-1], call))
        self._trees.append(tree)

    def _credentials(self, address: str, layer: Layer) -> xdr.SorobanCredentials:
        if address == self._source:
            return xdr.SorobanCredentials(_CREDENTIALS.SOROBAN_CREDENTIALS_SOURCE_ACCOUNT)
        nonce = xdr.Int64(secrets.randbits(63))
        _account_of(address, layer)
        _spend_nonce(address, nonce, layer)
        unsigned = xdr.SorobanAddressCredentials(
            Address(address).to_xdr_sc_address(), nonce, xdr.Uint32(0), scval.to_void()
        )
        return xdr.SorobanCredentials(_CREDENTIALS.SOROBAN_CREDENTIALS_ADDRESS, address=unsigned)

    def entries(self) -> list[xdr.SorobanAuthorizationEntry]:
        """The authorisations that the call needs, in the order of its requests."""
        found = []
        for tree in self._trees:
            assert tree.credentials is not None
            found.append(xdr.SorobanAuthorizationEntry(tree.credentials, tree.root))
        return found


def _address_of(credentials: xdr.SorobanCredentials, source: str) -> str:
    signed = credentials.address
    return source if signed is None else Address.from_xdr_sc_address(signed.address).address


def _authenticate(tree: _Tree, layer: Layer) -> None:
    """Is the consent of this entry good, now and for the first time?"""
    credentials = tree.credentials
    assert credentials is not None
    if credentials.type == _CREDENTIALS.SOROBAN_CREDENTIALS_SOURCE_ACCOUNT:
        return
    signed = credentials.address
    if signed is None:
        raise Unauthorised(f"{credentials.type.name} are not known to the devnet")
    last = signed.signature_expiration_ledger.uint32
    if not layer.sequence <= last <= layer.sequence + LONGEST:
        raise Unauthorised(
            f"{tree.address} has not authorised this: until ledger {last}, over or too far off"
        )
    _check_signatures(tree, signed, _account_of(tree.address, layer))
    _spend_nonce(tree.address, signed.nonce, layer)


def _account_of(address: str, layer: Layer) -> Account:
    if not StrKey.is_valid_ed25519_public_key(address):
        raise Unauthorised(f"{address} has not authorised this: it is no account")
    account = layer.account(address)
    if account is None:
        raise Unauthorised(f"{address} has not authorised this: there is no such account")
    return account


def _spend_nonce(address: str, nonce: xdr.Int64, layer: Layer) -> None:
    key = xdr.SCVal(xdr.SCValType.SCV_LEDGER_KEY_NONCE, nonce_key=xdr.SCNonceKey(nonce))
    if layer.get(contract_data_key(address, key, temporary=True)) is not None:
        raise Unauthorised(f"the signature of {address} has been used before")
    layer.put_contract_data(address, key, scval.to_void(), temporary=True)


def _check_signatures(tree: _Tree, signed: xdr.SorobanAddressCredentials, account: Account) -> None:
    """Signers of the account, each once and in the order of their keys, up to its threshold."""
    message = sha256(_signed_bytes(tree.root, signed)).digest()
    weights = {
        StrKey.decode_ed25519_public_key(account.address): account.thresholds[0],
        **{s.key.ed25519.uint256: s.weight for s in account.signers if s.key.ed25519 is not None},
    }
    last, total = b"", 0
    for key, signature in _signatures(tree.address, signed.signature):
        if key <= last or not weights.get(key):
            raise Unauthorised(f"{_named(key)} is no signer of {tree.address} that counts")
        _verify(key, message, signature)
        last, total = key, total + weights[key]
    if total < max(1, account.thresholds[_MEDIUM]):
        raise Unauthorised(f"{tree.address} has not authorised this: weight {total}")


def _signatures(address: str, value: xdr.SCVal) -> list[tuple[bytes, bytes]]:
    """`Vec<{public_key: Bytes32, signature: Bytes64}>`."""
    try:
        given = [scval.from_struct(each) for each in scval.from_vec(value)]
        found = [
            (scval.from_bytes(each["public_key"]), scval.from_bytes(each["signature"]))
            for each in given
        ]
    except (ValueError, KeyError) as error:
        raise Unauthorised(f"{address} has not authorised this: no signatures") from error
    if len(found) > SIGNATURES:
        raise Unauthorised(f"{address}: more than {SIGNATURES} signatures")
    return found


def _signed_bytes(
    root: xdr.SorobanAuthorizedInvocation, signed: xdr.SorobanAddressCredentials
) -> bytes:
    body = xdr.HashIDPreimageSorobanAuthorization(
        xdr.Hash(NETWORK_ID), signed.nonce, signed.signature_expiration_ledger, root
    )
    kind = xdr.EnvelopeType.ENVELOPE_TYPE_SOROBAN_AUTHORIZATION
    return xdr.HashIDPreimage(kind, soroban_authorization=body).to_xdr_bytes()


def _verify(key: bytes, message: bytes, signature: bytes) -> None:
    try:
        VerifyKey(key).verify(message, signature)
    except (BadSignatureError, ValueError) as error:
        raise Unauthorised(f"{_named(key)} has not signed this") from error


def _named(key: bytes) -> str:
    """The `G…` form of a raw key, for messages."""
    return StrKey.encode_ed25519_public_key(key)
