"""Daily figures, and days as files."""
