"""The chains of a network, and the names of their environment variables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal, TypeAlias, get_args

from indexer.errors import NetworkFileError
from warehouse_schema.identifiers import (
    AssetId,
    ChainId,
    EvmAddress,
    Height,
    StellarAddress,
    evm_chain_number,
)

LogProof: TypeAlias = Literal["receipts", "header", "operators", "none"]
"""Evidence that the logs of an EVM block are in the chain.

`receipts`: recomputed header hashes, and receipts that hash to the header's receipts root.
`header`: recomputed header hashes; the chain's receipts do not give the root, so a second operator
must return the same logs. `operators`: a second operator alone, as the header has extra fields.
`none`: one node is trusted.
"""


def parse_log_proof(text: str) -> LogProof:
    """Parse a `LogProof`. Raises `ValueError` that lists the values."""
    for known in get_args(LogProof):
        if text == known:
            proof: LogProof = known
            return proof
    raise ValueError(f"must be one of {', '.join(get_args(LogProof))}")


EVM_CONTRACTS = (
    *("cctp_token_messenger", "cctp_message_transmitter"),
    *("oft", "lz_endpoint"),
    "deposit_factory",
)
"""Contracts whose events are stored: fields of `EvmChain`, and keys of a network file."""
STELLAR_CONTRACTS = (
    *("cctp_token_messenger", "cctp_message_transmitter", "cctp_forwarder"),
    *("oft", "lz_endpoint"),
    *("escrow", "rail_terms"),
)
"""As `EVM_CONTRACTS`, of `StellarChain`."""
EXPLORER_PAGES = ("explorer_tx", "explorer_account", "explorer_contract")
"""URL templates of pages of the chain's explorer: fields of a chain, and keys of a network file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _BaseChain:
    """What both kinds of chain have; contracts that a chain does not have are None."""

    id: ChainId
    name: str
    confirmations: int
    """Blocks on top before a block is finalized; also the deepest reorg that is followed.
    `ISTHMUS_CONFIRMATIONS_…` raises it. 0 on Stellar: a closed ledger is final (SCP)."""
    start_height: Height | None
    """First block to ingest; None: the operator sets it (`ISTHMUS_START_…`)."""
    rpc: tuple[str, ...]
    """Default node URLs (devnet only); `ISTHMUS_RPC_…` replaces them."""
    block_seconds: float
    """Usual time between blocks."""
    explorer_tx: str | None
    """URL of a transaction's page with `{tx}`."""
    explorer_account: str | None = None
    """URL of an account's page with `{address}`."""
    explorer_contract: str | None = None
    """URL of a contract's page with `{address}`."""
    cctp_domain: int | None
    lz_eid: int | None
    watched: tuple[str, ...]

    @property
    def first_height(self) -> Height:
        """First block to ingest. Raises `NetworkFileError` when none is set."""
        if self.start_height is None:
            raise NetworkFileError(f"{self.id} has no start_height, and nothing sets one")
        return self.start_height


@dataclass(frozen=True, slots=True, kw_only=True)
class EvmChain(_BaseChain):
    """An EVM chain."""

    bloom_is_reliable: bool
    """Empty logs are checked against the block's logsBloom."""
    usdc: EvmAddress | None
    cctp_token_messenger: EvmAddress | None
    cctp_message_transmitter: EvmAddress | None
    usdt0: EvmAddress | None
    """The token; on Ethereum canonical USDT."""
    oft: EvmAddress | None
    """The OFT or its adapter."""
    lz_endpoint: EvmAddress | None
    deposit_factory: EvmAddress | None = None
    """Address of `DepositFactory`; required for deposit addresses."""
    deposit_operator: EvmAddress | None = None
    """Relay account that forwards new deposits (`ISTHMUS_DEPOSIT_OPERATOR_…`); required too."""
    log_proof: LogProof = "none"
    """Required in network files; `ISTHMUS_LOG_PROOF_…` replaces it."""

    @property
    def has_deposit_addresses(self) -> bool:
        """A deposit can be paid to an address of its own."""
        return self.deposit_factory is not None and self.deposit_operator is not None

    @property
    def number(self) -> int:
        """EIP-155 number."""
        return evm_chain_number(self.id)

    @property
    def event_contracts(self) -> tuple[EvmAddress, ...]:
        """Contracts whose events are stored."""
        named = attrgetter(*EVM_CONTRACTS)(self)
        return tuple(address for address in named if address is not None)

    @property
    def tokens(self) -> tuple[EvmAddress, ...]:
        """Tokens whose transfers to watched addresses are stored."""
        return tuple(token for token in (self.usdc, self.usdt0) if token is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StellarChain(_BaseChain):
    """The network's Stellar chain."""

    passphrase: str
    usdc: AssetId
    usdc_contract: StellarAddress
    cctp_token_messenger: StellarAddress | None
    cctp_message_transmitter: StellarAddress | None
    cctp_forwarder: StellarAddress | None
    usdt0: AssetId | None
    usdt0_contract: StellarAddress | None
    oft: StellarAddress | None
    lz_endpoint: StellarAddress | None
    escrow: StellarAddress | None
    rail_terms: StellarAddress | None
    code_hashes: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Name of a contract → SHA-256 of its code (lower-case hex), where a published one is known."""

    @property
    def event_contracts(self) -> tuple[StellarAddress, ...]:
        """Contracts whose events are stored, apart from token contracts."""
        named = attrgetter(*STELLAR_CONTRACTS)(self)
        return tuple(contract for contract in named if contract is not None)

    @property
    def tokens(self) -> tuple[StellarAddress, ...]:
        """Asset contracts whose events about watched accounts are stored."""
        named = (self.usdc_contract, self.usdt0_contract)
        return tuple(token for token in named if token is not None)


Chain: TypeAlias = EvmChain | StellarChain


@dataclass(frozen=True, slots=True)
class Network:
    """One network: its Stellar chain and the EVM chains that reach it."""

    name: str
    stellar: StellarChain
    evm: tuple[EvmChain, ...]
    attesters: tuple[EvmAddress, ...] = ()
    """Circle's attesters, the same on every chain; without any, no attestation is accepted."""
    attestation_threshold: int = 0
    """Signatures required per message; 0 only without attesters."""
    iris: str | None = None
    """URL of Circle's attestation service."""
    lz_scan: str | None = None
    """URL of LayerZero Scan's API, with its version."""

    @property
    def chains(self) -> tuple[Chain, ...]:
        """Stellar first, then EVM chains in file order."""
        return (self.stellar, *self.evm)

    def chain(self, chain: ChainId) -> Chain:
        """The chain of that id. Raises `NetworkFileError` that lists the known ones."""
        for candidate in self.chains:
            if candidate.id == chain:
                return candidate
        known = ", ".join(candidate.id for candidate in self.chains)
        raise NetworkFileError(f"network {self.name} has no chain {chain}; it has {known}")

    def chain_of_domain(self, domain: int) -> ChainId | None:
        """The network's chain with that CCTP domain."""
        for chain in self.chains:
            if chain.cctp_domain == domain:
                return chain.id
        return None

    def chain_of_eid(self, eid: int) -> ChainId | None:
        """The network's chain with that LayerZero endpoint id."""
        for chain in self.chains:
            if chain.lz_eid == eid:
                return chain.id
        return None


def variable_suffix(chain: ChainId) -> str:
    """A chain's id as names of environment variables have it."""
    return chain.upper().replace(":", "_").replace("-", "_")


def rpc_variable(chain: ChainId) -> str:
    """Variable of a chain's node URLs."""
    return f"ISTHMUS_RPC_{variable_suffix(chain)}"


def start_variable(chain: ChainId) -> str:
    """Variable that says where reading a chain starts."""
    return f"ISTHMUS_START_{variable_suffix(chain)}"


def operator_variable(chain: ChainId) -> str:
    """Variable of the account that moves deposits on."""
    return f"ISTHMUS_DEPOSIT_OPERATOR_{variable_suffix(chain)}"


def confirmations_variable(chain: ChainId) -> str:
    """Variable of the blocks on top before an EVM chain's block is finalized."""
    return f"ISTHMUS_CONFIRMATIONS_{variable_suffix(chain)}"


def log_proof_variable(chain: ChainId) -> str:
    """Variable of an EVM chain's `LogProof`."""
    return f"ISTHMUS_LOG_PROOF_{variable_suffix(chain)}"
