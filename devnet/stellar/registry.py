"""Addresses on the devnet: contract ids of our side, addresses of the EVM side.

The ids are the network's own derivation (deployer and salt, or asset), so they are known before
anything runs and are the same in every run.
"""

from dataclasses import dataclass
from hashlib import sha256

from stellar_sdk import StrKey

from devnet.stellar.accounts import ADMIN, USDC, USDT0, XLM, address, secret
from devnet.stellar.asset_events import token_contract
from devnet.stellar.host import contract_id, deployment

LOCAL_DOMAIN = 27
"""Stellar's CCTP domain."""
LOCAL_EID = 30600
"""Stellar's LayerZero endpoint id."""


@dataclass(frozen=True)
class StellarContracts:
    """Every contract of the devnet as a `C…` strkey; `raw` gives the 32 bytes."""

    usdc_sac: str
    usdt0_sac: str
    native_sac: str
    token_messenger_minter: str
    message_transmitter: str
    cctp_forwarder: str
    oft: str
    endpoint: str
    escrow: str
    rail_terms: str

    def raw(self, name: str) -> bytes:
        """The 32 bytes of the contract in field `name`, as messages and packets carry it."""
        return StrKey.decode_contract(getattr(self, name))


def salt(name: str) -> bytes:
    """The deployment salt of a devnet contract."""
    return sha256(f"isthmus devnet contract {name}".encode()).digest()


def _deployed(name: str) -> str:
    return contract_id(deployment(address(ADMIN), salt(name)))


def devnet_contracts() -> StellarContracts:
    """The contracts that every devnet has from its first ledger on."""
    return StellarContracts(
        usdc_sac=token_contract(USDC),
        usdt0_sac=token_contract(USDT0),
        native_sac=token_contract(XLM),
        token_messenger_minter=_deployed("token_messenger_minter"),
        message_transmitter=_deployed("message_transmitter"),
        cctp_forwarder=_deployed("cctp_forwarder"),
        oft=_deployed("oft"),
        endpoint=_deployed("endpoint"),
        escrow=_deployed("escrow"),
        rail_terms=_deployed("rail_terms"),
    )


@dataclass(frozen=True)
class Remotes:
    """The EVM side that the contracts of genesis trust; addresses are 20 raw bytes."""

    token_messenger: bytes
    usdc: bytes
    oft: bytes
    attesters: tuple[bytes, bytes]
    domain: int = 0
    eid: int = 30101

    def __post_init__(self) -> None:
        for raw in (self.token_messenger, self.usdc, self.oft, *self.attesters):
            if len(raw) != 20:
                raise ValueError(f"an EVM address has 20 bytes, not {len(raw)}")


def unwired() -> Remotes:
    """An EVM side that does not exist: for running the Stellar half alone."""
    return Remotes(
        token_messenger=secret("no token messenger")[-20:],
        usdc=secret("no usdc")[-20:],
        oft=secret("no oft")[-20:],
        attesters=(secret("no attester 1")[-20:], secret("no attester 2")[-20:]),
    )


def padded(evm_address: bytes) -> bytes:
    """An EVM address in a 32-byte field: on the right, zeros before it."""
    return evm_address.rjust(32, b"\0")
