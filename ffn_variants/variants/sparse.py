"""Blocks of which a token meets a part: a mixture of experts and a memory of keys and values.

`moe`: a mixture of experts, of which each token takes the few that its router scores highest.

y = sum over the k chosen experts e of s_e(x) (W_2e GELU(W_1e x + b_1e) + b_2e), with s(x) = sigmoid(R x)
(Shazeer et al. 2017, arXiv:1701.06538, with the scores of DeepSeek-V3, arXiv:2412.19437, as transformers has
them, without their normalisation, by which a single chosen expert would teach its router nothing; and without
its shared experts, groups, scaling and gated experts).

Balance: left alone, a router comes to choose the same few experts for all tokens. Here a number is added to
each expert's score when experts are chosen, and nowhere else. After each update of the weights it is raised
by ``balance_rate`` for an expert that had fewer tokens than the mean of all, and lowered for one that had
more (Wang et al. 2024, arXiv:2408.15664). So there is no second loss: what is minimised, and reported, is
what it is for every other variant, and a token's output depends on that token alone. No token is dropped. The
training loop calls ``after_update``; without such a loop, and in fine-tuning, the numbers stay.

``intermediate_size`` is the width F of one expert. All parameters are E (2 D F + F + D) + E D, of which a
token meets those of the router and of k experts; FLOPs are counted for these. On a CPU each token visits its
experts only. On a GPU, and in a graph of ``torch.compile``, all experts are computed for all tokens, and most
weighted with zero: to gather a number of tokens that nobody knows beforehand, it would have to wait for the
host.

Shapes: N tokens, E experts, k chosen ones.

`product-key-memory`: a table of values that a token reads a few of, found by keys in two halves.

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
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from base.errors import UsageError
from base.options import Option
from ffn_variants.kernels.compilation import needs_plain_torch
from ffn_variants.kernels.expert_linear import expert_linear
from ffn_variants.kernels.operations import autocast_dtype, in_float32, without_autocast
from ffn_variants.spec import FFNSpec, in_first


class MoEFFN(nn.Module):
    """The mixture in place of the whole feed-forward network: D to F to D.

    Args:
        hidden_size: D.
        intermediate_size: F, the width of each expert.
        experts: E.
        top_k: k.
        balance_rate: By how much a number moves with an update.

    Linear layers hold all experts one below the other, so that a model draws them as those of any FFN. The
    numbers that balance are whole multiples of ``balance_rate``: ``shifts`` counts them, and ``load`` the
    tokens of each expert since the last update, in training.

    Raises:
        UsageError: If ``top_k`` is more than there are experts, or the rate is negative.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        experts: int = 8,
        top_k: int = 2,
        balance_rate: float = 0.001,
    ):
        super().__init__()
        if top_k > experts:
            raise UsageError(f"'moe' option top_k must be at most experts, {experts}, got {top_k}")
        self.experts, self.top_k, self.balance_rate = experts, top_k, balance_rate
        self.router = nn.Linear(hidden_size, experts, bias=False)
        self.c_fc = nn.Linear(hidden_size, experts * intermediate_size)
        self.c_proj = nn.Linear(intermediate_size, experts * hidden_size)
        self.register_buffer("shifts", torch.zeros(experts, dtype=torch.int64))
        self.register_buffer("load", torch.zeros(experts, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        scores = in_float32(self.router, rows).sigmoid()
        expert = (scores.detach() + self.balance_rate * self.shifts).topk(self.top_k).indices
        if self.training and torch.is_grad_enabled() and not needs_plain_torch():
            self.load += F.one_hot(expert, self.experts).sum((0, 1))
        gates = scores.gather(1, expert)
        return self._mix(x.device.type)(rows, expert, gates).reshape(x.shape)

    def _mix(self, device: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        if not (_is_bare(self.c_fc) and _is_bare(self.c_proj)):
            return self._called
        is_eager = not (torch.compiler.is_compiling() or needs_plain_torch())
        return self._visited if device == "cpu" and is_eager else self._all

    def _visited(self, rows: Tensor, experts: Tensor, gates: Tensor) -> Tensor:
        """Compute the chosen experts: (N, D) tokens, (N, k) numbers and weights of experts."""
        expert = experts.flatten()
        repeated = rows.unsqueeze(1).expand(-1, self.top_k, -1).reshape(-1, rows.shape[1])
        hidden = F.gelu(self._through(self.c_fc, repeated, expert), approximate="tanh")
        out = self._through(self.c_proj, hidden, expert).unflatten(0, experts.shape)
        return (out * gates.unsqueeze(-1)).sum(1).to(out.dtype)

    def _through(self, layer: nn.Linear, x: Tensor, expert: Tensor) -> Tensor:
        out = expert_linear(x, layer.weight.unflatten(0, (self.experts, -1)), expert)
        bias: Tensor = layer.bias
        return out + bias.view(self.experts, -1)[expert].to(out.dtype)

    def _all(self, rows: Tensor, experts: Tensor, gates: Tensor) -> Tensor:
        """Compute all experts; arguments as in ``_visited``."""
        # y = sum_e s_e W_2e h_e is one product of all weighted (E F) hidden units with all W_2e side by side;
        # an expert that was not chosen has the weight 0.
        weights = torch.zeros_like(gates[:, :1]).expand(-1, self.experts).scatter(1, experts, gates)
        hidden = F.gelu(self.c_fc(rows), approximate="tanh").unflatten(-1, (self.experts, -1))
        weights = weights.to(hidden.dtype)
        outer = self.c_proj.weight.unflatten(0, (self.experts, -1)).transpose(0, 1).flatten(1)
        out = F.linear((hidden * weights.unsqueeze(-1)).flatten(1), outer)
        return out + weights @ self.c_proj.bias.view(self.experts, -1).to(weights.dtype)

    def _called(self, rows: Tensor, experts: Tensor, gates: Tensor) -> Tensor:
        """Compute what the layers give as they are called, adapters and all; arguments as in ``_visited``.

        Each call is of all experts, so it costs E / k times as much, and E times behind the activation.
        """
        hidden = F.gelu(self._of_chosen(self.c_fc(rows).unsqueeze(1), experts), approximate="tanh")
        out = self._of_chosen(self.c_proj(hidden), experts)
        return (out * gates.unsqueeze(-1)).sum(1).to(out.dtype)

    def _of_chosen(self, out: Tensor, experts: Tensor) -> Tensor:
        """Take (N, k or 1, E W) to the (N, k, W) of the chosen experts."""
        return out.unflatten(-1, (self.experts, -1)).take_along_dim(experts[..., None, None], 2).squeeze(2)

    @torch.no_grad()
    def after_update(self, total: Callable[[Tensor], Tensor]) -> None:
        """Move the numbers towards balance, by the tokens since the last call.

        Args:
            total: Sums a tensor over all processes that train the model.
        """
        load = total(self.load)
        self.shifts += torch.sign(load.sum() - self.experts * load)
        self.load.zero_()


def _is_bare(layer: nn.Module) -> bool:
    """Whether a layer is its weight and its bias alone; adapters, quantisation and hooks are more."""
    forward, backward = layer._forward_pre_hooks or layer._forward_hooks, layer._backward_hooks
    return type(layer) is nn.Linear and not (forward or backward)


def _each_expert(weight: Tensor, experts: int, **_: Any) -> Tensor:
    return weight.unflatten(0, (experts, -1))


MOE_SPEC = FFNSpec(
    name="moe",
    kind="block",
    build=MoEFFN,
    formula="sum of s_e(x) FFN_e(x) over the top k of E experts, s = sigmoid(R x); F is the width of one",
    reference="Shazeer et al. 2017, arXiv:1701.06538; balanced as Wang et al. 2024, arXiv:2408.15664",
    options={
        "experts": Option(default=8, minimum=1, help="number E of experts"),
        "top_k": Option(default=2, minimum=1, help="experts of each token"),
        "balance_rate": Option(
            default=0.001,
            minimum=0,
            help="by how much an expert's chance is raised or lowered with an update; 0: no balance",
        ),
    },
    matrices={"c_fc.weight": _each_expert, "c_proj.weight": _each_expert},
    multiply_adds=lambda d, f, experts, top_k, **_: d * experts + top_k * 2 * d * f,
    active_params=lambda d, f, experts, top_k, **_: d * experts + top_k * (2 * d * f + f + d),
    caution=(
        "on a GPU every expert is computed for every token, as choices have no fixed shape: the FFN takes "
        "experts / top_k times these FLOPs there, and as much more memory"
    ),
)


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
        vectors = F.embedding(places.flatten(1), values)  # (N, H k, D)
        weights = scores.softmax(-1).flatten(1).to(x.dtype)
        return torch.bmm(weights.unsqueeze(1), vectors).view(x.shape)

    def _best(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of the best pairs and the places of their values, both (N, H, k)."""
        sizes = self.sizes
        halves = queries.unflatten(-1, (sizes.heads, 2, sizes.channels))
        with without_autocast(queries):
            scores = torch.einsum("nhpc,hpmc->nhpm", halves, self.keys.to(queries.dtype))
        # With n = 4 half-keys and k = 2: half 0 scores best at 1 and 3, half 1 at 0 and 2. The four sums of
        # these are the scores of the values 1 * 4 + 0, 1 * 4 + 2, 3 * 4 + 0 and 3 * 4 + 2, and the best two
        # of all 16 are among them.
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
        reads = self.heads * self.values_read * self.hidden_size
        return self.hidden_size * queries + queries * self.half_keys + reads

    def active_params(self) -> int:
        """Count the parameters that one token meets: those, and the biases of the queries."""
        return self.multiply_adds() + 2 * self.heads * self.channels


PRODUCT_KEY_MEMORY_SPEC = FFNSpec(
    name="product-key-memory",
    kind="block",
    build=ProductKeyMemory,
    formula="per head: sum of softmax(q.k) v over the top k of F values, keys are pairs of half-keys",
    reference="Lample et al. 2019, arXiv:1907.05242",
    options={
        "heads": Option(default=4, minimum=1, help="queries of each token"),
        "top_k": Option(default=8, minimum=1, help="values that each of them reads"),
    },
    matrices={"keys": lambda keys, **_: keys.flatten(0, 1), "values": in_first},
    multiply_adds=lambda d, f, heads, top_k: Sizes(d, f, heads, top_k).multiply_adds(),
    active_params=lambda d, f, heads, top_k: Sizes(d, f, heads, top_k).active_params(),
    caution="what is read is kept for the backward pass: heads x top_k x hidden_size numbers a token a layer",
)
