"""Where this project's code comes from, which a command should take from one place."""

from __future__ import annotations

PACKAGES = ("base", "ffn_variants", "pretrain", "eval", "slurm")
"""This project's packages."""
