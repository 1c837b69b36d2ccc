"""From a model's folder to a classifier: its backbone under a new head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from base.errors import UsageError
from base.records import peek_record
from base.text.special_tokens import with_ends
from eval.classification.classifier import HeadClassifier, PaddedClassifier, make_classifier
from eval.classification.config import Finetuning
from eval.classification.encoders import make_encoder
from eval.classification.heads.layers import build_head
from eval.classification.tasks.task import ClassificationTask
from ffn_variants.models.devices import choose_device
from ffn_variants.models.loading import check_loaded, load_pretrained, load_tokenizer
from scores.heads.registry import DEFAULT_HEAD, check_head, get_head, parse_head


def load_classifier_tokenizer(model_dir: Path) -> PreTrainedTokenizerBase:
    """Load a run's tokenizer; with it a single text ends in eos, as in the training of a causal model.

    Raises:
        UsageError: If it has no padding token, which a classifier needs to batch examples.
    """
    tokenizer = with_ends(load_tokenizer(model_dir))
    if tokenizer.pad_token_id is None:
        raise UsageError(
            f"the tokenizer in {model_dir} has no pad_token, which fine-tuning in batches needs; set "
            "tokenizer.pad_token to one that no text contains, and save it there again"
        )
    return tokenizer


def load_classifier(
    model_dir: Path,
    num_labels: int,
    seed: int,
    tokenizer: PreTrainedTokenizerBase,
    device: str | None = None,
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
        AutoModelForSequenceClassification,
        model_dir,
        num_labels=num_labels,
        **_padding(model_dir, tokenizer),
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
        try:
            return make_classifier(model, choice.is_frozen)
        except ValueError:
            raise UsageError(
                f"the backbone of a {type(model).__name__} cannot be frozen under transformers' own head; "
                "choose another, such as --head linear"
            ) from None
    encoder = make_encoder(load_backbone(model_dir, tokenizer, device))
    torch.manual_seed(seed)
    head = build_head(choice, encoder.hidden_size, task.num_labels).to(choose_device(device))
    reads, dropout = get_head(choice.name).reads, settings.head_dropout
    return HeadClassifier(encoder, head, reads, settings.pooling, choice.is_frozen, dropout)
