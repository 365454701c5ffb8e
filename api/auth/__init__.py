"""Authentication of requests: our tokens, SEP-10 login, the identity provider."""
