"""Checks of Stellar's contracts.

Views by Circle's stellar-cctp, LayerZero's OFT for Stellar (oft-core) and SEP-41.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from stellar_sdk import Address, scval, xdr

from indexer.actions.stellar_orders import contract_call
from indexer.actions.stellar_tx import view_tx
from indexer.addresses import evm_as_bytes32
from indexer.chain_state.fees import FeeReader
from indexer.chain_state.stellar import StellarState
from indexer.chains.http.node_pool import NodePool
from indexer.chains.http.operators import http_urls
from indexer.chains.stellar.accounts import read_entry, simulate
from indexer.chains.stellar.checked_nodes import CheckedStellarNode
from indexer.config.networks import EvmChain, StellarChain
from indexer.config.networks.chains import STELLAR_CONTRACTS
from indexer.config.routes import BRIDGE_STEP, MAX_USD, STELLAR_DECIMALS
from indexer.doctor.checks import CheckResult, DoctorContext
from indexer.doctor.contract_checks import (
    CODE,
    CODE_HASH,
    DECIMALS,
    LINKS,
    OFT,
    OFT_PEER,
    REQUEST_SECONDS,
    Expected,
    check_attesters,
    check_burn_limit,
    check_limit,
    check_min_fee,
    check_paused,
    compare,
)
from indexer.errors import CallReverted
from warehouse_schema.identifiers import BaseUnits, Bytes32, StellarAddress

_MAX_ATTESTERS = 32
"""A node that names a million of them is not asked for each."""
_CCTP = ("cctp_token_messenger", "cctp_message_transmitter")
_AMOUNT = BaseUnits(MAX_USD * 10**STELLAR_DECIMALS)
_ANYBODY = Bytes32("0x" + "00" * 12 + "5e" * 20)
CLASSIC_ASSET = "token of the network"
"""Code of a contract that the network itself runs for a classic asset."""


class StellarViews:
    """Reads contracts at the newest ledger, from the first node that answers."""

    def __init__(self, chain: StellarChain, urls: Sequence[str]) -> None:
        nodes = [CheckedStellarNode(chain, url, REQUEST_SECONDS) for url in http_urls(urls)]
        self._nodes = NodePool(chain.id, nodes)
        self._passphrase = chain.passphrase

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()

    def code(self, contract: StellarAddress) -> str | None:
        """SHA-256 of a contract's code, or `CLASSIC_ASSET`; None without a contract.

        Raises as `NodePool.failover`.
        """
        key = xdr.LedgerKey(
            xdr.LedgerEntryType.CONTRACT_DATA,
            contract_data=xdr.LedgerKeyContractData(
                Address(contract).to_xdr_sc_address(),
                xdr.SCVal(xdr.SCValType.SCV_LEDGER_KEY_CONTRACT_INSTANCE),
                xdr.ContractDataDurability.PERSISTENT,
            ),
        ).to_xdr()
        return self._nodes.failover(lambda node: read_entry(node, key, _code_of))

    def read(self, contract: StellarAddress, function: str, *arguments: xdr.SCVal) -> Any:
        """A view's value in Python; None where it is void, missing or refused. Raises as `code`."""
        question = view_tx(self._passphrase, contract_call(contract, function, *arguments))
        try:
            result = self._nodes.failover(lambda node: simulate(node, question.envelope))
        except CallReverted:
            return None
        value = scval.to_native(xdr.SCVal.from_xdr_bytes(result.value))
        return value.address if isinstance(value, Address) else value


class StellarContractChecks:
    """The contracts of the network's Stellar chain, and their links to followed EVM chains."""

    def __init__(self, context: DoctorContext, fees: FeeReader | None) -> None:
        self._context, self._fees = context, fees
        self._network, self._chain = context.settings.network, context.settings.network.stellar
        self._remotes = [
            chain for chain in context.settings.followed if isinstance(chain, EvmChain)
        ]

    def run(self) -> Iterator[CheckResult]:
        """Every check. Raises as `StellarViews.code` while no node answers."""
        chain, urls = self._chain, self._context.settings.nodes[self._chain.id]
        with closing(StellarViews(chain, urls)) as views:
            present: dict[str, StellarAddress] = {}
            for name in ("usdc_contract", "usdt0_contract", *STELLAR_CONTRACTS):
                contract = getattr(chain, name)
                if contract is None:
                    continue
                self._context.begin(CODE.id, self._subject(name))
                code = views.code(contract)
                if code is None:
                    yield CODE.failed(self._subject(name), "there is no contract")
                    continue
                present[name] = contract
                yield CODE.ok(self._subject(name), code)
                if name in chain.code_hashes:
                    hashes = [Expected("code", code, chain.code_hashes[name])]
                    yield compare(CODE_HASH, self._subject(name), hashes)
                if name.endswith("_contract"):
                    decimals = Expected(
                        "decimals", views.read(contract, "decimals"), STELLAR_DECIMALS
                    )
                    yield compare(DECIMALS, self._subject(name), [decimals])
            # Of a contract that is not there nothing else is asked.
            if {
                "usdc_contract",
                "cctp_token_messenger",
                "cctp_message_transmitter",
            } <= present.keys():
                yield from self._check_cctp(views, present)
            if {"usdt0_contract", "oft", "lz_endpoint"} <= present.keys():
                yield from self._check_oft(views, present)

    def _subject(self, name: str) -> str:
        return f"{self._chain.id} {name} {getattr(self._chain, name)}"

    def _check_cctp(
        self, views: StellarViews, at: Mapping[str, StellarAddress]
    ) -> Iterator[CheckResult]:
        chain = self._chain
        messenger, transmitter = (at[name] for name in _CCTP)
        subject = self._subject("cctp_token_messenger")
        self._context.begin(LINKS.id, subject)
        yield check_paused(subject, views.read(messenger, "paused"))
        yield check_paused(
            self._subject("cctp_message_transmitter"), views.read(transmitter, "paused")
        )
        domain = views.read(transmitter, "get_local_domain")
        links = [Expected("the transmitter's domain", domain, chain.cctp_domain)]
        for remote in self._remotes:
            other = remote.cctp_token_messenger
            if remote.cctp_domain is None or remote.usdc is None or other is None:
                continue
            number = scval.to_uint32(remote.cctp_domain)
            trusted = views.read(messenger, "get_remote_token_messenger", number)
            wanted = evm_as_bytes32(other)
            links.append(Expected(f"the messenger of {remote.id}", _word(trusted), wanted))
            burned = scval.to_bytes(bytes.fromhex(evm_as_bytes32(remote.usdc)[2:]))
            minted = views.read(messenger, "get_local_token", number, burned)
            what = f"the token minted for USDC of {remote.id}"
            links.append(Expected(what, minted, chain.usdc_contract))
        yield compare(LINKS, subject, links)
        token = scval.to_address(chain.usdc_contract)
        limit = views.read(messenger, "get_max_burn_amount_per_message", token)
        yield check_burn_limit(subject, limit, STELLAR_DECIMALS)
        min_fee = views.read(messenger, "get_min_fee", token) or 0
        for remote in self._remotes:
            if remote.cctp_domain is not None:
                path = f"{subject} to {remote.id}"
                yield check_min_fee(self._fees, path, min_fee, chain.id, remote.id)
        yield self._check_attesters(views, transmitter)

    def _check_attesters(self, views: StellarViews, transmitter: StellarAddress) -> CheckResult:
        count = views.read(transmitter, "get_num_enabled_attesters") or 0
        found = [
            views.read(transmitter, "get_enabled_attester", scval.to_uint32(place))
            for place in range(min(count, _MAX_ATTESTERS))
        ]
        threshold = views.read(transmitter, "get_signature_threshold")
        subject = self._subject("cctp_message_transmitter")
        return check_attesters(
            self._network, subject, [str(_word(each)) for each in found], threshold
        )

    def _check_oft(
        self, views: StellarViews, at: Mapping[str, StellarAddress]
    ) -> Iterator[CheckResult]:
        chain = self._chain
        oft, endpoint = at["oft"], at["lz_endpoint"]
        subject = self._subject("oft")
        self._context.begin(OFT.id, subject)
        yield check_paused(subject, views.read(oft, "is_paused"))
        rate = views.read(oft, "decimal_conversion_rate")
        yield compare(
            OFT,
            subject,
            [
                Expected("token", views.read(oft, "token"), chain.usdt0_contract),
                Expected("endpoint id", views.read(endpoint, "eid"), chain.lz_eid),
                Expected("shared decimals", views.read(oft, "shared_decimals"), 6),
                Expected("decimal conversion rate", rate, BRIDGE_STEP),
            ],
        )
        with closing(
            StellarState(chain, http_urls(self._context.settings.nodes[chain.id]))
        ) as state:
            for remote in self._remotes:
                if remote.oft is None or remote.lz_eid is None:
                    continue
                path = f"{subject} to {remote.id}"
                peer = views.read(oft, "peer", scval.to_uint32(remote.lz_eid))
                trusted = Expected(
                    f"the OFT of {remote.id}", _word(peer), evm_as_bytes32(remote.oft)
                )
                found = compare(OFT_PEER, path, [trusted])
                yield found
                if not found.is_finding:
                    yield _check_quote(state, oft, remote.lz_eid, path)


def _check_quote(state: StellarState, oft: StellarAddress, eid: int, subject: str) -> CheckResult:
    try:
        quote = state.quote_oft(oft, eid, _ANYBODY, _AMOUNT)
    except CallReverted:
        return check_limit(subject, None, _AMOUNT)
    return check_limit(subject, (quote.min_amount, quote.max_amount, quote.received), _AMOUNT)


def _code_of(entry: str) -> str:
    """Code of a contract instance (base64 LedgerEntryData). Raises `ValueError` for another."""
    data = xdr.LedgerEntryData.from_xdr_bytes(base64.b64decode(entry, validate=True)).contract_data
    instance = None if data is None else data.val.instance
    if instance is None:
        raise ValueError("not a contract's instance")
    code = instance.executable.wasm_hash
    return CLASSIC_ASSET if code is None else code.hash.hex()


def _word(raw: bytes | None) -> str | None:
    return None if raw is None else f"0x{raw.hex()}"
