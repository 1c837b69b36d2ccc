"""A model's loss on held-out text, and what its layers read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from accelerate.utils import set_seed
from torch import Tensor, nn
from transformers import PreTrainedModel

from base.errors import UsageError
from base.families import get_family
from base.run.folder_names import RunFolder
from base.text.corruption import IGNORE
from eval.zero_shot.text_task import evenly_spaced
from ffn_variants.kernels.compilation import eager_kernels
from pretrain.config import ResolvedConfig
from pretrain.data import corpus
from pretrain.data.packing import PackedSplit, pack
from pretrain.data.step_batches import Batch, BatchSource
from pretrain.data.tokenizer import encode_batch, load_tokenizer
from pretrain.model.build import build, build_masker
from pretrain.model.objective import build_loss

FEWEST_TARGETS = 64
"""Predicted tokens below which a loss says nothing."""


@dataclass(frozen=True)
class HeldOutText:
    """Packed held-out text as a run's training would read it.

    Attributes:
        batches: Forward passes, masks drawn as at every evaluation of the training.
        num_tokens: Without padding.
        num_targets: Predicted tokens.
        pad_token_id: What fills rows.
    """

    batches: tuple[Batch, ...]
    num_tokens: int
    num_targets: int
    pad_token_id: int


def read_held_out(run: RunFolder, config: ResolvedConfig, num_tokens: int | None = None) -> HeldOutText:
    """Pack the documents that a run's training held out.

    Args:
        run: The run, whose tokenizer is used.
        config: Its configuration.
        num_tokens: About so many tokens, of documents evenly spaced over all; None for all.

    Raises:
        UsageError: If the text is not there, or too short to say anything.
    """
    tokenizer = load_tokenizer(run.model_dir, get_family(config.family).objective)
    documents = [np.array(ids) for ids in encode_batch(tokenizer, list(corpus.held_out(config.data)))]
    total = sum(map(len, documents))
    if num_tokens is not None and total > num_tokens:
        documents = evenly_spaced(documents, max(1, round(len(documents) * num_tokens / total)))
    lengths, tokens = np.array([len(ids) for ids in documents]), np.concatenate(documents)
    pad = int(tokenizer.pad_token_id)  # type: ignore[arg-type]
    input_ids, position_ids = pack(tokens, lengths, config.data.block_size, pad)
    split = PackedSplit(input_ids, position_ids, len(documents), len(tokens))
    batches = tuple(BatchSource(config, build_masker(config, tokenizer), pad).held_out(split))
    num_targets = sum(int((batch["target_ids"] != IGNORE).sum()) for batch in batches)
    if num_targets < FEWEST_TARGETS:
        raise UsageError(
            f"{run.path}: its held-out text has {num_targets} tokens to predict, and an inspection needs "
            f"{FEWEST_TARGETS} or more; raise --tokens, or hold out more in the training"
        )
    return HeldOutText(batches, len(tokens), num_targets, pad)


def untrained(config: ResolvedConfig, like: PreTrainedModel) -> PreTrainedModel:
    """Build a run's model as its training began: the seed decides every weight.

    Args:
        config: The run.
        like: Its trained model, of which the size of the vocabulary and the special tokens are taken.
    """
    set_seed(config.seed)
    ids = {name: getattr(like.config, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    return build(config, int(like.config.vocab_size), ids).eval()


class Probe:
    """A model whose loss on held-out text is computed again and again, while its weights are changed.

    Args:
        model: A language model; its attention is exchanged for one that reads packed documents.
        family: Its family.
        text: What it reads.
    """

    def __init__(self, model: PreTrainedModel, family: str, text: HeldOutText) -> None:
        self.model, self.text = model, text
        self._loss = build_loss(model.eval(), family).eval()

    @torch.no_grad()
    def loss(self) -> float:
        """Mean loss of the predicted tokens, in nats."""
        with eager_kernels():
            total = sum(float(self._loss(**batch)) for batch in self.text.batches)
        return total / self.text.num_targets

    @torch.no_grad()
    def inputs(self, modules: Sequence[nn.Module]) -> list[Tensor]:
        """What modules read: (N, I) each, padding left out."""
        inputs: dict[nn.Module, list[Tensor]] = {module: [] for module in modules}
        decoder = set(getattr(self.model, "decoder", nn.Module()).modules())

        def keep(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            stream = "decoder_input_ids" if module in decoder else "input_ids"
            is_real = (batch[stream] != self.text.pad_token_id).flatten()
            inputs[module].append(args[0].flatten(0, -2)[is_real])

        handles = [module.register_forward_pre_hook(keep) for module in modules]
        with eager_kernels():
            for batch in self.text.batches:
                self._loss(**batch)
        for handle in handles:
            handle.remove()
        return [torch.cat(parts) for parts in inputs.values()]
