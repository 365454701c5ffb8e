"""Polling of services for attestations and statuses of waiting messages.

One answer about a transaction or guid is one database transaction: attestations, statuses, affected
movements, time of the next poll. A killed process polls again when due.

Every attestation is stored. It counts as verified only if it covers the bytes that our chain
emitted and is signed as the destination's contract requires; others are alarmed. Statuses explain a
wait and decide nothing.

| module | what |
|---|---|
| `poll.py` | the loop |
| `pacing.py` | time of the next poll |
| `examine.py` | verification of an attested message, status of a burn: pure |
| `record.py` | answers into the warehouse |
"""

from indexer.ingest.attestations.poll import poll_attestations as poll_attestations
from indexer.ingest.attestations.poll import poll_once as poll_once
from indexer.ingest.attestations.record import PollProgress as PollProgress
