"""The chain that the tests read, and readers of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from indexer.chains.evm.abi import topic_of
from indexer.chains.evm.reader import EvmReader
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain
from indexer.decode.evm import event_topics
from warehouse_schema.identifiers import ChainId, EvmAddress, Height

MESSAGE_SENT = topic_of("MessageSent(bytes)")
WATCHED, UNWATCHED = "0x" + "a1" * 20, "0x" + "b2" * 20
PAYER = "0x" + "c3" * 20


def address(number: int) -> EvmAddress:
    return EvmAddress(f"0x{number:040x}")


CHAIN = EvmChain(
    id=ChainId("eip155:31337"),
    name="Test",
    confirmations=3,
    start_height=Height(0),
    rpc=(),
    bloom_is_reliable=True,
    block_seconds=0.5,
    explorer_tx=None,
    cctp_domain=0,
    usdc=address(0x1001),
    cctp_token_messenger=address(0x1002),
    cctp_message_transmitter=address(0x1003),
    lz_eid=30101,
    usdt0=address(0x1004),
    oft=address(0x1005),
    lz_endpoint=address(0x1006),
    watched=(),
)
USDC, TRANSMITTER = str(CHAIN.usdc), str(CHAIN.cctp_message_transmitter)
BYSTANDER = address(0x2001)


def word(value: int | str) -> str:
    digits = f"{value:x}" if isinstance(value, int) else value.removeprefix("0x")
    return "0x" + digits.rjust(64, "0")


@contextmanager
def reading(chain: EvmChain, *urls: str, timeout: float = 20.0) -> Iterator[EvmReader]:
    reader = EvmReader(chain, urls, event_topics, timeout=timeout)
    try:
        yield reader
    finally:
        reader.close()


def read(reader: EvmReader, first: int = 3, last: int = 7) -> list[EvmLog]:
    found = reader.read(Height(first), Height(last), [WATCHED])
    assert [block.height for block in found.blocks] == list(range(first, last + 1))
    return [event for event in found.events if isinstance(event, EvmLog)]
