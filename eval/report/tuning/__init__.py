"""What was tuned, what was chosen, and what never ended."""
