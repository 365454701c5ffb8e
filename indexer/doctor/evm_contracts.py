"""Checks of an EVM chain's contracts.

Views by Circle's evm-cctp-contracts (v2), LayerZero's oft-evm and EndpointV2; `implementation`
slots by EIP-1967 and by OpenZeppelin's proxies before it, such as USDC's.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_utils.crypto import keccak

from indexer.addresses import contract_as_bytes32
from indexer.chain_state.fees import FeeReader
from indexer.chains.evm.jsonrpc import parse_bytes
from indexer.chains.evm.node import EvmNode
from indexer.chains.http.node_pool import NodePool
from indexer.chains.http.operators import http_urls
from indexer.config.networks import EvmChain
from indexer.config.networks.chains import EVM_CONTRACTS
from indexer.config.routes import EVM_DECIMALS, MAX_USD
from indexer.doctor.checks import CheckResult, DoctorContext
from indexer.doctor.contract_checks import (
    CODE,
    DECIMALS,
    IMPLEMENTATION,
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
from warehouse_schema.identifiers import EvmAddress

_SLOTS = (
    (int.from_bytes(keccak(text="eip1967.proxy.implementation")) - 1).to_bytes(32),
    keccak(text="org.zeppelinos.proxy.implementation"),
)
_SEND_PARAM = "(uint32,bytes32,uint256,uint256,bytes,bytes,bytes)"
_QUOTE = ("(uint256,uint256)", "(int256,string)[]", "(uint256,uint256)")
_AMOUNT = MAX_USD * 10**EVM_DECIMALS
_MAX_ATTESTERS = 32
"""A node that names a million of them is not asked for each."""


class EvmViews:
    """Reads contracts at the head, from the first node that answers."""

    def __init__(self, chain: EvmChain, urls: Sequence[str]) -> None:
        nodes = [EvmNode(chain, url, timeout=REQUEST_SECONDS) for url in http_urls(urls)]
        self._nodes = NodePool(chain.id, nodes)

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()

    def code(self, address: EvmAddress) -> bytes:
        """The code at an address; empty without a contract. Raises as `NodePool.failover`."""
        return self._bytes("eth_getCode", [address, "latest"])

    def implementation(self, proxy: EvmAddress) -> EvmAddress | None:
        """The implementation that a proxy names; None for what is none. Raises as `code`."""
        for slot in _SLOTS:
            word = self._bytes("eth_getStorageAt", [proxy, f"0x{slot.hex()}", "latest"])
            if any(word):
                return EvmAddress(f"0x{word[-20:].hex()}")
        return None

    def read(self, contract: EvmAddress, signature: str, kinds: Sequence[str], *args: Any) -> Any:
        """Values of a view, one of them bare; None where it reverts or is missing.

        Raises as `code` while no node answers.
        """
        types = signature[signature.index("(") + 1 : -1]
        parameters = [types] if types.startswith("(") else [t for t in types.split(",") if t]
        data = keccak(text=signature)[:4] + encode(parameters, args)
        params = [{"to": contract, "data": f"0x{data.hex()}"}, "latest"]

        def ask(node: EvmNode) -> bytes:
            [reply] = node.batch([("eth_call", params)])
            # Nodes write "execution reverted", with the reason behind it.
            if reply.error is not None and "revert" in str(reply.error).lower():
                return b""
            return parse_bytes(reply.value(), node.host)

        try:
            values = decode(kinds, self._nodes.failover(ask))
        except (DecodingError, UnicodeDecodeError, OverflowError):
            return None
        return values[0] if len(kinds) == 1 else values

    def _bytes(self, method: str, params: list[Any]) -> bytes:
        return self._nodes.failover(lambda node: parse_bytes(node.call(method, params), node.host))


class EvmContractChecks:
    """The contracts of one chain."""

    def __init__(self, context: DoctorContext, chain: EvmChain, fees: FeeReader | None) -> None:
        self._context, self._chain, self._fees = context, chain, fees
        self._network = context.settings.network

    def run(self) -> Iterator[CheckResult]:
        """Every check. Raises as `EvmViews.code` while no node answers."""
        with closing(EvmViews(self._chain, self._context.settings.nodes[self._chain.id])) as views:
            present: dict[str, EvmAddress] = {}
            for name in ("usdc", "usdt0", *EVM_CONTRACTS):
                address = getattr(self._chain, name)
                if address is None:
                    continue
                self._context.begin(CODE.id, self._subject(name))
                code = views.code(address)
                if not code:
                    yield CODE.failed(self._subject(name), "there is no contract")
                    continue
                present[name] = address
                yield CODE.ok(self._subject(name), f"{len(code)} bytes")
                yield from self._check_proxy(views, name)
            # Of a contract that is not there nothing else is asked.
            if {"usdc", "cctp_token_messenger", "cctp_message_transmitter"} <= present.keys():
                yield from self._check_cctp(views, present)
            if {"usdt0", "oft", "lz_endpoint"} <= present.keys():
                yield from self._check_oft(views, present)

    def _subject(self, name: str) -> str:
        return f"{self._chain.id} {name} {getattr(self._chain, name)}"

    def _check_proxy(self, views: EvmViews, name: str) -> Iterator[CheckResult]:
        implementation = views.implementation(getattr(self._chain, name))
        if implementation is None:
            return
        if views.code(implementation):
            yield IMPLEMENTATION.ok(self._subject(name), implementation)
        else:
            problem = f"its implementation {implementation} has no code"
            yield IMPLEMENTATION.failed(self._subject(name), problem)

    def _check_decimals(self, views: EvmViews, name: str) -> CheckResult:
        decimals = views.read(getattr(self._chain, name), "decimals()", ["uint8"])
        expected = Expected("decimals", decimals, EVM_DECIMALS)
        return compare(DECIMALS, self._subject(name), [expected])

    def _check_cctp(self, views: EvmViews, at: Mapping[str, EvmAddress]) -> Iterator[CheckResult]:
        chain, stellar = self._chain, self._network.stellar
        usdc, messenger = at["usdc"], at["cctp_token_messenger"]
        transmitter = at["cctp_message_transmitter"]
        self._context.begin(LINKS.id, chain.id)
        yield self._check_decimals(views, "usdc")
        yield check_paused(self._subject("usdc"), views.read(usdc, "paused()", ["bool"]))
        paused = views.read(transmitter, "paused()", ["bool"])
        yield check_paused(self._subject("cctp_message_transmitter"), paused)
        domain = views.read(transmitter, "localDomain()", ["uint32"])
        local = views.read(messenger, "localMessageTransmitter()", ["address"])
        minter = views.read(messenger, "localMinter()", ["address"])
        links = [
            Expected("the transmitter's domain", domain, chain.cctp_domain),
            Expected("the messenger's transmitter", local, transmitter),
        ]
        if stellar.cctp_token_messenger is not None and stellar.cctp_domain is not None:
            remote = views.read(
                messenger, "remoteTokenMessengers(uint32)", ["bytes32"], stellar.cctp_domain
            )
            wanted = contract_as_bytes32(stellar.cctp_token_messenger)
            links.append(Expected("Stellar's messenger", _word(remote), wanted))
            token = bytes.fromhex(contract_as_bytes32(stellar.usdc_contract)[2:])
            minted = None
            if minter is not None:
                signature = "getLocalToken(uint32,bytes32)"
                minted = views.read(minter, signature, ["address"], stellar.cctp_domain, token)
            links.append(Expected("the token minted for Stellar's USDC", minted, usdc))
        yield compare(LINKS, self._subject("cctp_token_messenger"), links)
        if minter is not None:
            subject = f"{chain.id} cctp_token_minter {minter}"
            yield check_paused(subject, views.read(minter, "paused()", ["bool"]))
            limit = views.read(minter, "burnLimitsPerMessage(address)", ["uint256"], usdc)
            yield check_burn_limit(subject, limit, EVM_DECIMALS)
        # Deployments before V2.1 have no such view, and take no such fee.
        min_fee = views.read(messenger, "minFee()", ["uint256"]) or 0
        subject = self._subject("cctp_token_messenger")
        yield check_min_fee(self._fees, subject, min_fee, chain.id, stellar.id)
        yield self._check_attesters(views, transmitter)

    def _check_attesters(self, views: EvmViews, transmitter: EvmAddress) -> CheckResult:
        count = views.read(transmitter, "getNumEnabledAttesters()", ["uint256"]) or 0
        found = [
            views.read(transmitter, "getEnabledAttester(uint256)", ["address"], place)
            for place in range(min(count, _MAX_ATTESTERS))
        ]
        threshold = views.read(transmitter, "signatureThreshold()", ["uint256"])
        subject = self._subject("cctp_message_transmitter")
        return check_attesters(self._network, subject, list(map(str, found)), threshold)

    def _check_oft(self, views: EvmViews, at: Mapping[str, EvmAddress]) -> Iterator[CheckResult]:
        chain, stellar = self._chain, self._network.stellar
        oft, endpoint = at["oft"], at["lz_endpoint"]
        subject = self._subject("oft")
        self._context.begin(OFT.id, subject)
        yield self._check_decimals(views, "usdt0")
        rate = views.read(oft, "decimalConversionRate()", ["uint256"])
        yield compare(
            OFT,
            subject,
            [
                Expected("token", views.read(oft, "token()", ["address"]), chain.usdt0),
                Expected("endpoint", views.read(oft, "endpoint()", ["address"]), endpoint),
                Expected("endpoint id", views.read(endpoint, "eid()", ["uint32"]), chain.lz_eid),
                Expected("shared decimals", views.read(oft, "sharedDecimals()", ["uint8"]), 6),
                Expected("decimal conversion rate", rate, 10 ** (EVM_DECIMALS - 6)),
            ],
        )
        if stellar.oft is None or stellar.lz_eid is None:
            return
        peer = views.read(oft, "peers(uint32)", ["bytes32"], stellar.lz_eid)
        wanted = contract_as_bytes32(stellar.oft)
        found = compare(OFT_PEER, subject, [Expected("Stellar's OFT", _word(peer), wanted)])
        yield found
        if found.is_finding:
            return
        recipient = bytes.fromhex(wanted[2:])
        send = (stellar.lz_eid, recipient, _AMOUNT, 0, b"", b"", b"")
        quote = views.read(oft, f"quoteOFT({_SEND_PARAM})", _QUOTE, send)
        limits = None if quote is None else (*quote[0], quote[2][1])
        yield check_limit(subject, limits, _AMOUNT)


def _word(raw: bytes | None) -> str | None:
    return None if raw is None else f"0x{raw.hex()}"
