"""Which chains a network has, where its contracts are, and what makes its blocks final.

A network is one file: `mainnet.toml`, `testnet.toml`, `devnet.toml`. Loading checks every address
(EIP-55 and strkey checksums, asset contract ids against their asset), and that nothing which money
rests on was left out: a chain with no confirmations does not load.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from stellar_sdk import Asset

from indexer.addresses import evm_address, stellar_account, stellar_contract
from indexer.errors import NetworkFileError
from warehouse_schema.identifiers import (
    AssetId,
    ChainId,
    EvmAddress,
    Height,
    StellarAddress,
    evm_chain_number,
    is_evm,
    parse_chain_id,
)

NETWORKS = ("mainnet", "testnet", "devnet")
_FOLDER = Path(__file__).parent

LogProof: TypeAlias = Literal["receipts", "header", "operators", "none"]
"""What shows that the logs of an EVM block are the chain's, and not one node's invention.

`receipts`: header hashes are recomputed, and receipts give the receipts root of their header.
`header`: header hashes are recomputed; the receipts of the chain do not give the root, so a second
operator has to have the same logs. `operators`: the header has fields of its own as well.
`none`: one node is believed.
"""


def parse_log_proof(text: str) -> LogProof:
    """One of the words of `LogProof`. Raises `ValueError` that names them."""
    for known in get_args(LogProof):
        if text == known:
            proof: LogProof = known
            return proof
    raise ValueError(f"{text!r} is none of {', '.join(get_args(LogProof))}")


@dataclass(frozen=True, slots=True)
class EvmChain:
    """An EVM chain. Contracts that the chain does not have are None."""

    id: ChainId
    name: str
    confirmations: int
    """Blocks on top before a block counts as final; also the deepest reorg that is followed."""
    start_height: Height | None
    """First block that is read; None: the operator says it (`ISTHMUS_START_…`)."""
    rpc: tuple[str, ...]
    """Default node URLs (devnet only); `ISTHMUS_RPC_…` replaces them."""
    bloom_is_reliable: bool
    """Whether a block's logsBloom may be held against empty logs."""
    block_seconds: float
    """Usual time between blocks."""
    explorer_tx: str | None
    """URL with `{tx}`."""
    cctp_domain: int | None
    usdc: EvmAddress | None
    cctp_token_messenger: EvmAddress | None
    cctp_message_transmitter: EvmAddress | None
    lz_eid: int | None
    usdt0: EvmAddress | None
    """The token; on Ethereum canonical USDT."""
    oft: EvmAddress | None
    """The OFT or its adapter."""
    lz_endpoint: EvmAddress | None
    watched: tuple[str, ...]
    deposit_factory: EvmAddress | None = None
    """Where `DepositFactory` was deployed; without it nobody is given a deposit address."""
    deposit_operator: EvmAddress | None = None
    """Account of the relay that moves new deposits on (`ISTHMUS_DEPOSIT_OPERATOR_…`); without it
    nobody is given one either."""
    log_proof: LogProof = "none"
    """Required in network files; `ISTHMUS_LOG_PROOF_…` replaces it."""

    @property
    def first_height(self) -> Height:
        """Where reading starts. Raises `NetworkFileError` when nothing says it."""
        return _first_height(self.id, self.start_height)

    @property
    def has_deposit_addresses(self) -> bool:
        """Whether a deposit may be paid to an address of its own."""
        return self.deposit_factory is not None and self.deposit_operator is not None

    @property
    def number(self) -> int:
        """EIP-155 number."""
        return evm_chain_number(self.id)

    @property
    def event_contracts(self) -> tuple[EvmAddress, ...]:
        """Contracts whose events we keep."""
        named = (
            self.cctp_token_messenger,
            self.cctp_message_transmitter,
            self.oft,
            self.lz_endpoint,
            self.deposit_factory,
        )
        return tuple(address for address in named if address is not None)

    @property
    def tokens(self) -> tuple[EvmAddress, ...]:
        """Tokens whose transfers to watched addresses we keep."""
        return tuple(token for token in (self.usdc, self.usdt0) if token is not None)


@dataclass(frozen=True, slots=True)
class StellarChain:
    """The network's Stellar chain."""

    id: ChainId
    name: str
    passphrase: str
    confirmations: int
    """Always 0: a closed ledger is final (SCP)."""
    start_height: Height | None
    """First block that is read; None: the operator says it (`ISTHMUS_START_…`)."""
    rpc: tuple[str, ...]
    block_seconds: float
    explorer_tx: str | None
    cctp_domain: int | None
    usdc: AssetId
    usdc_contract: StellarAddress
    cctp_token_messenger: StellarAddress | None
    cctp_message_transmitter: StellarAddress | None
    cctp_forwarder: StellarAddress | None
    lz_eid: int | None
    usdt0: AssetId | None
    usdt0_contract: StellarAddress | None
    oft: StellarAddress | None
    lz_endpoint: StellarAddress | None
    escrow: StellarAddress | None
    rail_terms: StellarAddress | None
    watched: tuple[str, ...]

    @property
    def first_height(self) -> Height:
        """Where reading starts. Raises `NetworkFileError` when nothing says it."""
        return _first_height(self.id, self.start_height)

    @property
    def event_contracts(self) -> tuple[StellarAddress, ...]:
        """Contracts whose events we keep, token contracts aside."""
        named = (
            self.cctp_token_messenger,
            self.cctp_message_transmitter,
            self.cctp_forwarder,
            self.oft,
            self.lz_endpoint,
            self.escrow,
            self.rail_terms,
        )
        return tuple(contract for contract in named if contract is not None)

    @property
    def tokens(self) -> tuple[StellarAddress, ...]:
        """Asset contracts whose movements at watched accounts we keep."""
        named = (self.usdc_contract, self.usdt0_contract)
        return tuple(token for token in named if token is not None)


def _first_height(chain: ChainId, start: Height | None) -> Height:
    if start is None:
        raise NetworkFileError(f"{chain} has no start_height, and nothing sets one")
    return start


Chain = EvmChain | StellarChain


@dataclass(frozen=True, slots=True)
class Network:
    """One network: its Stellar chain and the EVM chains that reach it."""

    name: str
    stellar: StellarChain
    evm: tuple[EvmChain, ...]
    attesters: tuple[EvmAddress, ...] = ()
    """Whose signatures make a CCTP message count, the same on every chain. Without any, no
    attestation is believed."""
    attestation_threshold: int = 0
    """How many of them sign each message; 0 only where there are none."""
    iris: str | None = None
    """URL of Circle's attestation service."""
    lz_scan: str | None = None
    """URL of LayerZero Scan's API, version included."""

    @property
    def chains(self) -> tuple[Chain, ...]:
        """Stellar first, then EVM chains in file order."""
        return (self.stellar, *self.evm)

    def chain(self, chain: ChainId) -> Chain:
        """The chain of that id. Raises `NetworkFileError` naming those there are."""
        for candidate in self.chains:
            if candidate.id == chain:
                return candidate
        known = ", ".join(candidate.id for candidate in self.chains)
        raise NetworkFileError(f"network {self.name} has no chain {chain}; it has {known}")

    def chain_of_domain(self, domain: int) -> ChainId | None:
        """The chain with that CCTP domain, if it is ours."""
        return next((c.id for c in self.chains if c.cctp_domain == domain), None)

    def chain_of_eid(self, eid: int) -> ChainId | None:
        """The chain with that LayerZero endpoint id, if it is ours."""
        return next((c.id for c in self.chains if c.lz_eid == eid), None)


def load_network(name: str, *, folder: Path = _FOLDER, passphrase: str | None = None) -> Network:
    """Read and check a network file; `passphrase` replaces the Stellar chain's.

    Raises `NetworkFileError` that names the file, the table and the key.
    """
    path = folder / f"{name}.toml"
    if not path.is_file():
        raise NetworkFileError(f"no network {name!r}: {path.name} does not exist")
    try:
        document = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise NetworkFileError(f"{path.name}: {error}") from error
    tables = _Table(path.name, "", document)
    stellar: list[StellarChain] = []
    evm: list[EvmChain] = []
    for chain in tables.subtables("chains"):
        chain_id = chain.reading("id", chain.key, parse_chain_id)
        if is_evm(chain_id):
            evm.append(_evm_chain(chain, chain_id))
        else:
            stellar.append(_stellar_chain(chain, chain_id, passphrase))
    attesters, threshold = _attesters(tables)
    iris, lz_scan = tables.optional("iris", str, _url), tables.optional("lz_scan", str, _url)
    tables.finish()
    if len(stellar) != 1:
        raise NetworkFileError(f"{path.name}: needs exactly one Stellar chain, has {len(stellar)}")
    _check_unique(path.name, [*stellar, *evm])
    return Network(
        name,
        stellar[0],
        tuple(evm),
        attesters=attesters,
        attestation_threshold=threshold,
        iris=iris,
        lz_scan=lz_scan,
    )


def _attesters(table: "_Table") -> tuple[tuple[EvmAddress, ...], int]:
    """The attesters and how many sign; a set that could never sign is refused."""
    attesters = tuple(table.each("attesters", evm_address))
    threshold: int = table.optional("attestation_threshold", int) or 0
    if len(set(attesters)) != len(attesters):
        raise table.error("attesters", "names one twice")
    if not min(1, len(attesters)) <= threshold <= len(attesters):
        raise table.error(
            "attestation_threshold", f"is {threshold}; there are {len(attesters)} attesters"
        )
    return attesters, threshold


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError(f"{text!r} is not an http(s) URL")
    return text.rstrip("/")


def _evm_chain(table: "_Table", chain: ChainId) -> EvmChain:
    contracts = table.subtable("contracts")

    def contract(key: str) -> EvmAddress | None:
        address: EvmAddress | None = contracts.optional(key, str, evm_address)
        return address

    parsed = EvmChain(
        id=chain,
        name=table.required("name", str),
        confirmations=table.positive("confirmations"),
        start_height=table.optional("start_height", int, Height),
        rpc=tuple(table.optional("rpc", list) or ()),
        bloom_is_reliable=table.required("bloom_is_reliable", bool),
        log_proof=table.reading("log_proof", table.required("log_proof", str), parse_log_proof),
        block_seconds=float(table.required("block_seconds", (int, float))),
        explorer_tx=table.optional("explorer_tx", str),
        cctp_domain=table.optional("cctp_domain", int),
        usdc=contract("usdc"),
        cctp_token_messenger=contract("cctp_token_messenger"),
        cctp_message_transmitter=contract("cctp_message_transmitter"),
        lz_eid=table.optional("lz_eid", int),
        usdt0=contract("usdt0"),
        oft=contract("oft"),
        lz_endpoint=contract("lz_endpoint"),
        watched=tuple(table.each("watched", evm_address)),
        deposit_factory=contract("deposit_factory"),
    )
    contracts.all_or_none(
        "CCTP",
        cctp_domain=parsed.cctp_domain,
        usdc=parsed.usdc,
        cctp_token_messenger=parsed.cctp_token_messenger,
        cctp_message_transmitter=parsed.cctp_message_transmitter,
    )
    contracts.all_or_none(
        "OFT",
        lz_eid=parsed.lz_eid,
        usdt0=parsed.usdt0,
        oft=parsed.oft,
        lz_endpoint=parsed.lz_endpoint,
    )
    contracts.finish()
    table.finish()
    return parsed


def _stellar_chain(table: "_Table", chain: ChainId, other_passphrase: str | None) -> StellarChain:
    contracts = table.subtable("contracts")
    assets = table.subtable("assets")
    own_passphrase = table.required("passphrase", str)
    passphrase = other_passphrase or own_passphrase

    def contract(key: str) -> StellarAddress | None:
        address: StellarAddress | None = contracts.optional(key, str, stellar_contract)
        return address

    def asset(key: str) -> tuple[AssetId, StellarAddress] | None:
        text = assets.optional(key, str)
        if text is None:
            return None
        parsed: tuple[AssetId, StellarAddress] = assets.reading(
            key, text, lambda t: _asset_and_contract(t, passphrase)
        )
        return parsed

    usdc = asset("usdc")
    if usdc is None:
        raise assets.error("usdc", "is missing: write CODE:ISSUER")
    usdt0 = asset("usdt0")
    parsed = StellarChain(
        id=chain,
        name=table.required("name", str),
        passphrase=passphrase,
        confirmations=0,
        start_height=table.optional("start_height", int, Height),
        rpc=tuple(table.optional("rpc", list) or ()),
        block_seconds=float(table.required("block_seconds", (int, float))),
        explorer_tx=table.optional("explorer_tx", str),
        cctp_domain=table.optional("cctp_domain", int),
        usdc=usdc[0],
        usdc_contract=usdc[1],
        cctp_token_messenger=contract("cctp_token_messenger"),
        cctp_message_transmitter=contract("cctp_message_transmitter"),
        cctp_forwarder=contract("cctp_forwarder"),
        lz_eid=table.optional("lz_eid", int),
        usdt0=usdt0[0] if usdt0 else None,
        usdt0_contract=usdt0[1] if usdt0 else None,
        oft=contract("oft"),
        lz_endpoint=contract("lz_endpoint"),
        escrow=contract("escrow"),
        rail_terms=contract("rail_terms"),
        watched=tuple(table.each("watched", stellar_account)),
    )
    contracts.all_or_none(
        "CCTP",
        cctp_domain=parsed.cctp_domain,
        cctp_token_messenger=parsed.cctp_token_messenger,
        cctp_message_transmitter=parsed.cctp_message_transmitter,
        cctp_forwarder=parsed.cctp_forwarder,
    )
    contracts.all_or_none(
        "OFT",
        lz_eid=parsed.lz_eid,
        usdt0=parsed.usdt0,
        oft=parsed.oft,
        lz_endpoint=parsed.lz_endpoint,
    )
    contracts.all_or_none("order book", escrow=parsed.escrow, rail_terms=parsed.rail_terms)
    for part in (assets, contracts, table):
        part.finish()
    return parsed


def _asset_and_contract(text: str, passphrase: str) -> tuple[AssetId, StellarAddress]:
    """`CODE:ISSUER` to our asset id and the asset's contract, which the passphrase decides."""
    code, colon, issuer = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not CODE:ISSUER")
    asset = Asset(code, stellar_account(issuer))
    return AssetId(f"stellar:{text}"), StellarAddress(asset.contract_id(passphrase))


def _check_unique(file: str, chains: list[Any]) -> None:
    for field in ("id", "cctp_domain", "lz_eid"):
        seen: dict[object, str] = {}
        for chain in chains:
            value = getattr(chain, field)
            if value is not None and value in seen:
                raise NetworkFileError(
                    f"{file}: {field} {value} is both {seen[value]}'s and {chain.name}'s"
                )
            seen[value] = chain.name


class _Table:
    """A TOML table that remembers where it is and which of its keys were read."""

    def __init__(self, file: str, path: str, values: Mapping[str, Any]) -> None:
        self.file, self.path, self.values = file, path, values
        self.key = path.rpartition("/")[2]
        self.read: set[str] = set()

    def error(self, key: str, problem: str) -> NetworkFileError:
        where = f"{self.path}: " if self.path else ""
        return NetworkFileError(f"{self.file}: {where}{key} {problem}")

    def reading(self, key: str, value: Any, parse: Any) -> Any:
        try:
            return parse(value)
        except (ValueError, TypeError) as error:
            raise self.error(key, f"is wrong: {error}") from error

    def optional(self, key: str, kind: Any, parse: Any = None) -> Any:
        self.read.add(key)
        if key not in self.values:
            return None
        value = self.values[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(key, f"has the wrong type: {value!r}")
        return value if parse is None else self.reading(key, value, parse)

    def required(self, key: str, kind: Any) -> Any:
        value = self.optional(key, kind)
        if value is None:
            raise self.error(key, "is missing")
        return value

    def positive(self, key: str) -> int:
        value = self.required(key, int)
        if value < 1:
            raise self.error(key, f"must be at least 1, is {value}")
        return int(value)

    def each(self, key: str, parse: Any) -> list[Any]:
        return [self.reading(key, item, parse) for item in self.optional(key, list) or []]

    def subtable(self, key: str) -> "_Table":
        return _Table(self.file, self._below(key), self.optional(key, dict) or {})

    def subtables(self, key: str) -> list["_Table"]:
        inner = self.subtable(key)
        return [_Table(self.file, inner._below(k), v) for k, v in inner.values.items()]

    def all_or_none(self, what: str, **values: object) -> None:
        missing = [key for key, value in values.items() if value is None]
        if missing and len(missing) < len(values):
            raise self.error(missing[0], f"is missing: {what} needs all of {', '.join(values)}")

    def finish(self) -> None:
        unknown = sorted(set(self.values) - self.read)
        if unknown:
            raise self.error(unknown[0], "is not a key of a network file")

    def _below(self, key: str) -> str:
        return f"{self.path}/{key}" if self.path else key
