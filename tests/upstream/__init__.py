"""transformers' own tests of models, run on this project's classes."""
