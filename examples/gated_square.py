"""A gated block as a plain class, which is all that a variant needs.

ffn-ablations try examples/gated_square.py:GatedSquare
"""

from torch import Tensor, nn


class GatedSquare(nn.Module):
    """W3 (relu(W1 x)^2 * W2 x)."""

    def __init__(self, hidden_size: int, intermediate_size: int):
        super().__init__()
        self.gate = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.gate(x).relu().square() * self.up(x))
