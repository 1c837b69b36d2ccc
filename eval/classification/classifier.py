"""Classifiers: a backbone and a head, trained together or the head alone.

Shapes: n examples of a batch, M vectors of the longest, D hidden_size, C labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import GPTNeoForSequenceClassification, PreTrainedModel, RobertaForSequenceClassification

from eval.classification.config import Pooling
from eval.classification.encoders import Encoder, fits, make_encoder
from eval.classification.heads.layers import HeadOutput
from eval.classification.inputs.chunks import embed_in_chunks
from eval.classification.inputs.layout import padded_inputs
from eval.classification.inputs.segments import Segmented
from eval.classification.inputs.tokens import Encoded, Resident
from eval.models.transfers import all_to_device
from ffn_variants.models.faster_layers import cast_inputs_once
from scores.heads.spec import Reads

Batch = Encoded | Resident | Segmented


class StockHead(nn.Module):
    """The head of transformers' own sequence classifier, on the token that it reads.

    Args:
        model: A GPT-Neo or RoBERTa classifier; its head stays where it is.
    """

    def __init__(self, model: GPTNeoForSequenceClassification | RobertaForSequenceClassification) -> None:
        super().__init__()
        self.is_roberta = isinstance(model, RobertaForSequenceClassification)
        self.layers: Any = model.classifier if self.is_roberta else model.score

    def forward(self, vectors: Tensor, mask: Tensor | None = None) -> HeadOutput:
        # RoBERTa's picks the first token itself.
        return HeadOutput(self.layers(vectors[:, None] if self.is_roberta else vectors))


class Classifier(nn.Module):
    """What fine-tuning trains."""

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.parameters()).device

    @property
    def body(self) -> PreTrainedModel:
        """The backbone."""
        raise NotImplementedError

    def forward(self, batch: Any) -> HeadOutput:
        """Classify a batch."""
        raise NotImplementedError

    def head_parameters(self) -> list[nn.Parameter]:
        """Those that are no part of the backbone."""
        raise NotImplementedError


class HeadClassifier(Classifier):
    """A head on a backbone.

    Args:
        encoder: The backbone.
        head: Takes what ``embed`` gives.
        reads: One vector an example, its tokens' or its segments'.
        pooling: From the vectors of a text or of a segment to one.
        is_frozen: Keep the backbone's weights; it is then computed without dropout and without gradients.
        dropout: Of what the head reads, while it is trained.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        reads: Reads = "example",
        pooling: Pooling = "auto",
        is_frozen: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.reads: Reads = reads
        self.pooling: Pooling = pooling
        self.is_frozen = is_frozen
        self.dropout = nn.Dropout(dropout)
        if is_frozen:
            encoder.requires_grad_(False).eval()

    @property
    def body(self) -> PreTrainedModel:
        return self.encoder.body

    def forward(self, batch: Batch) -> HeadOutput:
        """Classify a batch."""
        vectors, mask = self.embed(batch)
        return self.head(self.dropout(vectors), mask)

    def embed(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return what the head reads: (n, D) and None, or (n, M, D) and a (n, M) mask."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.is_frozen):
            if isinstance(batch, Segmented):
                return stack(embed_in_chunks(self._pooled, batch.pieces, device=self.device), batch.counts)
            if self.reads == "tokens":
                return self.encoder.tokens(batch)
            return self._pooled(batch), None

    def train(self, mode: bool = True) -> HeadClassifier:
        """Switch to training; a frozen backbone stays as it predicts."""
        super().train(mode)
        if self.is_frozen:
            self.encoder.eval()
        return self

    def head_parameters(self) -> list[nn.Parameter]:
        return list(self.head.parameters())

    def _pooled(self, batch: Encoded | Resident) -> Tensor:
        return self.encoder.pooled(batch, self.pooling)


class PaddedClassifier(Classifier):
    """transformers' own classifier of any architecture, with a batch padded to its longest example.

    Args:
        model: A sequence classifier that reads padding on the right.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model: Any = model
        cast_inputs_once(model)

    @property
    def body(self) -> PreTrainedModel:
        return self.model.base_model

    def forward(self, batch: Encoded | Resident) -> HeadOutput:
        """Classify a batch."""
        return HeadOutput(self.model(**padded_inputs(self.model, batch)).logits)

    def head_parameters(self) -> list[nn.Parameter]:
        backbone = {id(parameter) for parameter in self.model.base_model.parameters()}
        return [parameter for parameter in self.model.parameters() if id(parameter) not in backbone]


def make_classifier(model: PreTrainedModel, is_frozen: bool = False) -> HeadClassifier | PaddedClassifier:
    """Wrap transformers' own classifier in the fastest way that computes it; its weights stay where they are.

    Args:
        model: With its head.
        is_frozen: Keep the backbone's weights.

    Raises:
        ValueError: If the backbone of a model of another architecture is to be frozen.
    """
    known = isinstance(model, GPTNeoForSequenceClassification | RobertaForSequenceClassification)
    if known and fits(model):
        return HeadClassifier(make_encoder(model), StockHead(model), is_frozen=is_frozen)
    if is_frozen:
        raise ValueError("transformers' own head is part of such a model")
    return PaddedClassifier(model)


def stack(vectors: Tensor, counts: np.ndarray) -> tuple[Tensor, Tensor]:
    """Put ragged vectors into one tensor.

    Args:
        vectors: (N, D), those of the first example first.
        counts: (n,) vectors of each example.

    Returns:
        (n, M, D), zero behind an example's last, and (n, M), true where there is a vector.
    """
    inside = np.arange(counts.max()) < counts[:, None]
    places, mask = all_to_device((np.flatnonzero(inside), inside), vectors.device)
    out = vectors.new_zeros(inside.size, vectors.shape[1]).index_copy(0, places, vectors)
    return out.view(*inside.shape, -1), mask.bool()
