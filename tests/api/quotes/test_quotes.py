"""`POST /v1/quotes`: stored quotes, and every refusal."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from api.auth.accounts import LedgerUnavailable
from api.quotes.fees import LimitedFees
from indexer.actions.mint_check import MintRefusal
from indexer.chain_state.fees import SendTerms
from indexer.chains.stellar.xdr.ledger_entries import Trustline
from indexer.config.networks import load_network
from indexer.errors import InconsistentAnswer, NodeUnavailable, WrongChain
from tests.factories.acting import FixedEvm, FixedStellar
from tests.factories.deposits import with_operator
from tests.factories.projections import STELLAR, insert_cursor
from tests.factories.quotes import (
    ARBITRUM,
    EVM,
    OTHER,
    PATH,
    REFUSED,
    SEPOLIA,
    FixedFees,
    ask,
    asking,
    make_body,
    make_quote_app,
    sending,
    withdrawal,
)
from tests.factories.sep10 import FixedAccounts, make_rules
from tests.factories.tokens import ACCOUNT
from tests.indexer.test_addresses import MUXED as MUXED_CONTRACT
from warehouse_schema.facts import cursors
from warehouse_schema.identifiers import AssetId, BaseUnits
from warehouse_schema.intake import quotes
from warehouse_schema.relay import health, sponsors

USDC = "stellar:USDC:GBBD47IF6LWK7P7MDEVSCWR7DPUWV3NY3DTQEVFL4NAT4AQH3ZLLFLA5"
SEPOLIA_USDC = f"{SEPOLIA}/erc20:0x1c7d4b196cb0c7b01d743fbc6116a902379c7238"
DEVNET = "eip155:31337"
SERVICE = {"name": "service_fee", "amount": "0"}


def stored(kept: Connection, quote: str) -> dict:
    return dict(kept.execute(select(quotes).where(quotes.c.id == quote)).one()._mapping)


def test_deposit_quote_has_every_member(kept, asker):
    answer = ask(asker, make_body())
    assert answer.status_code == 201
    quote = answer.json
    row = stored(kept, quote.pop("id"))
    assert quote.pop("expires_at") == row["expires_at"].strftime("%Y-%m-%dT%H:%M:%SZ")
    # 1.3 bps of 10 USDC are 1300 units; a fifth more is allowed for.
    assert quote == {
        "sell_asset": SEPOLIA_USDC,
        "buy_asset": USDC,
        "sell_amount": "10000000",
        "buy_amount": "99984400",
        "price": "0.999844",
        "fee": {
            "total": "1560",
            "asset": SEPOLIA_USDC,
            "details": [{"name": "cctp_fast_fee", "amount": "1560"}, SERVICE],
            "native_details": [],
            "operator_details": [],
        },
        "needs_trustline": None,
    }
    assert answer.headers["Cache-Control"] == "no-store"


def test_quote_stores_the_transfer_terms(kept, asker):
    row = stored(
        kept, ask(asker, make_body(source_address=EVM.upper().replace("X", "x"))).json["id"]
    )
    assert row["expires_at"] - row["created_at"] <= timedelta(seconds=300)
    assert row["expires_at"] - row["created_at"] > timedelta(seconds=298)
    assert {name: row[name] for name in row.keys() - {"id", "created_at", "expires_at", "fee"}} == {
        "owner": ACCOUNT,
        "route": "usdc-deposit",
        "mechanism": "cctp",
        "funding_mode": "direct",
        "source_chain": SEPOLIA,
        "source_asset": SEPOLIA_USDC,
        "source_token": SEPOLIA_USDC.rpartition(":")[2],
        "source_address": EVM,
        "dest_chain": STELLAR,
        "dest_asset": USDC,
        "dest_address": ACCOUNT,
        "amount_in": 10_000_000,
        "amount_out": 99_984_400,
        "min_refund": 1_000_000,
        "finality_threshold": 1000,
        "native_fee": None,
    }
    assert row["fee"]["total"] == "1560"


def test_withdrawal_quote_shows_operator_gas(kept, asker, fees):
    quote = ask(asker, withdrawal()).json
    assert (quote["sell_asset"], quote["buy_asset"]) == (USDC, SEPOLIA_USDC)
    # Circle's fee is in 6 decimals, what is sent in 7.
    assert (quote["buy_amount"], quote["fee"]["total"]) == ("9998440", "15600")
    gas = {"name": "relay_gas", "amount": str(200_000 * 10**9), "chain": SEPOLIA}
    assert quote["fee"]["operator_details"] == [gas]
    row = stored(kept, quote["id"])
    assert (row["funding_mode"], row["amount_out"]) == (None, 9_998_440)
    token = load_network("testnet").stellar.usdc_contract
    assert row["source_token"] == token
    assert ("burn", STELLAR, SEPOLIA) in fees.requests


def test_payment_quote_reads_no_fees(kept, reader):
    client = make_quote_app(reader, None).test_client()
    quote = ask(client, sending(amount_in="1")).json
    assert (quote["sell_amount"], quote["buy_amount"], quote["price"]) == ("1", "1", "1")
    assert quote["fee"]["details"] == [SERVICE]
    assert ask(client, make_body()).json["code"] == "FEES_UNAVAILABLE"


@pytest.fixture
def mainnet(kept, reader, fees):
    for chain in ("stellar:pubnet", "eip155:1"):
        insert_cursor(kept, chain)
    return make_quote_app(reader, fees, network=load_network("mainnet")).test_client()


def usdt0(**changes):
    # ACCOUNT is the issuer of USDC there.
    base = {"route": "usdt0-deposit", "source_chain": "eip155:1", "dest_address": OTHER}
    return make_body(**base, **changes)


def test_usdt0_deposit_quote_has_native_fee(kept, mainnet, fees):
    quote = ask(mainnet, usdt0(), account=OTHER).json
    assert (quote["buy_amount"], quote["fee"]["total"]) == ("100000000", "0")
    native = {"name": "lz_native_fee", "amount": "1100", "chain": "eip155:1"}
    assert quote["fee"]["native_details"] == [native]
    row = stored(kept, quote["id"])
    assert (row["mechanism"], row["native_fee"], row["finality_threshold"]) == ("oft", 1100, None)
    [(_, source, dest, to, amount)] = fees.requests
    assert (source, dest, amount) == ("eip155:1", "stellar:pubnet", 10_000_000)
    assert len(to) == 66


@pytest.fixture
def by_address(kept: Connection, reader: Engine, fees: FixedFees):
    """Calls an app on the devnet, where deposits are moved on from addresses of their own."""
    for chain in ("stellar:devnet", DEVNET):
        insert_cursor(kept, chain)
    network = with_operator(load_network("devnet"))
    return make_quote_app(reader, fees, network=network).test_client()


SWEEP = {"name": "deposit_sweep", "amount": str(300_000 * 10**9), "chain": DEVNET}


@pytest.mark.parametrize(
    ("route", "fee", "paid_by_us"),
    [
        ("usdc-deposit", "cctp_fast_fee", []),
        ("usdt0-deposit", None, [{"name": "lz_native_fee", "amount": "1100", "chain": DEVNET}]),
    ],
)
def test_deposit_sweep_is_operator_fee(kept, by_address, route, fee, paid_by_us):
    body = make_body(route=route, source_chain=DEVNET, funding_mode="deposit_address")
    answer = ask(by_address, body)
    assert answer.status_code == 201
    said = answer.json["fee"]
    assert [each["name"] for each in said["details"]] == [*([fee] if fee else []), "service_fee"]
    assert said["native_details"] == []
    assert said["operator_details"] == [*paid_by_us, SWEEP]
    direct = ask(by_address, body | {"funding_mode": "direct"}).json
    assert direct["buy_amount"] == answer.json["buy_amount"]
    assert stored(kept, answer.json["id"])["funding_mode"] == "deposit_address"


def test_oft_fee_is_in_the_quote(mainnet, fees):
    fees.send_terms = SendTerms(0, 10**12, 9_997_000, 1)
    quote = ask(mainnet, usdt0(), account=OTHER).json
    assert quote["buy_amount"] == "99970000"
    assert quote["fee"]["details"] == [{"name": "oft_fee", "amount": "3000"}, SERVICE]


@pytest.mark.parametrize("terms", [(0, 9_999_999), (10_000_001, 10**9)])
def test_amount_outside_oft_limits_returns_400(mainnet, fees, terms):
    fees.send_terms = SendTerms(*terms, 9_000_000, 1)
    answer = ask(mainnet, usdt0(), account=OTHER)
    assert (answer.status_code, answer.json["code"]) == (400, "AMOUNT_OUT_OF_LIMITS")
    assert "amount_in" in answer.json["message"]


def usdt0_withdrawal():
    return withdrawal(
        route="usdt0-withdraw",
        source_chain="stellar:pubnet",
        source_address=OTHER,
        dest_chain="eip155:1",
    )


def test_usdt0_withdrawal_quote_has_xlm_fee(kept, mainnet, fees):
    quote = ask(mainnet, usdt0_withdrawal(), account=OTHER).json
    assert (quote["sell_amount"], quote["buy_amount"]) == ("100000000", "10000000")
    assert (quote["price"], quote["fee"]["total"]) == ("1", "0")
    native = {"name": "lz_native_fee", "amount": "1100", "chain": "stellar:pubnet"}
    assert quote["fee"]["native_details"] == [native]
    row = stored(kept, quote["id"])
    assert (row["mechanism"], row["native_fee"], row["amount_out"]) == ("oft", 1100, 10_000_000)
    [(_, source, dest, to, amount)] = fees.requests
    assert (source, dest, amount) == ("stellar:pubnet", "eip155:1", 100_000_000)
    assert to == "0x" + EVM[2:].rjust(64, "0")


def test_stellar_oft_fee_is_in_sent_asset(mainnet, fees):
    fees.send_terms = SendTerms(0, 10**12, 99_970_000, 1)
    quote = ask(mainnet, usdt0_withdrawal(), account=OTHER).json
    assert (quote["buy_amount"], quote["price"]) == ("9997000", "0.9997")
    assert quote["fee"]["details"] == [{"name": "oft_fee", "amount": "30000"}, SERVICE]


# Refusals of what is asked


def test_bad_member_is_named_in_the_400(kept, asker, subtests):
    for code in REFUSED:
        with subtests.test(code=code):
            answer = ask(asker, make_body(**REFUSED[code]))
            assert answer.json["code"] == code
            assert answer.status_code == (403 if code == "NOT_THE_OWNER" else 400)
            assert next(iter(REFUSED[code])) in answer.json["message"]
            assert kept.scalar(select(func.count()).select_from(quotes)) == 0


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        (make_body(route="usdt0-deposit"), "BAD_ROUTE", "usdc-deposit, usdc-withdraw, usdc-send"),
        (make_body(source_chain=STELLAR), "BAD_CHAIN", SEPOLIA),
        (make_body(dest_chain=SEPOLIA), "BAD_CHAIN", STELLAR),
        (withdrawal(dest_chain=None), "BAD_CHAIN", "dest_chain is missing"),
        (withdrawal(dest_chain=STELLAR), "BAD_CHAIN", ARBITRUM),
        (make_body(amount_in="999999"), "AMOUNT_OUT_OF_LIMITS", "1000000 to 20000000"),
        (withdrawal(amount_in="200000001"), "AMOUNT_OUT_OF_LIMITS", "10000000 to 200000000"),
        (withdrawal(amount_in="100000006"), "BAD_AMOUNT", "the nearest is 100000010"),
        (withdrawal(amount_in="100000004"), "BAD_AMOUNT", "the nearest is 100000000"),
        (make_body(source_address=EVM[:-1]), "BAD_SOURCE_ADDRESS", "40 hex digits"),
        (
            make_body(source_address="0x70997970C51812dc3A010C7d01b50e0d17dc79c8"),
            "BAD_SOURCE_ADDRESS",
            "EIP-55",
        ),
        (make_body(source_address="0x" + "0" * 40), "BAD_SOURCE_ADDRESS", "lost"),
        (withdrawal(dest_address=SEPOLIA_USDC[-42:]), "BAD_DEST_ADDRESS", "lost"),
        (withdrawal(dest_address=OTHER), "BAD_DEST_ADDRESS", "hex"),
        (sending(dest_address=USDC[-56:]), "BAD_DEST_ADDRESS", "issuer"),
        (sending(dest_address=ACCOUNT), "BAD_DEST_ADDRESS", "another account"),
        (sending(dest_address="M" + "A" * 68), "BAD_DEST_ADDRESS", "neither memo nor muxed"),
        (sending(dest_address=EVM), "BAD_DEST_ADDRESS", "G…"),
        (sending(dest_address=MUXED_CONTRACT), "BAD_DEST_ADDRESS", "dest_address must be"),
        (sending(source_address=MUXED_CONTRACT), "BAD_SOURCE_ADDRESS", "source_address must be"),
        (withdrawal(funding_mode="direct"), "BAD_FUNDING_MODE", "leave it out"),
        (make_body(funding_mode="card"), "BAD_FUNDING_MODE", "direct"),
        (withdrawal(source_address=OTHER), "NOT_THE_OWNER", "source_address"),
        (sending(source_address=OTHER), "NOT_THE_OWNER", "source_address"),
    ],
)
def test_error_message_lists_valid_values(asker, body, code, says):
    body = {name: value for name, value in body.items() if value is not None}
    answer = ask(asker, body)
    assert answer.json["code"] == code
    assert says in answer.json["message"]


AMOUNT_OF_OTHER_CHARACTERS_RETURNS_400 = [
    "",
    "0",
    "-1",
    "+1",
    "1e7",
    "10000000.0",
    " 10000000",
    "10000000\n",
    "٣٣٣٣٣٣٣٣",
    "0x989680",
    "010000000",
    "1" * 79,
    "1_0000000",
]


def test_amount_of_other_characters_returns_400(asker, subtests):
    for amount in AMOUNT_OF_OTHER_CHARACTERS_RETURNS_400:
        with subtests.test(amount=amount):
            assert ask(asker, make_body(amount_in=amount)).json["code"] == "BAD_AMOUNT"


@pytest.mark.parametrize(
    "changes",
    [
        {"amount_in": 10000000},
        {"amount_in": ["10000000"]},
        {"route": {"id": "usdc-deposit"}},
        {"memo": "1"},
        {"owner": ACCOUNT},
        {"dest_address": "\0"},
    ],
)
def test_body_of_another_shape_returns_400(asker, changes):
    answer = ask(asker, make_body(**changes))
    assert (answer.status_code, answer.json["code"]) == (400, "BAD_BODY")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from([*make_body(), "dest_chain", "funding_mode", "x"]),
        st.one_of(st.text(max_size=80), st.integers(), st.none(), st.lists(st.text(), max_size=2)),
    )
)
def test_any_json_body_is_quoted_or_refused(asker, changes):
    body = json.dumps(make_body() | changes).encode()
    answer = asker.post(PATH, data=body, headers=asking(), content_type="application/json")
    assert answer.status_code in (201, 400, 403)


# Who asks


def test_quote_without_token_returns_401(kept, asker):
    assert asker.post(PATH, json=make_body()).status_code == 401


def test_quotes_of_two_owners_are_separate(kept, asker):
    first = ask(asker, make_body()).json["id"]
    assert ask(asker, make_body(), account=OTHER).json["code"] == "NOT_THE_OWNER"
    second = ask(asker, make_body(dest_address=OTHER), account=OTHER).json["id"]
    owners = dict(kept.execute(select(quotes.c.id, quotes.c.owner)).all())
    assert owners == {first: ACCOUNT, second: OTHER}


def test_api_role_cannot_update_or_delete_quotes(kept, asker, reader: Engine):
    ask(asker, make_body())
    for statement in (update(quotes).values(amount_out=1), delete(quotes)):
        with pytest.raises(Exception, match="permission denied"), reader.begin() as connection:
            connection.execute(statement)


# What is not well


@pytest.mark.parametrize(
    ("chain", "trouble", "says"),
    [
        (SEPOLIA, {"held": "retention gap"}, "is on hold"),
        (STELLAR, {"held": "retention gap"}, "is on hold"),
        (SEPOLIA, {"updated_at": datetime(2026, 1, 1, tzinfo=UTC)}, "stands still"),
        (STELLAR, {"head_time": 2_000_000_000}, "behind its head"),
    ],
)
def test_unhealthy_chain_returns_503(kept, asker, chain, trouble, says):
    kept.execute(update(cursors).where(cursors.c.chain == chain).values(trouble))
    answer = ask(asker, make_body())
    assert (answer.status_code, answer.json["code"]) == (503, "CHAIN_UNAVAILABLE")
    assert chain in answer.json["message"]
    assert says in answer.json["message"]
    assert int(answer.headers["Retry-After"]) > 0
    elsewhere = ask(asker, sending())
    assert elsewhere.status_code == (503 if chain == STELLAR else 201)


def test_never_ingested_chain_returns_503(asker):
    answer = ask(asker, make_body(source_chain=ARBITRUM))
    assert answer.json["code"] == "CHAIN_UNAVAILABLE"
    assert "has not been ingested" in answer.json["message"]


@pytest.mark.parametrize("changes", [{"well": False, "reason": "5 wei"}, {"duty": "sponsor"}])
def test_quote_without_relay_returns_503(kept, asker, changes):
    kept.execute(update(health).where(health.c.chain == STELLAR).values(changes))
    for body in (make_body(), sending()):
        answer = ask(asker, body)
        assert (answer.status_code, answer.json["code"]) == (503, "CHAIN_UNAVAILABLE")
        assert f"{STELLAR} is enabled, but its relayer is not available" in answer.json["message"]


def test_oft_deposit_is_quoted_without_relay(kept, mainnet):
    kept.execute(delete(health))
    assert ask(mainnet, usdt0(), account=OTHER).status_code == 201


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [("frozen", 422, "RECIPIENT_REFUSED"), ("paused", 503, "CHAIN_UNAVAILABLE")],
)
def test_recipient_refused_by_mint_is_not_quoted(kept, reader, fees, kind, status, code):
    evm = FixedEvm(refusals={EVM: MintRefusal(kind, "not now")})
    app = make_quote_app(reader, fees, evm=evm)
    answer = ask(app.test_client(), make_body(**withdrawal()))
    assert (answer.status_code, answer.json["code"]) == (status, code)
    evm.refusals.clear()
    assert ask(app.test_client(), make_body(**withdrawal())).status_code == 201


def test_deposit_is_not_quoted_while_cctp_is_paused_on_stellar(kept, reader, fees):
    stellar = FixedStellar(pause=MintRefusal("paused", "CCTP is paused"))
    client = make_quote_app(reader, fees, stellar=stellar).test_client()
    answer = ask(client, make_body())
    assert (answer.status_code, answer.json["code"]) == (503, "CHAIN_UNAVAILABLE")
    assert "CCTP is paused" in answer.json["message"]
    assert ask(client, sending()).status_code == 201, "a payment needs no bridge"
    stellar.pause = None
    assert ask(client, make_body()).status_code == 201


def test_recipient_with_frozen_trustline_is_not_quoted(kept, reader, fees):
    accounts = FixedAccounts()
    client = make_quote_app(reader, fees, accounts=accounts).test_client()
    assert ask(client, make_body()).status_code == 201, "a trustline may come yet"
    much = BaseUnits(2**62)
    line = Trustline(ACCOUNT, AssetId(USDC), False, much, much)
    accounts.lines[ACCOUNT, USDC] = line
    answer = ask(client, make_body())
    assert (answer.status_code, answer.json["code"]) == (422, "RECIPIENT_REFUSED")
    accounts.lines[ACCOUNT, USDC] = replace(line, is_authorized=True)
    assert ask(client, make_body()).status_code == 201


@pytest.mark.parametrize("body", [make_body(), withdrawal()])
@pytest.mark.parametrize(
    "failure",
    [NodeUnavailable("key=secret"), InconsistentAnswer("key=secret"), WrongChain("key=secret")],
)
def test_unavailable_fees_return_503_without_node_name(kept, reader, failure, body):
    fees = LimitedFees(FixedFees(failure=failure))
    answer = ask(make_quote_app(reader, fees).test_client(), body)
    assert (answer.status_code, answer.json["code"]) == (503, "FEES_UNAVAILABLE")
    assert "secret" not in answer.text
    assert kept.scalar(select(func.count()).select_from(quotes)) == 0


def test_quote_lifetime_is_configurable(kept, reader):
    client = make_quote_app(reader, FixedFees(), quote_seconds=10).test_client()
    row = stored(kept, ask(client, make_body()).json["id"])
    assert timedelta(seconds=8) < row["expires_at"] - row["created_at"] <= timedelta(seconds=10)


def test_quote_ids_are_random(asker):
    ids = {ask(asker, make_body()).json["id"] for _ in range(20)}
    assert len(ids) == 20
    assert all(len(each) == 32 for each in ids)


@pytest.fixture
def newcomer(kept, reader):
    """Asks for quotes as an owner without account and trustline, while a sponsor is well."""
    place = {"chain": STELLAR, "account": "GSPONSOR"}
    says = {"duty": "sponsor", "well": True, "balance": 10**9, "spent_today": 0, "open": 0}
    says |= {"budget": 10**9, "floor": 10**7}
    would = {"next_number": 7, "min_deposit": 10**8, "payer_budget": 10**8, "budget_left": 10**8}
    kept.execute(insert(health).values(place | says))
    kept.execute(insert(sponsors).values(place | would))
    accounts = FixedAccounts()
    yield make_quote_app(reader, FixedFees(), accounts=accounts).test_client(), accounts
    kept.execute(delete(sponsors))


def test_quote_names_the_trustline_and_the_sponsored_reserve(newcomer):
    client, accounts = newcomer
    quote = ask(client, make_body()).json
    needs = {
        "asset": USDC,
        "creates_account": True,
        "reserve": "15020000",
        "sponsored": True,
        "reason": None,
    }
    reserve = {"name": "sponsored_reserve", "amount": "15000000", "chain": STELLAR}
    assert quote["needs_trustline"] == needs
    assert quote["fee"]["operator_details"] == [reserve]
    accounts.rules[ACCOUNT] = replace(make_rules(), account=ACCOUNT)
    quote = ask(client, make_body()).json
    assert quote["needs_trustline"]["creates_account"] is False
    assert quote["fee"]["operator_details"] == [reserve | {"amount": "5000000"}]
    accounts.lines[ACCOUNT, USDC] = Trustline(ACCOUNT, USDC, True, BaseUnits(1), BaseUnits(0))
    quote = ask(client, make_body()).json
    assert (quote["needs_trustline"], quote["fee"]["operator_details"]) == (None, [])


def test_quote_of_a_small_deposit_is_not_sponsored(newcomer):
    client, _ = newcomer
    quote = ask(client, make_body(amount_in="9999999")).json
    assert quote["needs_trustline"]["reason"] == "deposit_too_small"
    assert quote["fee"]["operator_details"] == []


def test_quote_without_a_ledger_is_a_503(newcomer):
    client, accounts = newcomer
    accounts.failure = LedgerUnavailable("the ledger cannot be read right now")
    answer = ask(client, make_body())
    assert (answer.status_code, answer.json["code"]) == (503, "LEDGER_UNAVAILABLE")
