"""Obstacles of recipients on an EVM chain are stored and cleared."""

from contextlib import closing
from functools import partial
from typing import Any

import pytest
from eth_utils.crypto import keccak
from sqlalchemy import update

from devnet.evm import deployer
from indexer.chain_state.evm import EvmState
from indexer.chains.evm.account_state import EvmAccountNodes
from indexer.config.networks import load_network
from indexer.transfers.load import load_transfers
from relay.jobs.recipients import RECHECK_SECONDS, Recipients, check_mint
from relay.leases import account_session
from tests.relay.conftest import AMOUNT, EVM, Message, Stand
from warehouse_schema.identifiers import EvmAddress
from warehouse_schema.intake import quotes

NETWORK = load_network("devnet")
OWNER = deployer()


class RecipientChecks:
    """Checks of recipients with a clock of the test."""

    def __init__(self, stand: Stand) -> None:
        self.stand, self.time = stand, 0.0
        nodes = EvmAccountNodes(EVM, [stand.url], timeout=30.0)
        opened = stand.stack.enter_context(closing(nodes))
        self.recipients = Recipients(
            EVM.id, partial(check_mint, EVM, opened.call_uint), lambda: self.time
        )

    def look(self) -> None:
        self.time += RECHECK_SECONDS
        with account_session(self.stand.relay_engine, self.recipients.account) as conn:
            self.recipients.turn(conn)


def awaited_message(stand: Stand) -> Message:
    """A message of a USDC withdrawal."""
    found = stand.add_message()
    asset = {"dest_asset": f"{EVM.id}/erc20:{EVM.usdc}", "amount_out": AMOUNT}
    with stand.engine.begin() as conn:
        row = quotes.c.id == f"quote of {found.nonce[2:34]}"
        conn.execute(update(quotes).where(row).values(asset))
    return found


def obstacles_of(stand: Stand, message: Message) -> list[tuple[str, str]]:
    with stand.engine.connect() as conn:
        [loaded] = load_transfers(conn, NETWORK, [message.nonce[2:34]])
    return [(each.kind, each.detail) for each in loaded.inputs.obstacles]


def switch(stand: Stand, contract: Any, function: str, *addresses: str) -> None:
    """Call as the contract's owner."""
    data = keccak(text=function)[:4] + b"".join(bytes.fromhex(f"{a[2:]:0>64}") for a in addresses)
    sent = {"from": OWNER.address, "to": contract, "data": f"0x{data.hex()}"}
    stand.devnet.rpc("eth_sendTransaction", sent)
    stand.devnet.rpc("evm_mine")


@pytest.mark.parametrize("contract", ["usdc", "message_transmitter", "token_minter"])
def test_pause_is_obstacle_while_it_lasts(stand: Stand, contract: str):
    message, checks, relay = awaited_message(stand), RecipientChecks(stand), stand.relay()
    paused = getattr(stand.devnet.addresses, contract)
    switch(stand, paused, "pause()")
    checks.look()
    [(kind, detail)] = obstacles_of(stand, message)
    assert kind == "paused"
    assert f"is paused on {EVM.id}" in detail
    assert stand.turns(relay).opened == 0
    switch(stand, paused, "unpause()")
    checks.look()
    assert obstacles_of(stand, message) == []
    assert stand.turns(relay).opened == 1
    assert stand.received(message) == AMOUNT


def test_blacklisted_recipient_is_obstacle_until_removed(stand: Stand):
    message, checks, relay = awaited_message(stand), RecipientChecks(stand), stand.relay()
    usdc = stand.devnet.addresses.usdc
    switch(stand, usdc, "blacklist(address)", message.recipient)
    checks.look()
    assert obstacles_of(stand, message) == [
        ("frozen", f"the issuer of USDC refuses {message.recipient} on {EVM.id}")
    ]
    assert stand.turns(relay).refused == []
    state = stand.stack.enter_context(closing(EvmState(NETWORK, {EVM.id: [stand.url]}, needed=1)))
    refusal = state.mint_refusal(EVM.id, EvmAddress(message.recipient))
    assert refusal is not None
    assert refusal.kind == "frozen"
    switch(stand, usdc, "unBlacklist(address)", message.recipient)
    assert state.mint_refusal(EVM.id, EvmAddress(message.recipient)) is None
    checks.look()
    assert obstacles_of(stand, message) == []
    stand.turns(relay)
    assert stand.received(message) == AMOUNT
