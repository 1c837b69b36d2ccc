"""Text before a model reads it: documents of files, and what is hidden in them for a model to guess."""
