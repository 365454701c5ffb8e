"""Stellar XDR: skip values, decode and prove ledgers, read SCVals."""
