"""What a run's folder tells beside its scores: size, cost and the course of its training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pandas as pd

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from base.records import peek_record
from base.run.folder_names import RunFolder, may_be
from base.run.manifest import RecordedSource, by_step, read_completion, read_log, recorded_source
from report.significance.axes import Family, Level
from scores.rows import LARGEST, NO_HEAD, ROW_COLUMNS, RunKey, run_name
from scores.stages import Places
from scores.store import read_scores
from scores.suites import HELD_OUT, HELD_OUT_LOSS

Runs = Mapping[str, RunFolder]
SECONDS_AN_HOUR = 3600
SHOWN = 4
"""Runs that a sentence names."""


def read_tables(runs: Runs) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Read the scores of each run.

    Args:
        runs: By run id.

    Returns:
        The rows of each run that has usable ones, and sentences that name what is not used.
    """
    tables, notes = {}, []
    for run_id, run in runs.items():
        scores = read_scores(run)
        if scores.problem:
            notes.append(f"scores left out, evaluate {run_id} again: {run.rows_file} {scores.problem}")
        elif run.is_scored:
            # A run is told by its place: rows of a named run may say what it would be called without it.
            tables[run_id] = scores.rows.assign(run_id=run_id)
    return tables, notes


def read_all_facts(runs: Runs, tables: Mapping[str, pd.DataFrame]) -> tuple[tuple[RunFacts, ...], list[str]]:
    """Read what each run's folder tells beside its scores.

    Args:
        runs: By run id.
        tables: The rows of those that have any.

    Returns:
        The facts, and sentences that name the runs that say nowhere what they are, and curves of others.
    """
    facts, notes = [], []
    for run_id, run in runs.items():
        try:
            one = read_facts(run, run_id, tables.get(run_id))
        except UsageError as error:
            notes.append(f"run left out: {error}")
            continue
        names = (str(one.family), str(one.variant), one.seed)
        if not may_be(run_id, *names):
            notes.append(f"run left out: {run_id} says it is {run_name(names)}; was a file copied into it?")
            continue
        if one.curve and one.eval_loss not in (None, one.curve[-1].loss):
            notes.append(
                f"learning curve left out: {run.metrics_file} does not end at the held-out loss of the run; "
                "was it copied from another?"
            )
            one = replace(one, curve=(), grad_norms=())
        facts.append(one)
    return tuple(facts), notes


class Evaluation(NamedTuple):
    """The held-out loss at one place of a training."""

    step: int
    loss: float
    """Nats per target token."""
    tokens: int | None = None
    """Trained on so far, without padding."""
    hours: float | None = None
    """Since the start, of what ``train_hours`` counts."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What a run folder tells beside its scores; ``None`` or empty where it does not."""

    run_id: str
    family: Family
    variant: Level
    seed: int
    places: Places = ()
    """Of its study's axes."""
    formula: str = ""
    """Of its variant, and where that is from, as the run's record has them."""
    reference: str = ""
    num_parameters: int | None = None
    num_ffn_parameters: int | None = None
    num_active_parameters: int | None = None
    """Those that one token meets: fewer where a router or keys choose."""
    intermediate_size: int | None = None
    """Inner width of the FFN."""
    ffn_budget: str | None = None
    """What of the FFN was held equal to the baseline's, params or flops, say; width if nothing was."""
    flops_per_token: int | None = None
    """Of the model's forward pass, for rows of the run's block size."""
    ffn_flops_per_token: int | None = None
    """Of them those of all FFNs."""
    eval_loss: float | None = None
    """Held-out loss at the end of a finished training, nats per target token."""
    word_frequency_loss: float | None = None
    """What knowing only how frequent tokens are scores on the held-out text, nats per target token."""
    corpus: str = ""
    """What texts it was trained on, as its record names them."""
    overlap: tuple[int, ...] = (0, 0)
    """How many held-out documents are also trained on, and of how many."""
    curve: tuple[Evaluation, ...] = ()
    grad_norms: tuple[tuple[int, float], ...] = ()
    """(step, norm of the gradient before clipping) pairs, one a logged line."""
    tokens_per_s: float | None = None
    """Training tokens over ``train_hours``, in seconds."""
    train_hours: float | None = None
    """Wall time of pretraining: evaluations and checkpoints included, compiling left out."""
    peak_memory_mb: float | None = None
    is_compile_failed: bool = False
    """Whether compiling, recording or flash attention failed, so that it took longer than others."""
    trained_with: str | None = None
    """Commit, library versions and device, in words."""
    precision: str = ""
    """Of the products of its training, bf16 or no: full precision."""
    source: RecordedSource = field(default_factory=RecordedSource)
    """Of its variant."""
    ended: str = ""
    """When its training did, as ISO 8601 in UTC."""


def read_facts(run: RunFolder, run_id: str, rows: pd.DataFrame | None = None) -> RunFacts:
    """Read what a run folder tells of size and held-out loss.

    Files that are absent or do not parse tell nothing.

    Args:
        run: Its folder.
        run_id: What it is called.
        rows: Its scores, which say what it is; None takes its configuration.

    Raises:
        UsageError: If nothing in it says which family, variant and seed it is.
    """
    family, variant, seed = _identity(run, rows)
    completion, record = read_completion(run), peek_record(run.provenance_file)
    parameters, ffn, flops, results = (
        mapping(record.get(name)) for name in ("parameters", "ffn", "flops_per_token", "results")
    )
    logged = list(read_log(run))
    curve = tuple(map(_evaluation, by_step(logged, "eval_loss")))
    return RunFacts(
        run_id=run_id,
        family=family,
        variant=variant,
        seed=seed,
        formula=record.get("variant_formula") or "",
        reference=record.get("variant_reference") or "",
        num_parameters=parameters.get("total"),
        num_ffn_parameters=parameters.get("ffn"),
        num_active_parameters=_active(parameters, ffn),
        intermediate_size=ffn.get("intermediate_size"),
        ffn_budget=ffn.get("budget"),
        flops_per_token=flops.get("total"),
        ffn_flops_per_token=flops.get("ffn"),
        eval_loss=_number(completion.results.get("eval_loss")) if completion else None,
        word_frequency_loss=_number(record.get("word_frequency_loss")),
        corpus=record.get("corpus") or "",
        overlap=tuple(record.get("held_out_overlap") or (0, 0)),
        curve=curve,
        grad_norms=tuple((int(x["step"]), x["grad_norm"]) for x in by_step(logged, "grad_norm")),
        tokens_per_s=_number(results.get("mean_tokens_per_s")),
        train_hours=_hours(results),
        peak_memory_mb=_number(results.get("peak_memory_mb")),
        is_compile_failed=any(name.endswith("_failure") for session in _sessions(record) for name in session),
        trained_with=_origin(record),
        precision=record.get("mixed_precision") or "",
        source=recorded_source(run),
        ended=str([{}, *_sessions(record)][-1].get("ended", "")),
    )


def _identity(run: RunFolder, rows: pd.DataFrame | None) -> RunKey:
    """Family, variant and seed, by the rows of a run where it has any, else by its configuration."""
    if rows is not None and len(rows):
        first = rows.iloc[0]
        return str(first["family"]), str(first["variant"]), int(first["seed"])
    try:
        config = read_yaml(run.config_file)
        return str(config["family"]), str(config["model"]["ffn"]), int(config["seed"])
    except (KeyError, TypeError, ValueError):  # a UsageError is a ValueError
        raise UsageError(f"{run.config_file} does not say family, model.ffn, seed; is it damaged?") from None


def _active(parameters: Mapping[str, Any], ffn: Mapping[str, Any]) -> int | None:
    """All parameters but those of FFNs that a token does not meet; all where a record does not say."""
    whole, of_ffns = parameters.get("total"), parameters.get("ffn")
    each, active = ffn.get("parameters_per_layer"), ffn.get("active_parameters_per_layer")
    if whole is None or of_ffns is None or not each or active is None:
        return whole
    return round(whole - of_ffns * (1 - active / each))


def held_out_rows(facts: Sequence[RunFacts]) -> pd.DataFrame:
    """Write the held-out loss of every finished run as a row, as if it had been scored."""
    finished = [run for run in facts if run.eval_loss is not None]
    return pd.DataFrame(
        [(run.run_id, run.family, run.variant, run.seed, run.eval_loss) for run in finished],
        columns=["run_id", "family", "variant", "seed", "score"],
    ).assign(
        benchmark=HELD_OUT,
        task="validation",
        group="held-out text",
        metric=HELD_OUT_LOSS.name,
        n_items=0,
        head=NO_HEAD,
        primary=True,
    )[list(ROW_COLUMNS)]


def _sessions(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [mapping(session) for session in record.get("sessions") or []]


def _origin(record: Mapping[str, Any]) -> str | None:
    """Say what made a run; a resumed run counts by its last session."""
    *_, session = [{}, *_sessions(record)]
    versions, git = mapping(session.get("versions")), mapping(session.get("git"))
    parts = [f"{name} {versions[name]}" for name in ("torch", "transformers") if versions.get(name)]
    if git.get("commit"):
        changed = "" if git.get("clean") else " with uncommitted changes"
        parts.append(f"commit {str(git['commit'])[:7]}{changed}")
    elif versions.get("ffn-ablations"):
        parts.append(f"ffn-ablations {versions['ffn-ablations']}")
    if record.get("device"):
        parts.append(f"on {record['device']}")
    return ", ".join(parts) or None


def _evaluation(line: Mapping[str, Any]) -> Evaluation:
    return Evaluation(int(line["step"]), line["eval_loss"], line.get("tokens"), _hours(line))


def _hours(times: Mapping[str, Any]) -> float | None:
    """Without those of compiling, which only the first run of a process may have."""
    time_s, compile_s = _number(times.get("time_s")), _number(times.get("compile_s")) or 0.0
    return None if time_s is None else (time_s - compile_s) / SECONDS_AN_HOUR


def _number(value: object) -> float | None:
    """A finite number, or nothing: a diverged run logs nan."""
    return float(value) if isinstance(value, int | float) and abs(value) < LARGEST else None
