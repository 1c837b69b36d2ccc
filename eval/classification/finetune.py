"""Fine-tuning of one classifier: AdamW with a schedule, evaluations on the way, the best weights kept.

Batches are random and as large as asked for, as a padded training's would be: what is saved is their padding
(``eval/classification/encoders.py``), so that nothing about the result depends on it.

Shapes: C labels, N examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from transformers import get_scheduler

from base.errors import UsageError
from base.printing import Tell
from eval.classification.classifier import Classifier, Examples
from eval.classification.heads import HeadOutput
from eval.classification.prediction import autocast, decide, predict
from eval.finetuning import Finetuning
from eval.memory import to_device

Metric = Callable[[np.ndarray, np.ndarray], float]


class DivergedError(UsageError):
    """The logits are no longer finite."""


def finetune(
    classifier: Classifier,
    train: Examples,
    selection: Examples,
    metric: Metric,
    settings: Finetuning,
    seed: int,
    tell: Tell = lambda message: None,
) -> Best:
    """Train a classifier, leave it with its best weights and return what is known of these.

    Best are those with the highest metric on ``selection`` at an evaluation. Where training ends before the
    first evaluation, which ``eval_steps`` allows, the last weights stay, as where nothing is to be chosen.

    Args:
        classifier: Changed in place.
        train: What it is trained on.
        selection: What the weights are chosen on.
        metric: From labels and predictions to percent, (N,) each, or (N, C) where examples have several.
        settings: Learning rate, batch size and so on.
        seed: Of the order of the examples; dropout draws from torch's global generator, which the caller
            seeds before making the model.
        tell: Told of progress.

    Raises:
        DivergedError: If the logits are no longer finite.
    """
    # 70 examples in batches of 16 are 5 steps an epoch; with 10 epochs, the rate falls over 50 steps, and a
    # share of 0.05 as eval_steps is an evaluation every 3 (2.5 rounded up, as transformers does).
    generator = np.random.default_rng(seed)
    steps_per_epoch = num_steps(len(train), settings)
    max_steps = steps_per_epoch * settings.num_train_epochs
    # Where nothing is chosen the last weights are evaluated all the same, which tells when they diverged.
    is_chosen = settings.select_on != "nothing"
    eval_steps = evaluation_interval(steps_per_epoch, settings) if is_chosen else max_steps
    optimizer = build_finetuning_optimizer(classifier, settings)
    scheduler = build_scheduler(optimizer, settings, max_steps)
    best = Best(settings)
    epochs = range(1, settings.num_train_epochs + 1)
    batches = ((n, each) for n in epochs for each in shuffled_batches(len(train), generator, settings))
    step = 0
    for step, (epoch, indices) in enumerate(batches, start=1):
        update(classifier, train.take(indices), optimizer, settings)
        scheduler.step()
        tell(f"epoch {epoch}/{settings.num_train_epochs} step {step}/{max_steps}{best.text}")
        if step % eval_steps == 0:
            best.judge(classifier, step, selection, metric)
            if best.is_exhausted:
                break
    best.restore(classifier)
    best.step = best.step or step
    return best


def update(
    classifier: Classifier, batch: Examples, optimizer: torch.optim.Optimizer, settings: Finetuning
) -> None:
    """Train on a batch once. A GPU is not waited for."""
    classifier.train()
    with autocast(classifier.device, settings.dtype):
        output = classifier(batch)
    training_loss(output, to_device(batch.labels, classifier.device)).backward()
    if settings.max_grad_norm is not None:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def training_loss(output: HeadOutput, labels: torch.Tensor) -> torch.Tensor:
    """Compute what training lowers: cross-entropy, and what the head adds to it.

    Where examples may have several labels, the cross-entropy is that of each label by itself.

    Args:
        output: Of n examples and C labels.
        labels: (n,), or (n, C) of 0 and 1.
    """
    logits = output.logits.to(torch.promote_types(output.logits.dtype, torch.float32))
    labels = labels.to(logits.device)
    if labels.ndim == 2:
        loss = F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
    else:
        loss = F.cross_entropy(logits, labels)
    return loss if output.auxiliary_loss is None else loss + output.auxiliary_loss


class Best:
    """The best weights so far, and for how many evaluations there were none better.

    Attributes:
        step: Of the best weights; the last one where nothing was evaluated on the way.
        scores: The score on the selection set at each evaluation, in percent.
        key: The highest of them, and minus its loss where that breaks ties; None where there is none.
    """

    def __init__(self, settings: Finetuning) -> None:
        self.settings = settings
        self.step, self.scores, self.waited = 0, list[float](), 0
        self.key: tuple[float, float] | None = None
        self._weights: dict[str, torch.Tensor] = {}

    @property
    def text(self) -> str:
        """The best score, to be shown."""
        if not self.scores:
            return ""
        name = "held-out" if self.settings.select_on == "held-out" else "validation"
        return f" {name} {max(self.scores):.1f}"

    @property
    def is_exhausted(self) -> bool:
        return self.settings.patience is not None and self.waited >= self.settings.patience

    def judge(self, classifier: Classifier, step: int, selection: Examples, metric: Metric) -> None:
        """Evaluate, and keep the weights if they are the best."""
        size, dtype = self.settings.per_device_train_batch_size, self.settings.dtype
        logits = predict(classifier, selection, size, dtype).logits
        if not np.isfinite(logits).all():
            raise DivergedError(
                f"fine-tuning diverged before step {step}: logits are not finite; lower "
                f"--finetune.learning-rate (is {self.settings.learning_rate:g})"
            )
        predictions = decide(logits, selection.labels.ndim == 2)
        score, before = metric(selection.labels, predictions), max(self.scores, default=-math.inf)
        key = (score, -_mean_loss(logits, selection.labels) if self.settings.loss_breaks_ties else 0.0)
        is_best = self.key is None or key > self.key
        # As transformers' EarlyStoppingCallback counts, except that a lower loss at a tie counts too.
        threshold = 100 * self.settings.threshold
        self.waited = 0 if is_best and (not threshold or score - before > threshold) else self.waited + 1
        self.scores.append(score)
        if is_best:
            self.key, self.step = key, step
            self._weights = {
                name: value.detach().clone() for name, value in trained_state(classifier).items()
            }

    def restore(self, classifier: Classifier) -> None:
        """Give a classifier the best weights, if any were judged."""
        if self._weights:
            classifier.load_state_dict(self._weights, strict=False)


def trained_state(classifier: nn.Module) -> dict[str, torch.Tensor]:
    """Return the state of a classifier without the parameters that training leaves as they are."""
    frozen = {name for name, parameter in classifier.named_parameters() if not parameter.requires_grad}
    return {name: value for name, value in classifier.state_dict().items() if name not in frozen}


def num_steps(num_examples: int, settings: Finetuning) -> int:
    """Steps of an epoch; at least one, even where examples are dropped that fill no batch."""
    size = settings.per_device_train_batch_size
    return max(1, num_examples // size) if settings.dataloader_drop_last else -(-num_examples // size)


def evaluation_interval(steps_per_epoch: int, settings: Finetuning) -> int:
    """Steps from one evaluation to the next, as transformers counts them."""
    if settings.eval_steps is None:
        return steps_per_epoch
    if settings.eval_steps < 1:
        return math.ceil(settings.eval_steps * steps_per_epoch * settings.num_train_epochs)
    return int(settings.eval_steps)


def shuffled_batches(
    num_examples: int, generator: np.random.Generator, settings: Finetuning
) -> Iterator[np.ndarray]:
    """Yield the indices of an epoch's batches, each example at most once and in random order."""
    order, size = generator.permutation(num_examples), settings.per_device_train_batch_size
    for number in range(num_steps(num_examples, settings)):
        yield order[number * size : (number + 1) * size]


def build_finetuning_optimizer(classifier: Classifier, settings: Finetuning) -> torch.optim.Optimizer:
    """AdamW over what is trained; the head may have a learning rate of its own."""
    head = {id(parameter) for parameter in classifier.head_parameters()}
    trained = [parameter for parameter in classifier.parameters() if parameter.requires_grad]
    rates = (settings.learning_rate, settings.head_learning_rate or settings.learning_rate)
    groups = [
        {"params": [p for p in trained if (id(p) in head) == is_head], "lr": rate}
        for is_head, rate in zip((False, True), rates, strict=True)
    ]
    used = [group for group in groups if group["params"]]
    return torch.optim.AdamW(used, weight_decay=settings.weight_decay, fused=True)


def build_scheduler(
    optimizer: torch.optim.Optimizer, settings: Finetuning, max_steps: int
) -> torch.optim.lr_scheduler.LRScheduler:
    """Warm-up and decay over ``max_steps`` updates."""
    name, warmup = settings.lr_scheduler_type, int(settings.warmup_ratio * max_steps)
    options = {}
    if name == "cosine" and settings.min_lr_rate:
        name, options = "cosine_with_min_lr", {"min_lr_rate": settings.min_lr_rate}
    if name == "constant" and warmup:
        name = "constant_with_warmup"
    return get_scheduler(name, optimizer, warmup, max_steps, scheduler_specific_kwargs=options)


def _mean_loss(logits: np.ndarray, labels: np.ndarray) -> float:
    return float(training_loss(HeadOutput(torch.from_numpy(logits).double()), torch.from_numpy(labels)))
