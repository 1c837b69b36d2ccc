"""The run folder: its name, its lock, what it says of itself."""
