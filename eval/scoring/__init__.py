"""One number for one text."""
