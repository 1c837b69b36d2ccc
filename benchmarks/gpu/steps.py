"""Steps that are counted on the pretend device: an update, an evaluation, a fine-tuning step, scoring.

They are the project's own code. Imported only by a process that has loaded the device.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from transformers import PreTrainedModel

from base.families import get_family
from benchmarks.gpu.pretend import pretending
from benchmarks.gpu.trace import Trace
from benchmarks.gpu.workload import build_network, masker_of
from eval.classification.classifier import make_classifier
from eval.classification.example_tokens import Encoded
from eval.classification.finetune import finetune
from eval.finetuning import Finetuning
from eval.scoring import log_likelihood
from eval.scoring.text_batches import ScoredText
from ffn_variants.kernels import compilation
from ffn_variants.splines import b_splines
from pretrain.config import ResolvedConfig
from pretrain.data.packing import PackedSplit
from pretrain.data.step_batches import BatchSource
from pretrain.model.objective import build_loss
from pretrain.resolution import load_config
from pretrain.training.loop import Loop

ROOT = Path(__file__).parents[2]
BLOCK, VOCABULARY, ROWS = 128, 1_000, 4
OPENED = tuple(
    f"ffn_variants::{name}{end}" for name in ("basis_linear", "elementwise") for end in ("", "_backward")
)
"""Operations of this project that are several launches."""


@dataclass(frozen=True)
class Case:
    """What is run.

    Attributes:
        family: Of the model.
        variant: Its FFN.
        fused: Whether functions that ``torch.compile`` would compile are one launch each.
        rows: Rows of a step, in one forward pass.
        shipped: Sizes of the shipped configuration in place of small ones.
        overrides: Further arguments of ``train.py``.
    """

    family: str
    variant: str
    fused: bool = True
    rows: int = ROWS
    shipped: bool = False
    overrides: tuple[str, ...] = ()


@functools.cache
def config_of(case: Case) -> ResolvedConfig:
    """Read the shipped configuration of a case's family."""
    path = ROOT / "configs" / f"{case.family.replace('_', '-')}.yaml"
    size = ["--train.batch-size", str(case.rows), "--train.per-device-train-batch-size", str(case.rows)]
    size += ["--train.per-device-eval-batch-size", str(case.rows), "--optim.max-steps", "10"]
    if not case.shipped:
        size += ["--model.hidden-size", "64", "--model.intermediate-size", "96", "--model.num-hidden-layers"]
        size += ["1", "--model.max-position-embeddings", str(BLOCK + 1), "--data.block-size", str(BLOCK)]
        size += ["--data.vocab-size", str(VOCABULARY)]
        size += ["--model.window-size", "32"] if case.family == "gpt_neo" else []
    # A device that only pretends records nothing.
    size += ["--train.no-cuda-graph"]
    arguments = ["--ffn", case.variant, "--train.mixed-precision", "bf16", *size, *case.overrides]
    return load_config(path, [*arguments, "--runs-dir", tempfile.gettempdir()])


def packed(rows: int, length: int, vocabulary: int) -> PackedSplit:
    """Random documents in rows of which nearly all places are filled, some rows with padding."""
    rng = np.random.default_rng(7)
    ids = rng.integers(5, vocabulary, (rows, length)).astype(np.uint16)
    positions = np.zeros((rows, length), np.uint16)
    for row in range(rows):
        place, end = 0, length - int(rng.integers(0, 8))
        while place < end:
            size = min(end - place, max(8, int(rng.normal(0.44, 0.16) * length)))
            positions[row, place : place + size] = np.arange(size)
            place += size
        ids[row, end:] = 0
    return PackedSplit(ids, positions, rows * 2, int(np.count_nonzero(ids)))


class Training:
    """A loop of the project whose model is on the device; to be made and used inside ``pretending``.

    Args:
        case: What is trained.
        network: Its model, on the host.
    """

    def __init__(self, case: Case, network: PreTrainedModel) -> None:
        config = config_of(case)
        self.split = packed(max(3 * case.rows, 8), config.data.block_size, config.data.vocab_size)
        masker = masker_of(case.family, config.data.vocab_size)
        source = BatchSource(config, masker, 0, fixed_shapes=True)
        with _on_host():
            loss = build_loss(network, case.family)
        data: Any = SimpleNamespace(train=self.split, validation=self.split)
        self.folder = tempfile.TemporaryDirectory()
        self.loop = Loop(config, _accelerator(), loss, source, data, Path(self.folder.name))

    def step(self, number: int) -> Callable[[], Any]:
        """What the loop does in one step, its batch being made."""
        with _on_host():  # as in the thread that makes batches
            step = self.loop._step(number)
        return lambda: self.loop._unread.append(self.loop._update(step))


def _accelerator() -> Accelerator:
    AcceleratorState._reset_state(True)
    accelerator = Accelerator(mixed_precision="bf16", cpu=True)
    device = torch.device("cuda", 0)
    PartialState._shared_state["device"] = AcceleratorState._shared_state["device"] = device
    return accelerator


def _on_host() -> Any:
    return torch.utils._python_dispatch._disable_current_modes()


def trace_updates(case: Case) -> list[Trace]:
    """Traces of the second and the third update of a case, when moments and what is looked up are there."""
    network = build_network(config_of(case))
    with _fusing(case.fused), pretending():
        training = Training(case, network)
        training.step(0)()
        return [_traced(training.step(number), training.loop) for number in (1, 2)]


def trace_evaluation(case: Case) -> list[Trace]:
    """Trace of an evaluation on held-out rows, two batches."""
    network = build_network(config_of(case))
    with _fusing(case.fused), pretending():
        training = Training(case, network)
        split = PackedSplit(
            training.split.input_ids[: 2 * case.rows], training.split.position_ids[: 2 * case.rows], 4, 999
        )
        training.loop.evaluate(split)  # an FFN looks at its grid once
        return [_traced(lambda: training.loop.evaluate(split), training.loop)]


def _traced(action: Callable[[], Any], loop: Loop) -> Trace:
    with _machine_of(loop.model) as trace:
        trace.hold([list(state.values()) for state in loop.optimizer.state.values()])
        action()
    return trace


def examples(count: int, seed: int = 0) -> Encoded:
    """Examples of classification, from 5 to 60 tokens each."""
    rng = np.random.default_rng(seed)
    texts = [[1, *rng.integers(5, VOCABULARY, rng.integers(5, 60)).tolist(), 2] for _ in range(count)]
    return Encoded.from_lists(texts, rng.integers(0, 2, count))


def trace_finetuning(case: Case) -> list[Trace]:
    """Trace of a fine-tuning of one step, after another one."""
    model, settings = build_classifier(case), Finetuning(num_train_epochs=1, eval_steps=99)
    with _fusing(case.fused), pretending():
        classifier = make_classifier(model.to("cuda"))

        def one_step(seed: int) -> None:
            finetune(classifier, examples(8, seed), examples(4), _accuracy, settings, seed)

        one_step(0)
        with _machine_of(classifier) as trace:
            one_step(1)
    return [trace]


def build_classifier(case: Case) -> Any:
    """The classifier of two labels that transformers has on the backbone of a case, on the host."""
    config = copy.deepcopy(build_network(config_of(case)).config)
    config.num_labels, config.pad_token_id = 2, 0
    return resolve_name(get_family(case.family).classifier_class)(config)


def _accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    return 100.0 * float((labels == predictions).mean())


@contextlib.contextmanager
def _machine_of(model: torch.nn.Module) -> Iterator[Trace]:
    """Count what is done with a model."""
    with Trace(opened=OPENED) as trace:
        trace.hold([*model.parameters(), *model.buffers()])
        _State.trace = trace
        try:
            yield trace
        finally:
            _State.trace = None


def texts_to_score(count: int) -> list[ScoredText]:
    """Texts of 6 to 20 tokens."""
    rng = np.random.default_rng(1)
    texts = []
    for _ in range(count):
        ids = [1, *rng.integers(5, VOCABULARY, rng.integers(4, 18)).tolist(), 2]
        texts.append(ScoredText(ids, 1, len(ids) - 1))
    return texts


def trace_scoring(case: Case) -> list[Trace]:
    """Trace of scoring 24 texts in the way of the family's objective."""
    network: Any = build_network(config_of(case)).eval()
    objective = get_family(case.family).objective
    with _fusing(case.fused), pretending():
        model = network.to("cuda")
        score: Callable[[list[ScoredText]], Any] = {
            "causal": lambda texts: log_likelihood.causal_log_likelihoods(model, texts),
            "masked": lambda texts: log_likelihood.pseudo_log_likelihoods(model, texts, 4),
            "span_corruption": lambda texts: log_likelihood.span_log_likelihoods(model, texts, VOCABULARY),
        }[objective]
        log_likelihood._checked.add(model)  # that sharing moves no score: numbers mean nothing here
        score(texts_to_score(4))  # which way applies is found out once
        with _machine_of(model) as trace:
            score(texts_to_score(24))
    return [trace]


WORKLOADS: dict[str, Callable[[Case], list[Trace]]] = {
    "update": trace_updates,
    "evaluation": trace_evaluation,
    "finetuning": trace_finetuning,
    "scoring": trace_scoring,
}


class _State:
    trace: Trace | None = None


@contextlib.contextmanager
def _fusing(fused: bool) -> Iterator[None]:
    """Have ``torch.compile`` give functions that are one launch each, where they are chosen."""
    real = torch.compile

    def compile_to_one_launch(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        name = function.__qualname__.rpartition("<locals>.")[2]

        def call(*args: Any) -> Any:
            if _State.trace is None:
                return function(*args)
            with _State.trace.fused(name, *args):
                return function(*args)

        return call

    torch.compile = compile_to_one_launch  # type: ignore[assignment]
    compilation.use_compiled_kernels(fused)
    try:
        yield
    finally:
        torch.compile = real
        compilation.use_compiled_kernels(False)


def _look_at_grid(grid: torch.Tensor, spline_order: int) -> Any:
    """What ``splines_on`` finds of the grid that layers begin with; reading it is in the trace."""
    if grid.device.type != "cuda":
        return _real_splines_on(grid, spline_order)
    grid.double().max().item()
    return b_splines.EvenSplines(grid.shape[1] - 2 * spline_order - 1, spline_order, -1.0, 1.0), ()


_real_splines_on = b_splines.splines_on


def prepare() -> None:
    """Answer what the project asks of the values of grids."""
    b_splines.splines_on = _look_at_grid
