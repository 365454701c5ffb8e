"""Issued calls sent to the devnet's contracts and matched through nodes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak

from devnet.evm import EvmDevnet, dev_account
from devnet.evm_deployment import deploy
from devnet.evm_node import AnvilProcess, Reverted, artifact
from devnet.world import remotes_of_evm
from indexer.actions.agreed import Agreement, Mismatch
from indexer.actions.evm_calls import UnsignedCall, evm_calls, evm_order
from indexer.actions.evm_check import Match, MinedTx, check_order
from indexer.chain_state.evm import EvmState
from indexer.config.networks import Network, load_network
from indexer.errors import NodeUnavailable
from tests.factories.actions import make_agreed
from tests.indexer.bridges.deposit_address.conftest import TEST_ARTIFACTS
from warehouse_schema.identifiers import ChainId, EvmAddress, TxHash

CHAIN = ChainId("eip155:31337")
PAYER, MALLORY = dev_account(1), dev_account(4)
FEE = 10**14


@dataclass(frozen=True)
class Stand:
    """The chain, the network file that describes it, and the nodes as the service reads them."""

    devnet: EvmDevnet
    network: Network
    state: EvmState

    def agreed(self, **changes: Any) -> Agreement:
        return make_agreed(self.network, chain=CHAIN, **({"native_fee": FEE} | changes))

    def fund(self, agreed: Agreement) -> None:
        is_burn = agreed.mechanism == "cctp"
        faucet = self.devnet.faucet_usdc if is_burn else self.devnet.faucet_usdt0
        faucet(agreed.source_address, agreed.amount_in)

    def calls(self, agreed: Agreement) -> tuple[UnsignedCall, ...]:
        """What is to be sent now, by what the chain says."""
        order = evm_order(self.network, agreed)
        token, payer = EvmAddress(agreed.source_token), EvmAddress(agreed.source_address)
        allowance = self.state.allowance(CHAIN, order, token, payer)
        return evm_calls(self.network, agreed, allowance)

    def send(self, calls: tuple[UnsignedCall, ...], account: LocalAccount = PAYER) -> str:
        """All of them; the hash of the last."""
        sent = [self.devnet.send(account, each.to, each.data, value=each.value) for each in calls]
        return sent[-1].transaction_hash

    def mined(self, tx: str) -> MinedTx:
        mined = self.state.mined(CHAIN, TxHash(tx))
        assert mined is not None
        return mined

    def wallet(self) -> EvmAddress:
        return _make(self.devnet, "Wallet")

    def execute(self, wallet: str, *calls: UnsignedCall) -> str:
        """One transaction of a stranger that has the wallet make all calls."""
        kinds = "(address,bytes,uint256)[]"
        data = keccak(text=f"execute({kinds})")[:4] + encode(
            [kinds], [[(each.to, each.data, each.value) for each in calls]]
        )
        value = sum(each.value for each in calls)
        return self.devnet.send(MALLORY, wallet, data, value=value).transaction_hash


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    log_file = tmp_path_factory.mktemp("actions") / "anvil.log"
    network = load_network("devnet")
    with AnvilProcess(log_file=log_file) as anvil, deploy(anvil.rpc_url, remotes_of_evm()) as evm:
        state = EvmState(network, {network.evm[0].id: [anvil.rpc_url]}, needed=1)
        yield Stand(evm, network, state)
        state.close()


@pytest.fixture
def stand(chain: Stand) -> Iterator[Stand]:
    """The chain as it was when it began, for each test."""
    snapshot = chain.devnet.rpc("evm_snapshot")
    yield chain
    chain.devnet.rpc("evm_revert", snapshot)


def by(account: str, mechanism: str) -> dict[str, str]:
    return {"source_address": account.lower(), "mechanism": mechanism}


@pytest.mark.parametrize(("mechanism", "number"), [("cctp", 2), ("oft", 1)])
def test_issued_calls_succeed_and_match(stand, mechanism, number):
    agreed = stand.agreed(**by(PAYER.address, mechanism))
    stand.fund(agreed)
    calls = stand.calls(agreed)
    # This OFT burns its own token and asks for no approval.
    assert len(calls) == number
    mined = stand.mined(stand.send(calls))
    order = evm_order(stand.network, agreed)
    assert isinstance(check_order(stand.network, PAYER.address.lower(), [order], mined), Match)
    found = check_order(stand.network, PAYER.address.lower(), [replace(order, amount=1)], mined)
    assert isinstance(found, Mismatch)
    assert found.fields == ("amount",)
    # The money is gone, and nothing is left that could be taken once there is more.
    assert stand.devnet.balance_of(agreed.source_token, PAYER.address) == 0
    assert len(stand.calls(agreed)) == number


def test_existing_allowance_needs_no_approval(stand):
    agreed = stand.agreed(**by(PAYER.address, "cctp"))
    stand.fund(agreed)
    approval, burn = stand.calls(agreed)
    stand.send((approval,))
    assert stand.calls(agreed) == (burn,)


def test_usdt_is_approved_from_zero(stand: Stand):
    token = _make(stand.devnet, "SilentCoin")
    adapter = _make(stand.devnet, "OftAdapter", encode(["address"], [token]))
    at = replace(stand.network.evm[0], usdt0=token, oft=adapter)
    as_on_ethereum = replace(stand, network=replace(stand.network, evm=(at,)))
    agreed = as_on_ethereum.agreed(**by(PAYER.address, "oft"), amount_out=198_000_000, native_fee=0)
    mint = keccak(text="mint(address,uint256)")[:4]
    stand.devnet.send(
        MALLORY, token, mint + encode(["address", "uint256"], [PAYER.address, 20_000_000])
    )
    approval, send = as_on_ethereum.calls(agreed)
    half = replace(approval, data=approval.data[:-32] + (5).to_bytes(32, "big"))
    stand.send((half,))
    with pytest.raises(Reverted):
        stand.send((approval,))
    to_zero, again, last = as_on_ethereum.calls(agreed)
    assert (again, last) == (approval, send)
    stand.send((to_zero, again, last))
    assert stand.devnet.balance_of(token, adapter) == 20_000_000


def test_smart_wallet_bundle_matches_its_own_deposit(stand):
    first, second = stand.wallet().lower(), stand.wallet().lower()
    mine = stand.agreed(**by(first, "cctp"))
    other = stand.agreed(**by(second, "cctp"), id="5e" * 16)
    for each in (mine, other):
        stand.fund(each)
    stand.execute(first, *stand.calls(mine)[:1])
    # A bundler's transaction, in which the other one's calls come first.
    kinds = "(address,bytes,uint256)[]"
    nested = [
        UnsignedCall(wallet, keccak(text=f"execute({kinds})")[:4] + encode([kinds], [inner]), 0)
        for wallet, inner in (
            (second, [(each.to, each.data, 0) for each in stand.calls(other)]),
            (first, [(each.to, each.data, 0) for each in stand.calls(mine)]),
        )
    ]
    mined = stand.mined(stand.execute(stand.wallet(), *nested))
    found = [
        check_order(stand.network, payer, [evm_order(stand.network, agreed)], mined)
        for agreed, payer in ((mine, first), (other, second))
    ]
    assert all(isinstance(each, Match) and len(each.logs) == 1 for each in found)
    assert found[0] != found[1]
    stranger = check_order(stand.network, PAYER.address, [evm_order(stand.network, mine)], mined)
    assert isinstance(stranger, Mismatch)
    assert stranger.fields == ("sender",)


def test_failed_transaction_is_mined_and_refused(stand):
    agreed = stand.agreed(**by(PAYER.address, "cctp"))
    burn = stand.calls(agreed)[-1]
    tx = stand.devnet.submit(PAYER, burn.to, burn.data, gas=300_000)
    stand.devnet.wait(tx)
    order = evm_order(stand.network, agreed)
    found = check_order(stand.network, PAYER.address.lower(), [order], stand.mined(tx))
    assert isinstance(found, Mismatch)
    assert found.fields == ("status",)


def test_unmined_is_none_and_missing_node_raises(stand):
    assert stand.state.mined(CHAIN, "0x" + "12" * 32) is None
    with pytest.raises(NodeUnavailable, match="ISTHMUS_RPC_EIP155_1"):
        stand.state.mined("eip155:1", "0x" + "12" * 32)


def _make(devnet: EvmDevnet, name: str, arguments: bytes = b"") -> EvmAddress:
    code = artifact(name, TEST_ARTIFACTS).bytecode + arguments
    made = devnet.wait(devnet.submit(MALLORY, None, code))
    receipt = devnet.rpc("eth_getTransactionReceipt", made.transaction_hash)
    return EvmAddress(receipt["contractAddress"])
