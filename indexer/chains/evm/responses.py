"""Parses and checks what an EVM node answers: headers, logs and receipts.

Pure: nothing here sends a request. Contradictions raise `InconsistentAnswer`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from indexer.chains.evm.blooms import bloom_of
from indexer.chains.evm.jsonrpc import Reply
from indexer.chains.evm.log_filters import LogFilter
from indexer.chains.evm.receipts import (
    UnknownReceiptType,
    header_hash,
    receipts_root,
)
from indexer.chains.raw import Block, EvmLog
from indexer.config.networks import EvmChain, log_proof_variable
from indexer.errors import InconsistentAnswer, NodeBehind, RangeTooWide, UnsupportedProtocol
from warehouse_schema.identifiers import (
    LAST_SECOND,
    MAX_HEIGHT,
    BlockHash,
    Bytes32,
    EvmAddress,
    Height,
    TxHash,
    UnixSeconds,
    parse_bytes32,
    parse_evm_address,
)

ROUND_CAPS = frozenset({1_000, 2_000, 5_000, 10_000, 20_000})
"""Exactly that many logs: a provider may have cut the rest off without saying so."""

_MALFORMED = (KeyError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True)
class ReceiptLog:
    """One log of a receipt; `position` is its index in the block."""

    position: int
    address: EvmAddress
    topics: tuple[Bytes32, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class EvmReceipt:
    """Receipt of a mined transaction."""

    tx_hash: TxHash
    height: Height
    block_hash: BlockHash
    succeeded: bool
    logs: tuple[ReceiptLog, ...]


@dataclass(frozen=True, slots=True)
class EvmHeader:
    """A block, and the fields of its header that prove its transactions and logs."""

    block: Block
    bloom: int
    """logsBloom as one integer; 0 where the node gives none."""
    transactions: tuple[str, ...] | None
    """Hashes in the order of the block; None where the node gives none."""
    receipts_root: str | None


class EvmResponseParser:
    """Parses the answers of one chain's nodes, and checks what the chain's `log_proof` allows."""

    def __init__(self, chain: EvmChain) -> None:
        self.chain = chain.id
        self._bloom_is_reliable = chain.bloom_is_reliable
        self._checks_hashes = chain.log_proof in ("receipts", "header")
        self._checks_roots = chain.log_proof == "receipts"

    def headers(self, heights: Sequence[int], replies: Sequence[Reply]) -> list[EvmHeader]:
        """The headers at these heights, one after another, each the parent of the next."""
        headers = [
            self.header(reply.value(), height)
            for height, reply in zip(heights, replies, strict=True)
        ]
        for before, after in pairwise(headers):
            if after.block.parent_hash != before.block.hash:
                raise InconsistentAnswer(
                    f"{self.chain}: block {after.block.height} has parent"
                    f" {after.block.parent_hash}, but block {before.block.height} is"
                    f" {before.block.hash}"
                )
        return headers

    def header(self, answer: Any, requested: int | str) -> EvmHeader:
        """The header at the requested height or tag. Raises `NodeBehind` if there is none.

        Where the chain's headers are Ethereum's, its hash is recomputed.
        """
        header = self._header(answer, requested)
        height = header.block.height
        if isinstance(requested, int) and height != requested:
            raise InconsistentAnswer(f"{self.chain}: block {height} came for block {requested}")
        if self._checks_hashes:
            try:
                computed = header_hash(answer)
            except _MALFORMED as error:
                raise self._malformed(f"block {height}", error) from error
            if computed != header.block.hash:
                raise InconsistentAnswer(
                    f"{self.chain}: the header of block {height} hashes to {computed}, not to"
                    f" {header.block.hash}. If a fork added fields to the chain's headers, set"
                    f" {log_proof_variable(self.chain)}=operators until a build knows them"
                )
        return header

    def pushed_block(self, answer: Any) -> Block:
        """A block as `newHeads` pushes it: a hint, read again before it counts.

        Its hash is not recomputed: nodes leave fields out there.
        """
        return self._header(answer, "newHeads").block

    def _header(self, answer: Any, requested: int | str) -> EvmHeader:
        if answer is None:
            raise NodeBehind(f"{self.chain}: the node has no block {requested} yet")
        try:
            transactions = answer.get("transactions")
            return EvmHeader(
                Block(
                    chain=self.chain,
                    height=Height(_number(answer["number"], MAX_HEIGHT)),
                    hash=BlockHash(parse_bytes32(answer["hash"])),
                    parent_hash=BlockHash(parse_bytes32(answer["parentHash"])),
                    time=UnixSeconds(_number(answer["timestamp"], LAST_SECOND)),
                ),
                bloom=int(answer.get("logsBloom") or "0x0", 16),
                transactions=None
                if transactions is None
                else tuple(parse_bytes32(each) for each in transactions),
                receipts_root=answer.get("receiptsRoot"),
            )
        except _MALFORMED as error:
            raise self._malformed(f"block {requested}", error) from error

    def logs(
        self, headers: Sequence[EvmHeader], filters: Sequence[LogFilter], replies: Sequence[Reply]
    ) -> list[EvmLog]:
        """The logs of one query per filter, in order. `RangeTooWide` when some may be cut off."""
        blocks = {header.block.height: header for header in headers}
        logs: dict[tuple[Height, int], EvmLog] = {}
        for each, reply in zip(filters, replies, strict=True):
            answers = reply.value()
            if not isinstance(answers, list):
                raise InconsistentAnswer(f"{self.chain}: logs came as {type(answers).__name__}")
            if len(answers) in ROUND_CAPS and len(blocks) > 1:
                raise RangeTooWide(f"{self.chain}: exactly {len(answers)} logs; some may be cut")
            for answer in answers:
                log = self._log(answer, each, blocks)
                key = log.seen.height, log.seen.position
                if key in logs:
                    raise InconsistentAnswer(f"{self.chain}: block {key[0]} has log {key[1]} twice")
                logs[key] = log
        return [logs[key] for key in sorted(logs)]

    def _log(self, answer: Any, requested: LogFilter, blocks: Mapping[Height, EvmHeader]) -> EvmLog:
        """A log that the filter wants, of one of these blocks and of its transaction there."""
        try:
            header = blocks[Height(int(answer["blockNumber"], 16))]
            block = header.block
            block_hash = BlockHash(parse_bytes32(answer["blockHash"]))
            tx_hash = TxHash(parse_bytes32(answer["transactionHash"]))
            tx_index = int(answer.get("transactionIndex") or "0x0", 16)
            removed = answer.get("removed", False)
            log = _receipt_log(answer)
        except _MALFORMED as error:
            raise InconsistentAnswer(
                f"{self.chain}: a log is malformed or outside the range: {error!r}"
            ) from error
        where = f"{self.chain}: log {log.position} of block {block.height}"
        if removed is not False:
            raise InconsistentAnswer(f"{where} is marked removed")
        if block_hash != block.hash:
            raise InconsistentAnswer(f"{where} is of {block_hash}, not {block.hash}")
        if not requested.wants(log.address, log.topics):
            raise InconsistentAnswer(f"{where} of {log.address} was not asked for")
        # Chains whose blooms leave logs of the system out leave out its transactions, too.
        transactions = header.transactions if self._bloom_is_reliable else None
        if transactions is not None and tx_hash not in transactions[tx_index : tx_index + 1]:
            raise InconsistentAnswer(f"{where} is of transaction {tx_index}, which is another")
        return _evm_log(log, block, tx_hash)

    def receipts(self, answers: Any, header: EvmHeader) -> list[dict[str, Any]]:
        """All receipts of a block, as the node gives them: complete, and of that block."""
        height, what = header.block.height, f"receipts of block {header.block.height}"
        try:
            for receipt in answers:
                if receipt.get("blockHash", header.block.hash) != header.block.hash:
                    raise InconsistentAnswer(f"{self.chain}: {what} are of another block")
            expected = header.transactions if self._bloom_is_reliable else None
            if expected is not None and expected != tuple(
                each["transactionHash"] for each in answers
            ):
                raise InconsistentAnswer(f"{self.chain}: {what} are not those of its transactions")
            logs = [log for receipt in answers for log in receipt["logs"]]
            bloom = bloom_of(item for log in logs for item in (log["address"], *log["topics"]))
            root = receipts_root(answers) if self._checks_roots else header.receipts_root
        except UnknownReceiptType as error:
            raise UnsupportedProtocol(f"{self.chain}: block {height} has {error}") from error
        except _MALFORMED as error:
            raise self._malformed(what, error, "are") from error
        if self._bloom_is_reliable and bloom != header.bloom:
            raise InconsistentAnswer(f"{self.chain}: the {what} do not make up its bloom")
        if root != header.receipts_root:
            raise InconsistentAnswer(f"{self.chain}: the {what} do not give its root")
        return list(answers)

    def logs_of_receipts(
        self, receipts: Iterable[Mapping[str, Any]], block: Block
    ) -> Iterator[EvmLog]:
        """The logs of all receipts of a block (`receipts`), in order.

        Positions are counted here: no root covers the index that the node gives.
        """
        what = f"receipts of block {block.height}"
        position = -1
        for receipt in receipts:
            for log in self.receipt_logs(receipt, what):
                position += 1
                if log.position != position:
                    raise InconsistentAnswer(
                        f"{self.chain}: {what} have log {log.position} misplaced"
                    )
                yield _evm_log(log, block, TxHash(parse_bytes32(receipt["transactionHash"])))

    def receipt(self, answer: Any, tx: TxHash) -> EvmReceipt:
        """The receipt of that transaction."""
        try:
            receipt = EvmReceipt(
                tx_hash=TxHash(parse_bytes32(answer["transactionHash"])),
                height=Height(int(answer["blockNumber"], 16)),
                block_hash=BlockHash(parse_bytes32(answer["blockHash"])),
                succeeded=int(answer["status"], 16) == 1,
                logs=tuple(self.receipt_logs(answer, f"receipt of {tx}")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self._malformed(f"receipt of {tx}", error) from error
        if receipt.tx_hash != tx:
            raise InconsistentAnswer(f"{self.chain}: receipt of {receipt.tx_hash} came for {tx}")
        return receipt

    def receipt_logs(self, receipt: Mapping[str, Any], what: str) -> Iterator[ReceiptLog]:
        """The logs of a receipt, all of one block; `what` names the receipt in errors."""
        try:
            for log in receipt["logs"]:
                if log["blockHash"] != receipt.get("blockHash", log["blockHash"]):
                    raise InconsistentAnswer(f"{self.chain}: {what} has a log of another block")
                if log.get("removed", False) is not False:
                    raise InconsistentAnswer(f"{self.chain}: {what} has a log marked removed")
                yield _receipt_log(log)
        except _MALFORMED as error:
            raise self._malformed(what, error) from error

    def _malformed(self, what: str, error: Exception, verb: str = "is") -> InconsistentAnswer:
        return InconsistentAnswer(f"{self.chain}: {what} {verb} malformed: {error!r}")


def _number(text: str, most: int) -> int:
    number = int(text, 16)
    if not 0 <= number <= most:
        raise ValueError(f"{text} is not from 0 to {most}")
    return number


def _receipt_log(log: Mapping[str, Any]) -> ReceiptLog:
    return ReceiptLog(
        position=int(log["logIndex"], 16),
        address=parse_evm_address(log["address"]),
        topics=tuple(parse_bytes32(topic) for topic in log["topics"]),
        data=bytes.fromhex(log["data"].removeprefix("0x")),
    )


def _evm_log(log: ReceiptLog, block: Block, tx_hash: TxHash) -> EvmLog:
    return EvmLog(block.provenance(tx_hash, log.position), log.address, log.topics, log.data)
