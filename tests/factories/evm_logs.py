"""EVM logs as the frame that `indexer.chains.evm.history` reads them into."""

from collections.abc import Iterable

import polars as pl

from indexer.chains.evm.history import LOG_COLUMNS
from indexer.chains.raw import EvmLog


def log_frame(logs: Iterable[EvmLog]) -> pl.DataFrame:
    """A row a log, in the order given."""
    return pl.DataFrame(
        [
            (
                log.seen.height,
                log.seen.block_hash,
                log.seen.tx_hash,
                log.seen.position,
                log.seen.block_time,
                log.address,
                list(log.topics),
                "0x" + log.data.hex(),
            )
            for log in logs
        ],
        schema=LOG_COLUMNS,
        orient="row",
    )
