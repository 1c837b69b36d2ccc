"""The variants, a file a kind; each file ends with its specs."""
