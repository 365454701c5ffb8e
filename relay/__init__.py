"""The relay: a process of its own that alone holds keys which spend, and sends what is owed.

What is owed it reads from facts, projections and intake; what it signs it writes to `relay` before
anybody else sees it. Its effects come back as facts, like everybody's.
"""
