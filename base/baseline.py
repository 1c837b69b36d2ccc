"""The variant that others are compared with, and what their feed-forward networks may have in common."""

from typing import Literal

BASELINE = "gelu"
"""What the families have without a swap; compared with unless a user names another."""

Budget = Literal["width", "params", "active-params", "flops"]
"""What is held equal: the width as given, the parameters, those that one token meets, or the FLOPs of its
forward pass."""
