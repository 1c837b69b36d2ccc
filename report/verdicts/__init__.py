"""What is claimed of differences, and how far it holds."""
