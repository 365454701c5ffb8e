"""Trustlines that the service sponsors: shown unsigned, signed by their owner, kept for the relay.

The api has no key. Which transaction is next follows from what a sponsor says of itself
(`relay.sponsors`); the relay makes it anew and signs it once the owner has.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, func, insert, select

from api.actions import schema
from api.transfers.access import OwnedTransferId
from indexer.actions.onboarding import (
    BEGUN_SECONDS,
    VALID_SECONDS,
    OnboardingTerms,
    onboarding_tx,
    parse_onboarding,
)
from indexer.actions.stellar_check import MIN_SECONDS_LEFT
from indexer.actions.stellar_tx import IssuedTransaction, parse_tx
from indexer.config.networks import StellarChain
from indexer.policy.sponsorship import (
    Sponsor,
    SponsorshipRequest,
    all_sponsors,
    is_under_way,
    sponsor_refusal,
)
from warehouse_schema.identifiers import TxHash, UnixSeconds
from warehouse_schema.intake import actions, consents
from warehouse_schema.relay import slots


def sponsored(
    conn: Connection,
    chain: StellarChain,
    transfer: OwnedTransferId,
    who: SponsorshipRequest,
    now: UnixSeconds,
    *,
    creates_account: bool,
) -> IssuedTransaction | schema.Idle:
    """The transaction that the owner of a paid deposit is to sign, or why there is none."""
    if is_under_way(conn, chain.id, who):
        return "waiting"
    sponsors = all_sponsors(conn, chain.id)
    if sponsor_refusal(conn, sponsors, who) is not None:
        return "no_trustline"
    by = _sponsor_of(transfer, [each for each in sponsors if each.is_healthy])
    shown = shown_onboardings(conn, chain, transfer)
    newest = parse_onboarding(chain.passphrase, shown[-1]) if shown else None
    is_good = (
        newest is not None
        and (newest.sponsor, newest.sequence) == (by.account, by.next_number)
        and newest.creates_account == creates_account
        and newest.last >= now + MIN_SECONDS_LEFT
    )
    if is_good:
        return "waiting" if _is_signed(conn, shown[-1].tx) else shown[-1]
    first, last = UnixSeconds(now - BEGUN_SECONDS), UnixSeconds(now + VALID_SECONDS)
    made = OnboardingTerms(by.account, by.next_number, creates_account, first, last)
    return onboarding_tx(chain.passphrase, who.owner, who.asset, made)


def _sponsor_of(transfer: OwnedTransferId, well: Sequence[Sponsor]) -> Sponsor:
    """Spreads transfers over the sponsors: each has one transaction a ledger."""
    return well[int(transfer, 16) % len(well)]


def _is_signed(conn: Connection, tx: TxHash) -> bool:
    query = select(consents.c.tx_hash).where(consents.c.tx_hash == tx)
    return conn.scalar(query) is not None


def shown_onboardings(
    conn: Connection, chain: StellarChain, transfer: OwnedTransferId
) -> Sequence[IssuedTransaction]:
    """What was shown for a transfer so far, the oldest first."""
    query = (
        select(actions.c.issued)
        .where(actions.c.transfer == transfer, actions.c.kind == "stellar_trustline")
        .order_by(actions.c.number)
    )
    return [parse_tx(chain.passphrase, issued["xdr"]) for issued in conn.scalars(query)]


def is_number_used(conn: Connection, chain: StellarChain, made: OnboardingTerms) -> bool:
    """Whether the sponsor has given the sequence number to another transaction."""
    columns = slots.c
    query = select(func.count()).where(
        columns.chain == chain.id,
        columns.account == made.sponsor,
        columns.number >= made.sequence,
    )
    return bool(conn.scalar(query))


def keep_consent(
    conn: Connection, transfer: OwnedTransferId, tx: TxHash, made: OnboardingTerms, signed: bytes
) -> None:
    """Keep what an owner signed. The caller commits."""
    row = {"tx_hash": tx, "sponsor": made.sponsor, "number": made.sequence, "signed": signed}
    conn.execute(insert(consents).values(transfer=transfer, **row))
