"""A study as one HTML page: where its cells stand, their losses, its tuning, and what its report says."""
