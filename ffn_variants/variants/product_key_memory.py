"""`product-key-memory`: a table of values that a token reads a few of, found by keys in two halves.

For each head a query is cut in two; each half is compared with n half-keys. A pair of half-keys is the key of
a value, its score the sum of both; so the k best of n^2 pairs are among the pairs of the k best halves. The
output is the sum over heads of the k values, weighted by the softmax of their scores (Lample et al. 2019,
arXiv:1907.05242). Keys and values start as in the paper's code (facebookresearch/XLM); its defaults are 32
values of 512^2 for each of four heads. Not as there: queries are not batch-normalised, which its notebook
does; in a model the query layer starts as all its linear layers do; half a query has D / (2 H) channels, of
64 or 128 there; every layer has a memory, and values learn at the rate of all else.

``intermediate_size`` is the number F of values, as an FFN of that width is a memory of as many (Geva et al.
2021, arXiv:2012.14913). n is the square root of F, rounded up; pairs beyond F share the first values, as with
``mem_modulo_size`` there. All parameters grow with F D, those that a token meets with the square root of F:
FLOPs are counted for these, so at equal FLOPs the memory is large.

Shapes: N tokens, H heads, n half-keys, k values read, C channels of half a query.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from base.options import Option
from ffn_variants.kernels.precision import autocast_dtype, in_float32, without_autocast
from ffn_variants.spec import FFNSpec


class ProductKeyMemory(nn.Module):
    """The memory in place of the whole feed-forward network: D to D.

    Args:
        hidden_size: D.
        intermediate_size: F, the number of values.
        heads: H.
        top_k: k; of a memory with fewer pairs, all.

    Keys are uniform, with the bound of a linear layer, and values normal with deviation 1 / sqrt(D), both
    from torch's global generator.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, heads: int = 4, top_k: int = 8):
        super().__init__()
        self.sizes = Sizes(hidden_size, intermediate_size, heads, top_k)
        channels, bound = self.sizes.channels, self.sizes.channels**-0.5
        self.query = nn.Linear(hidden_size, 2 * heads * channels)
        keys = 2 * torch.rand(heads, 2, self.sizes.half_keys, channels) - 1
        self.keys = nn.Parameter(keys * bound)
        self.values = nn.Parameter(torch.randn(intermediate_size, hidden_size) * hidden_size**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        scores, places = self._best(in_float32(self.query, rows))
        # Under autocast read in its dtype: what is read is many times as large as the memory.
        values = self.values.to(autocast_dtype(x) or x.dtype)
        read = F.embedding(places.flatten(1), values)  # (N, H k, D)
        weights = scores.softmax(-1).flatten(1).to(x.dtype)
        return torch.bmm(weights.unsqueeze(1), read).view(x.shape)

    def _best(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of the best pairs and the places of their values, both (N, H, k)."""
        sizes = self.sizes
        halves = queries.unflatten(-1, (sizes.heads, 2, sizes.channels))
        with without_autocast(queries):
            scores = torch.einsum("nhpc,hpmc->nhpm", halves, self.keys.to(queries.dtype))
        best, number = scores.topk(sizes.halves_read)
        sums = (best[:, :, 0].unsqueeze(-1) + best[:, :, 1].unsqueeze(-2)).flatten(2)
        scores, pair = sums.topk(sizes.values_read)
        first = number[:, :, 0].gather(-1, pair // sizes.halves_read)
        second = number[:, :, 1].gather(-1, pair % sizes.halves_read)
        return scores, (first * sizes.half_keys + second) % len(self.values)


class Sizes:
    """What the sizes of a memory follow from.

    Args:
        hidden_size: D.
        intermediate_size: F.
        heads: H.
        top_k: k.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, heads: int, top_k: int):
        self.hidden_size, self.heads = hidden_size, heads
        self.channels = max(1, hidden_size // (2 * heads))
        """C; all heads' queries together are as wide as the token, or nearly."""
        self.half_keys = math.isqrt(intermediate_size - 1) + 1
        """n."""
        self.halves_read = min(top_k, self.half_keys)
        self.values_read = min(top_k, self.halves_read**2)

    def multiply_adds(self) -> int:
        """Count those of one token: query, comparisons and the sum of values."""
        queries = 2 * self.heads * self.channels
        read = self.heads * self.values_read * self.hidden_size
        return self.hidden_size * queries + queries * self.half_keys + read

    def active_params(self) -> int:
        """Count the parameters that one token meets: those, and the biases of the queries."""
        return self.multiply_adds() + 2 * self.heads * self.channels


SPEC = FFNSpec(
    name="product-key-memory",
    kind="block",
    build=lambda d, f, heads, top_k: ProductKeyMemory(d, f, heads, top_k),
    formula="per head: sum of softmax(q.k) v over the top k of F values, keys are pairs of half-keys",
    reference="Lample et al. 2019, arXiv:1907.05242",
    options={
        "heads": Option(default=4, minimum=1, help="queries of each token"),
        "top_k": Option(default=8, minimum=1, help="values that each of them reads"),
    },
    multiply_adds=lambda d, f, heads, top_k: Sizes(d, f, heads, top_k).multiply_adds(),
    active_params=lambda d, f, heads, top_k: Sizes(d, f, heads, top_k).active_params(),
    caution="what is read is kept for the backward pass: heads x top_k x hidden_size numbers a token a layer",
    earlier_sources=("20e68fd79e46", "9507b50b896a"),
)
