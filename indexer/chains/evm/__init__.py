"""EVM chains over JSON-RPC."""
