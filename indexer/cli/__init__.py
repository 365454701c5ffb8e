"""The command `isthmus`."""
