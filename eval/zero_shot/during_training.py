"""Scores minimal pairs while a model is trained: ``ffn-ablations train --eval-every 500``."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from base.errors import unknown_name
from base.families import get_family
from eval.config import EvalConfig
from eval.protocol import preset_protocol
from eval.scoring.scorers import SCORERS
from eval.zero_shot.text_task import TextTask, find_suite_tasks
from ffn_variants.kernels.compilation import eager_kernels
from pretrain.config import ResolvedConfig
from scores.suites import SUITES


def find_pairs(config: ResolvedConfig) -> list[TextTask]:
    """Find what ``train.eval_suite`` scores.

    Raises:
        UsageError: For a suite that does not exist or has no data.
    """
    suite = config.train.eval_suite
    of_pairs = [name for name, spec in SUITES.items() if spec.kind == "minimal pairs"]
    if suite not in of_pairs:
        raise unknown_name("suite of minimal pairs in train.eval_suite", suite, of_pairs)
    folder = None if config.train.eval_dir is None else Path(config.train.eval_dir)
    return find_suite_tasks(suite, EvalConfig(suites=(), blimp_dir=folder, babylm25_dir=folder))


class TrainingScorer:
    """Scores the weights of a model in training, under the protocol ``native``, with a copy of the model.

    The copy leaves the model in training as it is, with the attention, dropout and compiled parts that the
    training gave it.

    Args:
        config: The run; its ``train.eval_suite`` and ``train.eval_dir`` say what is scored.
        model: Copied; must not be changed for training yet.
        tokenizer: The run's.

    Raises:
        UsageError: For a suite that does not exist or has no data.
    """

    def __init__(
        self, config: ResolvedConfig, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        self._suite = config.train.eval_suite
        self._tasks = find_pairs(config)
        kind = get_family(config.family).objective
        self._model: Any = copy.deepcopy(model)
        self._tokenizer = tokenizer
        self._scorer, self._protocol = SCORERS[kind], preset_protocol("native", kind)

    def __call__(self, model: PreTrainedModel) -> dict[str, float]:
        """Score the weights of a model.

        Returns:
            Accuracy in percent: the mean over the suite's tasks under the suite's name, and each phenomenon
            or task of its own under ``<suite>/<name>``.
        """
        self._model.to(model.device).load_state_dict(model.state_dict())
        with eager_kernels():  # texts have many lengths, and each would be compiled for
            scorer = self._scorer(self._model, self._tokenizer, self._protocol)
            results = [task.measure(scorer, lambda message: None) for task in self._tasks]
        groups: dict[str, list[float]] = {}
        for result in results:
            groups.setdefault(result.group, []).append(result.metrics["accuracy"])
        means = {f"{self._suite}/{name}": sum(scores) / len(scores) for name, scores in groups.items()}
        return {self._suite: sum(result.metrics["accuracy"] for result in results) / len(results), **means}
