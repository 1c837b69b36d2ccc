"""Scores as rows: the table, the store, one number a run."""
