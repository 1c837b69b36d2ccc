"""What the evaluation of a cell reads and computes, by the texts that it is to be scored on."""

from __future__ import annotations

from dataclasses import dataclass

from base.families import PRETRAINED, get_family
from eval.config import EvalConfig
from eval.models.identity import RunIdentity
from eval.runner.planned import PlannedEvaluation, planned_evaluation
from eval.runner.work_units import settled
from slurm.plan.lines import Hours
from slurm.plan.shapes import TRAINING_OVER_FORWARD, forward_flops, training_flops
from slurm.plan.speeds import Speed
from slurm.study.cells import BackboneCell, Cell, RunCell

_PLANNED: dict[str, PlannedEvaluation] = {}


@dataclass(frozen=True)
class EvaluationCost:
    """What the evaluation of one run takes, by estimate.

    Attributes:
        tokens: Tokens that are read, each as often as it is.
        flops: Floating-point operations; None for a model whose sizes are not known.
        finetuning_flops: Those of them that fine-tuning takes.
    """

    tokens: int
    flops: float | None
    finetuning_flops: float | None
    uncounted: tuple[str, ...]

    @property
    def note(self) -> str:
        """What a reader must know of the numbers."""
        parts = []
        if self.flops and self.finetuning_flops:
            parts.append(f"fine-tuning {self.finetuning_flops / self.flops:.0%} of FLOPs")
        if self.uncounted:
            parts.append(f"not counted: {', '.join(self.uncounted)}")
        return "; ".join(parts)

    def hours(self, cell: RunCell, speed: Speed) -> Hours | None:
        """Return how long it takes at the operations a second of a run's training: an estimate."""
        if self.flops is None:
            return None
        per_second = speed.tokens_per_s * training_flops(cell.config)
        return Hours(self.flops / per_second / 3600, "estimate, at the FLOP/s of training", False)


def evaluation_cost(cell: Cell) -> EvaluationCost:
    """Count what a cell's evaluation reads, and what a model of its sizes computes for that.

    A masked model reads a text once for each of its tokens; a classifier computes no logits of a vocabulary.

    Raises:
        UsageError: For data that is asked for and absent or faulty.
    """
    plan = _planned(_settled(cell))
    length = max(1.0, plan.text_tokens)
    read_again = length if _objective(cell) == "masked" else 1.0
    scored = plan.num_texts * length * read_again
    trained, evaluated = plan.finetuning.trained, plan.finetuning.evaluated
    flops = finetuning_flops = None
    if isinstance(cell, RunCell):
        per_token = forward_flops(cell.config, round(length))["total"]
        of_classifier = forward_flops(cell.config, max(1, round(plan.input_tokens)))
        finetuning_flops = float(
            (TRAINING_OVER_FORWARD * trained + evaluated) * (of_classifier["total"] - of_classifier["head"])
        )
        flops = scored * per_token + finetuning_flops
    return EvaluationCost(round(scored + trained + evaluated), flops, finetuning_flops, plan.uncounted)


def _objective(cell: Cell) -> str | None:
    return get_family(cell.config.family).objective if isinstance(cell, RunCell) else None


def _settled(cell: Cell) -> EvalConfig:
    """The evaluation with its seeds of fine-tuning."""
    if isinstance(cell, RunCell):
        family, variant = cell.config.family, cell.config.model.ffn
        seed = cell.config.seed
        return settled(cell.evaluation, RunIdentity(cell.run_id, family, variant, seed, _objective(cell)))
    assert isinstance(cell, BackboneCell)
    who = RunIdentity(cell.run_id, PRETRAINED, cell.variant, cell.seed, None, cell.seed)
    return settled(cell.evaluation, who)


def _planned(config: EvalConfig) -> PlannedEvaluation:
    """Count once for evaluations that differ in their seeds alone."""
    seeds = config.finetune.seeds
    key = f"{config.model_dump_json(exclude={'finetune': {'seeds'}})} {len(seeds) if seeds else None}"
    if key not in _PLANNED:
        _PLANNED[key] = planned_evaluation(config)
    return _PLANNED[key]
