"""Tuning in a study: every variant at its own best, found with the same number of runs."""
