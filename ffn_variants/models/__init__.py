"""Hugging Face models that carry a variant in their config."""
