"""The demo's customers: a transfer of each kind through the API, all followed to their ends.

All follow by `GET` and over the socket, one by a webhook as well.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing

from devnet.address_plays import AddressPlays
from devnet.bridges import DUST
from devnet.customers import Customer, Purse, customer, open_accounts
from devnet.scenario import EVM_UNIT, Log, PacedClient, real_time
from devnet.socket_story import SocketStory
from devnet.transfers import DEADLINE_SECONDS, Played, await_routes, decimal, follow
from devnet.verify import table
from devnet.webhook_receiver import Receiver
from devnet.webhook_story import WebhookStory
from devnet.world import World
from isthmus_client import Transfer

PEOPLE = (
    *("dora", "emil", "fay", "gus", "hana", "ivo", "jana", "karl", "lena"),
    *("mara", "nino", "olga"),
)
HOOKED = "dora"
"""Follows by a webhook as well."""
LEDGER_SECONDS = 1.0
_LOOK_SECONDS = 0.2
_ENDS = {"deposit": ("evm", "stellar"), "withdraw": ("stellar", "evm"), "send": ("stellar",) * 2}


class CustomerStory:
    """Plays on a world whose services run; `client` closes Stellar's ledgers."""

    def __init__(
        self,
        world: World,
        client: PacedClient,
        chance: random.Random,
        api_url: str,
        wait: Callable[[float], None],
        receiver: Receiver,
    ) -> None:
        """`wait` waits that many seconds and checks the processes. `HOOKED` follows by a webhook to
        `receiver`.
        """
        self._world = world
        self._client = client
        self._chance = chance
        self._api_url = api_url
        self._wait = wait
        self._receiver = receiver
        self._closed_at = 0.0

    def play(self, log: Log) -> list[str]:
        """Problems, a sentence each; empty when every customer has the expected balances."""
        self._client.next_close = real_time
        amounts = {name: self._amount() for name in PEOPLE}
        open_accounts(_purses(amounts), self._client, self._world.evm)
        plays = AddressPlays(self._world.evm, self._client, lambda line: log(f"   {line}"))
        with ExitStack() as stack:
            people = {
                name: stack.enter_context(closing(customer(name, self._api_url)))
                for name in amounts
            }
            await_routes(people["dora"].api, self._go_on)
            hooked = WebhookStory(people[HOOKED], self._receiver, self._wait)
            hooked.begin()
            sockets = stack.enter_context(closing(SocketStory(people.values(), self._wait)))
            sockets.begin()
            played = _all(plays, people, amounts)
            shown = follow(played, self._go_on, deadline_seconds=DEADLINE_SECONDS)
            owners = {each.transfer: each.who for each in played}
            problems = sockets.problems(owners)
            _log_transfers(played, shown, sockets, log)
            problems += [
                problem
                for each in played
                for problem in plays.problems(each, shown[each.transfer][0])
            ]
            mine = [each.transfer for each in played if each.who.name == HOOKED]
            problems += hooked.problems({each: shown[each][0] for each in mine})
            _log_webhook_stages(hooked, log)
            return problems

    def _amount(self) -> int:
        """Between 5 and 20 units of 6 decimals."""
        return self._chance.randint(5 * EVM_UNIT, 20 * EVM_UNIT)

    def _go_on(self) -> None:
        if time.monotonic() - self._closed_at > LEDGER_SECONDS:
            self._client.close_next_ledger(real_time)
            self._closed_at = time.monotonic()
        self._wait(_LOOK_SECONDS)


def _purses(amounts: Mapping[str, int]) -> dict[str, Purse]:
    """Each customer holds what it will send, and trustlines for what it receives."""
    return {
        "dora": Purse({"usdc": 0}, {"usdc": amounts["dora"]}),
        "emil": Purse({"usdt0": 0}, {"usdt0": amounts["emil"]}),
        "fay": Purse({}, {"usdc": amounts["fay"]}, has_account=False),
        "gus": Purse({"usdc": 0}, {"usdc": amounts["gus"]}),
        "hana": Purse({"usdc": amounts["hana"] * DUST}, {}),
        "ivo": Purse({"usdt0": amounts["ivo"] * DUST}, {}),
        "jana": Purse({"usdc": amounts["jana"] * DUST + 1}, {}),
        "karl": Purse({"usdt0": amounts["karl"] * DUST + 1}, {}),
        "lena": Purse({"usdc": 0, "usdt0": 0}, {}),
        "mara": Purse({"usdc": 0}, {"usdc": amounts["mara"]}),
        "nino": Purse({"usdc": 0}, {"usdc": amounts["nino"]}),
        "olga": Purse({"usdc": 0}, {"usdc": amounts["olga"], "usdt0": amounts["olga"]}),
    }


def _all(
    plays: AddressPlays, people: Mapping[str, Customer], amounts: Mapping[str, int]
) -> list[Played]:
    """Payments have a seventh decimal, which no bridge carries."""
    there = {name: amount * DUST for name, amount in amounts.items()}
    return [
        plays.withdrawal(people["hana"], "usdc", there["hana"]),
        plays.withdrawal(people["ivo"], "usdt0", there["ivo"]),
        plays.payment(people["jana"], "usdc", there["jana"] + 1, people["lena"]),
        plays.payment(people["karl"], "usdt0", there["karl"] + 1, people["lena"]),
        plays.deposit(people["dora"], "usdc", amounts["dora"]),
        plays.deposit(people["emil"], "usdt0", amounts["emil"]),
        plays.deposit_without_account(people["fay"], "usdc", amounts["fay"]),
        plays.called_off(people["gus"], "usdc", amounts["gus"]),
        plays.deposit_to_address(people["mara"], "usdc", amounts["mara"]),
        plays.cancelled_then_paid(people["nino"], "usdc", amounts["nino"]),
        plays.wrong_token_first(people["olga"], "usdc", "usdt0", amounts["olga"]),
    ]


def _log_webhook_stages(hooked: WebhookStory, log: Log) -> None:
    stages = [event.data.stage for event in hooked.events()]
    log(f"{HOOKED}'s webhook received, each verified: {', '.join(stages)}")


def _log_transfers(
    played: Sequence[Played],
    shown: Mapping[str, tuple[Transfer, float]],
    sockets: SocketStory,
    log: Log,
) -> None:
    log("\nGET /v1/transfers/{id}, and the stages that its owner received over the socket")
    rows = []
    for each in played:
        transfer, seconds = shown[each.transfer]
        starts, ends = _ENDS[transfer.direction]
        got = transfer.amount_delivered
        rows.append(
            {
                "transfer": each.what,
                "owner": each.who.name,
                "paid": decimal(transfer.amount_in, starts),
                "arrived": None if got is None else decimal(got, ends),
                "seconds": f"{seconds:.1f}",
                "stages": [step.stage for step in transfer.timeline],
                "by socket": f"{len(sockets.stages(transfer.id))} stages",
            }
        )
    columns = ("transfer", "owner", "paid", "arrived", "seconds", "by socket", "stages")
    log(table(rows, columns))
