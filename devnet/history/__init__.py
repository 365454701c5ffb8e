"""Days of history for a demo's warehouse, from before its chains began.

A seeded generator makes the raw events that contracts of both chains would have emitted, and the
requests of customers. They go through the same decoders and folds as a backfill's.

| module | what |
|---|---|
| `emitting.py` | transactions and their raw events; blocks of a chain |
| `market.py` | the order book: providers, terms, orders |
| `crossings.py` | events of CCTP and OFT movements |
| `customers.py` | quotes, transfers, movements, and the relay's deliveries |
| `origin.py` | the blocks that a history leads up to |
| `write.py` | everything into a warehouse, once |
"""
