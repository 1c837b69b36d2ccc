"""Classifiers: a backbone and a head, trained together or the head alone.

Shapes: n examples of a batch, M vectors of the longest, D hidden_size, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    GPTNeoForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    RobertaForSequenceClassification,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from base.errors import UsageError
from base.records import peek_record
from base.text.tokens import read_tokenizer, with_ends
from eval.classification.classification_task import ClassificationTask
from eval.classification.encoders import Encoder, embed_in_chunks, fits, make_encoder, padded_inputs
from eval.classification.example_tokens import Encoded, about, places_of
from eval.classification.heads import HeadOutput, build_head
from eval.classification.segments import Segmented
from eval.finetuning import Finetuning, Pooling
from eval.memory import all_to_device, to_device
from ffn_variants.devices import choose_device
from ffn_variants.models.faster_layers import cast_inputs_once
from ffn_variants.models.loading import check_loaded, load_pretrained
from scores.head_descriptions import DEFAULT_HEAD, Reads, check_head, get_head, parse_head


@dataclass(frozen=True)
class Features:
    """Examples as vectors, one after another.

    Attributes:
        vectors: (V, D) float32.
        lengths: (n,) vectors of each example.
        labels: (n,), or (n, C) where examples have several.
        truncated: (n,) whether an example lost tokens.
        idx: n names of the examples.
    """

    vectors: torch.Tensor
    lengths: np.ndarray
    labels: np.ndarray
    truncated: np.ndarray
    idx: np.ndarray

    def take(self, indices: Sequence[int] | np.ndarray) -> Features:
        """Return the examples at those indices, in that order."""
        indices = np.asarray(indices, dtype=np.int64)
        places = to_device(places_of(self.lengths, indices), self.vectors.device)
        return Features(self.vectors[places], self.lengths[indices], **about(self, indices))

    def __len__(self) -> int:
        return len(self.lengths)


Batch = Encoded | Segmented
Examples = Batch | Features


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

    def head_parameters(self) -> list[nn.Parameter]:
        """Those that are no part of the backbone."""
        backbone = {id(parameter) for parameter in self.body.parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in backbone]


class HeadClassifier(Classifier):
    """A head on a backbone.

    Args:
        encoder: The backbone.
        head: Takes what ``embed`` gives.
        reads: One vector an example, its tokens' or its segments'.
        pooling: From the vectors of a text or of a segment to one.
        is_frozen: Keep the backbone's weights; it is then computed without gradients.
        dropout: Of what the head reads, while it is trained.
        frozen_dropout: A frozen backbone has its own dropout too, while the head is trained.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        reads: Reads = "example",
        pooling: Pooling = "auto",
        is_frozen: bool = False,
        dropout: float = 0.0,
        frozen_dropout: bool = False,
    ) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.reads: Reads = reads
        self.pooling: Pooling = pooling
        self.is_frozen = is_frozen
        self.frozen_dropout = frozen_dropout
        self.dropout = nn.Dropout(dropout)
        if is_frozen:
            encoder.requires_grad_(False).eval()

    @property
    def body(self) -> PreTrainedModel:
        return self.encoder.body

    def forward(self, batch: Examples) -> HeadOutput:
        """Classify a batch, from its tokens or from what the frozen backbone made of them."""
        vectors, mask = self._from_features(batch) if isinstance(batch, Features) else self.embed(batch)
        return self.head(self.dropout(vectors), mask)

    def embed(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return what the head reads: (n, D) and None, or (n, M, D) and a (n, M) mask."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.is_frozen):
            if isinstance(batch, Segmented):
                return stack(embed_in_chunks(self._pooled, batch.pieces, device=self.device), batch.counts)
            if self.reads == "tokens":
                return self.encoder.tokens(batch)
            return self._pooled(batch), None

    def _from_features(self, batch: Features) -> tuple[Tensor, Tensor | None]:
        return (batch.vectors, None) if self.reads == "example" else stack(batch.vectors, batch.lengths)

    def train(self, mode: bool = True) -> HeadClassifier:
        """Switch to training; a frozen backbone stays as it predicts, unless it is to drop out."""
        super().train(mode)
        if self.is_frozen and not self.frozen_dropout:
            self.encoder.eval()
        return self

    def _pooled(self, batch: Encoded) -> Tensor:
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

    def forward(self, batch: Encoded) -> HeadOutput:
        """Classify a batch."""
        return HeadOutput(self.model(**padded_inputs(self.model, batch)).logits)


def make_classifier(model: PreTrainedModel, is_frozen: bool = False) -> HeadClassifier | PaddedClassifier:
    """Wrap transformers' own classifier in the fastest way that computes it; its weights stay where they are.

    Args:
        model: With its head.
        is_frozen: Keep the backbone's weights.

    Raises:
        UsageError: If the backbone of a model of another architecture is to be frozen.
    """
    is_known = isinstance(model, GPTNeoForSequenceClassification | RobertaForSequenceClassification)
    if is_known and fits(model):
        return HeadClassifier(make_encoder(model), StockHead(model), is_frozen=is_frozen)
    if is_frozen:
        raise UsageError(
            f"the backbone of a {type(model).__name__} cannot be frozen under transformers' own head; "
            "choose another, such as --head linear"
        )
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


def load_classifier_tokenizer(model_dir: Path) -> PreTrainedTokenizerBase:
    """Load a run's tokenizer; with it a single text ends in eos, as in the training of a causal model.

    Raises:
        UsageError: If it has no padding token, which a classifier needs to batch examples.
    """
    tokenizer = with_ends(read_tokenizer(model_dir))
    if tokenizer.pad_token_id is None:
        raise UsageError(
            f"the tokenizer in {model_dir} has no pad_token, which fine-tuning in batches needs; set "
            "tokenizer.pad_token to one that no text contains, and save it there again"
        )
    return tokenizer


def load_classifier(
    model_dir: Path, num_labels: int, seed: int, tokenizer: PreTrainedTokenizerBase, device: str | None = None
) -> PreTrainedModel:
    """Load a run's backbone under a new classification head.

    Args:
        model_dir: What ``save_pretrained`` wrote.
        num_labels: Outputs of the head.
        seed: Seeds torch's global generator, which the head's weights and later the dropout draw from.
        tokenizer: Says which token is padding.
        device: Where to put it; None chooses.

    Raises:
        UsageError: If weights other than the head's are missing.
    """
    torch.manual_seed(seed)
    model, info = load_pretrained(
        AutoModelForSequenceClassification, model_dir, num_labels=num_labels, **_padding(model_dir, tokenizer)
    )
    check_loaded(info, backbone=model.base_model_prefix, folder=model_dir)
    return model.to(choose_device(device))


def load_backbone(
    model_dir: Path, tokenizer: PreTrainedTokenizerBase, device: str | None = None
) -> PreTrainedModel:
    """Load a model without any head.

    Args:
        model_dir: What ``save_pretrained`` wrote.
        tokenizer: Says which token is padding.
        device: Where to put it; None chooses.

    Raises:
        UsageError: If weights are missing.
    """
    model, info = load_pretrained(AutoModel, model_dir, **_padding(model_dir, tokenizer))
    # BERT's and RoBERTa's own layer behind the first token, which language models lack.
    info["missing_keys"] = [key for key in info["missing_keys"] if not key.startswith("pooler.")]
    check_loaded(info, backbone=None, folder=model_dir)
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model.to(choose_device(device))


def _padding(model_dir: Path, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Say which token is padding; a masked model keeps its own, from which RoBERTa counts its positions."""
    saved = peek_record(model_dir / "config.json")
    kind = str(saved.get("model_type"))
    is_masked = kind.removeprefix("ffn_") in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if is_masked and saved.get("pad_token_id") is not None:
        return {}
    return {"pad_token_id": tokenizer.pad_token_id}


def load_for_task(
    model_dir: Path,
    task: ClassificationTask,
    settings: Finetuning,
    seed: int,
    tokenizer: PreTrainedTokenizerBase,
    device: str | None = None,
) -> HeadClassifier | PaddedClassifier:
    """Load the classifier that a task is fine-tuned with.

    Args:
        model_dir: What ``save_pretrained`` wrote.
        task: Has the labels.
        settings: Name the head.
        seed: Seeds torch's global generator, which the head's weights and later the dropout draw from.
        tokenizer: Says which token is padding.
        device: Where to put it; None chooses.

    Raises:
        UsageError: If weights of the backbone are missing, or the head does not fit the task or the model.
    """
    choice = check_head(parse_head(settings.head), task.multi_label)
    if choice.name == DEFAULT_HEAD:
        model = load_classifier(model_dir, task.num_labels, seed, tokenizer, device)
        return make_classifier(model, choice.is_frozen)
    encoder = make_encoder(load_backbone(model_dir, tokenizer, device), settings.pooling)
    torch.manual_seed(seed)
    head = build_head(choice, encoder.body.config.hidden_size, task.num_labels).to(choose_device(device))
    return HeadClassifier(
        encoder,
        head,
        get_head(choice.name).reads,
        settings.pooling,
        choice.is_frozen,
        settings.head_dropout,
        settings.frozen_dropout,
    )
