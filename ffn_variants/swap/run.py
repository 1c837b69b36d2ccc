"""The whole of a swap: load, measure, exchange, fit, fine-tune, save."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from base.baseline import Budget
from base.errors import UsageError, shown
from base.families import FAMILIES, FamilySpec, family_of
from base.files import write_text
from base.model_folders import from_hub
from base.progress import ProgressBar
from base.records import peek_record
from base.text.files import TextSplit, check_split, read_documents
from base.text.paths import check_file, files_of
from base.text.special_tokens import as_prompts
from ffn_variants.budget import matching_width
from ffn_variants.models.families import count_parameters
from ffn_variants.models.layers import ffn_modules
from ffn_variants.models.loading import load_language_model, quiet_transformers
from ffn_variants.registry import get_variant
from ffn_variants.swap.exchange import exchange, layers_of, present_ffns
from ffn_variants.swap.fit import EXACT, captured, fit, relative_error
from ffn_variants.swap.objective import finetune, held_out_loss
from ffn_variants.swap.pieces import SHORTEST, Batcher, Pieces, cut
from ffn_variants.swap.result import LayerResult, Result

LONGEST = 512
"""Tokens of a piece, however many a model has positions for."""


@dataclass(frozen=True)
class Settings:
    """What to put in, and how to fit it; the flags of the command, which say what each is."""

    model: Path
    ffn: str
    data: tuple[Path, ...]
    ffn_options: dict[str, Any] | None = None
    intermediate_size: int | None = None
    ffn_budget: Budget = "width"
    layers: tuple[int, ...] = ()
    tokens: int = 50_000
    held_out_tokens: int = 20_000
    block_size: int | None = None
    steps: int = 1000
    learning_rate: float = 3e-3
    batch_tokens: int = 512
    finetune_steps: int = 0
    finetune_learning_rate: float = 5e-4
    batch_size: int = 16
    text_field: str = "text"
    txt_split: TextSplit = "endoftext"
    seed: int = 1
    trust_remote_code: bool = False


@dataclass(frozen=True)
class Pretrained:
    """A loaded language model, the family that it belongs to, and its tokenizer."""

    model: PreTrainedModel
    family: FamilySpec
    tokenizer: PreTrainedTokenizerBase


def swap(settings: Settings, out: Path) -> Result:
    """Exchange the FFNs of a model, fit them, and save what comes out.

    Args:
        settings: What to do.
        out: Folder for the model, its tokenizer and ``swap.json``.

    Raises:
        UsageError: For whatever cannot be done as it is asked for; nothing is written then.
    """
    _check(settings, out)
    old = _load(settings.model, settings.trust_remote_code)
    work = _Work(settings, old)
    new, result = work.run()
    tokenizer = as_prompts(old.tokenizer) if old.family.objective == "causal" else old.tokenizer
    _save(new, tokenizer, result, out)
    print(result.text())
    print(f"saved to {out}")
    return result


def _check(settings: Settings, out: Path) -> None:
    get_variant(settings.ffn).resolve(settings.ffn_options)
    if out.exists():
        raise UsageError(f"{out} exists; name another folder with --out, or remove it")
    above = next(path for path in out.absolute().parents if path.exists())
    if not above.is_dir():
        raise UsageError(
            f"{above} is a file, so nothing can be saved in {out}; name another folder with --out"
        )
    if not settings.data:
        raise UsageError("--data is missing: texts to fit to; --help says more")
    for path in files_of(settings.data):
        check_file(path)
        check_split(path, settings.txt_split)


def _load(model: Path, trust_remote_code: bool) -> Pretrained:
    """Load a model by its folder, the folder of its run, or its name on the hub."""
    folder = _folder(model)
    stored = peek_record(folder / "config.json")
    family = family_of(str(stored.get("model_type")))
    if family is None:
        raise UsageError(
            f"{model}: FFNs cannot be replaced in a model of type {shown(stored.get('model_type'))}; "
            f"possible are {', '.join(FAMILIES)}, ours or stock"
        )
    loaded, tokenizer = load_language_model(folder, family.objective, None, trust_remote_code)
    return Pretrained(loaded, family, tokenizer)


def _folder(model: Path) -> Path:
    if not model.exists() and len(model.parts) <= 2 and not model.is_absolute():
        return from_hub(model.as_posix())
    found = [model / "config.json", *sorted(model.glob("*/config.json"))]
    folders = [path.parent for path in found if path.is_file()]
    if not folders or (len(folders) > 1 and folders[0] != model):
        raise UsageError(
            f"{model}: holds {'more than one' if folders else 'no'} saved model; give a run's folder, or a "
            "folder with config.json and model.safetensors"
        )
    return folders[0]


class _Work:
    """A swap under way.

    Args:
        settings: What to do.
        old: The model as it was.
    """

    def __init__(self, settings: Settings, old: Pretrained) -> None:
        self.settings, self.old = settings, old
        self.ffns, self.chosen = present_ffns(old.model), _chosen(settings, len(layers_of(old.model)))
        self.new_ffn = _new_ffn(settings, old, self.ffns[self.chosen[0]]["intermediate_size"])
        self.batcher = Batcher(old.family.objective, old.tokenizer)
        self.pieces = _read(settings, old)

    def run(self) -> tuple[PreTrainedModel, Result]:
        """Exchange, fit, fine-tune; returns the new model and what was measured."""
        begun, settings = time.monotonic(), self.settings
        before = self._loss(self.old.model)
        torch.manual_seed(settings.seed)
        new: Any = exchange(self.old.model, self.old.family, self.new_ffn, self.chosen)
        new.to(self.old.model.device)
        swapped, errors = self._loss(new), self._fit_layers(new)
        result = Result(
            model=str(settings.model),
            family=self.old.family.name,
            ffn_before=[self.ffns[number]["ffn"] for number in self.chosen],
            **self.new_ffn,
            layers=self.chosen,
            parameters_before=count_parameters(self.old.model),
            parameters_after=count_parameters(new),
            tokens={name: sum(map(len, part)) for name, part in vars(self.pieces).items()},
            loss_before=before,
            loss_swapped=swapped,
            errors=errors,
            loss_fitted=self._loss(new),
            settings={
                name: str(v) if name in ("model", "data") else v for name, v in asdict(settings).items()
            },
        )
        if settings.finetune_steps:
            self._finetune(new)
            result = replace(result, loss_finetuned=self._loss(new))
        return new, replace(result, minutes=(time.monotonic() - begun) / 60)

    def _loss(self, model: PreTrainedModel) -> float:
        batches = self.batcher.batches(self.pieces.held_out, self.settings.batch_size)
        return held_out_loss(model, batches, self.old.family.objective == "causal")

    def _fit_layers(self, new: PreTrainedModel) -> list[LayerResult]:
        bar = ProgressBar(len(self.chosen) * self.settings.steps, "step", name="fitting", to_stderr=True)
        layers, found = list(layers_of(new).values()), []
        for number in self.chosen:
            parts = ffn_modules(layers[number])
            held_out = self._captured(number, self.pieces.held_out)
            unfitted = error = relative_error(parts, *held_out)
            if error > EXACT and self.settings.steps:
                self._fit(number, parts, bar.advance)
                error = relative_error(parts, *held_out)
            found.append(LayerResult(number, unfitted, error))
            bar.show_beside(f"layer {number}: error {error:.3g}")
        bar.close()
        return found

    def _fit(self, number: int, parts: tuple[torch.nn.Module, ...], advance: Callable[[], None]) -> None:
        settings = self.settings
        fit(
            parts,
            *self._captured(number, self.pieces.train, settings.tokens),
            steps=settings.steps,
            learning_rate=settings.learning_rate,
            batch_tokens=settings.batch_tokens,
            seed=settings.seed + number,
            advance=advance,
        )

    def _captured(
        self, number: int, pieces: list[np.ndarray], tokens: int | None = None
    ) -> tuple[Tensor, Tensor]:
        if tokens is not None:
            enough = int(np.searchsorted(np.cumsum([len(piece) for piece in pieces]), tokens)) + 1
            pieces = pieces[:enough]
        batches = self.batcher.batches(pieces, self.settings.batch_size)
        return captured(self.old.model, number, batches)

    def _finetune(self, new: PreTrainedModel) -> None:
        settings = self.settings
        bar = ProgressBar(settings.finetune_steps, "step", name="fine-tuning", to_stderr=True)
        finetune(
            new,
            self.batcher,
            self.pieces.train,
            steps=settings.finetune_steps,
            learning_rate=settings.finetune_learning_rate,
            batch_size=settings.batch_size,
            seed=settings.seed,
            advance=bar.advance,
        )
        bar.close()


def _chosen(settings: Settings, count: int) -> list[int]:
    """The layers to exchange, in order."""
    wrong = [number for number in settings.layers if not 0 <= number < count]
    if wrong:
        raise UsageError(f"--layers {wrong[0]}: the model's layers with an FFN are 0 to {count - 1}")
    return sorted(set(settings.layers)) or list(range(count))


def _new_ffn(settings: Settings, old: Pretrained, width: int) -> dict[str, Any]:
    options = settings.ffn_options or None
    size = matching_width(
        settings.ffn,
        options,
        old.model.config.hidden_size,
        settings.intermediate_size or width,
        settings.ffn_budget,
        old.family.has_ffn_biases,
    )
    return {"ffn": settings.ffn, "ffn_options": options, "intermediate_size": size}


def _read(settings: Settings, old: Pretrained) -> Pieces:
    """Read as much text as fitting and fine-tuning can use."""
    able = _positions(old)
    length = settings.block_size or min(able, LONGEST)
    if not SHORTEST <= length <= able:
        raise UsageError(
            f"--block-size must be from {SHORTEST} to the model's {able} positions, got {length}"
        )
    wanted = max(settings.tokens, settings.finetune_steps * settings.batch_size * length)
    documents = read_documents(files_of(settings.data), settings.text_field, settings.txt_split)
    pieces = cut(documents, old.tokenizer, length, wanted, settings.held_out_tokens)
    if len(pieces.train) < settings.batch_size or not pieces.held_out:
        raise UsageError(
            f"--data has {len(pieces.train)} pieces of text to fit to and {len(pieces.held_out)} held out, "
            f"fewer than a batch of {settings.batch_size}; give more text, or a smaller --batch-size"
        )
    return pieces


def _positions(old: Pretrained) -> int:
    config: Any = old.model.config
    positions = getattr(config, "max_position_embeddings", None) or LONGEST
    return positions - old.family.first_position(config.pad_token_id)


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, result: Result, out: Path) -> None:
    """Write everything aside, then give it its name."""
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.with_name(f"{out.name}.tmp-{os.getpid()}")
    try:
        with quiet_transformers():
            model.save_pretrained(aside)
            tokenizer.save_pretrained(aside)
        write_text(aside / "swap.json", json.dumps(asdict(result), indent=2) + "\n")
        os.replace(aside, out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
