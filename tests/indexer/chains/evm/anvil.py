"""A real node, anvil, whose contracts emit what a test wants."""

from devnet.evm_node import AnvilProcess
from indexer.chains.evm.abi import TRANSFER_TOPIC
from indexer.chains.evm.jsonrpc import JsonRpc
from tests.indexer.chains.evm.chain import BYSTANDER, PAYER, TRANSMITTER, USDC, word
from warehouse_schema.identifiers import TxHash

EMITTER = "0x60603560005260403560203560003560206000a300"
"""Code that emits what it is called with: LOG3 of calldata words 0 to 2, word 3 as data."""


class Anvil:
    """A local node whose token contracts emit any log that a test wants."""

    def __init__(self, process: AnvilProcess) -> None:
        self.http, self.ws = process.rpc_url, process.ws_url
        self.rpc = JsonRpc(self.http, timeout=20.0)
        self.account = self.rpc.call("eth_accounts", [])[0]
        for contract in (USDC, TRANSMITTER, BYSTANDER):
            self.rpc.call("anvil_setCode", [contract, EMITTER])

    def mine(self) -> None:
        self.rpc.call("evm_mine", [])

    def emit(self, *logs: tuple[str, str, str, str, int]) -> list[TxHash]:
        """One block with these logs (contract, three topics, data); its transaction hashes."""
        self.rpc.call("evm_setAutomine", [False])
        hashes = [TxHash(self.rpc.call("eth_sendTransaction", [self._call(*log)])) for log in logs]
        self.mine()
        self.rpc.call("evm_setAutomine", [True])
        return hashes

    def _call(self, contract: str, *words: int | str) -> dict[str, str]:
        data = "0x" + "".join(word(each)[2:] for each in words)
        return {"from": self.account, "to": contract, "data": data, "gas": hex(100_000)}


def transfer(token: str, recipient: str, amount: int) -> tuple[str, str, str, str, int]:
    return token, TRANSFER_TOPIC, PAYER, recipient, amount
