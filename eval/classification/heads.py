"""Heads: what every one returns, those of one or two layers, and those that read segments or tokens.

**SWIPE** (Wang et al. 2023, arXiv:2304.01638, EMNLP Findings): a text's labels from those of its segments.
The vector s_k of segment k gets a score for every label i, z_i^k = w_i s_k + b_i (10), and in the gated forms
a gate for every label, g_i^k = sigmoid(w_i^g s_k + b_i^g) (11). A text's logit y_i is the maximum of z (12)
or of g z (13), or the sum of z (14) or of g z (15), over its segments. Where a text may have several labels
it has those with y_i > 0 (16), and segment k explains those with z_i^k > 0 (20); a gate is positive, so that
g z > 0 says the same. Before that, ``num_layers`` transformer layers may let segments see one another (the
paper's "2t" are two). The paper gives them no positions.

Its rivals in Table 2 are "BERT+attention" and "BERT+LSTM", of which it gives no formula. Here the attention
is one learned query, scaled as in a transformer, that starts at zero and so as a mean; it tells segments
apart and not labels. The LSTM has one layer, one direction and as many units as a segment's vector has
features.

**Space Model** (Tytarenko and Amin 2024, arXiv:2401.16638): C_i = tanh(E P_i) for the token vectors E of a
text and each class i; z = W [mean_t C_1; ...; mean_t C_C] + b. The loss gets, besides the cross-entropy of z,

    intra_weight * mean over texts of sum_i sum_j 1 / (var_t C_itj + 1e-9)
    inter_weight * sum_{i<k} 1 / (1 - tanh(c_i . c_k) + 1e-9), c_i the mean centroid of the batch in space i

which keep the tokens of a text apart within a space, and the spaces apart. Formulas are those of the
authors' code, https://github.com/StepanTita/space-model (space_model/loss.py), the second one as it was for
their IMDb results. Both weights are 0 unless asked for: with the 0.001 and 0.2 that they tried its scores
are lower, and all but one of their gains are without. Their later inter-space loss reads the labels, which a
head does not see. Ours differ where theirs would count padding as tokens.

Shapes: n examples, M segments or tokens of the longest, D hidden_size, C labels, m dimensions of a space.
"""

from __future__ import annotations

import math
from pkgutil import resolve_name
from typing import NamedTuple

import torch
from torch import Tensor, nn

from base.errors import UsageError
from ffn_variants.variants.learned_curves import GroupRational, choose_groups
from ffn_variants.variants.spline_kan import FeatureSplines
from scores.head_descriptions import SEGMENT_OPTIONS, HeadChoice, get_head


class HeadOutput(NamedTuple):
    """What a head makes of a batch.

    Attributes:
        logits: (n, C).
        auxiliary_loss: A scalar that training adds to the loss of the logits; None for most heads.
        segment_scores: (n, M, C), what each segment adds to or says of each label; None without segments.
    """

    logits: Tensor
    auxiliary_loss: Tensor | None = None
    segment_scores: Tensor | None = None


def build_head(choice: HeadChoice, hidden_size: int, num_labels: int) -> nn.Module:
    """Build a head, initialised from torch's global generator; errors as in ``check_head``."""
    spec = get_head(choice.name)
    options = spec.resolve(dict(choice.options))
    # How a text is cut into segments is for ``data.py`` to see to.
    mine = {name: value for name, value in options.items() if name not in SEGMENT_OPTIONS}
    module = resolve_name(spec.builder)(hidden_size, num_labels, **mine)
    return ExampleHead(module) if spec.reads == "example" else module


def count_parameters(choice: HeadChoice, hidden_size: int, num_labels: int) -> int:
    """Count the learnable parameters of a head, biases included."""
    with torch.device("meta"):
        module = build_head(choice, hidden_size, num_labels)
    return sum(parameter.numel() for parameter in module.parameters())


INIT_STD = 0.02
"""Of linear layers at the start, as transformers' heads have it."""


class ExampleHead(nn.Module):
    """Any module from (n, D) to (n, C) as a head.

    Args:
        layers: The module.
    """

    def __init__(self, layers: nn.Module):
        super().__init__()
        self.layers = layers

    def forward(self, vectors: Tensor, mask: Tensor | None = None) -> HeadOutput:
        return HeadOutput(self.layers(vectors))


def linear(in_features: int, out_features: int, init: str = "normal") -> nn.Linear:
    """Make a linear layer that starts as transformers' heads do: normal weights, no bias; or as torch's."""
    layer = nn.Linear(in_features, out_features)
    if init == "normal":
        nn.init.normal_(layer.weight, std=INIT_STD)
        nn.init.zeros_(layer.bias)
    return layer


def mlp_width(hidden_size: int, num_labels: int, num_params: int) -> int:
    """Return the smallest width, one at least, at which an ``mlp`` has that many parameters or more."""
    return max(1, math.ceil((num_params - num_labels) / (hidden_size + num_labels + 1)))


def build_mlp(
    hidden_size: int, num_labels: int, width: int, match: str, activation: str, init: str
) -> nn.Module:
    """Two linear layers and a sigmoid or nothing between, as wide as asked for or as matches another head."""
    if match != "none":
        num_params = count_parameters(HeadChoice(match), hidden_size, num_labels)
        width = mlp_width(hidden_size, num_labels, num_params)
    between = nn.Sigmoid() if activation == "sigmoid" else nn.Identity()
    return nn.Sequential(linear(hidden_size, width, init), between, linear(width, num_labels, init))


def build_gr_kan(hidden_size: int, num_labels: int, groups: int) -> nn.Module:
    """The rational of `gr-kan` on every feature, then a linear layer."""
    num_groups = choose_groups(hidden_size, hidden_size, groups)
    return nn.Sequential(GroupRational(num_groups, "identity"), linear(hidden_size, num_labels))


def build_spline_kan(hidden_size: int, num_labels: int, num_knots: int) -> nn.Module:
    """A spline of `spline-kan` on every feature, then a linear layer."""
    return nn.Sequential(FeatureSplines(hidden_size, num_knots), linear(hidden_size, num_labels))


class SegmentAttentionHead(nn.Module):
    """A linear layer on a weighted mean of the segments.

    Args:
        hidden_size: D.
        num_labels: C.
    """

    def __init__(self, hidden_size: int, num_labels: int):
        super().__init__()
        self.query = nn.Parameter(torch.zeros(hidden_size))
        self.score = linear(hidden_size, num_labels)

    def forward(self, vectors: Tensor, mask: Tensor) -> HeadOutput:
        """Return logits, and as segment scores the weights, the same for every label.

        Args:
            vectors: (n, M, D).
            mask: (n, M), true where there is a segment; every example has one at least.
        """
        looks = vectors @ self.query / math.sqrt(len(self.query))
        weights = looks.masked_fill(~mask, -math.inf).softmax(1)[..., None]
        present = vectors.masked_fill(~mask[..., None], 0.0)
        logits = self.score((weights * present).sum(1))
        return HeadOutput(logits, segment_scores=weights.expand(-1, -1, logits.shape[1]))


class SegmentLSTMHead(nn.Module):
    """A linear layer on a state of an LSTM over the segments.

    Args:
        hidden_size: D.
        num_labels: C.
        pooling: ``last``, or ``mean`` over all segments.
    """

    def __init__(self, hidden_size: int, num_labels: int, pooling: str = "last"):
        super().__init__()
        self.is_last = pooling == "last"
        self.lstm = nn.LSTM(hidden_size, hidden_size, batch_first=True)
        self.score = linear(hidden_size, num_labels)

    def forward(self, vectors: Tensor, mask: Tensor) -> HeadOutput:
        """Return logits; a state of an LSTM says nothing of single segments.

        Args:
            vectors: (n, M, D).
            mask: (n, M), true where there is a segment; every example has one at least, and none behind its
                last.
        """
        states, _ = self.lstm(vectors)
        counts = mask.sum(1)
        if self.is_last:
            state = states[torch.arange(len(states), device=states.device), counts - 1]
        else:
            state = states.masked_fill(~mask[..., None], 0.0).sum(1) / counts[:, None]
        return HeadOutput(self.score(state))


class SwipeHead(nn.Module):
    """Score segments and pool their scores.

    Args:
        hidden_size: D.
        num_labels: C.
        pooling: ``max``, ``gated-max``, ``sum`` or ``gated-sum``.
        num_layers: Transformer encoder layers over the segments, before they are scored.
        num_heads: Attention heads of each.

    Raises:
        UsageError: If ``num_heads`` does not divide ``hidden_size``.
    """

    def __init__(
        self, hidden_size: int, num_labels: int, pooling: str = "max", num_layers: int = 0, num_heads: int = 4
    ):
        super().__init__()
        if num_layers and hidden_size % num_heads:
            raise UsageError(
                f"'swipe' option num_heads is {num_heads}, which does not divide the backbone's hidden_size "
                f"{hidden_size}; choose a divisor"
            )
        self.is_max = pooling.endswith("max")
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                hidden_size, num_heads, 4 * hidden_size, activation="gelu", batch_first=True
            )
            for _ in range(num_layers)
        )
        self.score = linear(hidden_size, num_labels)
        self.gate = linear(hidden_size, num_labels) if pooling.startswith("gated") else None

    def forward(self, vectors: Tensor, mask: Tensor) -> HeadOutput:
        """Return logits, and as segment scores what each segment contributes, zero where there is none.

        Args:
            vectors: (n, M, D).
            mask: (n, M), true where there is a segment; every example has one at least.
        """
        for layer in self.layers:
            vectors = layer(vectors, src_key_padding_mask=~mask)
        scores = self.score(vectors)
        if self.gate is not None:
            scores = scores * self.gate(vectors).sigmoid()
        absent = ~mask[..., None]
        scores = scores.masked_fill(absent, 0.0)
        logits = scores.masked_fill(absent, -math.inf).amax(1) if self.is_max else scores.sum(1)
        return HeadOutput(logits, segment_scores=scores)


EPSILON = 1e-9


class SpaceHead(nn.Module):
    """Project tokens into a space for each class, and classify by where their centroids lie.

    Args:
        hidden_size: D.
        num_labels: C.
        num_dimensions: m.
        intra_weight: Of the intra-space loss.
        inter_weight: Of the inter-space loss.

    Weights start as the authors' do, uniform within 1 / sqrt(inputs). Were the classifier's drawn with the
    0.02 of other heads, the intra-space loss would move the projections as much as the cross-entropy does:
    gradient norms of 0.08 and 0.07 at D = 512 and two classes of random texts, instead of 0.1 and 2.4.
    """

    def __init__(
        self,
        hidden_size: int,
        num_labels: int,
        num_dimensions: int = 3,
        intra_weight: float = 0.0,
        inter_weight: float = 0.0,
    ):
        super().__init__()
        self.num_labels, self.num_dimensions = num_labels, num_dimensions
        self.intra_weight, self.inter_weight = intra_weight, inter_weight
        # P_1 ... P_C side by side, so that one product makes every space.
        self.projections = nn.Linear(hidden_size, num_labels * num_dimensions, bias=False)
        self.classifier = nn.Linear(num_labels * num_dimensions, num_labels)

    def forward(self, vectors: Tensor, mask: Tensor) -> HeadOutput:
        """Map (n, M, D) and a (n, M) mask to logits and to the weighted sum of both losses."""
        tokens = self._project(vectors)
        centroids = masked_mean(tokens, mask)
        logits = self.classifier(centroids.to(self.classifier.weight.dtype))
        return HeadOutput(logits, self._auxiliary_loss(tokens, centroids, mask))

    def concept_vectors(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Return where each text lies in each class's space: (n, C, m), the centroid of its tokens."""
        centroids = masked_mean(self._project(vectors), mask)
        return centroids.unflatten(-1, (self.num_labels, self.num_dimensions))

    def _project(self, vectors: Tensor) -> Tensor:
        """Return every token's place in all spaces, (n, M, C m), in float32 or better."""
        places = self.projections(vectors).tanh()
        return places.to(torch.promote_types(places.dtype, torch.float32))

    def _auxiliary_loss(self, tokens: Tensor, centroids: Tensor, mask: Tensor) -> Tensor | None:
        losses = []
        if self.intra_weight:
            losses.append(self.intra_weight * intra_space_loss(tokens, centroids, mask))
        if self.inter_weight:
            spaces = centroids.unflatten(-1, (self.num_labels, self.num_dimensions))
            losses.append(self.inter_weight * inter_space_loss(spaces))
        return torch.stack(losses).sum() if losses else None


def masked_mean(tokens: Tensor, mask: Tensor) -> Tensor:
    """Average (n, M, K) over the tokens that a (n, M) mask marks; zeros for a text without one."""
    counts = mask.sum(1, keepdim=True).clamp(min=1)
    return tokens.masked_fill(~mask.unsqueeze(-1), 0).sum(1) / counts


def intra_space_loss(tokens: Tensor, centroids: Tensor, mask: Tensor) -> Tensor:
    """Sum the inverse variances over a text's tokens, averaged over texts.

    A text of one token has no variance: it is left out of the average, which is 0 where no text remains.

    Args:
        tokens: (n, M, K) places of the tokens.
        centroids: (n, K) their means.
        mask: (n, M), true where there is a token.
    """
    counts = mask.sum(1)
    deviations = (tokens - centroids.unsqueeze(1)).masked_fill(~mask.unsqueeze(-1), 0)
    variances = deviations.square().sum(1) / (counts - 1).clamp(min=1).unsqueeze(-1)
    has_variance = counts > 1
    sums = (1 / (variances + EPSILON)).sum(1) * has_variance
    return sums.sum() / has_variance.sum().clamp(min=1)


def inter_space_loss(centroids: Tensor) -> Tensor:
    """Say how much the batch's mean centroids (n, C, m) of different spaces point the same way."""
    means = centroids.mean(0)
    closeness = 1 / (1 - (means @ means.T).tanh() + EPSILON)
    return closeness.triu(diagonal=1).sum()
