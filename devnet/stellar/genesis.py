"""Genesis of the devnet: accounts in ledger 1, contracts deployed and wired in ledger 2.

A chain may begin with a later ledger instead of 1, as if it had a past.

Ledger 1 is state only and is not served. Ledger 2 holds ordinary transactions, signed by the
devnet's public keys, so that an indexer that starts there sees every configuration event. Each
transaction is sequenced after the one before, so the same genesis gives the same hashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from stellar_sdk import Asset, TransactionEnvelope, scval, xdr
from stellar_sdk.operation import ChangeTrust, InvokeHostFunction
from stellar_sdk.operation.operation import Operation

from devnet.stellar import accounts, building
from devnet.stellar.accounts import ADMIN, ROOT, USDC, USDT0, XLM, keypair
from devnet.stellar.apply import apply_all
from devnet.stellar.contracts.cctp_forwarder import CctpForwarder
from devnet.stellar.contracts.cctp_messenger import TokenMessengerMinter
from devnet.stellar.contracts.cctp_transmitter import MessageTransmitter
from devnet.stellar.contracts.escrow import Escrow
from devnet.stellar.contracts.oft import Endpoint, Oft
from devnet.stellar.contracts.rail_terms import Rail, RailTerms
from devnet.stellar.entries import Account, Layer, State
from devnet.stellar.host import Contract, Ledger
from devnet.stellar.ledger import PROTOCOL, TOTAL_COINS
from devnet.stellar.registry import (
    LOCAL_DOMAIN,
    LOCAL_EID,
    Remotes,
    StellarContracts,
    devnet_contracts,
    padded,
    salt,
)
from devnet.stellar.simulation import simulate
from devnet.stellar.transactions import Transaction
from devnet.stellar.values import sequence, struct

GENESIS_TIME = 1_767_225_600
"""2026-01-01T00:00:00Z: the close time of ledger 1; ledger 2 closes 5 seconds later."""
RESIDENT_BALANCE = 10_000 * 10**7
ORDER_TTL = 600
"""Seconds from an order's opening to its expiry."""
BOND_BPS = 10_000
MAX_OPEN = 20
RAILS = (
    # name, trust tier, protocol fee in basis points, currencies
    ("manual", 0, 0, ("USD", "EUR", "GBP")),
    ("monzo", 1, 30, ("GBP",)),
    ("revolut", 2, 50, ("USD", "EUR", "GBP")),
    ("venmo", 2, 50, ("USD",)),
    ("wise", 2, 50, ("USD", "EUR", "GBP")),
    ("zelle_citi", 3, 25, ("USD",)),
)
_REVOCABLE = int(xdr.AccountFlags.AUTH_REVOCABLE_FLAG)
_CLAWBACK = int(xdr.AccountFlags.AUTH_CLAWBACK_ENABLED_FLAG)
_ISSUER_FLAGS = {
    accounts.USDC_ISSUER: _REVOCABLE,
    accounts.USDT0_ISSUER: _REVOCABLE | _CLAWBACK,
}


@dataclass(frozen=True)
class Genesis:
    """Genesis of a chain; two chains of equal genesis and input are equal byte by byte."""

    remotes: Remotes
    time: int = GENESIS_TIME
    protocol: int = PROTOCOL
    sequence: int = 1
    """Of the ledger of the accounts; the next one deploys the contracts."""

    def fingerprint(self) -> str:
        """A text that is different for each genesis."""
        return repr((self.remotes, self.time, self.protocol, self.sequence))


def first_entries(sequence: int = 1) -> dict[bytes, bytes]:
    """The state of the first ledger: the root and the residents."""
    state = State({})
    layer = Layer(state, sequence)
    left = TOTAL_COINS - RESIDENT_BALANCE * len(accounts.RESIDENTS)
    layer.put_account(Account(accounts.address(ROOT), left, 0))
    for name in accounts.RESIDENTS:
        flags = _ISSUER_FLAGS.get(name, 0)
        layer.put_account(Account(accounts.address(name), RESIDENT_BALANCE, 0, flags=flags))
    layer.commit()
    return state.entries


@dataclass
class _Author:
    """Signs the transactions of ledger 2, each tried on what those before it leave."""

    state: Layer
    ledger: Ledger
    signed: list[Transaction] = field(default_factory=list)
    last: dict[str, int] = field(default_factory=dict)
    """Each account's last sequence number; they begin at 1."""

    def sign(self, name: str, *operations: Operation) -> None:
        """Add a transaction."""
        sequence = self.last[name] = self.last.get(name, 0) + 1
        envelope = building.build(keypair(name), sequence, operations, self._prepare)
        transaction = Transaction.from_xdr(envelope.to_xdr_object())
        apply_all([transaction], self.state, self.ledger.close_time)
        self.signed.append(transaction)

    def _prepare(self, envelope: TransactionEnvelope) -> TransactionEnvelope:
        return building.prepared(envelope, lambda tried: simulate(tried, self.state, self.ledger))


@cache
def first_transactions(
    remotes: Remotes, close_time: int, sequence: int = 2
) -> Sequence[Transaction]:
    """The transactions of ledger 2 (`sequence`), in the order in which they are applied."""
    state = Layer(State(dict(first_entries(sequence - 1))), sequence)
    author, at = _Author(state, Ledger(sequence, close_time)), devnet_contracts()
    for name in (accounts.CCTP_FEES, accounts.PROTOCOL_FEES):
        author.sign(name, ChangeTrust(USDC))
    for asset in (XLM, USDC, USDT0):
        author.sign(ADMIN, _token(asset))
    author.sign(accounts.USDC_ISSUER, _hand_over(at.usdc_sac, at.token_messenger_minter))
    author.sign(accounts.USDT0_ISSUER, _hand_over(at.usdt0_sac, at.oft))
    for operation in (*_cctp(at, remotes), *_layer_zero(at, remotes), *_order_book(at)):
        author.sign(ADMIN, operation)
    return tuple(author.signed)


def _token(asset: Asset) -> InvokeHostFunction:
    executable = xdr.ContractExecutable(
        xdr.ContractExecutableType.CONTRACT_EXECUTABLE_STELLAR_ASSET
    )
    preimage = xdr.ContractIDPreimage(
        xdr.ContractIDPreimageType.CONTRACT_ID_PREIMAGE_FROM_ASSET, from_asset=asset.to_xdr_object()
    )
    create = xdr.CreateContractArgs(preimage, executable)
    kind = xdr.HostFunctionType.HOST_FUNCTION_TYPE_CREATE_CONTRACT
    return InvokeHostFunction(xdr.HostFunction(kind, create_contract=create))


def _deploy(name: str, kind: type[Contract], *arguments: xdr.SCVal) -> InvokeHostFunction:
    return building.deploy(accounts.address(ADMIN), salt(name), kind.code_hash(), arguments)


def _hand_over(token: str, minter: str) -> InvokeHostFunction:
    """The issuer's consent that a contract mints the asset."""
    return building.call(token, "set_admin", scval.to_address(minter))


def _cctp(at: StellarContracts, remotes: Remotes) -> list[InvokeHostFunction]:
    return [
        _deploy(
            "message_transmitter",
            MessageTransmitter,
            scval.to_uint32(LOCAL_DOMAIN),
            scval.to_vec([scval.to_bytes(attester) for attester in remotes.attesters]),
        ),
        _deploy(
            "token_messenger_minter",
            TokenMessengerMinter,
            scval.to_address(at.message_transmitter),
            scval.to_address(at.usdc_sac),
            scval.to_address(accounts.address(accounts.CCTP_FEES)),
            scval.to_uint32(remotes.domain),
            scval.to_bytes(padded(remotes.token_messenger)),
            scval.to_bytes(padded(remotes.usdc)),
        ),
        _deploy(
            "cctp_forwarder",
            CctpForwarder,
            scval.to_address(at.token_messenger_minter),
            scval.to_address(at.message_transmitter),
        ),
    ]


def _layer_zero(at: StellarContracts, remotes: Remotes) -> list[InvokeHostFunction]:
    return [
        _deploy(
            "endpoint",
            Endpoint,
            scval.to_uint32(LOCAL_EID),
            scval.to_uint32(remotes.eid),
            scval.to_address(at.native_sac),
            scval.to_address(accounts.address(accounts.PACKET_VERIFIER)),
            scval.to_address(accounts.address(accounts.PACKET_WORKER)),
        ),
        _deploy(
            "oft",
            Oft,
            scval.to_address(at.usdt0_sac),
            scval.to_address(at.endpoint),
            scval.to_address(at.native_sac),
            scval.to_uint32(remotes.eid),
            scval.to_bytes(padded(remotes.oft)),
        ),
    ]


def rails() -> list[Rail]:
    """The rails of genesis; one account verifies the payments of all of them."""
    verifier = accounts.address(accounts.RAIL_VERIFIER)
    return [
        Rail(list(currencies), True, fee_bps, name, tier, verifier)
        for name, tier, fee_bps, currencies in RAILS
    ]


def _order_book(at: StellarContracts) -> list[InvokeHostFunction]:
    admin = scval.to_address(accounts.address(ADMIN))
    return [
        _deploy("rail_terms", RailTerms, admin, sequence(struct(Rail)).encode(rails())),
        _deploy(
            "escrow",
            Escrow,
            scval.to_address(at.usdc_sac),
            scval.to_address(at.rail_terms),
            admin,
            scval.to_address(accounts.address(accounts.PROTOCOL_FEES)),
            scval.to_uint64(ORDER_TTL),
            scval.to_uint32(BOND_BPS),
            scval.to_uint32(MAX_OPEN),
        ),
    ]
