"""What an owner has to sign, and whether what he sent is that: pure, with no node and no clock."""
