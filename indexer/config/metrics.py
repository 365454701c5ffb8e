"""Where processes serve `/metrics`: a variable for each kind of process."""

import re
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from indexer.config.networks import Network, variable_suffix
from warehouse_schema.configuration import set_variables
from warehouse_schema.identifiers import ChainId
from warehouse_schema.location import LocationVariables
from warehouse_schema.variables import variable

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_OFF = "off"
_ADDRESS = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):[1-9][0-9]{0,4}")


def _address(text: str) -> str | None:
    if text == _OFF:
        return None
    port = text.rpartition(":")[2]
    if not _ADDRESS.fullmatch(text) or int(port) > 65_535:
        raise ValueError("must be HOST:PORT, or off")
    return text


MetricsAddress: TypeAlias = Annotated[str | None, BeforeValidator(_address)]


class MetricsVariables(LocationVariables):
    """Addresses of metrics. The API has its own."""

    metrics_follow: dict[str, MetricsAddress] = variable(
        "ISTHMUS_METRICS_FOLLOW_<CHAIN>",
        "chains.<CHAIN>.metrics",
        "`HOST:PORT` where `isthmus follow` serves `/metrics`",
    )
    metrics_attest: MetricsAddress = variable(
        "ISTHMUS_METRICS_ATTEST",
        "metrics.attest",
        "`HOST:PORT` where `isthmus attest` serves `/metrics`",
    )
    metrics_transfers: MetricsAddress = variable(
        "ISTHMUS_METRICS_TRANSFERS",
        "metrics.transfers",
        "`HOST:PORT` where `isthmus transfers` serves `/metrics`",
    )
    metrics_relay: MetricsAddress = variable(
        "ISTHMUS_METRICS_RELAY",
        "metrics.relay",
        "`HOST:PORT` where the relay's code server serves `/metrics` of all its runs, or "
        "`isthmus relay run` its own",
    )
    metrics_webhooks: MetricsAddress = variable(
        "ISTHMUS_METRICS_WEBHOOKS",
        "metrics.webhooks",
        "`HOST:PORT` where `isthmus webhooks` serves `/metrics`",
    )
    metrics_pipelines: MetricsAddress = variable(
        "ISTHMUS_METRICS_PIPELINES",
        "metrics.pipelines",
        "`HOST:PORT` where Dagster's code server serves `/metrics` of all its runs",
    )


def follower_metrics(chain: ChainId) -> str:
    """Name of the variable with the address of a follower's metrics."""
    return f"ISTHMUS_METRICS_FOLLOW_{variable_suffix(chain)}"


def metrics_addresses(values: MetricsVariables, network: Network) -> dict[str, str]:
    """Address by the name of its variable, of those that are set."""
    given = {
        **{
            follower_metrics(chain.id): values.metrics_follow.get(variable_suffix(chain.id))
            for chain in network.chains
        },
        "ISTHMUS_METRICS_ATTEST": values.metrics_attest,
        "ISTHMUS_METRICS_TRANSFERS": values.metrics_transfers,
        "ISTHMUS_METRICS_RELAY": values.metrics_relay,
        "ISTHMUS_METRICS_WEBHOOKS": values.metrics_webhooks,
        "ISTHMUS_METRICS_PIPELINES": values.metrics_pipelines,
    }
    return {name: address for name, address in given.items() if address is not None}


def set_metrics_folder(folder: str) -> None:
    """Where this process and those that it starts share their metrics.

    prometheus_client reads it at its import.
    """
    set_variables({METRICS_FOLDER: folder})
