"""Relay: the process that alone holds keys which spend, and broadcasts the service's transactions.

Jobs come from facts, projections and intake; signed bytes go to the schema `relay` before any
broadcast. Their effects return as ingested facts.
"""
