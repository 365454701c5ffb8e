"""Settings of Celery, the same for runs and workers. Reasons: docs/decisions/celery-broker.md."""

from typing import Any
from urllib.parse import urlsplit

from indexer.config.settings import Settings, SharedVariables, read_variables
from indexer.errors import ConfigurationError
from pipelines.environment import storage_url
from warehouse_schema.configuration import load_configuration

_RECONNECT = {"interval_start": 0.2, "interval_step": 1.0, "interval_max": 5.0}
"""Seconds between attempts to reach the broker."""
_PUBLISH_ATTEMPTS = 120
"""Ten minutes: a run that submits a step waits for a broker that restarts."""
_RESULT_ATTEMPTS = 60
"""Five minutes and more: the same for Dagster's database, which has the results."""

CELERY_CONFIG: dict[str, Any] = {
    # A task is acknowledged when its step has ended, so that of a worker that dies it is delivered
    # to another. Steps are idempotent.
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    # RabbitMQ delivers what was not acknowledged again when a connection ends. The worker ends what
    # it was doing, so that no step runs twice at a time.
    "worker_cancel_long_running_tasks_on_connection_loss": True,
    # No task waits behind another in a busy worker.
    "worker_prefetch_multiplier": 1,
    "broker_connection_max_retries": None,
    "broker_connection_retry_on_startup": True,
    # Seconds after which a machine that is gone is noticed: twice that.
    "broker_heartbeat": 15,
    # A step that is submitted is on the broker's disk, or submitted again.
    "broker_transport_options": {
        "confirm_publish": True,
        "max_retries": _PUBLISH_ATTEMPTS,
        **_RECONNECT,
    },
    "task_publish_retry_policy": {"max_retries": _PUBLISH_ATTEMPTS, **_RECONNECT},
    # Results survive the broker.
    "result_backend_always_retry": True,
    "result_backend_max_retries": _RESULT_ATTEMPTS,
    "result_backend_base_sleep_between_retries_ms": 100,
    "result_backend_max_sleep_between_retries_ms": 5_000,
    "worker_redirect_stdouts": False,
}


def celery_settings(settings: Settings) -> dict[str, Any]:
    """Configuration of `dagster_celery.celery_executor`. Raises `ConfigurationError`.

    Results are rows of Dagster's database.
    """
    if settings.broker_url is None:
        raise ConfigurationError(
            "ISTHMUS_EXECUTOR is celery, so ISTHMUS_BROKER_URL must be set: the RabbitMQ that runs"
            " and workers share"
        )
    scheme = urlsplit(settings.broker_url).scheme
    if scheme not in {"amqp", "amqps"}:
        raise ConfigurationError(
            f"ISTHMUS_BROKER_URL must begin with amqp:// or amqps://, not {scheme}://: only "
            "RabbitMQ keeps tasks over its own restart and a worker's death"
        )
    results = storage_url(read_variables(SharedVariables, load_configuration()))
    return {
        "broker": settings.broker_url,
        "backend": f"db+{results.render_as_string(hide_password=False)}",
        "config_source": CELERY_CONFIG,
    }
