"""Which work is missing, and doing it in processes."""
