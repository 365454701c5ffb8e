"""Errors of the indexer, by what helps.

An operator helps after a `ConfigurationError` and a `PermanentChainError`, a retry after a
`RetryableChainError`.
"""


class IndexerError(Exception):
    """Base of all errors of the indexer."""


class ConfigurationError(IndexerError):
    """An operator must fix a file or a setting; the message names it."""


class NetworkFileError(ConfigurationError):
    """Bad value in a network file; the message names the file, the key and what is right."""


class RangeRefused(ConfigurationError):
    """A backfill may not cover that range; the message says how far it may reach."""


class RetryableChainError(IndexerError):
    """The same call may succeed later."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """The node's `Retry-After` in seconds, if it sent one."""


class NodeUnavailable(RetryableChainError):
    """No answer, timeout, 5xx or 429."""


class RangeTooWide(RetryableChainError):
    """The node refuses that many blocks or logs at once: ask for fewer."""


class NodeBehind(RetryableChainError):
    """The node has not reached the requested block."""


class InconsistentAnswer(RetryableChainError):
    """Answers of one node contradict each other; nothing of them was stored."""


class ReorgDuringRead(InconsistentAnswer):
    """A block was replaced between two answers: a reorg at the head, not a node at fault."""


class PermanentChainError(IndexerError):
    """A retry changes nothing: the chain stops until an operator acts."""


class WrongChain(PermanentChainError):
    """The node serves another chain than the configured one."""


class DeepReorg(PermanentChainError):
    """A reorg deeper than the configured finality."""


class RetentionGap(PermanentChainError):
    """The node no longer has the next ledgers."""


class UnsupportedProtocol(PermanentChainError):
    """The chain runs a protocol newer than this build can decode."""


class CallReverted(IndexerError):
    """A transaction would have no effect if it was sent now; the message is the contract's."""


class Undecodable(IndexerError):
    """A malformed event of a contract of ours."""


class UndecodableLedger(IndexerError):
    """A ledger of the chain, by its header, that cannot be decoded."""


class FollowerConflict(IndexerError):
    """Another process writes the same data: this one must stop."""


class LeaseLost(FollowerConflict):
    """Another process took the lease of this transaction, which wrote nothing."""


class DayStillOpen(IndexerError):
    """A day is not closed yet, by the time of its chains' finalized blocks."""
