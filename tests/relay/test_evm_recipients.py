"""Recipients on an EVM chain to whom USDC is not minted: found, told, and cleared."""

from contextlib import closing
from typing import Any

import pytest
from eth_utils.crypto import keccak
from sqlalchemy import update

from devnet.evm import deployer
from indexer.chain_state.evm import EvmState
from indexer.chains.evm.account_state import EvmAccountNodes
from indexer.config.networks import load_network
from indexer.transfers.load import load_transfers
from relay import store
from relay.jobs.recipients import RECHECK_SECONDS, Recipients, mint_check
from tests.relay.conftest import AMOUNT, EVM, Message, Stand
from warehouse_schema.identifiers import EvmAddress
from warehouse_schema.intake import quotes

NETWORK = load_network("devnet")
OWNER = deployer()


class Looks:
    """A process that looks at recipients of the chain."""

    def __init__(self, stand: Stand) -> None:
        self.stand, self.time = stand, 0.0
        nodes = EvmAccountNodes(EVM, [stand.url], timeout=30.0)
        opened = stand.doors.enter_context(closing(nodes))
        self.recipients = Recipients(EVM.id, mint_check(EVM, opened.call_uint), lambda: self.time)

    def look(self) -> None:
        self.time += RECHECK_SECONDS
        with store.account_session(self.stand.relay_engine, self.recipients.account) as conn:
            self.recipients.turn(conn)


def owed(stand: Stand) -> Message:
    """A message of a withdrawal of USDC."""
    found = stand.owed()
    asset = {"dest_asset": f"{EVM.id}/erc20:{EVM.usdc}", "amount_out": AMOUNT}
    with stand.engine.begin() as conn:
        row = quotes.c.id == f"quote of {found.nonce[2:34]}"
        conn.execute(update(quotes).where(row).values(asset))
    return found


def told(stand: Stand, message: Message) -> list[tuple[str, str]]:
    with stand.engine.connect() as conn:
        [loaded] = load_transfers(conn, NETWORK, [message.nonce[2:34]])
    return [(each.kind, each.detail) for each in loaded.inputs.obstacles]


def switch(stand: Stand, contract: Any, function: str, *addresses: str) -> None:
    """A call of the contract's owner."""
    data = keccak(text=function)[:4] + b"".join(bytes.fromhex(f"{a[2:]:0>64}") for a in addresses)
    sent = {"from": OWNER.address, "to": contract, "data": f"0x{data.hex()}"}
    stand.devnet.rpc("eth_sendTransaction", sent)
    stand.devnet.rpc("evm_mine")


@pytest.mark.parametrize("contract", ["usdc", "message_transmitter", "token_minter"])
def test_pause_is_obstacle_while_it_lasts(stand: Stand, contract: str):
    message, looks, relay = owed(stand), Looks(stand), stand.relay()
    paused = getattr(stand.devnet.addresses, contract)
    switch(stand, paused, "pause()")
    looks.look()
    [(kind, detail)] = told(stand, message)
    assert kind == "paused"
    assert f"is paused on {EVM.id}" in detail
    assert stand.turns(relay).opened == 0
    switch(stand, paused, "unpause()")
    looks.look()
    assert told(stand, message) == []
    assert stand.turns(relay).opened == 1
    assert stand.received(message) == AMOUNT


def test_blacklisted_recipient_is_obstacle_until_issuer_relents(stand: Stand):
    message, looks, relay = owed(stand), Looks(stand), stand.relay()
    usdc = stand.devnet.addresses.usdc
    switch(stand, usdc, "blacklist(address)", message.recipient)
    looks.look()
    assert told(stand, message) == [
        ("frozen", f"the issuer of USDC refuses {message.recipient} on {EVM.id}")
    ]
    assert stand.turns(relay).refused == []
    state = stand.doors.enter_context(closing(EvmState(NETWORK, {EVM.id: [stand.url]}, needed=1)))
    refusal = state.mint_refusal(EVM.id, EvmAddress(message.recipient))
    assert refusal is not None
    assert refusal.kind == "frozen"
    switch(stand, usdc, "unBlacklist(address)", message.recipient)
    assert state.mint_refusal(EVM.id, EvmAddress(message.recipient)) is None
    looks.look()
    assert told(stand, message) == []
    stand.turns(relay)
    assert stand.received(message) == AMOUNT
