"""Stellar state for owners' transactions and quotes, read during a request.

One node is enough: a wrong footprint, sequence number or fee makes a transaction fail and moves
nothing; amounts and recipients never come from a node.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stellar_sdk.operation.operation import Operation

from indexer.actions.mint_check import MintRefusal, cctp_pause
from indexer.actions.stellar_orders import (
    BurnOnStellar,
    Pay,
    SendOnStellar,
    StellarOrder,
    StellarStep,
    allowance_call,
    approval,
    operation_of,
    quote_oft_call,
    quote_send_call,
)
from indexer.actions.stellar_tx import (
    NULL_ACCOUNT,
    Issue,
    IssuedTransaction,
    SpentSequence,
    complete_tx,
    draft,
    next_sequence,
    step_id,
    view_tx,
)
from indexer.chains.http.node_pool import require_node
from indexer.chains.stellar.accounts import AccountReader, AccountSnapshot
from indexer.chains.stellar.checked_nodes import inconsistent_on_error
from indexer.chains.stellar.xdr.scval import ScMap, amount, mapping, parse, vector
from indexer.chains.stellar.xdr.simulation import SimulationResult
from indexer.config.networks import StellarChain
from indexer.config.settings import Settings
from indexer.errors import CallReverted, ConfigurationError
from warehouse_schema.identifiers import (
    BaseUnits,
    Bytes32,
    Height,
    StellarAddress,
    Stroops,
    UnixSeconds,
)


@dataclass(frozen=True, slots=True)
class OftQuote:
    """An OFT's limits and result for an amount on Stellar, stroops."""

    min_amount: BaseUnits
    max_amount: BaseUnits
    """Maximum of one send."""
    sent: BaseUnits
    received: BaseUnits


class StellarState:
    """The network's Stellar chain, by its nodes. Thread-safe."""

    def __init__(self, chain: StellarChain, urls: Sequence[str]) -> None:
        """Raises `ConfigurationError` without an http URL."""
        self._chain = chain
        self._nodes = AccountReader(chain, urls)

    def account(self, address: StellarAddress) -> AccountSnapshot | None:
        """Signers and sequence number of an account; None if it does not exist.

        Raises `RetryableChainError` or `PermanentChainError`, as all of these do.
        """
        return self._nodes.snapshot(address)

    def step(self, order: StellarOrder, owner: StellarAddress, ledger: Height) -> StellarStep:
        """The owner's next step: the order, or an approval before it."""
        if not isinstance(order, BurnOnStellar):
            return order
        answer = self._view(allowance_call(order, owner))
        with inconsistent_on_error(order.token):
            allowance = amount(parse(answer))
        return approval(order, allowance, ledger) or order

    def issue(
        self, step: StellarStep, owner: StellarAddress, sequence: int, expires_at: UnixSeconds
    ) -> IssuedTransaction:
        """The transaction of a step, to be signed by the owner.

        Raises `CallReverted` when the contract would reject it now.
        """
        operation = operation_of(step, owner)
        drafted = draft(self._chain.passphrase, owner, sequence, expires_at, [operation])
        if isinstance(step, Pay):
            return drafted
        found = self._simulate(drafted)
        with inconsistent_on_error(self._chain.id):
            return complete_tx(self._chain.passphrase, drafted, found)

    def following(
        self,
        order: StellarOrder,
        owner: StellarAddress,
        expires_at: UnixSeconds,
        ingested: Height,
        issued: Collection[Issue],
    ) -> IssuedTransaction | None:
        """The owner's next transaction for an order: the issued one again while it can be sent.

        None until the ledger that used an issued one's number is ingested: it may hold that one.
        Raises `CallReverted` when it would fail now, or without an account.
        """
        account = self.account(owner)
        if account is None:
            raise CallReverted(f"{self._chain.id} has no account {owner}")
        spent = SpentSequence(account.sequence, account.sequence_ledger)
        number = next_sequence(spent, ingested, [each.sequence for each in issued])
        if number is None:
            return None
        step = self.step(order, owner, account.ledger)
        wanted = (number, step_id(step, owner))
        again = [each.issued for each in issued if (each.sequence, each.step_id) == wanted]
        return again[-1] if again else self.issue(step, owner, number, expires_at)

    def quote_oft(self, oft: StellarAddress, eid: int, to: Bytes32, given: BaseUnits) -> OftQuote:
        """The OFT's result for an amount. Raises `CallReverted` when it would reject it."""
        answer = self._view(quote_oft_call(oft, NULL_ACCOUNT, eid, to, given))
        with inconsistent_on_error(oft):
            limit, _, receipt = vector(parse(answer))
            limits = ScMap("limit", mapping(limit))
            moved = ScMap("receipt", mapping(receipt))
            return OftQuote(
                min_amount=limits.read("min_amount_ld", amount),
                max_amount=limits.read("max_amount_ld", amount),
                sent=moved.read("amount_sent_ld", amount),
                received=moved.read("amount_received_ld", amount),
            )

    def quote_send(self, send: SendOnStellar) -> Stroops:
        """Message fee of a send; the fee in `send` is ignored."""
        answer = self._view(quote_send_call(send, NULL_ACCOUNT))
        with inconsistent_on_error(send.oft):
            fee = ScMap("fee", mapping(parse(answer)))
            if fee.read("zro_fee", amount):
                raise ValueError("a fee in a token that is not paid")
            return Stroops(fee.read("native_fee", amount))

    def cctp_pause(self) -> MintRefusal | None:
        """Why CCTP mints nothing on Stellar now; None if it does. Raises as `account`."""
        return cctp_pause(self._chain, self._view)

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()

    def _view(self, question: Operation) -> bytes:
        """Result of a view call, as XDR of an SCVal."""
        return self._simulate(view_tx(self._chain.passphrase, question)).value

    def _simulate(self, drafted: IssuedTransaction) -> SimulationResult:
        try:
            return self._nodes.simulate_call(drafted.envelope)
        except CallReverted as error:
            raise CallReverted(f"{self._chain.id}: {error}") from error


def open_stellar_state(settings: Settings) -> StellarState:
    """The configured chain. Raises `ConfigurationError` without a node."""
    chain = settings.network.stellar
    urls = require_node(settings.nodes.get(chain.id), chain.id, ConfigurationError)
    return StellarState(chain, urls)
