"""What feed-forward networks of different variants may have in common."""

from typing import Literal

Budget = Literal["width", "params", "flops"]
"""What is held equal: the width as given, the parameters, or the FLOPs of a token's forward pass."""
