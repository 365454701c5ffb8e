"""Checks of a configuration against what is really there (`isthmus doctor`). They only read."""
