"""A stand-in for an identity provider that signs users in and keeps wallets for them."""
