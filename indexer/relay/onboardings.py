"""Trustlines of deposits' owners that the service sponsors (CAP-33), with the account if need be.

The transaction is one of a sponsor of ours. It is signed when an owner asked for it, shown to him
by the api, and sent once he has signed it as well. So the sponsor's number is taken for as long as
its bounds are, a few minutes; then the number is spent, and whoever still wants it waits in line.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, text
from stellar_sdk import TransactionEnvelope, xdr

from indexer.actions.stellar_tx import onboarding
from indexer.chains.stellar_sender import StellarAccountNodes
from indexer.errors import CallReverted
from indexer.networks import StellarChain
from indexer.relay.keys import StellarKey
from indexer.relay.slots import Close, Owed, Send, Signed, Slot, Step, Wait
from indexer.relay.stellar_numbers import BID, StellarNumbers
from indexer.relay.stellar_signing import composed, signed
from indexer.relay.store import Account
from indexer.senders import Duty
from warehouse_schema.identifiers import AssetId, StellarAddress, TxHash

VALID_SECONDS = 180
"""Of a transaction that a person is to look at and sign."""
RESERVE = 5_000_000
"""Stroops an entry (0.5 XLM): an account takes two, a trustline one."""
_MOST = 20
_MOST_WASTED = 3
"""For an owner and an asset in a UTC day: who never signs keeps a sponsor from others."""


@dataclass(frozen=True, slots=True)
class Onboarding:
    """Whose trustline it is."""

    owner: StellarAddress
    asset: AssetId


# Moments are rows of their own: no index is asked for what may be another one for each row.
#
# Who asked lately waits for it still. Only who is paid himself can sign, and only as long as there
# is something that he waits for.
_OWED = text("""
    SELECT t.id, t.owner, q.dest_asset
    FROM (
        SELECT transfer, min(asked_at) AS at
        FROM intake.onboardings
        WHERE asked_at > (SELECT clock_timestamp() - interval '2 minutes')
        GROUP BY transfer
    ) asked
    JOIN intake.transfers t ON t.id = asked.transfer
    JOIN intake.quotes q ON q.id = t.quote
    JOIN projections.transfer_stages s ON s.transfer = t.id
    CROSS JOIN LATERAL (
        SELECT count(*) AS number
        FROM relay.slots
        WHERE chain = :chain AND purpose = 'onboard' AND key = t.owner || ' ' || q.dest_asset
          AND outcome IS DISTINCT FROM 'done'
          AND opened_at >= (SELECT date_trunc('day', clock_timestamp(), 'UTC'))
    ) wasted
    WHERE q.dest_chain = :chain AND q.source_chain <> :chain AND q.dest_address = t.owner
      AND s.stage = 'AWAITING_TRUSTLINE'
      AND wasted.number < :most_wasted
    ORDER BY wasted.number, asked.at, t.owner, q.dest_asset, t.id
    LIMIT :most
""")

_CONSENTS = text("""
    SELECT a.tx_hash, c.signed
    FROM relay.slots s
    JOIN relay.attempts a USING (chain, account, number)
    JOIN intake.consents c ON c.tx_hash = a.tx_hash
    WHERE s.chain = :chain AND s.account = :account AND s.outcome IS NULL
""")


class Onboardings:
    """What owners asked for, and what they have signed of an account's since."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self.consents: dict[TxHash, bytes] = {}
        """Envelopes with all signatures, of what is open; as of the last time it was asked."""

    def owed(self, conn: Connection) -> list[Owed[Onboarding]]:
        """Trustlines that are waited for; who wasted none first, then the oldest."""
        place = {"chain": self._account.chain, "account": self._account.address}
        self.consents.clear()
        self.consents.update(
            (TxHash(row.tx_hash), row.signed) for row in conn.execute(_CONSENTS, place)
        )
        bounds = {"chain": self._account.chain, "most": _MOST, "most_wasted": _MOST_WASTED}
        found: dict[str, Owed[Onboarding]] = {}
        for row in conn.execute(_OWED, bounds):
            key = f"{row.owner} {row.dest_asset}"
            wanted = Onboarding(row.owner, row.dest_asset)
            found.setdefault(key, Owed("onboard", key, row.id, wanted))
        return list(found.values())

    def objection(self, conn: Connection, owed: Owed[Onboarding]) -> str | None:
        """None: a trustline does no harm to a transfer that was called off meanwhile."""
        return None


class SponsorWire(StellarNumbers):
    """A sponsor's transactions. What is in them is fixed, so the signature commits it to no more
    than the reserves and a fee, of one owner, for as long as the bounds are."""

    duty: Duty = "sponsor"

    def __init__(
        self,
        chain: StellarChain,
        nodes: StellarAccountNodes,
        key: StellarKey,
        consents: Mapping[TxHash, bytes],
    ) -> None:
        super().__init__(chain, nodes, key)
        self._consents = consents

    def step(self, slot: Slot, buried: Collection[TxHash]) -> Step:
        """As of any number; but nothing is sent that its owner has not signed.

        What a ledger took in vain is nobody's failure but its owner's, who has opened his account
        himself in between: it does not stop the sponsor.
        """
        step, newest = super().step(slot, buried), slot.newest
        if isinstance(step, Send) and not newest.is_fill and newest.tx not in self._consents:
            return Wait()
        if isinstance(step, Close) and step.outcome == "done":
            return Close("done", step.spent + _reserves(slot.attempts[0].raw))
        if isinstance(step, Close) and step.outcome == "failed":
            return Close("late", step.spent)
        return step

    def is_over(self, owed: Owed[Onboarding]) -> bool:
        """Whether the trustline is there, whoever opened it."""
        return self.nodes.trustline(owed.call.owner, owed.call.asset) is not None

    def sign(self, number: int, call: Onboarding) -> Signed:
        """The one transaction of a number that opens a trustline."""
        is_new = self.nodes.seen(call.owner) is None
        operations = onboarding(self.address, call.owner, call.asset, creates_account=is_new)
        bounds, passphrase = self.bounds(VALID_SECONDS), self.chain.passphrase
        envelope = composed(self.address, passphrase, number, operations, BID, bounds)
        made = signed(self.key, envelope)
        return Signed(made.tx, made.raw, made.most_cost + _reserves(made.raw))

    def sign_again(self, slot: Slot, call: Onboarding | None) -> Signed:
        """Nothing, once the bounds are past: others wait for the number after it."""
        if call is not None:
            raise CallReverted("it was not signed in time")
        return self.fill(slot)

    def send(self, raw: bytes) -> str:
        """Give a transaction to a node, as its owner has signed it."""
        tx = _hash(raw, self.chain.passphrase)
        consent = self._consents.get(tx)
        # The hash says that it is ours in all but its signatures.
        is_ours = consent is not None and _hash(consent, self.chain.passphrase) == tx
        return super().send(consent if consent is not None and is_ours else raw)


def _hash(raw: bytes, passphrase: str) -> TxHash:
    envelope = xdr.TransactionEnvelope.from_xdr_bytes(raw)
    return TxHash(TransactionEnvelope.from_xdr(envelope.to_xdr(), passphrase).hash_hex())


def _reserves(raw: bytes) -> int:
    """Stroops that a sponsor has to keep for what a transaction adds."""
    envelope = xdr.TransactionEnvelope.from_xdr_bytes(raw)
    operations = () if envelope.v1 is None else envelope.v1.tx.operations
    entries = {xdr.OperationType.CREATE_ACCOUNT: 2, xdr.OperationType.CHANGE_TRUST: 1}
    return RESERVE * sum(entries.get(each.body.type, 0) for each in operations)
