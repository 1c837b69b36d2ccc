"""A run's model, loaded to be scored."""
