"""Reads other people's scores into rows: a table of any shape, or result files of lm-eval."""
