"""Drills: accounts of the relay are replaced while work arrives, and nothing is signed twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.engine import URL
from stellar_sdk import Keypair

from devnet.evm import EvmDevnet
from devnet.keys import in_files
from indexer.cli.main import main
from indexer.config.settings import load_settings
from indexer.errors import ConfigurationError
from indexer.policy.relay_accounts import account_statuses
from indexer.policy.sponsorship import all_sponsors
from indexer.service_status.availability import healthy_chains
from relay.keys import LocalEvmKey, LocalStellarKey, evm_address
from relay.nonces import AccountId
from relay.rotation import account_uses, retire_account
from relay.run import _workers
from relay.settings import RelayAccount, StellarAccount, address_of, load_accounts
from relay.status import relay_problems
from tests.relay import test_onboardings as onboarding
from tests.relay.conftest import AMOUNT, OPERATOR, STRANGER, Message, Stand, open_stand
from tests.relay.deposit_stand import DepositStand
from tests.relay.ledger import STELLAR, LedgerStand

NEW_KEY = STRANGER.key.hex()
OLD, NEW = OPERATOR, STRANGER.address.lower()
DEVNET = load_settings({}).network


@pytest.fixture
def deposits(node: tuple[EvmDevnet, str], database: URL, engine: Engine) -> Iterator[DepositStand]:
    with open_stand(DepositStand, node, database, engine) as stand:
        yield stand


def next_steps(stand: Stand | LedgerStand) -> dict[str, str]:
    with stand.relay_engine.connect() as conn:
        return {each.account.address: each.next_step for each in account_uses(conn)}


def retire(stand: Stand | LedgerStand, account: AccountId) -> None:
    with stand.relay_engine.begin() as conn:
        retire_account(conn, account)


def age_report(stand: Stand | LedgerStand, account: AccountId) -> None:
    """As if the relay had been off for three minutes."""
    with stand.engine.begin() as conn:
        conn.execute(
            text(
                "UPDATE relay.health SET seen_at = seen_at - interval '3 min'"
                " WHERE chain = :chain AND account = :account"
            ).bindparams(chain=account.chain, account=account.address)
        )


def test_evm_account_is_replaced_while_messages_arrive(stand: Stand) -> None:
    messages: list[Message] = []

    def arrive(number: int) -> None:
        messages.extend(stand.add_message() for _ in range(number))

    old = stand.relay()
    arrive(3)
    stand.turns(old)
    # A restart with both keys, the old account draining, with three of its transactions in flight.
    old, new = stand.relay(is_draining=True), stand.relay(key=NEW_KEY)
    arrive(3)
    assert (stand.turns(old).opened, stand.turns(new).opened) == (0, 3)
    assert next_steps(stand)[OLD] == "draining: transactions that are not final: 3"
    with stand.engine.connect() as conn:
        # The api offers the route all the time.
        assert healthy_chains(account_statuses(conn), "deliver") == {stand.chain.id}
    stand.ingest()
    assert (stand.turns(old).confirmed, stand.turns(new).confirmed) == (3, 3)
    assert next_steps(stand) == {
        OLD: "drained: remove its key and its DRAIN entry",
        NEW: "in use",
    }
    with pytest.raises(ConfigurationError, match="a relay signs for it"):
        retire(stand, old.account)
    # A restart with the new key alone.
    arrive(2)
    assert stand.turns(new).opened == 2
    stand.ingest()
    stand.turns(new)
    age_report(stand, old.account)
    with stand.relay_engine.connect() as conn:
        assert "silent" in " ".join(relay_problems(conn))
    assert next_steps(stand)[OLD] == f"off: isthmus keys retire {stand.chain.id} {OLD}"
    retire(stand, old.account)
    with stand.relay_engine.connect() as conn:
        assert relay_problems(conn) == []
    assert [stand.received(each) for each in messages] == [AMOUNT] * 8
    assert [len(stand.signed_for(each)) for each in messages] == [1] * 8
    assert (stand.nonce(), stand.nonce(STRANGER)) == (3, 5)


def test_commands_show_and_retire_accounts(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", stand.engine.url.render_as_string(hide_password=False))
    old = stand.relay(is_draining=True)
    stand.turns(old)
    assert main(["keys", "check"]) == 0
    shown = f"{stand.chain.id} {OLD} (deliver): drained: remove its key and its DRAIN entry\n"
    assert capsys.readouterr().out == shown
    command = ["keys", "retire", stand.chain.id, OLD.upper().replace("X", "x")]
    assert main(command) == 2
    assert "a relay signs for it: remove its key" in capsys.readouterr().err
    age_report(stand, old.account)
    assert main(command) == 0
    assert "What it holds of the native coin stays there" in capsys.readouterr().out
    assert main(command) == 2
    assert f"no account {OLD} has reported" in capsys.readouterr().err


def test_draining_operator_sweeps_its_deposits(deposits: DepositStand) -> None:
    stand = deposits
    paid = stand.deposit(operator=OLD)
    old, new = stand.relay(is_draining=True), stand.relay(key=NEW_KEY)
    stand.turns(old)
    assert "deposits that name it as operator: 1, the last for 24" in next_steps(stand)[OLD]
    # The payer pays after the operator was replaced.
    stand.pay(paid)
    assert stand.turns(new).opened == 0
    stand.settle(old)
    assert (stand.outcomes(paid), stand.held(paid)) == ([("sweep", "confirmed")], 0)
    age_report(stand, old.account)
    with pytest.raises(ConfigurationError, match="deposits that name it as operator: 1"):
        retire(stand, old.account)


def test_released_deposits_do_not_keep_the_operator(deposits: DepositStand) -> None:
    stand = deposits
    stand.deposit(operator=OLD, days_ago=2)
    old = stand.relay(is_draining=True)
    stand.turns(old)
    age_report(stand, old.account)
    retire(stand, old.account)
    assert next_steps(stand) == {}


def test_draining_sponsor_finishes_what_owners_signed(ledger_stand: LedgerStand) -> None:
    stand = ledger_stand
    signed = onboarding.deposit(stand)
    signed.sign(onboarding.relay(stand, "old sponsor"))
    old = onboarding.relay(stand, "old sponsor", is_draining=True)
    assert stand.turns(old).opened == 1
    onboarding.finish(stand, old)
    assert signed.line is not None
    new = onboarding.relay(stand, "new sponsor")
    stand.turns(new)
    with stand.engine.connect() as conn:
        # What owners are shown is the new sponsor's.
        healthy = {each.account for each in all_sponsors(conn, STELLAR.id) if each.is_healthy}
    assert healthy == {new.account.address}
    age_report(stand, old.account)
    retire(stand, old.account)
    assert next_steps(stand) == {new.account.address: "in use"}


def test_submissions_are_paid_by_an_account_that_stays() -> None:
    first, second = LocalStellarKey(Keypair.random()), LocalStellarKey(Keypair.random())
    accounts = [
        StellarAccount(STELLAR, first, is_draining=True),
        StellarAccount(STELLAR, second),
    ]
    assert [each for each, role in _workers(accounts) if role == "submit"] == [accounts[1]]


def test_drain_names_accounts_that_have_a_successor(tmp_path: Path) -> None:
    keys, drain = "ISTHMUS_RELAY_KEY_EIP155_31337", "ISTHMUS_RELAY_DRAIN_EIP155_31337"

    def load(variables: dict[str, str]) -> tuple[RelayAccount, ...]:
        return load_accounts(DEVNET, in_files(tmp_path, variables))

    old = evm_address(LocalEvmKey.from_text("5f" * 32, "KEY"))
    both = load({keys: f"{'6e' * 32},{'5f' * 32}", drain: f"0x{old[2:].upper()}"})
    assert [each.is_draining for each in both] == [False, True]
    with pytest.raises(ConfigurationError, match="leaves no EvmAccount for new work"):
        load({keys: "5f" * 32, drain: old})
    with pytest.raises(ConfigurationError, match=f"{drain}: no key there is that of 0x00"):
        load({keys: "5f" * 32, drain: "0x00"})


@pytest.mark.parametrize("kind", ["evm", "stellar", "webhook", "sep10", "token"])
def test_new_key_is_private_and_overwrites_nothing(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "key"
    assert main(["keys", "new", kind, str(path)]) == 0
    assert path.stat().st_mode & 0o777 == 0o600
    secret = path.read_text()
    shown = capsys.readouterr()
    assert secret.strip() not in shown.out + shown.err
    assert main(["keys", "new", kind, str(path)]) == 2
    assert path.read_text() == secret


@pytest.mark.parametrize(
    ("kind", "table", "key"),
    [
        ("evm", 'relay.chains."eip155:31337"', "key_file"),
        ("stellar", 'relay.chains."stellar:devnet"', "key_file"),
        ("webhook", "webhooks", "key_file"),
        ("sep10", "api", "sep10_key_file"),
        ("token", "api", "token_key_file"),
    ],
)
def test_new_key_names_its_place_in_isthmus_toml(
    kind: str, table: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["keys", "new", kind, str(tmp_path / "key")])
    first, _ = capsys.readouterr().err.splitlines()
    chain = table.partition('"')[2].rstrip('"')
    place = table.replace(f'"{chain}"', "<CHAIN>") if chain else table
    assert f"`{key}` under [{place}]" in first
    main(["config", "init", "--network", "devnet", "--file", str(tmp_path / "isthmus.toml")])
    text = (tmp_path / "isthmus.toml").read_text().partition(f"\n[{table}]")[2]
    assert f"\n#{key} = " in text.partition("\n[")[0]


def test_new_keys_are_what_settings_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for kind, name in (("evm", "EIP155_31337"), ("stellar", "STELLAR_DEVNET")):
        main(["keys", "new", kind, str(tmp_path / kind)])
        variables = {f"ISTHMUS_RELAY_KEY_{name}_FILE": str(tmp_path / kind)}
        [account] = load_accounts(DEVNET, variables)
        found.append(address_of(account))
    assert capsys.readouterr().out.split() == found
