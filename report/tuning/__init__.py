"""What was tuned, and what was chosen."""
