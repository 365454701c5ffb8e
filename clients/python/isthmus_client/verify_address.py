"""Verification of a deposit address: its contract can only pay the owner, or pay back.

It is the CREATE2 address of a contract whose salt is the hash of the agreed terms
(docs/deposit-addresses.md), so it is computed here. The server chooses only the operator, which
forwards the deposit and cannot take it, and until when the operator alone may do so.
"""

from dataclasses import dataclass

from eth_hash.auto import keccak
from stellar_sdk import StrKey

from isthmus_client.contracts import Bridges, EvmBridges
from isthmus_client.errors import ActionNotTrusted
from isthmus_client.models import SendToAddress, Transfer
from isthmus_client.verify import Deposit, shared, strkey_of, transfer_id_of

FACTORY = "0x1c0dece7d4d8d0eccd71e0035848f48b077cb106"
"""DepositFactory, at the same address on every chain that has it: other code would be elsewhere."""
CODE_HASH = bytes.fromhex("874ee8de1c236fd36bb33b892a01e220b84012d19165a82ec963aba3397ef776")
"""keccak256 of the creation code of DepositForwarder."""
LONGEST_SECONDS = 86_400
"""Longest time until a deposit expires; from a day later anybody may send the balance back."""


@dataclass(frozen=True)
class Custody:
    """The terms of a deposit address that the server chooses."""

    operator: str
    """Account that forwards the deposit."""
    expires_at: int
    """Unix seconds."""

    @classmethod
    def of(cls, transfer: Transfer) -> "Custody":
        """From a transfer. Raises `ActionNotTrusted` for one without an address."""
        if transfer.deposit is None:
            raise ActionNotTrusted(f"transfer {transfer.id} has no deposit address")
        return cls(transfer.deposit.operator, int(transfer.expires_at.timestamp()))


def check_address(
    shown: SendToAddress, deposit: Deposit, bridges: Bridges, custody: Custody, now: int
) -> None:
    """Raises `ActionNotTrusted` unless the money can only go where the deposit says, or back.

    `now` is unix seconds.
    """
    at = bridges.evm.get(deposit.chain, EvmBridges())
    token = at.usdc if deposit.route == "usdc-deposit" else at.usdt0
    if token is None or not at.has_deposit_factory:
        raise ActionNotTrusted(f"no deposit addresses are known on {deposit.chain}")
    if custody.expires_at <= now:
        raise ActionNotTrusted("the deposit has expired: what is paid now only comes back")
    if custody.expires_at > now + LONGEST_SECONDS:
        raise ActionNotTrusted("the deposit could be held back for more than two days")
    expected = {
        "chain": deposit.chain,
        "asset": f"{deposit.chain}/erc20:{token}",
        "address": address_of(deposit, bridges, custody),
    }
    found = {
        "chain": shown.chain,
        "asset": shown.asset.lower(),
        "address": shown.address.lower(),
    }
    for name, value in expected.items():
        if found[name] != value:
            raise ActionNotTrusted(f"{name} of the action is {found[name]}, not {value}")
    # After a short payment, the rest of the amount.
    if not 0 < shown.amount <= deposit.amount:
        raise ActionNotTrusted(
            f"amount of the action is {shown.amount}, not {deposit.amount} or what is left of it"
        )


def address_of(deposit: Deposit, bridges: Bridges, custody: Custody) -> str:
    """The deposit's address, lower-case. Raises `ActionNotTrusted`."""
    salt = keccak(_terms(deposit, bridges, custody) + _route_hash(deposit, bridges))
    return "0x" + keccak(b"\xff" + _raw(FACTORY, 20) + salt + CODE_HASH)[12:].hex()


def _terms(deposit: Deposit, bridges: Bridges, custody: Custody) -> bytes:
    at = bridges.evm[deposit.chain]
    token = at.usdc if deposit.route == "usdc-deposit" else at.usdt0
    return b"".join(
        (
            _word(int(deposit.chain.rpartition(":")[2])),
            _address(token),
            _word(deposit.amount),
            _word(shared(deposit.least)),
            transfer_id_of(deposit) + bytes(16),
            _address(deposit.payer),
            _address(custody.operator),
            _word(custody.expires_at),
        )
    )


def _route_hash(deposit: Deposit, bridges: Bridges) -> bytes:
    """Hash of the bridge's name and arguments; offsets of dynamic members come first."""
    at, strkey = bridges.evm[deposit.chain], strkey_of(deposit)
    if deposit.route == "usdc-deposit":
        forwarder = StrKey.decode_contract(bridges.cctp_forwarder)
        fixed = (_address(at.token_messenger), _word(bridges.cctp_domain), forwarder)
        route = (*fixed, _word(4 * 32), _bytes(strkey.encode("ascii")))
        return keccak(_word(2 * 32) + _word(4 * 32) + _bytes(b"cctp") + b"".join(route))
    recipient = StrKey.decode_ed25519_public_key(strkey)
    send = (_address(at.oft), _word(bridges.lz_eid), recipient)
    return keccak(_word(4 * 32) + b"".join(send) + _bytes(b"oft"))


def _address(text: str | None) -> bytes:
    if text is None:
        raise ActionNotTrusted("no bridge of the route is known on the chain")
    return bytes(12) + _raw(text, 20)


def _raw(text: str, length: int) -> bytes:
    try:
        raw = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        raw = b""
    if len(raw) != length:
        raise ActionNotTrusted(f"{text!r} is no address")
    return raw


def _word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def _bytes(data: bytes) -> bytes:
    """The length, then the bytes padded to whole words."""
    return _word(len(data)) + data + bytes(-len(data) % 32)
