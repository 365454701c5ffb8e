"""Faults in what a node says: of logs, of blocks, of receipts."""

from collections.abc import Callable
from typing import Any

from tests.system.faults.fault import Call, Exchange, Reply, ReplyFault, instead

# Logs


class LogsFault(ReplyFault):
    """Spoils the answer to eth_getLogs."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getLogs" or not reply.get("result"):
            return reply
        return instead(reply, self.spoil_logs(reply["result"], exchange))

    def spoil_logs(self, logs: list[dict[str, Any]], exchange: Exchange) -> list[dict[str, Any]]:
        raise NotImplementedError


def elsewhere(log: dict[str, Any]) -> str:
    """A log index that no log of the block has."""
    return hex(0xF00 + int(log["logIndex"], 16))


class EmptyLogs(LogsFault):
    """No logs at all, though the blooms say that there are some."""

    def spoil_logs(self, logs, exchange):
        return []


class LogsMissingInNewest(LogsFault):
    """The newest block is there, its logs are not indexed yet."""

    def spoil_logs(self, logs, exchange):
        newest = exchange.ask("eth_blockNumber")
        return [log for log in logs if log["blockNumber"] != newest]


class StaleLogs(LogsFault):
    """Behind a balancer the logs alone come from a node that is some blocks behind."""

    def __init__(self, behind: int) -> None:
        super().__init__()
        self.behind = behind

    def spoil_logs(self, logs, exchange):
        head = int(exchange.ask("eth_blockNumber"), 16) - self.behind
        return [log for log in logs if int(log["blockNumber"], 16) <= head]


class DroppedLog(LogsFault):
    """One log of several is missing."""

    def spoil_logs(self, logs, exchange):
        dropped = exchange.rng.randrange(len(logs))
        return [log for i, log in enumerate(logs) if i != dropped]


class LogOfAnotherBlock(LogsFault):
    """A log of a block that was replaced is mixed in."""

    def spoil_logs(self, logs, exchange):
        return [*logs, {**logs[0], "blockHash": "0x" + "0f" * 32, "logIndex": elsewhere(logs[0])}]


class LogBeyondRange(LogsFault):
    """A log of a block that was not asked for."""

    def spoil_logs(self, logs, exchange):
        return [*logs, {**logs[-1], "blockNumber": "0xffffff", "logIndex": elsewhere(logs[-1])}]


class ForgedLog(LogsFault):
    """A log that is nowhere in the block, with the block's own hash."""

    def spoil_logs(self, logs, exchange):
        forged = {**logs[0], "logIndex": elsewhere(logs[0]), "topics": [*logs[0]["topics"]]}
        forged["topics"][1] = "0x" + exchange.rng.randbytes(32).hex()
        return [*logs, forged]


class RemovedLog(LogsFault):
    """The live log, and the like of it marked removed."""

    def spoil_logs(self, logs, exchange):
        return [*logs, {**logs[0], "removed": True, "logIndex": elsewhere(logs[0])}]


class DuplicateLogIndex(LogsFault):
    """Two logs with one index."""

    def spoil_logs(self, logs, exchange):
        return [*logs, {**logs[-1], "data": "0x" + logs[-1]["data"][2:][::-1]}]


class ForeignTransaction(LogsFault):
    """The log is said to be of a transaction that is not in the block."""

    def spoil_logs(self, logs, exchange):
        return [*logs[:-1], {**logs[-1], "transactionHash": "0x" + "0f" * 32}]


class ForeignTransactionIndex(LogsFault):
    """The log's transaction is not at that place in the block."""

    def spoil_logs(self, logs, exchange):
        return [{**log, "transactionIndex": "0x63"} for log in logs]


class SilentCap(LogsFault):
    """No more than so many logs, and not a word about the rest."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def spoil_logs(self, logs, exchange):
        return logs[: self.most]


class ForgedAmount(ReplyFault):
    """Lies about one transaction in all its answers: its logs carry ten times the amount."""

    def __init__(self, tx: str) -> None:
        super().__init__()
        self.tx = tx

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        return {**reply, "result": self._forged(reply["result"])} if "result" in reply else reply

    def _forged(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._forged(each) for each in value]
        if not isinstance(value, dict):
            return value
        forged = {key: self._forged(each) for key, each in value.items()}
        if forged.get("transactionHash") == self.tx and "data" in forged:
            forged["data"] = f"0x{10 * int(forged['data'][-64:], 16):064x}"
        return forged


# Blocks


class StaleBackend(ReplyFault):
    """The whole request lands on a node that is some blocks behind."""

    def __init__(self, behind: int) -> None:
        super().__init__()
        self.behind = behind

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        head = max(0, int(exchange.ask("eth_blockNumber"), 16) - self.behind)
        method, params = call["method"], call.get("params", [])
        if method == "eth_blockNumber":
            return instead(reply, hex(head))
        if method == "eth_getBlockByNumber" and params[0] == "latest":
            return instead(reply, exchange.ask(method, hex(head), False))
        if method in ("eth_getBlockByNumber", "eth_getBlockReceipts"):
            is_beyond = params[0].startswith("0x") and int(params[0], 16) > head
            return instead(reply, None) if is_beyond else reply
        if method == "eth_getLogs" and "result" in reply:
            logs = [log for log in reply["result"] if int(log["blockNumber"], 16) <= head]
            return instead(reply, logs)
        return reply


class HeadersFault(ReplyFault):
    """Spoils headers that are there."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getBlockByNumber" or not reply.get("result"):
            return reply
        return instead(reply, self.spoil_header(reply["result"], exchange))

    def spoil_header(self, header: dict[str, Any], exchange: Exchange) -> dict[str, Any] | None:
        raise NotImplementedError


class FlippingHash(HeadersFault):
    """The header's hash is another one each time; of one height `only`, or of any."""

    def __init__(self, only: str | None = None) -> None:
        super().__init__()
        self.only = only

    def spoil_header(self, header, exchange):
        if self.only not in (None, header["number"]):
            return header
        return {**header, "hash": "0x" + exchange.rng.randbytes(32).hex()}


class NullHeaders(HeadersFault):
    """Blocks that the node has just named are not there."""

    def spoil_header(self, header, exchange):
        return None


class ZeroBlooms(HeadersFault):
    """Blooms are zero by design, though there are logs."""

    def spoil_header(self, header, exchange):
        return {**header, "logsBloom": "0x" + "00" * 256}


class FullBlooms(HeadersFault):
    """Blooms are full by design, whatever there is."""

    def spoil_header(self, header, exchange):
        return {**header, "logsBloom": "0x" + "ff" * 256}


class OtherFork(ReplyFault):
    """The node follows another fork: the one that a real node was on when this was recorded."""

    def __init__(self, ask: Callable[..., Any], first: int) -> None:
        super().__init__()
        self.first = first
        self.head = int(ask("eth_blockNumber"), 16)
        heights = [hex(height) for height in range(first, self.head + 1)]
        self.blocks = {height: ask("eth_getBlockByNumber", height, False) for height in heights}
        self.receipts = {height: ask("eth_getBlockReceipts", height) for height in heights}

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        method, params = call["method"], call.get("params", [])
        if method == "eth_blockNumber":
            return instead(reply, hex(self.head))
        if method == "eth_getLogs":
            kept = [log for log in reply["result"] if int(log["blockNumber"], 16) < self.first]
            return instead(reply, [*kept, *self._logs(params[0])])
        if method not in ("eth_getBlockByNumber", "eth_getBlockReceipts"):
            return reply
        height = hex(self.head) if params[0] == "latest" else params[0]
        if not height.startswith("0x") or int(height, 16) < self.first:
            return reply
        ours = self.blocks if method == "eth_getBlockByNumber" else self.receipts
        return instead(reply, ours.get(height))

    def _logs(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        wanted = range(int(query["fromBlock"], 16), int(query["toBlock"], 16) + 1)
        return [
            log
            for height, receipts in self.receipts.items()
            if int(height, 16) in wanted
            for receipt in receipts
            for log in receipt["logs"]
            if log["address"] in query["address"]
            and all(
                topic is None or log["topics"][i] in topic
                for i, topic in enumerate(query["topics"])
            )
        ]


class TagsAt(ReplyFault):
    """Calls blocks safe and final that are so many below the head."""

    def __init__(self, *, safe: int, final: int) -> None:
        super().__init__()
        self.behind = {"safe": safe, "finalized": final}

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        behind = self.behind.get(str(call["params"][0])) if call["params"] else None
        if behind is None:
            return reply
        height = max(0, int(exchange.ask("eth_blockNumber"), 16) - behind)
        return instead(reply, exchange.ask("eth_getBlockByNumber", hex(height), False))


class FinalOnAnotherFork(ReplyFault):
    """Has a block at that height that nobody else has, and calls it safe and final."""

    def __init__(self, height: int) -> None:
        super().__init__()
        self.height = height

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getBlockByNumber":
            return reply
        if call["params"][0] not in ("safe", "finalized", hex(self.height)):
            return reply
        block = exchange.ask("eth_getBlockByNumber", hex(self.height), False)
        return instead(reply, {**block, "hash": "0x" + "0f" * 32})


class FlippingTags(TagsAt):
    """The hash of the block that it calls final is another one each time."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        right = super().spoil(call, reply, exchange)
        if right is reply:
            return reply
        return instead(reply, {**right["result"], "hash": "0x" + exchange.rng.randbytes(32).hex()})


class WrongChainId(ReplyFault):
    """The URL leads to another chain."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        return instead(reply, "0x1") if call["method"] == "eth_chainId" else reply


# Receipts


class ReceiptsFault(ReplyFault):
    """Spoils the answer to eth_getBlockReceipts."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getBlockReceipts" or not reply.get("result"):
            return reply
        return instead(reply, self.spoil_receipts(reply["result"], exchange))

    def spoil_receipts(self, receipts: list[Any], exchange: Exchange) -> Any:
        raise NotImplementedError


class NullReceipts(ReceiptsFault):
    """No receipts of a block that is there."""

    def spoil_receipts(self, receipts, exchange):
        return None


class NullReceipt(ReceiptsFault):
    """One of the receipts is null."""

    def spoil_receipts(self, receipts, exchange):
        return [*receipts[:-1], None]


class MissingReceipt(ReceiptsFault):
    """One of the receipts is not there."""

    def spoil_receipts(self, receipts, exchange):
        return receipts[:-1]


class ReceiptsOfAnotherBlock(ReceiptsFault):
    """The receipts name another block than the one asked for."""

    def spoil_receipts(self, receipts, exchange):
        return [{**receipt, "blockHash": "0x" + "0f" * 32} for receipt in receipts]


class ForgedStatus(ReplyFault):
    """A transaction that went through is said to have failed."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] == "eth_getTransactionReceipt" and reply.get("result"):
            return instead(reply, {**reply["result"], "status": "0x0"})
        if call["method"] == "eth_getBlockReceipts" and reply.get("result"):
            return instead(reply, [{**each, "status": "0x0"} for each in reply["result"]])
        return reply


class UnseenReceipt(ReplyFault):
    """A transaction that was mined is not known yet."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        is_receipt = call["method"] == "eth_getTransactionReceipt"
        return instead(reply, None) if is_receipt else reply


class RemovedLogs(ReplyFault):
    """The logs of a receipt are marked as of a block that was replaced."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getTransactionReceipt" or not reply.get("result"):
            return reply
        receipt = reply["result"]
        return instead(
            reply, {**receipt, "logs": [{**log, "removed": True} for log in receipt["logs"]]}
        )
