"""What services say about messages that wait: attested yet, and if not, why.

One answer about a transaction (or guid) is one database transaction: attestations and statuses, the
movements they touch, when to ask again. Killed anywhere, a restart asks again when it is due.

An attestation is kept whatever it is worth. Only one over the very bytes our chain emitted, signed
as the destination's contract wants it, is marked verified; the rest is alarmed and nothing rests on
it. What services say beside that explains a wait and decides nothing.

| module | what |
|---|---|
| `poll.py` | the loop |
| `pacing.py` | when a message is asked about again |
| `examine.py` | what an attested message is worth, what words say of a burn: pure |
| `record.py` | answers into the warehouse |
"""

from indexer.ingest.attestations.poll import poll_attestations as poll_attestations
from indexer.ingest.attestations.poll import poll_once as poll_once
from indexer.ingest.attestations.record import PollProgress as PollProgress
