"""Reads other people's tables and result files into rows: a reader for each format, and one way in."""
