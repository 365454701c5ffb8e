"""A local EVM chain full of our contracts' logs, made as fast as a node takes them.

Where the contracts of the devnet would stand there is one small program instead, which emits
whatever logs its caller writes down. So a transaction makes hundreds of logs of any shape, and what
is measured is reading them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from eth_utils.crypto import keccak

from devnet.evm_node import JsonRpc
from indexer.chains.evm.abi import topic_of
from indexer.config.networks import EvmChain

STELLAR_DOMAIN, STELLAR_EID = 27, 30600
_GAS = 28_000_000

# The program. Its input is records of a log each: number of topics, size of data, four topics (the
# last ones unused), data. It runs through them and emits each.

_CALLDATASIZE, _CALLDATALOAD, _CALLDATACOPY = 0x36, 0x35, 0x37
_ADD, _MOD, _LT, _EQ, _ISZERO, _POP, _MSTORE, _LOG0 = 0x01, 0x06, 0x10, 0x14, 0x15, 0x50, 0x52, 0xA0
_JUMP, _JUMPI, _JUMPDEST, _STOP, _REVERT = 0x56, 0x57, 0x5B, 0x00, 0xFD
_HEAD = 192
"""Bytes of a record before its data."""


class _Assembler:
    """Bytes of a program with jumps to names."""

    def __init__(self) -> None:
        self._code = bytearray()
        self._places: dict[str, int] = {}
        self._jumps: list[tuple[int, str]] = []

    def op(self, *codes: int) -> None:
        self._code.extend(codes)

    def push(self, value: int) -> None:
        self._code.extend((0x60, value))

    def dup(self, depth: int) -> None:
        self._code.append(0x7F + depth)

    def input(self, number: int) -> None:
        """Push a word of the input."""
        self.push(32 * number)
        self.op(_CALLDATALOAD)

    def store(self, at: int, *, depth: int) -> None:
        """Write a word of the stack to memory."""
        self.dup(depth)
        self.push(at)
        self.op(_MSTORE)

    def place(self, name: str) -> None:
        self._places[name] = len(self._code)
        self.op(_JUMPDEST)

    def jump(self, name: str, how: int = _JUMP) -> None:
        self.op(0x61, 0, 0)
        self._jumps.append((len(self._code) - 2, name))
        self.op(how)

    def assembled(self) -> bytes:
        for at, name in self._jumps:
            self._code[at : at + 2] = self._places[name].to_bytes(2, "big")
        return bytes(self._code)


def emitter_code() -> bytes:
    """Runtime code of the program."""
    asm = _Assembler()
    asm.push(0)
    asm.place("next record")  # stack: at
    asm.op(_CALLDATASIZE)
    asm.dup(2)
    asm.op(_LT, _ISZERO)
    asm.jump("end", _JUMPI)
    asm.dup(1)
    asm.push(32)
    asm.op(_ADD, _CALLDATALOAD)  # at, size
    asm.dup(1)
    asm.dup(3)
    asm.push(_HEAD)
    asm.op(_ADD)
    asm.push(0)
    asm.op(_CALLDATACOPY)
    asm.dup(2)
    asm.op(_CALLDATALOAD)  # at, size, topics
    for topics in range(1, 5):
        asm.dup(1)
        asm.push(topics)
        asm.op(_EQ)
        asm.jump(f"log {topics}", _JUMPI)
    asm.push(0)
    asm.push(0)
    asm.op(_REVERT)
    for topics in range(1, 5):
        asm.place(f"log {topics}")
        asm.op(_POP)
        for pushed, topic in enumerate(range(topics, 0, -1)):
            asm.dup(2 + pushed)
            asm.push(32 + 32 * topic)
            asm.op(_ADD, _CALLDATALOAD)
        asm.dup(1 + topics)
        asm.push(0)
        asm.op(_LOG0 + topics)
        asm.jump("record done")
    asm.place("record done")  # at, size
    asm.op(_ADD)
    asm.push(_HEAD)
    asm.op(_ADD)
    asm.jump("next record")
    asm.place("end")
    asm.op(_STOP)
    return asm.assembled()


# Logs


@dataclass(frozen=True)
class Log:
    """What one record says, and who emits it."""

    emitter: str
    signature: str
    indexed: Sequence[int | bytes]
    data: bytes

    @property
    def record(self) -> bytes:
        topics = [_topic(self.signature), *map(word, self.indexed)]
        head = word(len(topics)) + word(len(self.data)) + b"".join(topics)
        return head.ljust(_HEAD, b"\0") + self.data


def word(value: int | bytes) -> bytes:
    return value.to_bytes(32, "big") if isinstance(value, int) else value.rjust(32, b"\0")


def _topic(signature: str) -> bytes:
    return bytes.fromhex(topic_of(signature)[2:])


def _tail(data: bytes) -> bytes:
    return word(len(data)) + data + bytes(-len(data) % 32)


def traffic(chain: EvmChain, number: int) -> Iterator[Log]:
    """The logs of the n-th of five movements: nine logs, each of another event.

    A CCTP burn and a mint, an OFT send and a receipt, and a token's transfer to a watched address.
    """
    unique = keccak(number.to_bytes(8, "big"))
    user, amount = unique[:20], 1_000_000 + number
    usdc, messenger, oft = (
        bytes.fromhex(str(each)[2:]) for each in (chain.usdc, chain.cctp_token_messenger, chain.oft)
    )
    transmitter, endpoint = str(chain.cctp_message_transmitter), str(chain.lz_endpoint)
    recipient = bytes.fromhex(chain.watched[0][2:])
    body = (1).to_bytes(4, "big") + word(usdc) + unique + word(amount) + word(user) + bytes(96)
    match number % 5:
        case 0:
            header = (1).to_bytes(4, "big") + int(chain.cctp_domain or 0).to_bytes(4, "big")
            header += STELLAR_DOMAIN.to_bytes(4, "big") + bytes(32) + word(messenger)
            header += unique + bytes(32) + (2000).to_bytes(4, "big") + bytes(4)
            yield Log(transmitter, "MessageSent(bytes)", [], word(32) + _tail(header + body))
            fields: list[int | bytes] = [amount, unique, STELLAR_DOMAIN, unique, 0, 500, 7 * 32]
            yield Log(
                str(chain.cctp_token_messenger),
                "DepositForBurn(address,uint256,address,bytes32,uint32,bytes32,bytes32,uint256"
                ",uint32,bytes)",
                [usdc, user, 2000],
                b"".join(map(word, fields)) + _tail(b""),
            )
        case 1:
            yield Log(
                str(chain.cctp_token_messenger),
                "MintAndWithdraw(address,uint256,address,uint256)",
                [user, usdc],
                word(amount) + word(0),
            )
            yield Log(
                transmitter,
                "MessageReceived(address,uint32,bytes32,bytes32,uint32,bytes)",
                [user, unique, 2000],
                word(STELLAR_DOMAIN) + unique + word(96) + _tail(body),
            )
        case 2:
            path = word(oft) + STELLAR_EID.to_bytes(4, "big") + unique
            path = number.to_bytes(8, "big") + int(chain.lz_eid or 0).to_bytes(4, "big") + path
            guid = keccak(path)
            packet = b"\x01" + path + guid + unique + amount.to_bytes(8, "big")
            first = _tail(packet)
            heads = word(96) + word(96 + len(first)) + word(user)
            yield Log(
                endpoint, "PacketSent(bytes,bytes,address)", [], heads + first + _tail(b"\x00\x03")
            )
            yield Log(
                str(chain.oft),
                "OFTSent(bytes32,uint32,address,uint256,uint256)",
                [guid, user],
                word(STELLAR_EID) + word(amount) + word(amount),
            )
        case 3:
            guid = keccak(unique)
            yield Log(
                str(chain.oft),
                "OFTReceived(bytes32,uint32,address,uint256)",
                [guid, user],
                word(STELLAR_EID) + word(amount),
            )
            yield Log(
                endpoint,
                "PacketDelivered((uint32,bytes32,uint64),address)",
                [],
                word(STELLAR_EID) + unique + word(number) + word(oft),
            )
        case _:
            yield Log(
                str(chain.usdc),
                "Transfer(address,address,uint256)",
                [user, recipient],
                word(amount),
            )


LOGS_OF_FIVE = 9
"""Logs of five movements."""


def grow(rpc: JsonRpc, chain: EvmChain, blocks: int, movements: int) -> int:
    """Mine so many blocks of so many movements each; how many logs they hold.

    `movements` is a multiple of five. Each block is one transaction a contract.
    """
    emitters = [*chain.event_contracts, *chain.tokens]
    for contract in emitters:
        rpc("anvil_setCode", contract, "0x" + emitter_code().hex())
    rpc("evm_setAutomine", False)
    sender = rpc("eth_accounts")[0]
    for block in range(blocks):
        inputs: dict[str, bytearray] = {}
        for number in range(block * movements, (block + 1) * movements):
            for log in traffic(chain, number):
                inputs.setdefault(log.emitter, bytearray()).extend(log.record)
        for emitter, records in inputs.items():
            call = {"from": sender, "to": emitter, "data": "0x" + records.hex(), "gas": hex(_GAS)}
            rpc("eth_sendTransaction", call)
        rpc("evm_mine")
    return blocks * movements * LOGS_OF_FIVE // 5


# Events of one kind, with little calldata: some indexers fetch whole transactions with a block.

SENDERS = 5_000
"""Of OFT sends."""


@dataclass(frozen=True)
class Emitter:
    """A contract that emits many events of one kind in a transaction.

    The n-th event's amount is the first amount + n.
    """

    address: Callable[[EvmChain], str]
    code: bytes
    inputs: Callable[[EvmChain, int, int], Sequence[int | bytes]]
    """Words of the input, which begins with the first amount and the number of events."""

    def install(self, rpc: JsonRpc, chain: EvmChain) -> None:
        """Put it on the chain; blocks are mined by `evm_mine` from then on."""
        rpc("anvil_setCode", self.address(chain), "0x" + self.code.hex())
        rpc("evm_setAutomine", False)

    def submit(self, rpc: JsonRpc, chain: EvmChain, first_amount: int, count: int) -> None:
        """Send a transaction of so many events, to be mined."""
        words = b"".join(map(word, self.inputs(chain, first_amount, count)))
        call = {
            "from": rpc("eth_accounts")[0],
            "to": self.address(chain),
            "data": "0x" + words.hex(),
            "gas": hex(_GAS),
        }
        rpc("eth_sendTransaction", call)


def _repeating(emit: Callable[[_Assembler], None]) -> bytes:
    """Runtime code that emits an event as often as the second word of its input says.

    `emit` finds the event's amount on top of the stack, and leaves it there.
    """
    asm = _Assembler()
    asm.push(0)
    asm.place("next")  # stack: n
    asm.input(1)
    asm.dup(2)
    asm.op(_LT, _ISZERO)
    asm.jump("end", _JUMPI)
    asm.dup(1)
    asm.input(0)
    asm.op(_ADD)  # n, amount
    emit(asm)
    asm.op(_POP)  # n
    asm.push(1)
    asm.op(_ADD)
    asm.jump("next")
    asm.place("end")
    asm.op(_STOP)
    return asm.assembled()


def _emit_transfer(asm: _Assembler) -> None:
    """Input: recipient, topic. The sender is the address of the amount's number."""
    asm.store(0, depth=1)
    asm.input(2)
    asm.dup(2)
    asm.input(3)
    asm.push(32)
    asm.push(0)
    asm.op(_LOG0 + 3)


def _emit_oft_send(asm: _Assembler) -> None:
    """Input: destination, topic, number of senders. The guid is the amount's number."""
    asm.input(2)
    asm.store(0, depth=1)
    asm.op(_POP)
    asm.store(32, depth=1)
    asm.store(64, depth=1)
    asm.input(4)
    asm.dup(2)
    asm.op(_MOD)  # amount, sender
    asm.dup(2)
    asm.input(3)
    asm.push(96)
    asm.push(0)
    asm.op(_LOG0 + 3)


def _transfer_inputs(chain: EvmChain, first_amount: int, count: int) -> list[int | bytes]:
    recipient = bytes.fromhex(chain.watched[0][2:])
    return [first_amount, count, recipient, _topic("Transfer(address,address,uint256)")]


def _oft_send_inputs(chain: EvmChain, first_amount: int, count: int) -> list[int | bytes]:
    topic = _topic("OFTSent(bytes32,uint32,address,uint256,uint256)")
    return [first_amount, count, STELLAR_EID, topic, SENDERS]


TRANSFERS = Emitter(lambda chain: str(chain.usdc), _repeating(_emit_transfer), _transfer_inputs)
"""Transfers of USDC to a watched address."""
OFT_SENDS = Emitter(lambda chain: str(chain.oft), _repeating(_emit_oft_send), _oft_send_inputs)
"""Sends of USDT0 to Stellar."""
