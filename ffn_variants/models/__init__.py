"""Hugging Face models that carry a variant in their config; this import registers them with transformers."""

import ffn_variants.models.family_models  # noqa: F401
