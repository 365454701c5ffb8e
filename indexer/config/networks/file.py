"""Reads network files: `mainnet.toml`, `testnet.toml`, `devnet.toml`.

Loading checks every address (EIP-55 and strkey checksums, asset contracts against their assets),
and that no value is missing on which money depends, such as a chain's confirmations.
"""

import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from indexer.addresses import asset_contract, evm_address, stellar_account, stellar_contract
from indexer.config.networks.chains import (
    EVM_CONTRACTS,
    EXPLORER_PAGES,
    STELLAR_CONTRACTS,
    Chain,
    EvmChain,
    Network,
    StellarChain,
    parse_log_proof,
)
from indexer.errors import NetworkFileError
from warehouse_schema.identifiers import (
    AssetId,
    ChainId,
    Height,
    StellarAddress,
    is_evm,
    parse_chain_id,
)

_FOLDER = Path(__file__).parent


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
    table = _Table(path.name, "", document)
    stellar: list[StellarChain] = []
    evm: list[EvmChain] = []
    chains = table.subtable("chains")
    for key, values in chains.values.items():
        chain = _Table(path.name, f"{chains.path}/{key}", values)
        chain_id = chain.parse("id", key, parse_chain_id)
        if is_evm(chain_id):
            evm.append(_evm_chain(chain, chain_id))
        else:
            stellar.append(_stellar_chain(chain, chain_id, passphrase))
    attesters = tuple(table.each("attesters", evm_address))
    threshold: int = table.optional("attestation_threshold", int) or 0
    if len(set(attesters)) != len(attesters):
        raise table.error("attesters", "names one twice")
    if not min(1, len(attesters)) <= threshold <= len(attesters):
        # Such a set could never sign.
        raise table.error(
            "attestation_threshold", f"is {threshold}; there are {len(attesters)} attesters"
        )
    iris, lz_scan = table.optional("iris", str, _url), table.optional("lz_scan", str, _url)
    table.check_all_read()
    if len(stellar) != 1:
        raise NetworkFileError(f"{path.name}: needs exactly one Stellar chain, has {len(stellar)}")
    both: list[Chain] = [*stellar, *evm]
    for field in ("id", "cctp_domain", "lz_eid"):
        names: dict[object, str] = {}
        for each in both:
            value = getattr(each, field)
            if value is not None and value in names:
                raise NetworkFileError(
                    f"{path.name}: {field} {value} is both {names[value]}'s and {each.name}'s"
                )
            names[value] = each.name
    return Network(
        name,
        stellar[0],
        tuple(evm),
        attesters=attesters,
        attestation_threshold=threshold,
        iris=iris,
        lz_scan=lz_scan,
    )


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError(f"{text!r} is not an http(s) URL")
    return text.rstrip("/")


def _page_template(text: str) -> str:
    """Clients follow these links, so nothing else than https is accepted."""
    if not text.startswith("https://") or text.count("{") != 1:
        raise ValueError(f"{text!r} is not an https URL with {{tx}} or {{address}}")
    return text


def _code_hash(text: str) -> str:
    if len(bytes.fromhex(text)) != 32:
        raise ValueError(f"{text!r} is not a SHA-256 in hex")
    return text.lower()


def _evm_chain(table: "_Table", chain: ChainId) -> EvmChain:
    contracts = table.subtable("contracts")
    contract = partial(contracts.optional, kind=str, parse=evm_address)
    parsed = EvmChain(
        id=chain,
        name=table.required("name", str),
        confirmations=table.positive("confirmations"),
        start_height=table.optional("start_height", int, Height),
        rpc=tuple(table.optional("rpc", list) or ()),
        bloom_is_reliable=table.required("bloom_is_reliable", bool),
        log_proof=table.parse("log_proof", table.required("log_proof", str), parse_log_proof),
        block_seconds=float(table.required("block_seconds", (int, float))),
        **{name: table.optional(name, str, _page_template) for name in EXPLORER_PAGES},
        cctp_domain=table.optional("cctp_domain", int),
        usdc=contract("usdc"),
        lz_eid=table.optional("lz_eid", int),
        usdt0=contract("usdt0"),
        watched=tuple(table.each("watched", evm_address)),
        **{name: contract(name) for name in EVM_CONTRACTS},
    )
    contracts.check_all_or_none(
        parsed, "CCTP", "cctp_domain", "usdc", "cctp_token_messenger", "cctp_message_transmitter"
    )
    contracts.check_all_or_none(parsed, "OFT", "lz_eid", "usdt0", "oft", "lz_endpoint")
    for part in (contracts, table):
        part.check_all_read()
    return parsed


def _stellar_chain(table: "_Table", chain: ChainId, other_passphrase: str | None) -> StellarChain:
    contracts = table.subtable("contracts")
    code_hashes = table.subtable("code_hashes")
    assets = table.subtable("assets")
    own_passphrase = table.required("passphrase", str)
    passphrase = other_passphrase or own_passphrase
    contract = partial(contracts.optional, kind=str, parse=stellar_contract)

    def asset(text: str) -> tuple[AssetId, StellarAddress]:
        """Our id of `CODE:ISSUER`, and its contract, which the passphrase decides."""
        code, colon, issuer = text.partition(":")
        if not colon:
            raise ValueError(f"{text!r} is not CODE:ISSUER")
        contract_id = asset_contract(code, stellar_account(issuer), passphrase)
        return AssetId(f"stellar:{text}"), contract_id

    usdc = assets.optional("usdc", str, asset)
    if usdc is None:
        raise assets.error("usdc", "is missing: write CODE:ISSUER")
    usdt0 = assets.optional("usdt0", str, asset) or (None, None)
    parsed = StellarChain(
        id=chain,
        name=table.required("name", str),
        passphrase=passphrase,
        confirmations=0,
        start_height=table.optional("start_height", int, Height),
        rpc=tuple(table.optional("rpc", list) or ()),
        block_seconds=float(table.required("block_seconds", (int, float))),
        **{name: table.optional(name, str, _page_template) for name in EXPLORER_PAGES},
        cctp_domain=table.optional("cctp_domain", int),
        usdc=usdc[0],
        usdc_contract=usdc[1],
        lz_eid=table.optional("lz_eid", int),
        usdt0=usdt0[0],
        usdt0_contract=usdt0[1],
        watched=tuple(table.each("watched", stellar_account)),
        **{name: contract(name) for name in STELLAR_CONTRACTS},
        code_hashes={
            name: code_hash
            for name in STELLAR_CONTRACTS
            if (code_hash := code_hashes.optional(name, str, _code_hash)) is not None
        },
    )
    contracts.check_all_or_none(
        parsed,
        "CCTP",
        *("cctp_domain", "cctp_token_messenger", "cctp_message_transmitter", "cctp_forwarder"),
    )
    contracts.check_all_or_none(parsed, "OFT", "lz_eid", "usdt0", "oft", "lz_endpoint")
    contracts.check_all_or_none(parsed, "order book", "escrow", "rail_terms")
    for part in (assets, code_hashes, contracts, table):
        part.check_all_read()
    return parsed


class _Table:
    """TOML table with its place in the file and the keys that were read."""

    def __init__(self, file: str, path: str, values: Mapping[str, Any]) -> None:
        self.file, self.path, self.values = file, path, values
        self._read: set[str] = set()

    def error(self, key: str, problem: str) -> NetworkFileError:
        where = f"{self.path}: " if self.path else ""
        return NetworkFileError(f"{self.file}: {where}{key} {problem}")

    def parse(self, key: str, value: Any, parse: Any) -> Any:
        try:
            return parse(value)
        except (ValueError, TypeError) as error:
            raise self.error(key, f"is wrong: {error}") from error

    def optional(self, key: str, kind: Any, parse: Any = None) -> Any:
        self._read.add(key)
        if key not in self.values:
            return None
        value = self.values[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(key, f"has the wrong type: {value!r}")
        return value if parse is None else self.parse(key, value, parse)

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
        return [self.parse(key, item, parse) for item in self.optional(key, list) or []]

    def subtable(self, key: str) -> "_Table":
        path = f"{self.path}/{key}" if self.path else key
        return _Table(self.file, path, self.optional(key, dict) or {})

    def check_all_or_none(self, chain: Chain, what: str, *keys: str) -> None:
        missing = [key for key in keys if getattr(chain, key) is None]
        if missing and len(missing) < len(keys):
            raise self.error(missing[0], f"is missing: {what} needs all of {', '.join(keys)}")

    def check_all_read(self) -> None:
        unknown = sorted(set(self.values) - self._read)
        if unknown:
            raise self.error(unknown[0], "is not a key of a network file")
