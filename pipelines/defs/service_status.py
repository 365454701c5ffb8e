"""Whether all is well, as one check: first in Dagster's lists, because its group sorts first.

A sensor evaluates it without a run, so that it is seconds old and the list of runs stays short.
"""

from collections.abc import Iterator

import dagster as dg
from sqlalchemy import Engine

from indexer.config.networks import Network
from indexer.service_status import ServiceStatus, service_status
from pipelines.defs.facts.checks import verdict
from pipelines.defs.names import ALL_IS_WELL, SERVICE
from pipelines.defs.resources import WarehouseResource

TICK_SECONDS = 5
REPEAT_SECONDS = 300
"""An unchanged result is recorded again after this: its time shows that it is still evaluated."""

_KIND_CHECKS = {
    "chain": ("chains_are_read", "Every followed chain is healthy."),
    "relay": ("relay_can_send", "On every chain with a relay account one can send."),
    "late": ("transfers_are_in_time", "No transfer takes longer than allowed for."),
    "sums": ("money_adds_up", "The sums of money add up, and were compared within the hour."),
}
"""Kind of problem → its check, and what it means."""


def service_checks(network: Network) -> dg.Definitions:
    """The asset, its checks, and the sensor that evaluates them."""
    asset = dg.AssetSpec(
        SERVICE,
        description="Whether all is well, as `/v1/status` and `isthmus status` say: see its "
        "checks. Followers at work are under Runs, In progress.",
        group_name=ALL_IS_WELL,
        kinds={"postgres"},
    )

    def read(engine: Engine) -> ServiceStatus:
        with engine.connect() as conn:
            return service_status(conn, network)

    @dg.multi_asset_check(
        name="check_service",
        specs=[
            dg.AssetCheckSpec(ALL_IS_WELL, asset=SERVICE, description="Transfers are moving."),
            *(
                dg.AssetCheckSpec(name, asset=SERVICE, description=text)
                for name, text in _KIND_CHECKS.values()
            ),
        ],
    )
    def check_service(warehouse: WarehouseResource) -> Iterator[dg.AssetCheckResult]:
        """Evaluate the checks now."""
        with warehouse.engine() as engine:
            yield from results(read(engine))

    @dg.sensor(
        name="service_status_sensor",
        description="Evaluates the checks of the service, without a run.",
        minimum_interval_seconds=TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def sensor(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource
    ) -> dg.SensorResult | dg.SkipReason:
        with warehouse.kept_engine() as engine:
            status = read(engine)
        cursor = cursor_of(status)
        if cursor == context.cursor:
            return dg.SkipReason(status.operator_sentence)
        return dg.SensorResult(
            skip_reason=status.operator_sentence,
            asset_events=[evaluation(each) for each in results(status)],
            cursor=cursor,
        )

    return dg.Definitions(assets=[asset], asset_checks=[check_service], sensors=[sensor])


def results(status: ServiceStatus) -> list[dg.AssetCheckResult]:
    """The checks' results; `all_is_well` first.

    It warns where only an operator's work waits, or where nothing is known.
    """
    problems = [each.detail for each in status.problems]
    is_stopping = status.verdict in ("impaired", "stopped")
    overall = verdict(
        [*problems, *status.unknown, *status.warnings],
        severity=dg.AssetCheckSeverity.ERROR if is_stopping else dg.AssetCheckSeverity.WARN,
    )
    found = [
        overall._replace(
            check_name=ALL_IS_WELL, asset_key=SERVICE, description=status.operator_sentence
        )
    ]
    for kind, (name, _) in _KIND_CHECKS.items():
        own = verdict([each.detail for each in status.problems if each.kind == kind])
        found.append(own._replace(check_name=name, asset_key=SERVICE))
    return found


def evaluation(result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """A result as the event of no run."""
    return dg.AssetCheckEvaluation(
        asset_key=SERVICE,
        check_name=str(result.check_name),
        passed=result.passed,
        metadata=result.metadata,
        severity=result.severity,
        description=result.description,
    )


def cursor_of(status: ServiceStatus) -> str:
    """Equal for two results of which one record is enough. Figures that grow do not count."""
    kinds = sorted({f"{each.kind} {each.text}" for each in status.problems})
    turn = int(status.as_of.timestamp()) // REPEAT_SECONDS
    return "|".join([str(turn), status.verdict, *kinds, f"{len(status.warnings)} warnings"])
