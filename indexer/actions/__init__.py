"""Transactions that an owner has to sign, and checks of submitted ones. Pure: no node, no clock."""
