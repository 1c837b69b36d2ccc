"""A model's own objective: its loss on held-out text, and fine-tuning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from transformers import PreTrainedModel

from base.text.masking import IGNORE
from ffn_variants.swap.fit import on_device
from ffn_variants.swap.pieces import Batch, Batcher


@torch.no_grad()
def held_out_loss(model: PreTrainedModel, batches: Iterable[Batch], is_causal: bool) -> float:
    """Mean loss of a model in evaluation mode, in nats per predicted token.

    Args:
        model: Gives the mean loss of a batch.
        batches: What to measure it on.
        is_causal: Whether the model predicts the next token, and so not the first one of a piece.
    """
    total, count = 0.0, 0
    for batch in batches:
        labels = batch["labels"][:, 1:] if is_causal else batch["labels"]
        if predicted := int((labels != IGNORE).sum()):
            total += float(model(**on_device(model, batch)).loss) * predicted
            count += predicted
    return total / count


def finetune(
    model: PreTrainedModel,
    batcher: Batcher,
    pieces: Sequence[np.ndarray],
    *,
    steps: int,
    learning_rate: float,
    batch_size: int,
    seed: int,
    advance: Callable[[], object] = lambda: None,
) -> None:
    """Train all of a model with its own objective, by AdamW without decay; gradients are clipped to 1.

    Args:
        model: Left in evaluation mode.
        batcher: Makes batches of pieces.
        pieces: Token ids to train on.
        steps: Of AdamW.
        learning_rate: At the start; it falls to zero in a straight line.
        batch_size: Pieces drawn for a step.
        seed: Of the draws, of what is hidden, and of dropout.
        advance: Called after each step.
    """
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    model.train()
    for _ in range(steps):
        drawn = rng.choice(len(pieces), batch_size, replace=False)
        batch = batcher([pieces[number] for number in drawn], rng)
        loss = model(**on_device(model, batch)).loss
        if (batch["labels"] != IGNORE).any():
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        schedule.step()
        advance()
    model.eval()
