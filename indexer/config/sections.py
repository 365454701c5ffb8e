"""The settings models of all processes, named so that a process imports no other's."""

from importlib import import_module
from typing import NamedTuple, cast

from warehouse_schema.variables import Variables


class Section(NamedTuple):
    """The settings of a process: `module:name` of its model."""

    title: str
    about: str
    target: str

    def model(self) -> type[Variables]:
        """Import the model; the relay's module also has what reads its keys."""
        module, _, name = self.target.partition(":")
        return cast(type[Variables], getattr(import_module(module), name))


SECTIONS = (
    Section(
        "Every process",
        "Read by followers, Dagster, the API, the relay and the tools.",
        "indexer.config.settings:DatabaseVariables",
    ),
    Section("The API", "Read by the API's process alone.", "api.settings:ApiSettings"),
    Section(
        "The relay and webhooks",
        "Read by the relay's process alone.",
        "relay.settings:RelayVariables",
    ),
    Section(
        "Dagster's page",
        "Read by the page's process alone.",
        "pipelines.page.settings:PageVariables",
    ),
)
"""Every setting is in one of them."""
