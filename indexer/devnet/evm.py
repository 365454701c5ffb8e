"""The EVM half of the development network: CCTP V2 and LayerZero V2 contracts on a local node.

The contracts (our own Solidity, `contracts/`) emit the logs and message bytes of the real ones:
Circle's evm-cctp-contracts V2 and LayerZero's EndpointV2 and OFT. Here the CCTP domain is 0 and the
LayerZero endpoint id 30101 (Ethereum's); the remote side is Stellar: domain 27, endpoint id 30600.

Every key here is public: the accounts of anvil's default mnemonic. None may ever hold money.

Amounts are base units: 6 decimals for USDC and USDT0, wei for native fees. Addresses are
lower-case hex strings; 32-byte fields of messages are `bytes`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Self

from eth_abi.abi import decode, encode
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from indexer.deposits import DETERMINISTIC_DEPLOYER, FACTORY
from indexer.devnet.evm_messages import FINALIZED, ZERO_WORD, Attesters, Packet, address_word
from indexer.devnet.evm_node import (
    DEPOSIT_ARTIFACTS,
    JsonRpc,
    NotMined,
    WrongDeployment,
    argument_types,
    artifact,
    encode_call,
    event_topic,
)

DOMAIN = 0
STELLAR_DOMAIN = 27
EID = 30101
STELLAR_EID = 30600

MAX_UINT256 = 2**256 - 1

NATIVE_FEE = 10**14
"""Wei that the endpoint asks for one message."""
BURN_LIMIT = 10_000_000 * 10**6
"""USDC base units of one CCTP burn, the limit that Circle documents."""
ENFORCED_OPTIONS = bytes.fromhex("0003010011010000000000000000000000000007a120")
"""Type 3, one lzReceive option of 500,000 gas: what the Ethereum USDT0 adapter enforces."""


# Accounts and addresses


MNEMONIC = "test test test test test test test test test test test junk"
"""Anvil's default mnemonic. Its keys are public; each account starts with 10,000 ether."""


@cache
def dev_account(index: int) -> LocalAccount:
    """Account `index` (0 to 9) of the public mnemonic. 1 to 6 are free for users and relayers."""
    if not 0 <= index <= 9:
        raise ValueError(f"anvil funds accounts 0 to 9, not {index}")
    Account.enable_unaudited_hdwallet_features()
    account: LocalAccount = Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{index}")
    return account


def deployer() -> LocalAccount:
    """Owns every contract, and is the faucet of both tokens."""
    return dev_account(0)


def reorg_marker() -> LocalAccount:
    """Sends the transaction that makes a replacement block differ from the block it replaces."""
    return dev_account(7)


def fee_recipient() -> LocalAccount:
    """Receives the CCTP fees that a mint withholds."""
    return dev_account(8)


def packet_verifier() -> LocalAccount:
    """Stands for the DVNs: the only account whose word makes an inbound packet verified."""
    return dev_account(9)


@dataclass(frozen=True)
class EvmAddresses:
    """The contracts, in the order of their deployment (nonces 0 to 6 of the deployer).

    The last comes by the deterministic deployer, so that it is where it is on every chain.
    """

    usdc: str
    message_transmitter: str
    token_messenger: str
    token_minter: str
    endpoint: str
    usdt0: str
    oft: str
    deposit_factory: str = FACTORY


@dataclass(frozen=True)
class StellarRemotes:
    """Raw contract ids (32 bytes) of the Stellar side."""

    token_messenger_minter: bytes
    usdc_sac: bytes
    oft: bytes


def create_address(sender: str, nonce: int) -> str:
    """Where `sender`'s transaction with `nonce` (below 128) deploys to: keccak of the RLP list."""
    if not 0 <= nonce < 128:
        raise ValueError(f"one RLP byte holds nonces 0 to 127, not {nonce}")
    item = bytes([nonce]) if nonce else b"\x80"
    address = bytes.fromhex(sender.removeprefix("0x"))
    return "0x" + keccak(b"\xd6\x94" + address + item)[12:].hex()


def expected_addresses() -> EvmAddresses:
    """Where `deploy` puts the contracts on a fresh chain."""
    owner = deployer().address
    return EvmAddresses(*(create_address(owner, nonce) for nonce in range(7)))


# Receipts


@dataclass(frozen=True)
class Log:
    """One log: 32-byte topics, and its index in the block."""

    address: str
    topics: tuple[bytes, ...]
    data: bytes
    index: int


@dataclass(frozen=True)
class Receipt:
    """A transaction in a block."""

    transaction_hash: str
    block_number: int
    block_hash: str
    succeeded: bool
    logs: tuple[Log, ...]

    @classmethod
    def from_rpc(cls, receipt: dict[str, Any]) -> Receipt:
        """Parses the answer of eth_getTransactionReceipt."""
        return cls(
            transaction_hash=receipt["transactionHash"],
            block_number=int(receipt["blockNumber"], 16),
            block_hash=receipt["blockHash"],
            succeeded=receipt["status"] == "0x1",
            logs=tuple(_log(each) for each in receipt["logs"]),
        )


def _log(log: dict[str, Any]) -> Log:
    return Log(
        address=log["address"].lower(),
        topics=tuple(bytes.fromhex(topic[2:]) for topic in log["topics"]),
        data=bytes.fromhex(log["data"][2:]),
        index=int(log["logIndex"], 16),
    )


# The network


SEND_PARAM = "(uint32,bytes32,uint256,uint256,bytes,bytes,bytes)"
ORIGIN = "(uint32,bytes32,uint64)"

MESSAGE_SENT = event_topic("MessageSent(bytes)")
PACKET_SENT = event_topic("PacketSent(bytes,bytes,address)")

GAS_PRICE = 2 * 10**9
"""Wei, fixed so that the same actions give the same transaction hashes."""


@dataclass(frozen=True)
class EvmDevnet:
    """The deployed contracts and what their users do with them.

    Each action sends one signed transaction and returns its receipt once it is in a block. An
    action that would revert raises Reverted and sends nothing.
    """

    rpc: JsonRpc
    addresses: EvmAddresses
    receipt_timeout: float = 60.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; the node lives on."""
        self.rpc.close()

    # Transactions and calls

    def submit(
        self,
        account: LocalAccount,
        to: str | None,
        data: bytes,
        *,
        value: int = 0,
        gas: int | None = None,
    ) -> str:
        """Sends a transaction and returns its hash without waiting.

        Without `gas` it is estimated on the pending state, which raises Reverted for a transaction
        that would fail. With `gas` it is sent as it is: the way to get a failed one into a block.
        """
        return _submit(self.rpc, account, to, data, value=value, gas=gas)

    def wait(self, transaction_hash: str) -> Receipt:
        """Raises NotMined when there is no receipt in `receipt_timeout` seconds."""
        return _wait(self.rpc, transaction_hash, self.receipt_timeout)

    def send(
        self,
        account: LocalAccount,
        to: str,
        data: bytes,
        *,
        value: int = 0,
        gas: int | None = None,
    ) -> Receipt:
        """`submit` and `wait`."""
        return self.wait(self.submit(account, to, data, value=value, gas=gas))

    def call(self, to: str, signature: str, *arguments: Any, returns: str) -> tuple[Any, ...]:
        """A read; `returns` is a list of types such as "(uint256)"."""
        request = {"to": to, "data": _hex(encode_call(signature, *arguments))}
        answer = bytes.fromhex(self.rpc("eth_call", request, "latest")[2:])
        return decode(argument_types(returns), answer)

    # Tokens

    def faucet_usdc(self, to: str, amount: int) -> Receipt:
        """Mints USDC."""
        call = encode_call("mint(address,uint256)", to, amount)
        return self.send(deployer(), self.addresses.usdc, call)

    def faucet_usdt0(self, to: str, amount: int) -> Receipt:
        """Mints USDT0."""
        call = encode_call("mint(address,uint256)", to, amount)
        return self.send(deployer(), self.addresses.usdt0, call)

    def approve(self, account: LocalAccount, token: str, spender: str, amount: int) -> Receipt:
        """Allows `spender` to move `amount` of the account's token."""
        call = encode_call("approve(address,uint256)", spender, amount)
        return self.send(account, token, call)

    def transfer(self, account: LocalAccount, token: str, to: str, amount: int) -> Receipt:
        """A plain ERC-20 transfer."""
        return self.send(account, token, encode_call("transfer(address,uint256)", to, amount))

    def balance_of(self, token: str, account: str) -> int:
        """Base units of the token."""
        balance: int = self.call(token, "balanceOf(address)", account, returns="(uint256)")[0]
        return balance

    # CCTP

    def deposit_for_burn(
        self,
        account: LocalAccount,
        *,
        amount: int,
        mint_recipient: bytes,
        destination_caller: bytes = ZERO_WORD,
        max_fee: int = 0,
        min_finality: int = FINALIZED,
        destination_domain: int = STELLAR_DOMAIN,
    ) -> Receipt:
        """Burns USDC towards a remote domain; the token messenger needs the allowance."""
        call = encode_call(
            "depositForBurn(uint256,uint32,bytes32,address,bytes32,uint256,uint32)",
            amount,
            destination_domain,
            mint_recipient,
            self.addresses.usdc,
            destination_caller,
            max_fee,
            min_finality,
        )
        return self.send(account, self.addresses.token_messenger, call)

    def deposit_for_burn_with_hook(
        self,
        account: LocalAccount,
        *,
        amount: int,
        mint_recipient: bytes,
        hook_data: bytes,
        destination_caller: bytes = ZERO_WORD,
        max_fee: int = 0,
        min_finality: int = FINALIZED,
        destination_domain: int = STELLAR_DOMAIN,
    ) -> Receipt:
        """Like `deposit_for_burn`, with raw `hook_data` at the end of the message."""
        call = encode_call(
            "depositForBurnWithHook(uint256,uint32,bytes32,address,bytes32,uint256,uint32,bytes)",
            amount,
            destination_domain,
            mint_recipient,
            self.addresses.usdc,
            destination_caller,
            max_fee,
            min_finality,
            hook_data,
        )
        return self.send(account, self.addresses.token_messenger, call)

    def receive_message(self, account: LocalAccount, message: bytes, attestation: bytes) -> Receipt:
        """Mints what an attested message says."""
        call = encode_call("receiveMessage(bytes,bytes)", message, attestation)
        return self.send(account, self.addresses.message_transmitter, call)

    def sent_messages(self, receipt: Receipt) -> tuple[bytes, ...]:
        """The CCTP source messages of a transaction, in log order."""
        return tuple(
            decode(["bytes"], log.data)[0]
            for log in receipt.logs
            if log.address == self.addresses.message_transmitter and log.topics[0] == MESSAGE_SENT
        )

    # LayerZero

    def quote_send(self, *, to: bytes, amount: int, dst_eid: int = STELLAR_EID) -> int:
        """Wei that an `oft_send` has to carry."""
        fee: int = self.call(
            self.addresses.oft,
            f"quoteSend({SEND_PARAM},bool)",
            (dst_eid, to, amount, amount, b"", b"", b""),
            False,
            returns="(uint256,uint256)",
        )[0]
        return fee

    def oft_send(
        self,
        account: LocalAccount,
        *,
        to: bytes,
        amount: int,
        min_amount: int | None = None,
        native_fee: int = NATIVE_FEE,
        value: int | None = None,
        refund_address: str | None = None,
        extra_options: bytes = b"",
        dst_eid: int = STELLAR_EID,
    ) -> Receipt:
        """Sends USDT0; `value` differs from `native_fee` (wei) only to see it refused."""
        minimum = amount if min_amount is None else min_amount
        call = encode_call(
            f"send({SEND_PARAM},(uint256,uint256),address)",
            (dst_eid, to, amount, minimum, extra_options, b"", b""),
            (native_fee, 0),
            refund_address or account.address,
        )
        paid = native_fee if value is None else value
        return self.send(account, self.addresses.oft, call, value=paid)

    def lz_verify(self, packet: bytes) -> Receipt:
        """The verifier's word for a packet addressed to this chain."""
        decoded = Packet.decode(packet)
        call = encode_call(
            f"verify({ORIGIN},address,bytes32)",
            decoded.origin,
            _receiver_address(decoded),
            decoded.payload_hash,
        )
        return self.send(packet_verifier(), self.addresses.endpoint, call)

    def lz_receive(self, account: LocalAccount, packet: bytes) -> Receipt:
        """Delivers a verified packet; any account may."""
        decoded = Packet.decode(packet)
        call = encode_call(
            f"lzReceive({ORIGIN},address,bytes32,bytes,bytes)",
            decoded.origin,
            _receiver_address(decoded),
            decoded.guid,
            decoded.message,
            b"",
        )
        return self.send(account, self.addresses.endpoint, call)

    def lz_verify_and_receive(self, packet: bytes, account: LocalAccount | None = None) -> Receipt:
        """Two transactions, the receipt of the delivery; the verifier delivers by default."""
        self.lz_verify(packet)
        return self.lz_receive(account or packet_verifier(), packet)

    def sent_packets(self, receipt: Receipt) -> tuple[bytes, ...]:
        """The encoded LayerZero packets of a transaction, in log order."""
        return tuple(
            decode(["bytes", "bytes", "address"], log.data)[0]
            for log in receipt.logs
            if log.address == self.addresses.endpoint and log.topics[0] == PACKET_SENT
        )

    # Blocks

    def block_number(self) -> int:
        """The height."""
        return int(self.rpc("eth_blockNumber"), 16)

    def block_hash(self, number: int) -> str:
        """The hash of a canonical block."""
        block_hash: str = self.rpc("eth_getBlockByNumber", hex(number), False)["hash"]
        return block_hash

    def mine(self, blocks: int = 1, *, seconds_apart: int | None = None) -> None:
        """Mines empty blocks. Anvil's time grows with the square: keep it to some hundreds."""
        apart = [] if seconds_apart is None else [hex(seconds_apart)]
        self.rpc("anvil_mine", hex(blocks), *apart)

    def set_automine(self, on: bool) -> None:
        """With automine off, blocks come from `mine` or the interval alone."""
        self.rpc("evm_setAutomine", on)

    def set_block_interval(self, seconds: int) -> None:
        """Mines a block each `seconds`; 0 stops it."""
        self.rpc("evm_setIntervalMining", seconds)

    def set_next_block_timestamp(self, timestamp: int) -> None:
        """Unix seconds; later blocks go on from there."""
        self.rpc("evm_setNextBlockTimestamp", timestamp)

    def reorg(self, depth: int, *, remine: Collection[str] = ()) -> int:
        """Replaces the last `depth` blocks and returns the number of the block they now stand on.

        The height stays, every replaced hash changes, and the dropped transactions are gone except
        the hashes in `remine`, which come again in the new last block.
        """
        head = self.block_number()
        fork = head - depth
        if not 0 < depth <= head:
            raise ValueError(f"cannot replace {depth} of {head} blocks")
        again = [[self.rpc("eth_getRawTransactionByHash", each), depth - 1] for each in remine]
        self.rpc("anvil_reorg", depth, [[self._marker(fork, head), 0], *again])
        return fork

    def _marker(self, fork: int, head: int) -> str:
        """A transaction no other branch holds: it carries the hash of the head it replaces.

        Anvil gives an empty replacement block the hash of the empty block it replaces when their
        timestamps are equal; with this in the first one, all of them differ.
        """
        sender = reorg_marker()
        nonce = int(self.rpc("eth_getTransactionCount", sender.address, hex(fork)), 16)
        data = bytes.fromhex(self.block_hash(head)[2:])
        return _signed(self.rpc, sender, sender.address, data, value=0, gas=30_000, nonce=nonce)


def _receiver_address(packet: Packet) -> str:
    return "0x" + packet.receiver[12:].hex()


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


def _signed(
    rpc: JsonRpc,
    account: LocalAccount,
    to: str | None,
    data: bytes,
    *,
    value: int,
    gas: int,
    nonce: int,
) -> str:
    transaction: dict[str, Any] = {
        "type": 2,
        "chainId": rpc.chain_id,
        "nonce": nonce,
        "value": value,
        "data": data,
        "gas": gas,
        "maxFeePerGas": GAS_PRICE,
        "maxPriorityFeePerGas": GAS_PRICE // 2,
    }
    if to is not None:
        transaction["to"] = to_checksum_address(to)
    return _hex(bytes(account.sign_transaction(transaction).raw_transaction))


def _submit(
    rpc: JsonRpc,
    account: LocalAccount,
    to: str | None,
    data: bytes,
    *,
    value: int = 0,
    gas: int | None = None,
) -> str:
    if gas is None:
        request = {"from": account.address, "to": to, "data": _hex(data), "value": hex(value)}
        # A quarter more: the estimate is exact, and the state may move before the block.
        gas = int(rpc("eth_estimateGas", request, "pending"), 16) * 5 // 4
    nonce = int(rpc("eth_getTransactionCount", account.address, "pending"), 16)
    raw = _signed(rpc, account, to, data, value=value, gas=gas, nonce=nonce)
    transaction_hash: str = rpc("eth_sendRawTransaction", raw)
    return transaction_hash


def _wait(rpc: JsonRpc, transaction_hash: str, timeout: float) -> Receipt:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        receipt = rpc("eth_getTransactionReceipt", transaction_hash)
        if receipt is not None:
            return Receipt.from_rpc(receipt)
        time.sleep(0.02)
    raise NotMined(f"{transaction_hash} has no receipt after {timeout} s")


# Deployment


@dataclass(frozen=True)
class PlannedTransaction:
    """One step of the deployment; `to` is None for a contract creation."""

    to: str | None
    data: bytes


def deployment_plan(remotes: StellarRemotes) -> tuple[PlannedTransaction, ...]:
    """The deployer's first transactions: the one at position i has nonce i."""
    at = expected_addresses()
    return (*_creations(at), *_settings(at, remotes), _deposit_factory())


def _creations(at: EvmAddresses) -> Iterator[PlannedTransaction]:
    yield _create("Usdc")
    yield _create(
        "MessageTransmitter", ["uint32", "address[]", "uint256"], DOMAIN, Attesters().addresses, 2
    )
    yield _create(
        "TokenMessenger", ["address", "address"], at.message_transmitter, fee_recipient().address
    )
    yield _create("TokenMinter", ["address"], at.token_messenger)
    yield _create(
        "OftEndpoint", ["uint32", "address", "uint256"], EID, packet_verifier().address, NATIVE_FEE
    )
    yield _create("Usdt0")
    yield _create("Oft", ["address", "address"], at.usdt0, at.endpoint)


def _create(name: str, types: Sequence[str] = (), *arguments: Any) -> PlannedTransaction:
    return PlannedTransaction(None, artifact(name).bytecode + encode(types, arguments))


def _settings(at: EvmAddresses, remotes: StellarRemotes) -> Iterator[PlannedTransaction]:
    owner = deployer().address
    options = [(STELLAR_EID, 1, ENFORCED_OPTIONS)]
    configure_minter = "configureMinter(address,uint256)"
    yield _set(at.usdc, configure_minter, at.token_minter, MAX_UINT256)
    yield _set(at.usdc, configure_minter, owner, MAX_UINT256)
    yield _set(at.token_minter, "setMaxBurnAmountPerMessage(address,uint256)", at.usdc, BURN_LIMIT)
    yield _set(
        at.token_minter,
        "linkTokenPair(address,uint32,bytes32)",
        at.usdc,
        STELLAR_DOMAIN,
        remotes.usdc_sac,
    )
    yield _set(at.token_messenger, "addLocalMinter(address)", at.token_minter)
    yield _set(
        at.token_messenger,
        "addRemoteTokenMessenger(uint32,bytes32)",
        STELLAR_DOMAIN,
        remotes.token_messenger_minter,
    )
    yield _set(at.usdt0, "setMinter(address,bool)", at.oft, True)
    yield _set(at.usdt0, "setMinter(address,bool)", owner, True)
    yield _set(at.oft, "setEnforcedOptions((uint32,uint16,bytes)[])", options)
    yield _set(at.oft, "setPeer(uint32,bytes32)", STELLAR_EID, remotes.oft)


def _deposit_factory() -> PlannedTransaction:
    """Salt of zeros, then the creation code; the factory takes no arguments."""
    creation_code = artifact("DepositFactory", DEPOSIT_ARTIFACTS).bytecode
    return PlannedTransaction(DETERMINISTIC_DEPLOYER, ZERO_WORD + creation_code)


def _set(to: str, signature: str, *arguments: Any) -> PlannedTransaction:
    return PlannedTransaction(to, encode_call(signature, *arguments))


def deploy(rpc_url: str, remotes: StellarRemotes) -> EvmDevnet:
    """Deploys what is missing and returns the network.

    The deployer's nonce says how far an earlier call came, so that a second call only attaches and
    an interrupted one is taken up again. Raises WrongDeployment when the chain holds something
    else: another use of the deployer's account, or other remotes.
    """
    rpc = JsonRpc(rpc_url)
    try:
        _send_missing(rpc, deployment_plan(remotes))
        devnet = EvmDevnet(rpc, expected_addresses())
        _require_deployment(devnet, remotes)
    except BaseException:
        rpc.close()
        raise
    return devnet


def _send_missing(rpc: JsonRpc, plan: Sequence[PlannedTransaction]) -> None:
    done = int(rpc("eth_getTransactionCount", deployer().address, "latest"), 16)
    # All at once: a node that mines on a beat takes them into one or two blocks.
    hashes = [
        rpc("eth_sendRawTransaction", _signed_step(rpc, step, nonce))
        for nonce, step in enumerate(plan)
        if nonce >= done
    ]
    for nonce, transaction_hash in enumerate(hashes, start=done):
        if not _wait(rpc, transaction_hash, timeout=60.0).succeeded:
            raise WrongDeployment(f"step {nonce} of the deployment failed: {transaction_hash}")


def _signed_step(rpc: JsonRpc, step: PlannedTransaction, nonce: int) -> str:
    gas = 4_000_000 if step.to in (None, DETERMINISTIC_DEPLOYER) else 400_000
    return _signed(rpc, deployer(), step.to, step.data, value=0, gas=gas, nonce=nonce)


def _require_deployment(devnet: EvmDevnet, remotes: StellarRemotes) -> None:
    at = devnet.addresses
    for each in fields(EvmAddresses):
        if devnet.rpc("eth_getCode", getattr(at, each.name), "latest") == "0x":
            raise WrongDeployment(f"no code at {each.name}: the deployer's account was used before")
    for to, signature, arguments, expected in (
        (
            at.token_messenger,
            "remoteTokenMessengers(uint32)",
            (STELLAR_DOMAIN,),
            remotes.token_messenger_minter,
        ),
        (
            at.token_minter,
            "getLocalToken(uint32,bytes32)",
            (STELLAR_DOMAIN, remotes.usdc_sac),
            address_word(at.usdc),
        ),
        (at.oft, "peers(uint32)", (STELLAR_EID,), remotes.oft),
    ):
        # An address is a word like the others when it is read as one.
        [actual] = devnet.call(to, signature, *arguments, returns="(bytes32)")
        if actual != expected:
            raise WrongDeployment(
                f"deployed with other remotes: {signature} is 0x{actual.hex()},"
                f" not 0x{expected.hex()}"
            )
