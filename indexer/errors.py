"""What can go wrong in the indexer, and whether trying again can help.

IndexerError
├── ConfigurationError           a person must mend a file or a setting
│   ├── NetworkFileError         names the file and the key
│   └── RangeRefused             a backfill must not reach as far as it was told to
├── RetryableChainError          the same call may succeed later
│   ├── NodeUnavailable          no answer, time-out, 5xx, 429
│   ├── RangeTooWide             the node refuses that many blocks or logs at once
│   ├── NodeBehind               the node has not reached what we ask for
│   └── InconsistentAnswer       two answers of one node contradict each other
├── PermanentChainError          trying again changes nothing; the chain stops
│   ├── WrongChain               chain id or passphrase is another chain's
│   ├── DeepReorg                a reorganisation beyond the configured finality
│   ├── RetentionGap             the node no longer has what we need next
│   └── UnsupportedProtocol      the chain speaks a protocol newer than our decoder
├── CallReverted                 a transaction that would be sent would have no effect
├── Undecodable                  one event that is ours and makes no sense; kept raw, alarmed
├── UndecodableLedger            a whole ledger that this build cannot read; put into quarantine
├── FollowerConflict             another process writes this chain
└── DayStillOpen                 a day was asked for that is not over on its chains
"""


class IndexerError(Exception):
    """Base of the tree above."""


class ConfigurationError(IndexerError):
    """A person must mend a file or a setting; the message names it."""


class NetworkFileError(ConfigurationError):
    """A network file has a bad value; the message names the file, the key and what is right."""


class RangeRefused(ConfigurationError):
    """A backfill must not reach as far as it was told to; the message says how far it may."""


class RetryableChainError(IndexerError):
    """The same call may succeed later."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds the node asked us to wait, if it did."""


class NodeUnavailable(RetryableChainError):
    """No answer, time-out, 5xx or 429."""


class RangeTooWide(RetryableChainError):
    """The node refuses that many blocks or logs at once: ask for fewer."""


class NodeBehind(RetryableChainError):
    """The node has not reached what we ask for."""


class InconsistentAnswer(RetryableChainError):
    """Answers of one node contradict each other; nothing of them was kept."""


class PermanentChainError(IndexerError):
    """Trying again changes nothing: the chain stops until a person looks."""


class WrongChain(PermanentChainError):
    """The node serves another chain than the one configured."""


class DeepReorg(PermanentChainError):
    """A reorganisation deeper than the configured finality."""


class RetentionGap(PermanentChainError):
    """The node no longer has the ledgers that come next."""


class UnsupportedProtocol(PermanentChainError):
    """The chain speaks a protocol newer than this build can decode."""


class CallReverted(IndexerError):
    """A transaction that would be sent now would have no effect; the message is the contract's."""


class Undecodable(IndexerError):
    """An event of a contract of ours that does not have the shape it must have."""


class UndecodableLedger(IndexerError):
    """A ledger that is the chain's own, as far as its header tells, and cannot be decoded."""


class FollowerConflict(IndexerError):
    """Another process writes this chain: this one must stop."""


class DayStillOpen(IndexerError):
    """A day was asked for that is not over yet, by the time of the blocks that are final."""
