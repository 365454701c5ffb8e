"""Several nodes of one EVM chain that have to say the same: for what cannot be undone.

A follower asks one node and falls back on another: enough to show, too little to pay on. A node can
serve a forged block to us alone, and whoever does that may silence the honest ones, so that falling
back lands on the forger. Here every node that answers is a witness, and

- fewer witnesses than needed, for whatever reason, is no answer: `NotEnoughSources`;
- one witness that contradicts another is no answer, however many agree: `SourcesDisagree`;
- nodes of one operator are one witness, because they may share what is wrong.

Ask about blocks that are final, or as final as the step needs: at the head, honest nodes differ.
"""

from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from indexer.chains.evm.log_filters import EventTopics
from indexer.chains.evm.reader import EvmReader
from indexer.chains.evm.responses import EvmReceipt
from indexer.chains.http.operators import (
    MIN_OPERATORS,
    NotEnoughSources,
    SourcesDisagree,
    operator_of,
)
from indexer.chains.ports import Block, Range
from indexer.chains.watchlist import Watched
from indexer.config.networks import EvmChain
from indexer.errors import ConfigurationError, RetryableChainError
from warehouse_schema.identifiers import Height, TxHash

Answer = TypeVar("Answer")


class Quorum:
    """The nodes of a chain as witnesses. For one thread; it is asked seldom.

    Each `http(s)` URL is one node, and never stands in for another. Raises `ConfigurationError`
    when the URLs have fewer operators than `needed`. The other settings are those of `EvmReader`.

    Every method raises `NotEnoughSources`, `SourcesDisagree` and `WrongChain`.
    """

    def __init__(
        self,
        chain: EvmChain,
        urls: Sequence[str],
        event_topics: EventTopics,
        *,
        needed: int = MIN_OPERATORS,
        timeout: float = 10.0,
    ) -> None:
        self.chain = chain.id
        self._needed = needed
        nodes = [url for url in urls if url.startswith(("http://", "https://"))]
        operators = {operator_of(url) for url in nodes}
        if not 1 <= needed <= len(operators):
            raise ConfigurationError(
                f"{chain.id} needs nodes of {needed} independent operators, has"
                f" {', '.join(sorted(operators)) or 'none'}"
            )
        self._witnesses = [
            (operator_of(url), EvmReader(chain, [url], event_topics, timeout=timeout))
            for url in nodes
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of every connection."""
        for _, witness in self._witnesses:
            witness.close()

    def agreed_block(self, height: Height) -> Block:
        """The block at a height of the chain that all of them follow."""
        return self._agreed(f"block {height}", lambda witness: witness.block(height))

    def agreed_range(self, first: Height, last: Height, watched: Watched) -> Range:
        """Blocks and logs of `first … last`: same hashes, and same logs in the same order.

        For reading again what one node gave. `RangeTooWide` when a node refuses that many.
        """
        return self._agreed(
            f"blocks {first} to {last}", lambda witness: witness.read(first, last, watched)
        )

    def receipt_if_mined(self, tx: TxHash) -> EvmReceipt | None:
        """Block, success and logs of a transaction; None while too few of the nodes know of it."""
        about = f"the receipt of {tx}"
        answers = self._answers(about, lambda witness: (witness.proven_receipt(tx),))
        known = [(operator, receipt) for operator, (receipt,) in answers if receipt is not None]
        if len({operator for operator, _ in known}) < self._needed:
            return None
        return self._same(about, known)

    def _agreed(self, about: str, question: Callable[[EvmReader], Answer | None]) -> Answer:
        return self._same(about, self._answers(about, question))

    def _same(self, about: str, answers: Sequence[tuple[str, Answer]]) -> Answer:
        operator, agreed = answers[0]
        for other, answer in answers[1:]:
            if answer != agreed:
                raise SourcesDisagree(
                    f"{self.chain}: {operator} and {other} disagree on {about}; nothing may rest on"
                    " it until a person has found out which is wrong"
                )
        return agreed

    def _answers(
        self, about: str, question: Callable[[EvmReader], Answer | None]
    ) -> list[tuple[str, Answer]]:
        """What each witness says, with its operator; at least as many operators as needed."""
        answers: list[tuple[str, Answer]] = []
        reasons: list[str] = []
        for operator, witness in self._witnesses:
            try:
                answer = question(witness)
            except RetryableChainError as error:
                reasons.append(str(error))
                continue
            if answer is None:
                reasons.append(f"{operator} knows nothing of it")
            else:
                answers.append((operator, answer))
        operators = {operator for operator, _ in answers}
        if len(operators) < self._needed:
            raise NotEnoughSources(
                f"{self.chain}: {about} needs {self._needed} independent nodes, {len(operators)}"
                f" answered: {'; '.join(reasons)}"
            )
        return answers
