"""Scores beside each other: the tables of outcomes, their noise, and published ones."""
