"""Training and scoring from Python; needs the full installation."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from pandas.api.types import is_list_like
from transformers import PreTrainedModel

from base.config_input import deep_merge, find_config, read_yaml
from base.errors import UsageError, shown
from base.families import Budget
from base.printing import ProgressBar, format_table, is_notebook
from base.run.folder_names import RunFolder
from eval.config import EvalConfig
from eval.evaluate import evaluate_runs, failure_lines
from eval.work_units import check_sources
from eval.zero_shot.during_training import TrainingScorer, find_pairs
from ffn_ablations.flags_as_keywords import one_line_errors, quiet, read_keywords, typed_values
from ffn_ablations.own_values import is_several, named_ffns, pair_files, settings_of_pair, text_settings
from ffn_ablations.runs import Run, Runs, as_runs, of_one_source, read_name, write_name
from ffn_ablations.tables import Table, letters
from ffn_ablations.wording import as_keywords
from ffn_variants.spec import FFNSpec
from pretrain.config import OutputConfig, ResolvedConfig, RunConfig
from pretrain.data.prepare import cached_summary
from pretrain.model.build import build
from pretrain.run.run_folder import run_dir
from pretrain.training.dry_run import check_usable, describe_run, describe_runs, planned_costs, vocab_size
from pretrain.training.seeds import find_configs, train_in_turn
from pretrain.training.training_run import train as train_run
from report.inputs.run_facts import held_out_rows

FFN = str | FFNSpec | type[torch.nn.Module]
_OTHERS = ("ffn", "seeds", "texts", "trust_remote_code", "dry_run")
"""Keywords of ``train`` that are no settings of a run."""
_HELD_OUT = frozenset(("eval_dataset", "eval_texts", "val_texts", "validation_texts"))
"""What the held-out ones of ``texts`` are called, too."""
_SCALARS = ("learning_rate", "lr", "max_steps", "epochs", "batch_size", "hidden_size", "weight_decay")
"""Settings that people give several of."""


@one_line_errors()
def train(
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    ffn: FFN | tuple[FFN, Mapping[str, Any]] | Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    ffn_options: Mapping[str, float | bool | str] | None = None,
    ffn_budget: Budget | None = None,
    family: str | None = None,
    seed: int | None = None,
    seeds: int | Iterable[int] | str | None = None,
    texts: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | Mapping[str, Any] | None = None,
    learning_rate: float | None = None,
    max_steps: int | None = None,
    epochs: float | None = None,
    batch_size: int | None = None,
    runs_dir: str | os.PathLike[str] | None = None,
    trust_remote_code: bool = False,
    dry_run: bool = False,
    **settings: Any,
) -> Any:
    """Pretrain a model, or go on with it, or find it finished: what the command ``train`` does.

    None takes what the configuration says.

    Args:
        config: The name of a shipped configuration (``"tiny"``), the path of a YAML file, or its content as a
            mapping; None takes the defaults.
        ffn: A name of ``variants()``, ``"path/to/mine.py:SPEC"``, an ``FFNSpec``, or a class of ``nn.Module``
            whose constructor needs nothing, ``hidden_size`` (``d_model``), ``intermediate_size`` (``d_ff``),
            or both; a function, lambda or ``partial`` that makes a module so; a function of a tensor; or one
            with its options, ``("kan", {"grid_size": 3})``; or a list of these, of which each is trained, or
            a mapping of names of your own to them. A class or spec is known to this process alone, so its
            models load where it was given.
        ffn_options: Options of the FFN, such as ``{"grid_size": 5}``.
        ffn_budget: ``"params"``, ``"active-params"`` or ``"flops"`` give each FFN the width at which it has
            as many as gelu; ``"width"`` takes the width as it is.
        family: ``"gpt_neo"``, ``"llama"``, ``"roberta"`` or ``"t5"``.
        seed: Decides weights, data order, masking and dropout.
        seeds: Train each of these, one after the other: ``[1, 2, 3]`` or ``"1-3"``; 5 is 1 to 5.
        texts: Texts to train on: a path of a file or folder, several, the documents themselves, or a frame
            or ``datasets.Dataset`` with a column ``text``; ``{"train": ..., "validation": ...}`` of these.
        learning_rate: Its peak.
        max_steps: Updates, in place of epochs.
        epochs: Passes over the text, in place of the steps that ``config`` names.
        batch_size: Packed rows of a step.
        runs_dir: Folder of all runs.
        trust_remote_code: Run the file of an FFN variant that ``config`` names, which is code. One that
            ``ffn="path/to/mine.py:SPEC"`` names is run.
        dry_run: Print configuration, parameters, steps and folder of each run, and train nothing.
        **settings: Any other flag of the command, with underscores, by its last name or in its section:
            ``hidden_size=64``, ``optim={"weight_decay": 0.1}``, ``**{"optim.weight_decay": 0.1}``.

    Returns:
        A ``Run``; with ``seeds`` or several of ``ffn`` all of them as ``Runs``; None of a dry run.

    Raises:
        UsageError: For a mistake, for a fault of the world such as a full disk, or after a signal to stop.
            After that, and after Ctrl-C, the same call goes on from the last checkpoint.
    """
    if isinstance(seed, Sequence | range | np.ndarray) and not isinstance(seed, str):
        raise UsageError(f"seed is {shown(seed)}; several are seeds={shown(seed)}")
    for name in ("data", "dataset", "train_dataset", "train_texts", "corpus"):
        if not isinstance(settings.get(name, {}), Mapping):
            texts = settings.pop(name)
    for name in _HELD_OUT.intersection(settings) if texts is not None else ():
        texts = {"train": texts, "validation": settings.pop(name)}
    variants = {"": {}} if ffn is None else named_ffns(ffn)
    given = {
        "ffn_options": ffn_options, "ffn_budget": ffn_budget, "family": family, "seed": seed,
        "learning_rate": learning_rate, "max_steps": max_steps, "epochs": epochs, "batch_size": batch_size,
        "runs_dir": runs_dir,
    }  # fmt: skip
    settings |= {name: value for name, value in given.items() if value is not None}
    if several := [name for name, value in settings.items() if name in _SCALARS and is_list_like(value)]:
        name, values = several[0], shown(settings[several[0]])
        raise UsageError(f"{name} is {values}; a run has one: train(...) for each, or a study with axes")
    path, values = _source(config)
    if texts is not None:
        settings |= text_settings(texts, _runs_dir(path, values, settings))
    configs: list[ResolvedConfig] = []
    names: list[str] = []
    for name, each in variants.items():
        typed = typed_values(RunConfig, settings | each, _OTHERS)
        configs += find_configs(path, values, typed, _words(seeds), trust_remote_code)
        names += [name if name != each.get("ffn") else ""] * (len(configs) - len(names))
    if dry_run:
        for each in configs:
            check_usable(each)
        print(describe_runs(configs) if len(configs) == 1 else _listed(configs))
        return None
    with quiet(), _randomness_left_alone():
        _train(configs, names)
    runs = Runs(Run(run_dir(each), name) for each, name in zip(configs, names, strict=True))
    return runs[0] if seeds is None and not is_several(ffn) else runs


def _listed(configs: Sequence[ResolvedConfig]) -> str:
    """Describe the first run, and list all."""
    tokens = [vocab_size(each, cached_summary(each))[0] for each in configs]
    costs = [planned_costs(each, size) for each, size in zip(configs, tokens, strict=True)]
    rows = [("family", "variant", "seed", "parameters", "run folder")]
    rows += [
        (each.family, each.model.ffn, str(each.seed), f"{cost['parameters']['total']:,}", str(run_dir(each)))
        for each, cost in zip(configs, costs, strict=True)
    ]
    return f"{describe_run(configs[0])}\n\n{format_table(rows)}"


@one_line_errors()
def build_model(
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None, ffn: Any = None, **settings: Any
) -> PreTrainedModel:
    """Build the model that ``train`` of these would begin with, of as many tokens as its vocabulary may have.

    Args:
        config: As of ``train``.
        ffn: As of ``train``, one.
        **settings: As of ``train``: ``hidden_size=64``, ``ffn_budget="params"``, ``seed=1``.

    Raises:
        UsageError: As ``train``.
    """
    given = settings | (settings_of_pair(ffn) if ffn is not None else {})
    (run,) = find_configs(*_source(config), typed_values(RunConfig, given, _OTHERS), None)
    with torch.random.fork_rng():
        torch.manual_seed(run.seed)
        return build(run, vocab_size(run, None)[0])


def _source(config: Any) -> tuple[Path | None, dict[str, Any] | None]:
    """Return the file of a configuration, or what it holds."""
    return (None, dict(config)) if isinstance(config, Mapping) else (config and Path(config), None)


def _words(seeds: int | Iterable[int] | str | None) -> list[str] | None:
    """Return seeds as words of the command line; a number counts them from 1."""
    if seeds is None or isinstance(seeds, str):
        return None if seeds is None else [seeds]
    return list(map(str, range(1, seeds + 1) if isinstance(seeds, int | np.integer) else seeds))


def _runs_dir(path: Path | None, values: dict[str, Any] | None, settings: Mapping[str, Any]) -> Path:
    """Find the folder of all runs before anything else of a configuration is known."""
    typed = typed_values(RunConfig, settings, _OTHERS)
    written = read_yaml(find_config(path, "config")) if path else {}
    nested: Any = typed.onto(deep_merge(written, values or {})).get("output")
    return Path((nested if isinstance(nested, dict) else {}).get("runs_dir", OutputConfig().runs_dir))


def _train(configs: list[ResolvedConfig], names: list[str]) -> None:
    build_scorer = TrainingScorer if configs[0].train.eval_every else None
    if build_scorer:
        find_pairs(configs[0])
    are_several = len(configs) > 1
    finished = sum(RunFolder(run_dir(each)).completion_marker.is_file() for each in configs)
    if finished and (are_several or configs[0].train.tracker != "none"):
        print(f"{finished} of {len(configs)} runs: finished before, and not trained again", file=sys.stderr)

    def train_one(config: ResolvedConfig) -> None:
        place = configs.index(config)
        ProgressBar.count = f"{place + 1} of {len(configs)}, " * are_several
        is_new = not RunFolder(run_dir(config)).completion_marker.is_file()
        folder = train_run(config, build_scorer)
        if names[place] or letters(read_name(folder)) != letters(config.model.ffn):
            write_name(folder, names[place])
        run = Run(folder)
        if is_new and (are_several or not is_notebook()):  # which shows a single run by itself
            told = f"{ProgressBar.count}{run.variant}, seed {run.seed}: held-out loss {run.loss:.4f}"
            print(told, file=sys.stderr)

    try:
        train_in_turn(configs, train_one) if are_several else train_one(configs[0])
    finally:
        ProgressBar.count = ""


@contextmanager
def _randomness_left_alone() -> Iterator[None]:
    """Put back the random states that a training sets to its seed: they belong to the caller."""
    python, arrays = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)


@one_line_errors()
def evaluate(
    runs: object,
    suites: str | Sequence[str] = (),
    *,
    texts: Any = None,
    pairs: Any = None,
    workers: int = 1,
    trust_remote_code: bool = False,
    **settings: Any,
) -> Table:
    """Score runs, leaving out what is scored already: what the command ``eval`` does.

    Args:
        runs: What ``train`` returned, a list of such, paths of runs' folders, or a ``Study``.
        suites: Benchmarks, such as ``["embedded-pairs", "blimp"]``. Without any, and without ``texts``,
            ``pairs`` and ``settings``, the first of these, which needs no download. The held-out loss is
            always there.
        texts: Texts of your own, as ``train`` takes them, to measure the perplexity on; or
            ``{"name": texts}``.
        pairs: Minimal pairs of your own, ``[(good, bad), ...]``, the path of a file of them, or
            ``{"name": pairs, ...}``.
        workers: Runs that are scored at the same time, each by a process started anew: a script then needs
            ``if __name__ == "__main__":``.
        trust_remote_code: Run FFN variants that the runs bring, which are code. One that this process trained
            or loaded needs none.
        **settings: What is a flag of the command, with underscores: ``blimp_dir="data/blimp"``,
            ``classify=["sst2"]``, ``finetune={"head": ["linear"]}``.

    Returns:
        One row a score, as ``compare`` takes it: variant, seed, benchmark, task, score, run_id, family,
        group, metric, n_items, head, primary; the held-out loss of every finished run among them.

    Raises:
        UsageError: For a mistake, or where something could not be scored; what could is kept, and the same
            call leaves it out.
    """
    if workers < 1:
        raise UsageError(f"workers is {workers}; it must be 1 or more")
    names = [suites] if isinstance(suites, str) else list(suites)
    if not names and texts is None and pairs is None and not settings:
        names = ["embedded-pairs"]
    runs, left_out = of_one_source(as_runs(runs))
    runs_dir = RunFolder(runs[0].folder).study.path.parent
    if pairs is not None:
        names, settings = [*names, "own-pairs"], settings | {"pair_files": pair_files(pairs, runs_dir)}
    if texts is not None:
        is_named = isinstance(texts, Mapping) and len(texts) == 1
        name, of_name = next(iter(texts.items())) if is_named else ("texts", texts)
        files = text_settings(of_name, runs_dir, name)["data.train_files"]
        if len(files) > 1:
            raise UsageError(f"texts are {len(files)} files; evaluate takes one, or the texts themselves")
        names, settings = [*names, "perplexity"], settings | {"text_file": files[0]}
    config = read_keywords(EvalConfig, {"suites": names, **settings})
    for note in (*left_out, *check_sources(config)):
        print(f"note: {as_keywords(note)}", file=sys.stderr)
    with quiet():
        folders = [run.folder for run in runs]
        outcome = evaluate_runs(folders, config, workers, trust_remote_code=trust_remote_code)
    for failure in outcome.failures:
        if not isinstance(failure.error, UsageError):
            raise failure.error
    if outcome.failures:
        first, count = failure_lines(outcome.failures)[0], len(outcome.failures)
        raise UsageError(f"tasks without a score: {count}; the first: {first}; runs.scores has the others")
    who = {run.folder: {"run_id": run.facts.run_id, "variant": run.variant} for run in runs}
    tables = [rows.assign(**who[folder]) for folder, rows in outcome.requested.items() if len(rows)]
    scores = pd.concat([held_out_rows([run.facts for run in runs]), *tables], ignore_index=True)
    first = ["variant", "seed", "benchmark", "task", "score"]
    return Table(scores[[*first, *scores.columns.difference(first, sort=False)]])
