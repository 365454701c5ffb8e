"""Webhooks: signed POSTs to owners' URLs about changes of their transfers.

Events come from `projections.transfer_events`, which is also the outbox of the stream; URLs from
`intake.webhooks`. Events of a webhook are sent in order until each is delivered or given up.
"""
