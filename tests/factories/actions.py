"""Direct deposits, and the logs that their calls would leave, without a chain."""

from typing import Any

from eth_abi.abi import encode

from indexer.actions.agreed import Agreement
from indexer.actions.evm_calls import BurnOrder, EvmOrder, SendOrder
from indexer.actions.evm_check import MinedTx
from indexer.addresses import contract_as_bytes32, evm_as_bytes32
from indexer.bridges.oft.packet import guid_of
from indexer.chains.events import Provenance
from indexer.chains.evm.abi import topic_of
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain, Network, load_network
from warehouse_schema.identifiers import BlockHash, ChainId, EvmAddress, Height, TxHash, UnixSeconds

MAINNET = load_network("mainnet")
ETHEREUM = ChainId("eip155:1")
_AT: Any = MAINNET.chain(ETHEREUM)
_STELLAR: Any = MAINNET.stellar
OWNER = "GB54KUSW2OO5IY3LXJGIR54Q4ZIGQMQ6FIE7QZENCFCL3E5GYXAKQY7L"
PAYER = EvmAddress("0x70997970c51812dc3a010c7d01b50e0d17dc79c8")
TRANSFER = "0f1e2d3c4b5a49788695a4b3c2d1e0ff"
TX = TxHash("0x" + "7a" * 32)


def make_agreed(
    network: Network = MAINNET, *, chain: ChainId = ETHEREUM, **changes: Any
) -> Agreement:
    """20 USDC from Ethereum, of which 19.99 arrive; `mechanism="oft"` for as much USDT0."""
    at = network.chain(chain)
    assert isinstance(at, EvmChain)
    is_burn = changes.get("mechanism", "cctp") == "cctp"
    usual: dict[str, Any] = {
        "id": TRANSFER,
        "owner": OWNER,
        "mechanism": "cctp",
        "source_chain": chain,
        "source_address": PAYER,
        "source_token": at.usdc if is_burn else at.usdt0,
        "source_asset": f"{chain}/erc20:{at.usdc if is_burn else at.usdt0}",
        "dest_chain": network.stellar.id,
        "dest_address": OWNER,
        "dest_asset": network.stellar.usdc if is_burn else network.stellar.usdt0,
        "amount_in": 20_000_000,
        "amount_out": 199_900_000,
        "finality_threshold": 1000 if is_burn else None,
        "native_fee": None if is_burn else 1_100,
        "min_refund": 1_000_000,
        "deposit_address": None,
        "started_at": 1_800_000_000,
        "expires_at": 1_800_001_800,
    }
    return Agreement(**{name: changes.get(name, value) for name, value in usual.items()})


def make_withdrawal(network: Network = MAINNET, **changes: Any) -> Agreement:
    """20 USDC from Stellar, of which 19.99 arrive on the first EVM chain; by name otherwise.

    `mechanism="oft"` for as much USDT0, all of which arrives, and "payment" for USDC.
    """
    stellar, evm = network.stellar, network.evm[0]
    mechanism = changes.get("mechanism", "cctp")
    owner = changes.get("owner", OWNER)
    in_full = mechanism != "cctp"
    usual: dict[str, Any] = {
        "mechanism": mechanism,
        "source_chain": stellar.id,
        "source_address": owner,
        "source_token": stellar.usdt0_contract if mechanism == "oft" else stellar.usdc_contract,
        "dest_chain": stellar.id if mechanism == "payment" else evm.id,
        "dest_address": PAYER,
        "amount_in": 200_000_000,
        "amount_out": 20_000_000 if in_full else 19_990_000,
        "finality_threshold": None if in_full else 2000,
        "native_fee": 5_000_000 if mechanism == "oft" else None,
    }
    if mechanism == "payment":
        usual["amount_out"] = usual["amount_in"]
    return make_agreed(network, chain=evm.id, **(usual | {"owner": owner} | changes))


def make_mined(order: EvmOrder, *others: EvmLog, **changes: Any) -> MinedTx:
    """The transaction that carries an order out, after logs of others'."""
    fields: dict[str, Any] = {
        "chain": ETHEREUM,
        "tx": TX,
        "succeeded": True,
        "logs": (*others, *logs_of(order)),
    }
    return MinedTx(**(fields | changes))


def logs_of(order: EvmOrder, payer: EvmAddress = PAYER) -> tuple[EvmLog, ...]:
    """What the bridge's contracts say of an order; to Stellar on mainnet."""
    return _burned(order, payer) if isinstance(order, BurnOrder) else _sent(order, payer)


def make_log(address: Any, *topics: str, data: bytes = b"", position: int = 0) -> EvmLog:
    """A log of the transaction."""
    block = BlockHash("0x" + "b1" * 32)
    seen = Provenance(ETHEREUM, Height(100), block, TX, position, UnixSeconds(0))
    return EvmLog(seen, address, topics, data)


def _burned(burn: BurnOrder, payer: EvmAddress) -> tuple[EvmLog, ...]:
    words = [
        *(burn.amount, _raw(burn.mint_recipient), burn.domain),
        _raw(contract_as_bytes32(_STELLAR.cctp_token_messenger)),
        *(_raw(burn.destination_caller), burn.max_fee, burn.hook_data),
    ]
    types = ["uint256", "bytes32", "uint32", "bytes32", "bytes32", "uint256", "bytes"]
    members = "address,uint256,address,bytes32,uint32,bytes32,bytes32,uint256,uint32,bytes"
    signature = f"DepositForBurn({members})"
    topics = (
        *(topic_of(signature), evm_as_bytes32(burn.token), evm_as_bytes32(payer)),
        f"0x{burn.min_finality:064x}",
    )
    return (make_log(burn.messenger, *topics, data=encode(types, words)),)


def _sent(send: SendOrder, payer: EvmAddress) -> tuple[EvmLog, ...]:
    sender, receiver = evm_as_bytes32(send.oft), contract_as_bytes32(_STELLAR.oft)
    guid = guid_of(7, _AT.lz_eid, sender, send.eid, receiver)
    path = encode_path(7, _AT.lz_eid, sender, send.eid, receiver)
    # What is kept as a fee leaves the least that may arrive.
    message = _raw(send.to) + send.min_amount.to_bytes(8, "big") + send.compose
    packet = b"\x01" + path + _raw(guid) + message
    return (
        make_log(
            _AT.lz_endpoint,
            topic_of("PacketSent(bytes,bytes,address)"),
            data=encode(["bytes", "bytes", "address"], [packet, b"\x00\x03", "0x" + "1b" * 20]),
        ),
        make_log(
            send.oft,
            topic_of("OFTSent(bytes32,uint32,address,uint256,uint256)"),
            *(guid, evm_as_bytes32(payer)),
            data=encode(["uint32", "uint256", "uint256"], [send.eid, send.amount, send.min_amount]),
            position=1,
        ),
    )


def encode_path(nonce: int, src_eid: int, sender: str, dst_eid: int, receiver: str) -> bytes:
    """The part of a packet that its guid is the hash of."""
    ends = src_eid.to_bytes(4, "big") + _raw(sender) + dst_eid.to_bytes(4, "big") + _raw(receiver)
    return nonce.to_bytes(8, "big") + ends


def _raw(word: str) -> bytes:
    return bytes.fromhex(word[2:])
