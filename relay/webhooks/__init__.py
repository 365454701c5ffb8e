"""Webhooks: what owners are told of their transfers, posted to where they want it.

What there is to tell stands in `projections.transfer_events`, the outbox of their stream as well;
where to, in `intake.webhooks`. A process posts each, in order and signed, until it is taken or
given up, and writes what came of it.
"""
