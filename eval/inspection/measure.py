"""Everything that is measured of one run, and of several runs in processes."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from base.errors import UsageError, as_usage_error
from base.families import get_family
from base.progress import Tell
from base.records import read_record, write_record
from base.system import peak_memory_mb
from eval.config import EvalConfig
from eval.files import fingerprint
from eval.inspection.along_training import gradient_course, look_along_training, stability
from eval.inspection.kan_edges import MEASURES, chosen_edges, look_at_edges
from eval.inspection.learned_activations import ROWS_A_WEIGHT, look_at_activations, look_at_resets
from eval.inspection.probe import Probe, open_model, read_held_out, untrained
from eval.inspection.pruning import PairScorer, prune, removable, rise_at, save_at, ways_to_prune
from eval.models.identity import admit_run, identify_run, weights_hash
from eval.results.inspection import ActivationLayer, EdgeLayer, Moment, PruningCurve, RunInspection
from eval.zero_shot.suites import find_suite_tasks
from eval.zero_shot.task import evenly_spaced
from ffn_variants.inside.edges import ffns_of
from ffn_variants.models.loading import load_tokenizer
from pretrain.run.folders import RunFolder
from pretrain.run.run_dir import read_run

FORMAT = 1
HALF = 0.5


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What changes what is measured.

    Attributes:
        text_file: Held-out text; None takes what each run's training held out.
        num_tokens: Of it, for losses; of activities and curves as many.
        pairs: The suite of minimal pairs that pruned models are scored on; empty for none.
        pairs_dir: Its data, where it needs a folder.
        max_pairs: Of each of its tasks.
        save_pruned: Whether pruned models are saved.
    """

    text_file: Path | None = None
    num_tokens: int = 8_192
    pairs: str = "embedded-pairs"
    pairs_dir: Path | None = None
    max_pairs: int = 20
    save_pruned: bool = True


def inspect_run(
    path: Path, settings: Settings, trust_remote_code: bool, tell: Tell
) -> tuple[RunInspection, bool]:
    """Measure a run, or read what was measured before.

    Args:
        path: The run's folder.
        settings: What is measured.
        trust_remote_code: Whether to run an FFN variant that the run brings.
        tell: Told what is under way.

    Returns:
        What was found, and whether it was measured now.

    Raises:
        UsageError: If the run has no model, or the text is unusable.
    """
    run = RunFolder(path)
    admit_run(path, trust_remote_code)
    key = _key(path, settings)
    known = read_record(run.inspection_file, RunInspection)
    if known is not None and known.key == key and _is_saved(run, known):
        return known, False
    found = _measure(run, settings, trust_remote_code, key, tell)
    write_record(run.inspection_file, asdict(found))
    return found, True


def _is_saved(run: RunFolder, known: RunInspection) -> bool:
    return not known.pruned_model or (run.path / known.pruned_model / "config.json").is_file()


def _key(path: Path, settings: Settings) -> str:
    values = asdict(settings) | {"format": FORMAT, "weights": weights_hash(path)}
    values["text_file"] = None if settings.text_file is None else fingerprint([settings.text_file])
    values["pairs_dir"] = None if settings.pairs_dir is None else str(settings.pairs_dir)
    steps = sorted(RunFolder(path).checkpoints)
    return hashlib.sha256(json.dumps(values | {"checkpoints": steps}, sort_keys=True).encode()).hexdigest()[
        :16
    ]


def _measure(
    run: RunFolder, settings: Settings, trust_remote_code: bool, key: str, tell: Tell
) -> RunInspection:
    began, identity, config = time.monotonic(), identify_run(run.path), read_run(run.path)
    tell("reading")
    text = read_held_out(run, config, settings.text_file, settings.num_tokens)
    model, tokenizer = open_model(run, config, trust_remote_code), load_tokenizer(run.model_dir)
    objective = get_family(config.family).objective
    notes: list[str] = []
    score = _pair_scorer(model, objective, tokenizer, settings, notes)
    whole = copy.deepcopy(model) if settings.save_pruned else None
    start = untrained(config, model)
    probe, before = Probe(model, config.family, text), Probe(start, config.family, text)
    loss = probe.loss()
    if not math.isfinite(loss):
        raise UsageError(f"{run.path}: its held-out loss is {loss}, and there is nothing to look into")

    tell("activations")
    activations = look_at_activations(probe, start, settings.num_tokens)
    resets = look_at_resets(probe, start, settings.num_tokens, config.seed)
    if resets and "refitted" not in resets:
        notes.append(
            "the next layers were not refitted, which takes a linear layer behind each activation and "
            f"{ROWS_A_WEIGHT} tokens for each of its inputs; give more by --tokens or --text-file"
        )
    tell("edges")
    edges = look_at_edges(probe, before, settings.num_tokens, config.seed)
    if not run.checkpoints:
        notes.append("no checkpoints, so that only the start and the end of its training are known")
    drawn = chosen_edges(probe, edges, settings.num_tokens)
    moments = look_along_training(probe, run, start.state_dict(), activations, drawn, tell, notes)
    curves, saved = _prune(run, probe, settings, score, whole, tokenizer, config.seed, tell)
    course = gradient_course(run.metrics_file)
    summaries = summarise(edges, activations, resets, curves, moments, stability(course))
    return RunInspection(
        key=key,
        run_id=identity.run_id,
        family=identity.family,
        variant=identity.variant,
        seed=identity.seed,
        ffn_parameters=_count(model),
        num_edges=sum(x.num_edges for x in edges),
        num_tokens=text.num_tokens,
        loss=loss,
        seconds=round(time.monotonic() - began, 2),
        peak_mb=round(peak_memory_mb() or 0.0, 1),
        edges=edges,
        activations=activations,
        moments=moments,
        pruning=curves,
        resets=resets,
        gradient_norms=thinned(course),
        summaries=summaries,
        pruned_model=saved,
        notes=notes,
    )


def _count(model: PreTrainedModel) -> int:
    return sum(p.numel() for parts in ffns_of(model) for part in parts for p in part.parameters())


def _pair_scorer(
    model: PreTrainedModel,
    objective: str,
    tokenizer: PreTrainedTokenizerBase,
    settings: Settings,
    notes: list[str],
) -> PairScorer | None:
    """What scores minimal pairs; None where none are asked for, or the model cannot read them."""
    if not settings.pairs:
        return None
    given = {"blimp_dir": settings.pairs_dir, "babylm25_dir": settings.pairs_dir}
    tasks = find_suite_tasks(settings.pairs, EvalConfig(suites=(), max_pairs=settings.max_pairs, **given))
    score = PairScorer(model, objective, tokenizer, tasks)
    try:
        score(model)
    except UsageError as error:  # such as sentences longer than the model's positions
        notes.append(f"no minimal pairs were scored: {error}")
        return None
    return score


def _prune(
    run: RunFolder,
    probe: Probe,
    settings: Settings,
    score: PairScorer | None,
    whole: PreTrainedModel | None,
    tokenizer: PreTrainedTokenizerBase,
    seed: int,
    tell: Tell,
) -> tuple[list[PruningCurve], str]:
    """The pruning curves, and below the run's folder where the pruned model lies; empty without one."""
    ways = ways_to_prune(probe, settings.num_tokens, seed)
    curves = [prune(probe, way, score if way.order == "activity" else None, tell) for way in ways]
    if not ways or whole is None:
        return curves, ""
    share = removable(curves[0])
    save_at(run.pruned_model_dir, whole, ways[0], probe, share, tokenizer)
    return curves, run.pruned_model_dir.relative_to(run.path).as_posix()


def summarise(
    edges: Sequence[EdgeLayer],
    activations: Sequence[ActivationLayer],
    resets: Mapping[str, float],
    curves: Sequence[PruningCurve],
    moments: Sequence[Moment],
    steadiness: Mapping[str, float],
) -> dict[str, dict[str, float]]:
    """Take one number a run of everything that is compared over runs; of layers their mean.

    Returns:
        By the name of a summary its numbers by ``trained`` and the controls that there are.
    """
    found: dict[str, dict[str, float]] = {}
    for name in MEASURES if edges else ():
        means = {kind: _mean(one.measures[kind][name] for one in edges) for kind in edges[0].measures}
        found[f"edges {name}"] = {kind: value for kind, value in means.items() if value is not None}
    learnable = [one for one in activations if one.is_learnable]
    if learnable:
        found["activation moved"] = {"trained": sum(one.moved for one in learnable) / len(learnable)}
    if activations:
        for name in ("dead", "saturated"):
            found[f"activation {name}"] = {"trained": _mean(getattr(x, name) for x in activations) or 0.0}
    found |= {f"reset {name}": {"trained": value} for name, value in resets.items()}
    for curve in curves:
        found[f"pruning {curve.what} by {curve.order}, half"] = {"trained": rise_at(curve, HALF)}
        found[f"pruning {curve.what} by {curve.order}, removable"] = {"trained": removable(curve)}
    found |= {f"stability {name}": {"trained": value} for name, value in steadiness.items()}
    for name in moments[-1].layers if moments else ():
        ends = {"trained": _mean(moments[-1].layers[name]), "untrained": _mean(moments[0].layers[name])}
        found[f"layer {name}"] = {kind: value for kind, value in ends.items() if value is not None}
    return {name: values for name, values in found.items() if values}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def thinned(course: dict[str, list[float]], most: int = 200) -> dict[str, list[float]]:
    """The same with fewer points, for a figure."""
    return {name: [float(f"{v:.5g}") for v in evenly_spaced(values, most)] for name, values in course.items()}


Outcome = tuple[RunInspection, bool] | Exception


def inspect_runs(
    paths: Sequence[Path], settings: Settings, workers: int, trust_remote_code: bool
) -> Iterator[tuple[Path, Outcome]]:
    """Look into runs, in whichever order they end; an error is an outcome, and the others go on.

    Args:
        paths: Folders of runs.
        settings: What is measured.
        workers: Processes at a time; with one, all is done here.
        trust_remote_code: Whether to run FFN variants that the runs bring.
    """
    if min(workers, len(paths)) < 2:
        for path in paths:
            yield path, _outcome(path, settings, trust_remote_code)
        return
    # A forked process would inherit locks that threads of this one hold.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin)
    try:
        waiting = {pool.submit(_outcome, path, settings, trust_remote_code): path for path in paths}
        while waiting:
            for done in wait(waiting, return_when=FIRST_COMPLETED).done:
                path = waiting.pop(done)
                try:
                    yield path, done.result()
                except BrokenProcessPool:
                    yield (
                        path,
                        UsageError(
                            f"{path}: a process was killed, often for lack of memory; try --workers 1"
                        ),
                    )
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _outcome(path: Path, settings: Settings, trust_remote_code: bool) -> Outcome:
    try:
        return inspect_run(path, settings, trust_remote_code, lambda _: None)
    except Exception as error:
        return as_usage_error(error)


def _begin() -> None:
    import torch

    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
