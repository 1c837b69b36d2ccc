"""What only the full installation has: commands that need it say so in one line."""

from __future__ import annotations

import importlib.util

FULL = 'pip install "ffn-ablations[torch]"'
PACKAGES = {
    "accelerate": "accelerate",
    "datasets": "datasets",
    "huggingface_hub": "huggingface-hub",
    "lm_eval": "lm-eval",
    "safetensors": "safetensors",
    "sklearn": "scikit-learn",
    "submitit": "submitit",
    "tokenizers": "tokenizers",
    "torch": "torch",
    "transformers": "transformers",
}
"""The distributions of the extra ``torch``, by what they are imported as."""


def missing_extra(error: BaseException) -> str | None:
    """Return what to tell of an import of a package that is not installed; None for any other error.

    A module that an installed package lacks, or one of this project, is no such error.
    """
    name = (getattr(error, "name", None) or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or name not in PACKAGES:
        return None
    if importlib.util.find_spec(name) is not None:
        return None
    return f"this needs {PACKAGES[name]}, which is not installed; {FULL} installs it"
