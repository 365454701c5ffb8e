"""What is done once a day is over: daily figures, and days as files."""
