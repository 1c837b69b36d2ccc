"""A pilot: a few runs under each of several recipes, and which recipe sees most per hour."""
