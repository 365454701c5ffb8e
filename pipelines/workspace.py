"""The code servers, as Dagster's page and daemon want them."""

from dagster._core.workspace.load_target import CompositeTarget, GrpcServerTarget

from pipelines.environment import code_locations


def load_workspace() -> CompositeTarget:
    """The code servers of the settings. Raises `ConfigurationError`."""
    return CompositeTarget(
        [
            GrpcServerTarget(each.host, each.port, socket=None, location_name=each.name)
            for each in code_locations()
        ]
    )
