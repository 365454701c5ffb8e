"""The executor of backfills, daily figures and exports, by the setting `dagster.executor`.

| setting | steps run in | configured by |
|---|---|---|
| `in_process` | the run's process, or several of this machine | the run's configuration |
| `celery` | workers of Celery, `isthmus worker` | `dagster.broker_url` |
| `kubernetes` | a job of Kubernetes each | `dagster.kubernetes_config` |
| `module:name` | what an installed library does | the run's configuration |
"""

from pkgutil import resolve_name
from typing import Any

import dagster as dg
import yaml

from indexer.config.settings import Settings
from indexer.errors import ConfigurationError
from pipelines.celery_settings import celery_settings

EXPORT_QUEUE = "exports"
"""Celery queue of steps that write the export folder: its worker has the folder."""

_MULTI = dg.multi_or_in_process_executor

IN_PROCESS_OR_MANY = dg.ExecutorDefinition(
    name="in_process_or_multiprocess",
    description="This process, or several of this machine, as the run's configuration says.",
    # Dagster's default is multiprocess: usually more requests at once than a node accepts.
    config_schema=dg.Field(_MULTI.config_schema.config_type, default_value={"in_process": {}}),
    requirements=_MULTI.get_requirements,
    executor_creation_fn=_MULTI.executor_creation_fn,
)


def executor_of(settings: Settings) -> dg.ExecutorDefinition:
    """The executor of a backfill. Raises `ConfigurationError` that names the setting."""
    match settings.executor:
        case "in_process":
            return IN_PROCESS_OR_MANY
        case "celery":
            named = _named("dagster_celery:celery_executor", "isthmus[celery]")
            return named.configured(celery_settings(settings), name="celery")
        case "kubernetes":
            named = _named("pipelines.kubernetes_steps:kubernetes_executor", "isthmus[kubernetes]")
            return named.configured(_kubernetes_config(settings), name="kubernetes")
        case other:
            return _named(other, "it")


def executor_of_days(settings: Settings) -> dg.ExecutorDefinition:
    """The executor of daily figures: a step for each family, which a process of its own would not
    pay for."""
    return dg.in_process_executor if settings.executor == "in_process" else executor_of(settings)


def executor_of_exports(settings: Settings) -> dg.ExecutorDefinition:
    """The executor of exports: the folder is one machine's.

    With Celery that of the worker of the queue `exports`, else that of the code server.
    """
    return executor_of(settings) if settings.executor == "celery" else dg.in_process_executor


def _named(name: str, install: str) -> dg.ExecutorDefinition:
    try:
        named = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"ISTHMUS_EXECUTOR: {name!r} cannot be imported: {error}. Install {install}; the"
            " setting is in_process, celery, kubernetes, or module:name of an executor of a library"
        ) from error
    if not isinstance(named, dg.ExecutorDefinition):
        raise ConfigurationError(f"ISTHMUS_EXECUTOR: {name!r} is no executor definition")
    return named


def _kubernetes_config(settings: Settings) -> dict[str, Any]:
    path = settings.kubernetes_config
    if path is None:
        raise ConfigurationError(
            "ISTHMUS_EXECUTOR is kubernetes, so ISTHMUS_KUBERNETES_CONFIG must name a YAML file"
        )
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigurationError(f"ISTHMUS_KUBERNETES_CONFIG: {path}: {error}") from error
    if not isinstance(config, dict):
        raise ConfigurationError(f"ISTHMUS_KUBERNETES_CONFIG: {path} holds no mapping")
    return config
