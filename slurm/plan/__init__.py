"""What a study costs before it starts, and how long the rest takes while it runs."""
