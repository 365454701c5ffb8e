"""The demo's customers, who move money through the page with wallets: `tests.system.page.wallets`.

Each ends with what both chains hold.
"""

from decimal import Decimal

import pytest
from stellar_sdk import scval

from devnet.circle import fast_fee
from devnet.customers import Purse
from devnet.stellar.accounts import keypair
from tests.system.page.owner import SECONDS, Owner
from tests.system.page.wallets import EVM_NAME

UNIT = 10**6
DUST = 10
"""Base units on Stellar for one on an EVM chain."""
NOTHING = Purse({"usdc": 0}, {})
PAY = f"Pay with {EVM_NAME}"
CLIPBOARD = ["clipboard-read", "clipboard-write"]
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
"""`Transfer(address,address,uint256)` of ERC-20."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def owners(bridge, visits):
    """Call it with a name and a purse for a customer with a tab."""

    def owner(name, purse=NOTHING, **options):
        return Owner(bridge, visits(bridge, **options), name, purse)

    return owner


def test_deposit_is_paid_with_an_evm_wallet(bridge, owners):
    who = owners("page dora", Purse({"usdc": 0}, {"usdc": 12_500_000}))
    who.sign_in()
    who.quote("Deposit", "12.5", None)
    quoted = who.facts("#quote")
    assert quoted["You send"] == "12.5 USDC"
    assert quoted["Circle's fee for a fast transfer, at most"] == "0.00195 USDC"
    assert quoted["Arrives at least"] == "12.49805 USDC"
    [lane] = [
        each
        for each in bridge.get("/v1/status").json()["routes"]
        if each["route"] == "usdc-deposit" and each["source_chain"] == "eip155:31337"
    ]
    minutes, seconds = divmod(lane["expected_seconds"], 60)
    usual = f"usual for the networks: {minutes} min {seconds:02} s"
    assert quoted["Time"].split("; ")[-1] == usual
    assert who.visit.text("#quote-expiry").startswith("Valid for ")
    assert who.visit.text("#quote-trustline") == ""
    transfer = who.start()
    assert who.visit.text("h1#transfer-title") == "Deposit of 12.5 USDC"
    assert who.stage() == "Waiting for your signature"
    assert who.visit.text("#stage-text") == "Sign with your wallet."
    who.evm.declines = True
    who.button(PAY).click()
    who.visit.until(lambda: who.visit.text("#action-says") == f"{EVM_NAME}: you declined.")
    who.evm.declines = False
    who.button(PAY).click()
    who.until_stage("Completed")
    assert [sent["from"] for sent in who.evm.sent] == [who.payer] * 2
    assert who.stages()[0] == "Waiting for your signature"
    assert who.stages()[-1] == "Completed"
    arrived = (12_500_000 - fast_fee(12_500_000)) * DUST
    assert (
        who.facts("#transfer-facts")["Arrived"] == f"{Decimal(arrived).scaleb(-7).normalize()} USDC"
    )
    assert who.facts("#transfer-facts")["Fee"] == "0.001625 USDC"
    assert who.facts("#transfer-facts")["Transfer id"] == transfer
    assert bridge.on_stellar(who.key.public_key) == arrived
    assert bridge.on_evm(who.payer) == 0
    who.visit.until(lambda: not who.page.locator("#action").is_visible())
    who.page.get_by_text("All transfers").click()
    who.visit.until(lambda: "12.5 USDC" in who.visit.text("#list"))
    assert "Completed" in who.visit.text("#list")
    assert who.page.locator(f'#list a[data-transfer="{transfer}"]').count() == 1


def test_withdrawal_is_signed_with_freighter(bridge, owners):
    amount = 7_250_000
    who = owners("page hana", Purse({"usdc": amount * DUST}, {}))
    who.sign_in()
    who.quote("Withdraw", "7.25", who.payer)
    who.start()
    signed = len(who.freighter.signed)
    who.button("Sign").click()
    # The allowance first, then the burn: the action is always the next one.
    who.visit.until(lambda: len(who.freighter.signed) == signed + 1, SECONDS)
    who.visit.until(
        lambda: who.stage() == "Waiting for your signature" and who.button("Sign").is_enabled(),
        SECONDS,
    )
    who.visit.until(lambda: sign_again(who, signed + 2), SECONDS)
    who.until_stage("Completed")
    assert bridge.on_evm(who.payer) == amount
    assert bridge.on_stellar(who.key.public_key) == 0


def sign_again(who, count):
    """Sign whatever is shown next, until so many transactions are signed."""
    if len(who.freighter.signed) < count:
        who.press_if_shown("Sign")
    return len(who.freighter.signed) >= count


def test_newcomer_is_paid_through_a_sponsored_trustline(bridge, owners):
    who = owners("page fay", Purse({}, {"usdc": 6 * UNIT}, has_account=False))
    # What was signed for an account that has moved on since, or is accepted already.
    who.visit.expected += (r"409 \(CONFLICT\)",)
    who.sign_in()
    who.quote("Deposit", "6", None)
    forecast = who.visit.text("#quote-trustline")
    assert forecast.startswith("Your account is not on the ledger yet, and needs a trustline")
    assert "The service pays for it" in forecast
    who.start()
    who.button(PAY).click()
    who.until_stage("Waiting for your trustline")
    who.visit.until(lambda: "Sign your trustline" in who.visit.text("#action-body"))
    who.visit.until(lambda: sign_until_accepted(who), SECONDS)
    who.until_stage("Completed")
    arrived = (6 * UNIT - fast_fee(6 * UNIT)) * DUST
    assert bridge.on_stellar(who.key.public_key) == arrived
    account = bridge.world.stellar.account(who.key.public_key)
    assert account is not None
    assert account.balance == 0


def sign_until_accepted(who):
    """Another owner may have used the sequence number: the transaction is shown again then."""
    signed = len(who.freighter.signed)
    if who.press_if_shown("Sign"):
        # It may have been accepted already, just before the button was pressed.
        who.visit.until(lambda: len(who.freighter.signed) > signed or is_accepted(who), SECONDS)
    return is_accepted(who)


def is_accepted(who):
    """The trustline is there, and the money on its way."""
    return who.stage() in ("Delivering", "Completed")


def test_short_payment_is_asked_for_the_rest(bridge, owners):
    who = owners("page mara", Purse({"usdc": 0}, {"usdc": 9 * UNIT}))
    who.sign_in()
    who.quote("Deposit", "9", None, by_address=True)
    who.start()
    assert who.stage() == "Waiting for your payment"
    who.page.locator(".qr").wait_for()
    shown = who.facts("#action-body")
    assert shown["Amount"] == "9 Copy"
    address = shown["Address"].split()[0]
    evm = bridge.world.evm
    assert shown["Token contract of USDC"] == f"{evm.addresses.usdc} Copy"
    assert shown["Refunds go to"] == who.evm.account.address.lower()
    evm.transfer(who.evm.account, evm.addresses.usdc, address, 4 * UNIT)
    who.visit.until(lambda: "below the amount" in who.visit.text("#stage-reason"), SECONDS)
    who.visit.until(lambda: who.facts("#action-body").get("Amount") == "5 Copy", SECONDS)
    who.visit.until(lambda: who.facts("#refund-facts").get("Received") == "4")
    evm.transfer(who.evm.account, evm.addresses.usdc, address, 5 * UNIT)
    who.until_stage("Completed")
    lines = who.facts("#refund-facts")
    assert (lines["Received"], lines["Moved on"], lines["To be returned"]) == ("9", "9", "0")
    arrived = (9 * UNIT - fast_fee(9 * UNIT)) * DUST
    assert bridge.on_stellar(who.key.public_key) == arrived
    assert bridge.on_evm(address) == 0


def test_cancelled_deposit_that_is_paid_all_the_same_comes_back(bridge, owners):
    who = owners("page gus", Purse({"usdc": 0}, {"usdc": 5 * UNIT}))
    who.sign_in()
    who.quote("Deposit", "5", None, by_address=True)
    who.start()
    who.page.locator(".qr").wait_for()
    address = who.facts("#action-body")["Address"].split()[0]
    who.button("Cancel the transfer").click()
    who.until_stage("Cancelled")
    assert not who.button("Cancel the transfer").is_visible()
    assert not who.page.locator(".qr").is_visible()
    evm = bridge.world.evm
    evm.transfer(who.evm.account, evm.addresses.usdc, address, 5 * UNIT)
    who.until_stage("Refunded")
    assert who.facts("#refund-facts")["Returned"] == "5"
    assert bridge.on_evm(who.payer) == 5 * UNIT
    assert bridge.on_stellar(who.key.public_key) == 0


def test_refund_lines_name_each_token_and_the_transactions(bridge, owners):
    purse = Purse({"usdc": 0}, {"usdc": 6 * UNIT, "usdt0": 3 * UNIT})
    who = owners("page tomas", purse, permissions=CLIPBOARD)
    who.sign_in()
    who.quote("Deposit", "6", None, by_address=True)
    who.start()
    who.page.locator(".qr").wait_for()
    address = who.facts("#action-body")["Address"].split()[0]
    evm = bridge.world.evm
    at = evm.addresses
    evm.transfer(who.evm.account, at.usdt0, address, 3 * UNIT)
    who.visit.until(lambda: who.facts("#refund-facts").get("Token") == at.usdt0, SECONDS)
    who.button("Cancel the transfer").click()
    who.until_stage("Refunded")
    evm.transfer(who.evm.account, at.usdc, address, 6 * UNIT)
    line = {"Moved on": "0", "To be returned": "0"}
    wanted = {
        at.usdc: line | {"Token": at.usdc, "Received": "6", "Returned": "6"},
        at.usdt0: line | {"Token": at.usdt0, "Received": "3", "Returned": "3"},
    }
    who.visit.until(
        lambda: {each.get("Token"): each for each in who.lists("#refund-facts")[1:]} == wanted,
        SECONDS,
    )
    assert who.stage() == "Refunded"
    # The transfer's coin; the other token has its line.
    assert who.lists("#refund-facts")[0]["Refunded"] == "6 USDC"
    shown = who.page.locator("#refund-facts").get_by_role("button", name="Copy Transaction")
    hashes = [who.copied(button) for button in shown.all()]
    paid = {
        (log["address"], int(log["data"], 16))
        for tx in hashes
        for log in evm.rpc("eth_getTransactionReceipt", tx)["logs"]
        if log["topics"][0] == TRANSFER and log["topics"][2][-40:] == who.payer[2:]
    }
    assert paid == {(at.usdc, 6 * UNIT), (at.usdt0, 3 * UNIT)}


def test_finish_it_yourself_data_delivers_the_transfer_without_the_relay(bridge, owners):
    purse = Purse({"usdc": 0}, {"usdc": 4 * UNIT})
    who = owners("page ines", purse, permissions=CLIPBOARD)
    who.sign_in()
    who.quote("Deposit", "4", None)
    who.start()
    finish = who.page.locator("#self-finish")
    assert not finish.is_visible()
    with bridge.frozen_relay():
        who.button(PAY).click()
        who.until_stage("Delivering")
        finish.wait_for()
        data = who.facts("#self-finish-data")
        assert data["Chain"] == "Devnet Stellar"
        assert data["Function"] == "mint_and_forward(message, attestation)"
        # The burn by which anyone finds the message elsewhere too.
        burn = who.copied(who.page.locator("#timeline").get_by_role("button").first)
        assert burn == who.evm.hashes[-1]
        contract, *arguments = (
            who.copied(finish.get_by_role("button", name=f"Copy the {name}", exact=True))
            for name in ("contract", "message", "attestation")
        )
        stranger = keypair("page stranger")
        bridge.world.stellar.fund(stranger.public_key)
        bridge.world.stellar.invoke(
            stranger,
            contract,
            "mint_and_forward",
            *(scval.to_bytes(bytes.fromhex(text.removeprefix("0x"))) for text in arguments),
        )
        who.until_stage("Completed")
    assert not finish.is_visible()
    assert bridge.on_stellar(who.key.public_key) == (4 * UNIT - fast_fee(4 * UNIT)) * DUST


def test_seed_of_the_demo_signs_in_and_pays(bridge, owners):
    who = owners("page jana", Purse({"usdc": 2 * UNIT * DUST + 1}, {}))
    bridge.open(**{"page lena": NOTHING})
    with_account = bridge.customer("page lena")
    with_account.close()
    who.page.goto(f"{bridge.url}/transfers")
    who.page.get_by_label("A seed of the demo").fill(who.key.secret)
    who.button("Sign in with the seed").click()
    who.visit.until(lambda: who.visit.text("#phase") == "Live")
    assert who.page.locator("#seed").input_value() == ""
    who.quote("Send", "2.0000001", with_account.account)
    who.start()
    who.button("Sign").click()
    who.until_stage("Completed")
    assert bridge.on_stellar(with_account.account) == 2 * UNIT * DUST + 1
    assert who.freighter.signed == []


def test_page_asks_while_there_is_no_stream(bridge, owners):
    who = owners("page emil", Purse({"usdc": 0}, {"usdc": 5 * UNIT}))
    who.visit.expected += (r"WebSocket",)
    who.page.route_web_socket("**/api/v1/stream*", lambda socket: socket.close())
    who.page.goto(f"{bridge.url}/transfers")
    who.button("Sign in with Freighter").click()
    who.visit.until(lambda: who.visit.text("#phase") == "No stream: asking every few seconds")
    who.quote("Deposit", "5", None)
    who.start()
    who.button(PAY).click()
    who.until_stage("Completed")
    assert who.visit.text("#phase") == "No stream: asking every few seconds"
