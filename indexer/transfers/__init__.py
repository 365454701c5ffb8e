"""The stage of a transfer, folded from what was asked for, what was sent and what chains said."""
