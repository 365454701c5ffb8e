"""Opens the configured attestation services."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from indexer.chains.services.circle import Iris
from indexer.chains.services.layerzero_scan import LzScan
from indexer.config.networks import Network
from indexer.errors import ConfigurationError


@contextmanager
def open_services(network: Network) -> Iterator[tuple[Iris, LzScan | None]]:
    """Circle's service, and LayerZero's explorer if one is named, while the block runs.

    Raises `ConfigurationError` when the network file names no attestation service.
    """
    if network.iris is None:
        raise ConfigurationError(f"{network.name} names no attestation service (`iris`)")
    with closing(Iris(network.iris)) as iris, ExitStack() as stack:
        scan = None
        if network.lz_scan is not None:
            scan = stack.enter_context(closing(LzScan(network.lz_scan)))
        yield iris, scan
