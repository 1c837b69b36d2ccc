"""``space``: a space for each class, after the Space Model (Tytarenko and Amin 2024, arXiv:2401.16638).

C_i = tanh(E P_i) for the token vectors E of a text and each class i; z = W [mean_t C_1; ...; mean_t C_C] + b.
The loss gets, besides the cross-entropy of z,

    intra_weight * mean over texts of sum_i sum_j 1 / (var_t C_itj + 1e-9)
    inter_weight * sum_{i<k} 1 / (1 - tanh(c_i . c_k) + 1e-9), c_i the mean centroid of the batch in space i

which keep the tokens of a text apart within a space, and the spaces apart. Formulas and weights are those
of the authors' code, https://github.com/StepanTita/space-model (space_model/loss.py); the second one as it
was for their IMDb results (0.2 beside 0.001). Their later inter-space loss reads the labels, which a head
does not see. Ours differ where theirs would count padding as tokens.

Shapes: n texts, M tokens of the longest, D hidden_size, C labels, m dimensions of a space.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eval.classification.heads.output import HeadOutput

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
        intra_weight: float = 0.001,
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
