"""Relays and webhook senders that are configured and do not report."""

from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, text

from indexer.config.networks import load_network
from indexer.service_status.silent_senders import silent_senders
from tests.factories.projections import STELLAR, insert_sender
from warehouse_schema.configuration import load_configuration
from warehouse_schema.relay import webhook_senders

NETWORK = load_network("testnet")
SEPOLIA = "eip155:11155111"
KEY = "ISTHMUS_RELAY_KEY_EIP155_11155111_FILE"
SPONSOR = "ISTHMUS_RELAY_SPONSOR_KMS_STELLAR_TESTNET"
WEBHOOK = "ISTHMUS_WEBHOOK_KEY_FILE"
HOST = "ISTHMUS_RELAY_SERVER_HOST"


def silent(conn: Connection, **variables: str) -> dict[str, str]:
    """Sender → variable and report of what is silent."""
    found = silent_senders(conn, NETWORK, variables)
    return {each.sender: each.problem for each in found}


def report_webhooks(conn: Connection, seconds: int) -> None:
    seen = text(f"now() - interval '{seconds} seconds'")
    conn.execute(insert(webhook_senders).values(public_key=f"whpk_{seconds}", seen_at=seen))


def test_configuration_without_senders_has_none_silent(connection: Connection) -> None:
    insert_sender(connection, SEPOLIA, silent_seconds=900)
    assert silent(connection) == {}
    assert silent(connection, ISTHMUS_RELAY_SERVER_PORT="4100", ISTHMUS_RELAY_KEY_EIP155_1="") == {}


def test_senders_that_never_reported_are_silent(connection: Connection) -> None:
    # Another chain's account, and another purpose on the sponsor's chain.
    insert_sender(connection, STELLAR)
    assert silent(connection, **dict.fromkeys((KEY, SPONSOR, WEBHOOK), "x")) == {
        f"relay {SEPOLIA}": (
            "configured by ISTHMUS_RELAY_KEY_EIP155_11155111, has never reported: is it running?"
        ),
        f"sponsor {STELLAR}": f"configured by {SPONSOR}, has never reported: is it running?",
        "webhooks": "configured by ISTHMUS_WEBHOOK_KEY, has never reported: is it running?",
    }


def test_senders_silent_for_over_two_minutes_are_found(connection: Connection) -> None:
    variables = dict.fromkeys((KEY, SPONSOR, WEBHOOK), "x")
    insert_sender(connection, SEPOLIA, account="replaced", silent_seconds=900)
    insert_sender(connection, STELLAR, account="sponsor", duty="sponsor", silent_seconds=130)
    report_webhooks(connection, 140)
    found = silent(connection, **variables)
    assert found[f"relay {SEPOLIA}"].endswith("has not reported for 900 s: is it running?")
    assert found[f"sponsor {STELLAR}"].endswith("has not reported for 130 s: is it running?")
    assert found["webhooks"].endswith("has not reported for 140 s: is it running?")
    # The newest report of each counts.
    insert_sender(connection, SEPOLIA, account="new", silent_seconds=60)
    insert_sender(connection, STELLAR, account="second", duty="sponsor")
    report_webhooks(connection, 60)
    assert silent(connection, **variables) == {}


@pytest.mark.parametrize("reports", ["relay", "webhooks"])
def test_address_of_the_relay_server_wants_any_report(connection: Connection, reports: str) -> None:
    """As in the page's and an operator's environment, which have no key."""
    never = f"configured by {HOST}, has never reported: is it running?"
    assert silent(connection, **{HOST: "10.0.0.5"}) == {"relay server": never}
    if reports == "relay":
        insert_sender(connection, SEPOLIA)
    else:
        report_webhooks(connection, 60)
    assert silent(connection, **{HOST: "10.0.0.5"}) == {}


def test_keys_of_isthmus_toml_count(connection: Connection, tmp_path: Path) -> None:
    file = tmp_path / "isthmus.toml"
    file.write_text(f'[relay.chains."{SEPOLIA}"]\nkey_file = "not-readable-here"\n')
    configuration = load_configuration({"ISTHMUS_CONFIG": str(file)})
    [found] = silent_senders(connection, NETWORK, configuration)
    assert (found.sender, found.silent_seconds) == (f"relay {SEPOLIA}", None)
    assert f'{file.name}:2 relay.chains."{SEPOLIA}".key_file' in configuration.explain(
        found.problem
    )
