"""Who runs the steps of a job that has many: a choice of the run, or of the installation.

| | how |
|---|---|
| this process, one step after the other | nothing to say |
| processes of this machine | the run's configuration: `execution: {config: {multiprocess: …}}` |
| Celery, Kubernetes, or any other | `ISTHMUS_EXECUTOR`, and what it wants configured |
"""

from pkgutil import resolve_name

import dagster as dg

from indexer.config.settings import Settings
from indexer.errors import ConfigurationError

_EITHER = dg.multi_or_in_process_executor

IN_PROCESS_OR_MANY = dg.ExecutorDefinition(
    name="in_process_or_multiprocess",
    description="This process, or several of this machine, as the run's configuration says.",
    # Dagster's own has several as its default: on most machines, more than the chain's node likes.
    config_schema=dg.Field(_EITHER.config_schema.config_type, default_value={"in_process": {}}),
    requirements=_EITHER.get_requirements,
    executor_creation_fn=_EITHER.executor_creation_fn,
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
