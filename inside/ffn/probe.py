"""A run's model with held-out text: its loss, and what its layers read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from accelerate.utils import set_seed
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from base.errors import UsageError
from base.families import get_family
from base.run.folders import RunFolder
from base.text.corruption import IGNORE
from base.text.files import read_documents
from eval.zero_shot.task import evenly_spaced
from ffn_variants.kernels.compilation import eager_kernels
from ffn_variants.models.loading import load_language_model
from pretrain.config import RunConfig
from pretrain.data import corpus
from pretrain.data.batches import Batch, BatchSource
from pretrain.data.packing import PackedSplit, pack
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


def read_held_out(
    run: RunFolder, config: RunConfig, text_file: Path | None, num_tokens: int | None
) -> HeldOutText:
    """Pack the documents that a run's training held out, or those of a file.

    Args:
        run: The run, whose tokenizer is used.
        config: Its configuration.
        text_file: Other text (.txt, .jsonl, .parquet).
        num_tokens: About so many tokens, of documents evenly spaced over all; None for all.

    Raises:
        UsageError: If the text is not there, or too short to say anything.
    """
    tokenizer = load_tokenizer(run.model_dir, get_family(config.family).objective)
    texts = list(corpus.held_out(config.data) if text_file is None else read_documents([text_file], "text"))
    where = str(text_file) if text_file else "the text that its training held out"
    documents = [np.array(ids) for ids in encode_batch(tokenizer, texts)] if texts else []
    total = sum(map(len, documents))
    if num_tokens is not None and total > num_tokens:
        documents = evenly_spaced(documents, max(1, round(len(documents) * num_tokens / total)))
    pad = int(tokenizer.pad_token_id)  # type: ignore[arg-type]
    batches = _batches(config, tokenizer, documents, pad) if documents else ()
    num_targets = sum(int((batch["target_ids"] != IGNORE).sum()) for batch in batches)
    if num_targets < FEWEST_TARGETS:
        raise UsageError(
            f"{where} has {num_targets} tokens to predict, and an inspection needs {FEWEST_TARGETS} or "
            "more; name a longer one by --text-file"
        )
    return HeldOutText(batches, sum(map(len, documents)), num_targets, pad)


def _batches(
    config: RunConfig, tokenizer: PreTrainedTokenizerFast, documents: Sequence[np.ndarray], pad: int
) -> tuple[Batch, ...]:
    lengths = np.array([len(ids) for ids in documents])
    tokens = np.concatenate(documents)
    input_ids, position_ids, _ = pack(tokens, lengths, config.data.block_size, pad)
    split = PackedSplit(input_ids, position_ids, len(documents), len(tokens))
    return tuple(BatchSource(config, build_masker(config, tokenizer), pad).held_out(split))


def untrained(config: RunConfig, like: PreTrainedModel) -> PreTrainedModel:
    """Build a run's model as its training began: the seed decides every weight.

    Args:
        config: The run.
        like: Its trained model, of which the size of the vocabulary and the special tokens are taken.
    """
    set_seed(config.seed)
    ids = {name: getattr(like.config, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    return build(config, int(like.config.vocab_size), ids).eval()


class Probe:
    """A model whose loss on held-out text is asked for again and again, while its weights are changed.

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
        read: dict[nn.Module, list[Tensor]] = {module: [] for module in modules}
        decoder = set(getattr(self.model, "decoder", nn.Module()).modules())

        def keep(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            stream = "decoder_input_ids" if module in decoder else "input_ids"
            is_real = (batch[stream] != self.text.pad_token_id).flatten()
            read[module].append(args[0].flatten(0, -2)[is_real])

        handles = [module.register_forward_pre_hook(keep) for module in modules]
        try:
            with eager_kernels():
                for batch in self.text.batches:
                    self._loss(**batch)
        finally:
            for handle in handles:
                handle.remove()
        return [torch.cat(parts) for parts in read.values()]

    @contextlib.contextmanager
    def changed(self, values: Mapping[Tensor, Tensor]) -> Iterator[None]:
        """Have parameters hold other values for a while."""
        before = {parameter: parameter.detach().clone() for parameter in values}
        with torch.no_grad():
            for parameter, value in values.items():
                parameter.copy_(value)
            try:
                yield
            finally:
                for parameter, value in before.items():
                    parameter.copy_(value)


def open_model(run: RunFolder, config: RunConfig, trust_remote_code: bool) -> PreTrainedModel:
    """Load a run's trained model onto the CPU, in float32.

    Raises:
        UsageError: If it is not there, or cannot be loaded.
    """
    objective = get_family(config.family).objective
    return load_language_model(run.model_dir, objective, "cpu", trust_remote_code)[0]
