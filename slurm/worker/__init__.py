"""What a job does: its cells, one after the other."""
