"""Suites of the evaluation as data, which every other part of it asks."""
