"""Hugging Face models that carry a variant in their config."""

import transformers  # noqa: F401 - whose import registers the models, each module of which needs it
