"""The EVM half of the development network: CCTP V2 and LayerZero V2 contracts on a local node.

The contracts (our own Solidity, `contracts/`) emit the logs and message bytes of the real ones:
Circle's evm-cctp-contracts V2 and LayerZero's EndpointV2 and OFT. Here the CCTP domain is 0 and the
LayerZero endpoint id 30101 (Ethereum's); the remote side is Stellar: domain 27, endpoint id 30600.

Every key here is public: the accounts of anvil's default mnemonic. None may ever hold money.

Amounts are base units: 6 decimals for USDC and USDT0, wei for native fees. Addresses are
lower-case hex strings; 32-byte fields of messages are `bytes`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from eth_abi.abi import decode
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak

from devnet.evm_messages import FINALIZED, ZERO_WORD, Packet
from devnet.evm_node import JsonRpc, argument_types, encode_call, event_topic
from devnet.evm_sending import Receipt, in_hex, signed, submit, wait
from indexer.bridges.deposit_address.factory import FACTORY

DOMAIN = 0
STELLAR_DOMAIN = 27
EID = 30101
STELLAR_EID = 30600

NATIVE_FEE = 10**14
"""Wei that the endpoint asks for one message."""


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


def create_address(sender: str, nonce: int) -> str:
    """Address of `sender`'s deployment with `nonce` (below 128): keccak of the RLP list."""
    if not 0 <= nonce < 128:
        raise ValueError(f"one RLP byte holds nonces 0 to 127, not {nonce}")
    item = bytes([nonce]) if nonce else b"\x80"
    address = bytes.fromhex(sender.removeprefix("0x"))
    return "0x" + keccak(b"\xd6\x94" + address + item)[12:].hex()


def expected_addresses() -> EvmAddresses:
    """Addresses of the contracts that `deploy` creates on a fresh chain."""
    owner = deployer().address
    return EvmAddresses(*(create_address(owner, nonce) for nonce in range(7)))


SEND_PARAM = "(uint32,bytes32,uint256,uint256,bytes,bytes,bytes)"
ORIGIN = "(uint32,bytes32,uint64)"

MESSAGE_SENT = event_topic("MessageSent(bytes)")
PACKET_SENT = event_topic("PacketSent(bytes,bytes,address)")


@dataclass(frozen=True)
class EvmDevnet:
    """The deployed contracts and what their users do with them.

    Each action sends one signed transaction and returns its receipt once it is in a block. An
    action that would revert raises Reverted and sends nothing.
    """

    rpc: JsonRpc
    addresses: EvmAddresses
    receipt_timeout: float = 300.0

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
        return submit(self.rpc, account, to, data, value=value, gas=gas)

    def wait(self, transaction_hash: str) -> Receipt:
        """Raises NotMined when there is no receipt in `receipt_timeout` seconds."""
        return wait(self.rpc, transaction_hash, self.receipt_timeout)

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
        request = {"to": to, "data": in_hex(encode_call(signature, *arguments))}
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
        """Receives an attested message, which mints."""
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
        return signed(self.rpc, sender, sender.address, data, value=0, gas=30_000, nonce=nonce)


def _receiver_address(packet: Packet) -> str:
    return "0x" + packet.receiver[12:].hex()
