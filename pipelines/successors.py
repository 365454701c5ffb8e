"""Starts a job's next run when its last one has ended, without waiting for a tick.

The job's sensor (`restart_sensor`) decides here too. Dagster's daemon would ask it at its next
tick, up to five seconds later; a code server knows at once that a run's process has ended. Run keys
keep the two from starting a run each.
"""

import dagster as dg
from dagster._core.remote_origin import RemoteInstigatorOrigin
from dagster._core.run_coordinator import SubmitRunContext
from dagster._core.scheduler.instigation import InstigatorStatus
from dagster._core.storage.tags import RUN_KEY_TAG, SENSOR_NAME_TAG

from pipelines.restart_sensor import KEEPS_RUNNING, sensor_name


def start_successor(
    instance: dg.DagsterInstance, repository: dg.RepositoryDefinition, ended: dg.DagsterRun
) -> str | None:
    """Enqueue the run that the job's sensor asks for; returns its id.

    None for a job without a restart sensor, and where the sensor is switched off or asks for no
    run. Raises what the sensor raises.
    """
    name = sensor_name(ended.job_name)
    if not repository.has_sensor_def(name):
        return None
    sensor = repository.get_sensor_def(name)
    if KEEPS_RUNNING not in sensor.tags or not _is_on(instance, ended, sensor):
        return None
    request = _requested_run(instance, repository, sensor)
    if request is None or _is_started(instance, name, request):
        return None
    run = instance.create_run_for_job(
        repository.get_job(ended.job_name),
        tags={**request.tags, SENSOR_NAME_TAG: name, RUN_KEY_TAG: str(request.run_key)},
        remote_job_origin=ended.remote_job_origin,
        job_code_origin=ended.job_code_origin,
    )
    # The queue needs no workspace: the daemon launches from it.
    instance.run_coordinator.submit_run(SubmitRunContext(run, workspace=None))  # type: ignore[arg-type]
    return run.run_id


def _is_on(instance: dg.DagsterInstance, ended: dg.DagsterRun, sensor: dg.SensorDefinition) -> bool:
    state = None
    if ended.remote_job_origin is not None:
        origin = RemoteInstigatorOrigin(
            repository_origin=ended.remote_job_origin.repository_origin, instigator_name=sensor.name
        )
        state = instance.get_instigator_state(origin.get_id(), origin.get_selector().get_id())
    if state is None:
        return sensor.default_status == dg.DefaultSensorStatus.RUNNING
    return state.status != InstigatorStatus.STOPPED


def _requested_run(
    instance: dg.DagsterInstance, repository: dg.RepositoryDefinition, sensor: dg.SensorDefinition
) -> dg.RunRequest | None:
    resources = repository.get_top_level_resources()
    with dg.build_sensor_context(
        instance=instance,
        repository_def=repository,
        sensor_name=sensor.name,
        resources={name: resources[name] for name in sensor.required_resource_keys},
    ) as context:
        requests = sensor.evaluate_tick(context).run_requests
    return requests[0] if requests else None


def _is_started(instance: dg.DagsterInstance, sensor: str, request: dg.RunRequest) -> bool:
    tags = {SENSOR_NAME_TAG: sensor, RUN_KEY_TAG: str(request.run_key)}
    return instance.get_runs_count(dg.RunsFilter(tags=tags)) > 0
