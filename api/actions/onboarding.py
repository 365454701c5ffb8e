"""Sponsored trustlines: issued unsigned, then signed by the owner.

The api has no key. The next transaction follows from what a sponsor reports (`relay.sponsors`); the
relay rebuilds it, and signs it once the owner has.
"""

from sqlalchemy import Connection

from api.actions.issued import issued_onboardings
from api.actions.store import has_consent
from api.actions.tasks import NoAction, Recipient, find_task
from indexer.actions.onboarding import (
    BEGUN_SECONDS,
    VALID_SECONDS,
    OnboardingTerms,
    onboarding_tx,
    parse_onboarding,
)
from indexer.actions.stellar_check import MIN_SECONDS_LEFT
from indexer.actions.stellar_tx import IssuedTransaction
from indexer.config.networks import Network
from indexer.policy.sponsorship import all_sponsors, is_under_way, sponsor_refusal
from indexer.transfers.store import lock_transfers
from warehouse_schema.identifiers import UnixSeconds


def next_onboarding(
    conn: Connection, network: Network, recipient: Recipient, now: UnixSeconds, *, is_new: bool
) -> IssuedTransaction | NoAction:
    """The transaction that the owner of a paid deposit has to sign; `is_new`: has no account."""
    chain, transfer, sponsorship = network.stellar, recipient.transfer, recipient.sponsorship
    lock_transfers(conn, [transfer])
    task = find_task(conn, network, transfer)
    if isinstance(task, NoAction):
        return task
    if is_under_way(conn, chain.id, sponsorship):
        return NoAction("waiting")
    sponsors = all_sponsors(conn, chain.id)
    if sponsor_refusal(conn, sponsors, sponsorship) is not None:
        return NoAction("no_trustline")
    # Spreads transfers over the sponsors, each of which has one transaction per ledger.
    healthy = [each for each in sponsors if each.is_healthy]
    sponsor = healthy[int(transfer, 16) % len(healthy)]
    issued = issued_onboardings(conn, chain, transfer)
    newest = parse_onboarding(chain.passphrase, issued[-1]) if issued else None
    if (
        newest is not None
        and (newest.sponsor, newest.sequence) == (sponsor.account, sponsor.next_number)
        and newest.creates_account == is_new
        and newest.last >= now + MIN_SECONDS_LEFT
    ):
        return NoAction("waiting") if has_consent(conn, issued[-1].tx) else issued[-1]
    first, last = UnixSeconds(now - BEGUN_SECONDS), UnixSeconds(now + VALID_SECONDS)
    terms = OnboardingTerms(sponsor.account, sponsor.next_number, is_new, first, last)
    return onboarding_tx(chain.passphrase, sponsorship.owner, sponsorship.asset, terms)
