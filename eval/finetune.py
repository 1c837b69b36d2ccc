"""Fine-tuning of one classifier: batches of like length, AdamW with linear decay, the best epoch kept.

Tokens are made once and padded per batch, to the longest input of the batch and not to a fixed length: with
short inputs that is where most of the time would go, and it changes nothing in the result.

Shapes: B examples of a batch, T tokens of its longest, C labels, N examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel, get_linear_schedule_with_warmup

from eval.config import GlueConfig

# Batches are sorted by length within so many of them, so that the order of examples stays random.
BATCHES_SORTED_TOGETHER = 50
# That of the Hugging Face trainer, which the BabyLM pipelines use.
MAX_GRAD_NORM = 1.0


@dataclass(frozen=True)
class Encoded:
    """Examples as tokens: N lists of token ids, special tokens included, and their N labels."""

    input_ids: Sequence[Sequence[int]]
    labels: np.ndarray

    def take(self, indices: Sequence[int] | np.ndarray) -> Encoded:
        """Return the examples at those indices."""
        return Encoded([self.input_ids[i] for i in indices], self.labels[np.asarray(indices, dtype=int)])

    def __len__(self) -> int:
        return len(self.input_ids)


@dataclass(frozen=True)
class FineTuned:
    """How a fine-tuning went.

    Attributes:
        best_epoch: From 1; the model has its weights.
        scores: The selection score after each epoch, in percent.
    """

    best_epoch: int
    scores: tuple[float, ...]


def fine_tune(
    model: PreTrainedModel,
    train: Encoded,
    selection: Encoded,
    metric: Callable[[np.ndarray, np.ndarray], float],
    config: GlueConfig,
    report: Callable[[str], None] = lambda message: None,
) -> FineTuned:
    """Train a classifier and leave it with the weights of its best epoch.

    The best epoch has the highest metric on ``selection``; among equals, which small sets have many of, the
    lowest loss. Training stops after ``config.patience`` epochs that are not better.

    Args:
        model: A sequence classifier with ``pad_token_id`` in its config; changed in place.
        train: What it is trained on.
        selection: What the epoch is chosen on.
        metric: From (N,) labels and (N,) predictions to percent.
        config: Learning rate, batch size and so on. Its seed decides the order of the examples; dropout draws
            from torch's global generator, which the caller seeds before making the model.
        report: Told of each epoch.
    """
    generator = np.random.default_rng(config.seed)
    size = config.per_device_train_batch_size
    steps_per_epoch = -(-len(train) // size)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )
    schedule = get_linear_schedule_with_warmup(optimizer, 0, steps_per_epoch * config.num_train_epochs)
    best, best_epoch, best_weights = (-np.inf, -np.inf), 0, {}
    scores: list[float] = []
    for epoch in range(1, config.num_train_epochs + 1):
        model.train()
        for indices in shuffled_batches(train, size, generator):
            batch = train.take(indices)
            loss = F.cross_entropy(_logits(model, batch), torch.as_tensor(batch.labels, device=model.device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
            optimizer.step()
            schedule.step()
        logits = predict(model, selection, size)
        scores.append(metric(selection.labels, logits.argmax(1)))
        report(f"epoch {epoch}/{config.num_train_epochs} {scores[-1]:.1f}")
        now = (scores[-1], -_mean_loss(logits, selection.labels))
        if now > best:
            best, best_epoch = now, epoch
            best_weights = {key: value.detach().clone() for key, value in model.state_dict().items()}
        if epoch - best_epoch >= config.patience:
            break
    model.load_state_dict(best_weights)
    return FineTuned(best_epoch, tuple(scores))


@torch.inference_mode()
def predict(model: PreTrainedModel, data: Encoded, batch_size: int) -> np.ndarray:
    """Return (N, C) logits in the order of the examples."""
    model.eval()
    parts = []
    order = np.argsort([len(ids) for ids in data.input_ids], kind="stable")
    for first in range(0, len(order), batch_size):
        indices = order[first : first + batch_size]
        parts.append(_logits(model, data.take(indices)).cpu().numpy())
    logits = np.concatenate(parts)
    return logits[np.argsort(order, kind="stable")]


def shuffled_batches(data: Encoded, size: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield every example once, in random batches whose examples are of like length."""
    lengths = np.array([len(ids) for ids in data.input_ids])
    order = generator.permutation(len(data))
    batches: list[np.ndarray] = []
    for first in range(0, len(order), size * BATCHES_SORTED_TOGETHER):
        pool = order[first : first + size * BATCHES_SORTED_TOGETHER]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += [pool[start : start + size] for start in range(0, len(pool), size)]
    for index in generator.permutation(len(batches)):
        yield batches[index]


def _logits(model: PreTrainedModel, batch: Encoded) -> Tensor:
    """Return (B, C) logits in fp32 of a batch, padded on the right to its longest input."""
    ids, mask = _pad(batch.input_ids, model.config.pad_token_id, model.device)
    return model(input_ids=ids, attention_mask=mask).logits.float()


def _pad(
    sequences: Sequence[Sequence[int]], pad_token_id: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    longest = max(map(len, sequences))
    ids = torch.full((len(sequences), longest), pad_token_id)
    mask = torch.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence)
        mask[row, : len(sequence)] = 1
    return ids.to(device), mask.to(device)


def _mean_loss(logits: np.ndarray, labels: np.ndarray) -> float:
    return float(F.cross_entropy(torch.from_numpy(logits).double(), torch.as_tensor(labels)))
