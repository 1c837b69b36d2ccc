"""A model's code as flat files beside its weights, for whoever has transformers and not this project."""
