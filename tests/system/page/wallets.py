"""Wallets of the devnet's people in a browser, in place of extensions. Their keys stay in Python.

`TestEvmWallet` announces an EIP-1193 provider by EIP-6963 as MetaMask does, signs with a devnet
key, and sends to the local node. `TestFreighter` answers the window messages of Freighter's content
script (`@shared/api` of stellar/freighter 6) with a devnet key, and signs any transaction at once.
Each signs without a confirmation: it is the extension and its reader in one.
"""

from typing import Any

from eth_account.signers.local import LocalAccount
from playwright.sync_api import BrowserContext
from stellar_sdk import Keypair, TransactionEnvelope

from devnet.evm import EvmDevnet
from devnet.evm_sending import submit

EVM_NAME = "Test Wallet"
_DECLINED = 4001

_EVM_SCRIPT = """
(() => {
    const provider = {
        request: async ({ method, params = [] }) => {
            const { result, error } = await window.__evmWallet(method, params);
            if (error) throw error;
            return result;
        },
    };
    const info = {
        uuid: "350670db-19fa-4704-a166-e52e178b59d2",
        name: "Test Wallet",
        icon: "data:image/svg+xml,<svg/>",
        rdns: "example.test-wallet",
    };
    const announce = () =>
        window.dispatchEvent(
            new CustomEvent("eip6963:announceProvider", {
                detail: Object.freeze({ info, provider }),
            }),
        );
    window.addEventListener("eip6963:requestProvider", announce);
    announce();
})();
"""

# `messagedId` is how Freighter spells it.
_FREIGHTER_SCRIPT = """
window.addEventListener("message", async ({ source, data }) => {
    if (source !== window || data?.source !== "FREIGHTER_EXTERNAL_MSG_REQUEST") return;
    const answer = await window.__freighter(data);
    window.postMessage(
        { source: "FREIGHTER_EXTERNAL_MSG_RESPONSE", messagedId: data.messageId, ...answer },
        window.location.origin,
    );
});
"""


class TestEvmWallet:
    """An injected wallet with one account."""

    __test__ = False

    def __init__(self, context: BrowserContext, evm: EvmDevnet, account: LocalAccount) -> None:
        self.declines = False
        self.sent: list[dict[str, Any]] = []
        """Transactions as the page asked for them."""
        self.hashes: list[str] = []
        self._evm = evm
        self.account = account
        context.expose_function("__evmWallet", self._answer)
        context.add_init_script(_EVM_SCRIPT)

    def _answer(self, method: str, params: list[Any]) -> dict[str, Any]:
        if method == "eth_requestAccounts":
            # Wallets spell addresses with a checksum.
            return {"result": [self.account.address]}
        if method == "eth_sendTransaction":
            if self.declines:
                return {"error": {"code": _DECLINED, "message": "User rejected the request."}}
            return {"result": self._send(params[0])}
        if method in ("eth_chainId", "eth_getTransactionReceipt"):
            return {"result": self._evm.rpc(method, *params)}
        return {"error": {"code": 4200, "message": f"{method} is not supported"}}

    def _send(self, transaction: dict[str, Any]) -> str:
        assert transaction["from"].lower() == self.account.address.lower()
        self.sent.append(transaction)
        data = bytes.fromhex(transaction["data"].removeprefix("0x"))
        value = int(transaction["value"], 16)
        sent = submit(self._evm.rpc, self.account, transaction["to"], data, value=value)
        self.hashes.append(sent)
        return sent


class TestFreighter:
    """The extension Freighter with one account."""

    __test__ = False

    def __init__(self, context: BrowserContext, key: Keypair) -> None:
        self.signed: list[str] = []
        """Transactions that it signed, base64, unsigned."""
        self._key = key
        context.expose_function("__freighter", self._answer)
        context.add_init_script(_FREIGHTER_SCRIPT)

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        kind = message["type"]
        if kind == "REQUEST_CONNECTION_STATUS":
            return {"isConnected": True}
        if kind == "REQUEST_ACCESS":
            return {"publicKey": self._key.public_key}
        if kind == "SUBMIT_TRANSACTION":
            return self._sign(message)
        return {"apiError": {"code": -1, "message": f"{kind} is not supported"}}

    def _sign(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["accountToSign"] != self._key.public_key:
            return {"apiError": {"code": -1, "message": "that account is not in this wallet"}}
        xdr = message["transactionXdr"]
        envelope = TransactionEnvelope.from_xdr(xdr, message["networkPassphrase"])
        envelope.sign(self._key)
        self.signed.append(xdr)
        return {"signedTransaction": envelope.to_xdr(), "signerAddress": self._key.public_key}
