"""Definitions load for each network: jobs, sensors, schedules and pools."""

import dagster as dg
import pytest
from dagster_shared.yaml_utils import load_yaml_from_path

from indexer.config.settings import load_settings, rpc_variable, start_variable
from pipelines.definitions import definitions
from pipelines.defs.names import SERVICE
from tests.pipelines.factories import EVM


@pytest.fixture(scope="module")
def devnet():
    return definitions(load_settings({"ISTHMUS_NETWORK": "devnet"})).get_repository_def()


def test_chain_with_a_node_has_job_and_sensor(devnet):
    jobs = {job.name for job in devnet.get_all_jobs()} - {"__ASSET_JOB"}
    assert jobs == {
        "follow_eip155_31337",
        "follow_stellar_devnet",
        "backfill",
        "check_days",
        "check_facts",
        "check_history",
        "check_projections",
        "compute_book_days",
        "compute_route_days",
        "export_facts",
        "export_figures",
        "delete_old_rows",
        "delete_old_runs",
        "keep_transfers",
        "rebuild_projections",
        "reconcile",
        "redecode",
        "repair_gaps",
    }
    assert {sensor.name for sensor in devnet.sensor_defs} == {
        "follow_eip155_31337_sensor",
        "follow_stellar_devnet_sensor",
        "compute_book_days_sensor",
        "compute_route_days_sensor",
        "export_facts_sensor",
        "export_figures_sensor",
        "keep_transfers_sensor",
        "orphaned_runs",
        "repair_gaps_sensor",
        "service_status_sensor",
    }


def test_sensors_and_schedules_run_by_default(devnet):
    assert all(s.default_status == dg.DefaultSensorStatus.RUNNING for s in devnet.sensor_defs)
    assert all(s.default_status == dg.DefaultScheduleStatus.RUNNING for s in devnet.schedule_defs)


def test_chain_without_a_node_is_omitted():
    settings = load_settings({"ISTHMUS_NETWORK": "devnet", rpc_variable(EVM): ""})
    repository = definitions(settings).get_repository_def()
    assert not repository.has_job("follow_eip155_31337")
    assert repository.has_job("follow_stellar_devnet")


@pytest.mark.parametrize("network", ["testnet", "mainnet"])
def test_real_networks_load_with_and_without_nodes(network):
    settings = load_settings({"ISTHMUS_NETWORK": network}, needs_database=False)
    assert settings.followed == ()
    assert definitions(settings).get_repository_def().has_job("rebuild_projections")
    nodes = {rpc_variable(c.id): "http://127.0.0.1:1" for c in settings.network.chains}
    starts = {start_variable(c.id): "1" for c in settings.network.chains}
    settings = load_settings({"ISTHMUS_NETWORK": network, **nodes, **starts}, needs_database=False)
    jobs = definitions(settings).get_repository_def().job_names
    assert sum(job.startswith("follow_") for job in jobs) == len(settings.network.chains)


def test_projections_depend_on_their_facts(devnet):
    graph = devnet.asset_graph
    evm, stellar = (
        dg.AssetKey(["facts", chain, "events"]) for chain in ("eip155_31337", "stellar_devnet")
    )
    parents = {
        name: graph.get(dg.AssetKey(["projections", name])).parent_keys
        for name in ("order_book", "movements")
    }
    assert parents == {"order_book": {stellar}, "movements": {evm, stellar}}


def test_only_blocks_join_checks_are_blocking(devnet):
    checks = {
        key.name: devnet.asset_graph.get(key).blocking
        for key in devnet.asset_graph.asset_check_keys
    }
    assert checks == {
        "agrees_with_views": False,
        "all_decoded": False,
        "all_is_well": False,
        "blocks_join": True,
        "chains_are_read": False,
        "deposit_addresses_are_empty": False,
        "history_joins": True,
        "keeps_up": False,
        "money_adds_up": False,
        "movements_hold_all_facts": False,
        "movements_keep_their_amount": False,
        "no_open_alarms": False,
        "refold_equals_stored": False,
        "relay_can_send": False,
        "transfers_are_in_time": False,
        "transfers_move_on": False,
    }


def test_every_check_is_scheduled(devnet):
    scheduled = {
        key
        for schedule in devnet.schedule_defs
        for key in devnet.get_job(schedule.job_name).asset_layer.asset_graph.asset_check_keys
    }
    # A sensor evaluates those of the service.
    evaluated = set(devnet.asset_graph.get_check_keys_for_assets({SERVICE}))
    assert evaluated
    assert scheduled == set(devnet.asset_graph.asset_check_keys) - evaluated


def test_pool_limit_is_one_run(pytestconfig):
    config = load_yaml_from_path(str(pytestconfig.rootpath / "pipelines/dagster.yaml"))
    assert isinstance(config, dict)
    assert config["concurrency"]["pools"] == {"default_limit": 1, "granularity": "run"}
