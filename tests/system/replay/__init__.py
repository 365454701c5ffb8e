"""The recorded genuine data of `tests/golden`, brought in as if chains were read today.

    python -m tests.system.replay

The recordings hold events, not chains. Whole Stellar ledgers are read and proven as they are. All
other events are given to the real readers by nodes on this machine (`stellar_node`, `evm_node`),
which make up what was not recorded around them: headers, parents, and here and there a transaction
hash or a position. `scaffolding` says how to tell the made-up from the genuine, and the printout
counts both. Two genuine blocks are never joined by anything made up.
"""
