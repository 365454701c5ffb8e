"""What the facts mean: pure folds, and the one place that writes their rows."""
