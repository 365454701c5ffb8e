"""Keys in key services (KMS, Vault, HSM): one module per service, each an extra of the package."""
