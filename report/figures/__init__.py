"""What draws the figures of a report."""
