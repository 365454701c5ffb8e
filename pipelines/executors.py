"""The executor of jobs with many steps.

| executor | configured by |
|---|---|
| this process, one step after the other | default |
| processes of this machine | the run's configuration: `execution: {config: {multiprocess: …}}` |
| Celery, Kubernetes, or any other | `ISTHMUS_EXECUTOR`, and its own configuration |
"""

from pkgutil import resolve_name

import dagster as dg

from indexer.config.settings import Settings
from indexer.errors import ConfigurationError

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
    """The executor of jobs with many steps. Raises `ConfigurationError` that names the setting."""
    if settings.executor is None:
        return IN_PROCESS_OR_MANY
    try:
        named = resolve_name(settings.executor)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"ISTHMUS_EXECUTOR is {settings.executor!r}, which cannot be imported: {error}. It must"
            " name an executor of an installed library, such as dagster_celery:celery_executor"
        ) from error
    if not isinstance(named, dg.ExecutorDefinition):
        raise ConfigurationError(
            f"ISTHMUS_EXECUTOR is {settings.executor!r}, which is no executor definition"
        )
    return named
