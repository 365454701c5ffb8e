"""Daily figures: frames of facts in, frames of rows out, and which days are due."""
