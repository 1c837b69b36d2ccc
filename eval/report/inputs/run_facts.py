"""What a run's folder tells beside its scores: size, cost and the course of its training."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from base.json_text import parse_json
from base.records import peek_record
from eval.results.rows import LARGEST, NO_HEAD, ROW_COLUMNS, RunKey, run_name, some_of
from eval.results.stages import Places
from eval.results.store import read_scores
from eval.significance.axes import Family, Level
from eval.suites.registry import HELD_OUT, HELD_OUT_LOSS
from pretrain.run.folders import RUN_NAME, RunFolder
from pretrain.run.manifest import Completion, read_completion

Runs = Mapping[str, RunFolder]


def read_tables(runs: Runs) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Read the scores of each run that are its own.

    Args:
        runs: By run id.

    Returns:
        The rows of each run that has usable ones, and sentences that name what is not used. Rows without any
        ledger are somebody's who keeps none, unless other runs of the study have one.
    """
    tables: dict[str, pd.DataFrame] = {}
    notes, unchecked = [], []
    for run_id, run in runs.items():
        scores = read_scores(run)
        if run.is_scored and run.rows_file.name not in scores.wrong:
            # A run is told by its place: rows of a named run may say what it would be called without it.
            tables[run_id] = scores.rows().assign(run_id=run_id)
            unchecked += [run_id] if scores.ledger is None else []
        notes += [
            f"scores left out, evaluate {run_id} again: {run.eval_dir / name} {why}"
            for name, why in scores.wrong.items()
            if name != run.rows_csv_file.name
        ]
    if unchecked and len(unchecked) < len(tables):
        said = "scores that cannot be checked, as eval/done.json is gone or damaged; evaluate again"
        notes.append(f"{said}: {some_of(unchecked, SHOWN)}")
    return tables, notes


def read_all_facts(runs: Runs, tables: Mapping[str, pd.DataFrame]) -> tuple[tuple[RunFacts, ...], list[str]]:
    """Read what each run's folder tells beside its scores.

    Args:
        runs: By run id.
        tables: The rows of those that have any.

    Returns:
        The facts, and sentences that name the runs that say nowhere what they are, and what is not used.
    """
    facts: list[RunFacts] = []
    notes, by_reason = [], defaultdict[str, list[str]](list)
    for run_id, run in runs.items():
        try:
            facts.append(read_facts(run, run_id, tables.get(run_id)))
        except UsageError as error:
            notes.append(f"run left out: {error}")
            continue
        for reason in facts[-1].unusable:
            by_reason[reason].append(run_id)
    return tuple(facts), notes + [
        f"not used, as {reason}, while their scores count: {some_of(run_ids, SHOWN)}"
        for reason, run_ids in by_reason.items()
    ]


SHOWN = 4
"""Runs that a sentence names."""
LONGEST_TEXT = 300


class Evaluation(NamedTuple):
    """The held-out loss at one place of a training."""

    step: int
    loss: float
    """Nats per target token."""
    tokens: int | None = None
    """Trained on so far, without padding."""
    hours: float | None = None
    """Since the start: evaluations and checkpoints included, compiling left out."""


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
    curve: tuple[Evaluation, ...] = ()
    is_curve_cut: bool = False
    """Whether a finished run's log does not end as its training did, so that its curve is left out."""
    grad_norms: tuple[tuple[int, float], ...] = ()
    """(step, norm of the gradient before clipping) pairs, one a logged line."""
    tokens_per_s: float | None = None
    """Training tokens over the seconds spent on them, pauses left out."""
    train_hours: float | None = None
    """Wall time of pretraining, evaluation and checkpoints included."""
    peak_memory_mb: float | None = None
    is_compile_failed: bool = False
    """Whether kernels that were to be compiled could not be, so that it took longer than others."""
    trained_with: str | None = None
    """Commit, library versions and device, in words."""
    unusable: tuple[str, ...] = ()
    """What in the folder is not as its training left it, or no size; it is not used."""

    @property
    def train_flops(self) -> int | None:
        """Of the whole training: three times the forward passes, as backward ones take twice as many."""
        tokens = self.curve[-1].tokens if self.curve else None
        return 3 * self.flops_per_token * tokens if self.flops_per_token and tokens else None


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
    completion, provenance = read_completion(run), peek_record(run.provenance_file)
    family, variant, seed = _identity(run, rows)
    if wrong := _damage(run, provenance, completion):
        provenance = {}
    parameters = provenance.get("parameters")
    counts = parameters if isinstance(parameters, dict) else {"total": parameters}
    # Runs of before budgets say neither of these.
    ffn, flops = mapping(provenance.get("ffn")), mapping(provenance.get("flops_per_token"))
    results = mapping(provenance.get("results"))
    sizes = {
        "parameters": counts.get("total"),
        "parameters of the FFN": counts.get("ffn"),
        "intermediate_size": ffn.get("intermediate_size"),
        "FLOPs a token": flops.get("total"),
        "FLOPs a token of the FFN": flops.get("ffn"),
        "tokens a second": results.get("mean_tokens_per_s"),
        "seconds": results.get("time_s"),
        "memory": results.get("peak_memory_mb"),
        "word_frequency_loss": provenance.get("word_frequency_loss"),
    }
    known = {name: _positive(name, value, wrong) for name, value in sizes.items()}
    time_s = _number(known["seconds"])
    logged = _read_metrics(run.metrics_file)
    curve = _evaluations(logged)
    end = None if completion is None else _end(results, completion.results, logged)
    is_cut = end is not None and (not curve or curve[-1][:2] != (end.step, end.loss))
    return RunFacts(
        run_id=run_id,
        family=family,
        variant=variant,
        seed=seed,
        formula=_text(provenance.get("variant_formula")),
        reference=_text(provenance.get("variant_reference")),
        num_parameters=_whole(known["parameters"]),
        num_ffn_parameters=_whole(known["parameters of the FFN"]),
        num_active_parameters=_active(known, ffn),
        intermediate_size=_whole(known["intermediate_size"]),
        ffn_budget=str(ffn["budget"]) if "budget" in ffn else None,
        flops_per_token=_whole(known["FLOPs a token"]),
        ffn_flops_per_token=_whole(known["FLOPs a token of the FFN"]),
        eval_loss=end.loss if end and math.isfinite(end.loss) else None,
        word_frequency_loss=_number(known["word_frequency_loss"]),
        curve=() if is_cut else curve,
        is_curve_cut=is_cut,
        grad_norms=_curve(logged, "grad_norm"),
        tokens_per_s=_number(known["tokens a second"]),
        train_hours=None if time_s is None else time_s / 3600,
        peak_memory_mb=_number(known["memory"]),
        is_compile_failed=_is_compile_failed(provenance, logged),
        trained_with=_origin(provenance),
        unusable=tuple(f"{name} {why}" for name, why in sorted(wrong.items())),
    )


def _active(known: Mapping[str, object], ffn: Mapping[str, Any]) -> int | None:
    """All parameters but those of FFNs that a token does not meet; all where a record does not say."""
    whole, of_ffns = (_whole(known[name]) for name in ("parameters", "parameters of the FFN"))
    each, active = ffn.get("parameters_per_layer"), ffn.get("active_parameters_per_layer")
    if whole is None or of_ffns is None or not each or active is None:
        return whole
    return round(whole - of_ffns * (1 - active / each))


def _damage(run: RunFolder, record: Mapping[str, Any], completion: Completion | None) -> dict[str, str]:
    """Say by name what a finished run does not have any more, or not as its training left it."""
    if completion is None:  # the model is saved before, so something took the marker away
        return {run.completion_marker.name: "is not there"} if run.has_model else {}
    if completion.config_hash and record.get("results") != completion.results:
        return {run.provenance_file.name: "is gone, damaged or not of the end of this run"}
    return {}


_MAY_BE_ZERO = ("parameters of the FFN", "FLOPs a token of the FFN")
"""Sizes that a model without any FFN has none of."""


def _positive(name: str, value: object, wrong: dict[str, str]) -> object:
    """A size as it is; notes in ``wrong``, and returns None for, what nothing can have."""
    least = 0 if name in _MAY_BE_ZERO else 1e-300
    if isinstance(value, int | float) and not isinstance(value, bool) and value < least:
        wrong[f"{name} in provenance.json"] = f"is {value}"
        return None
    return value


def _end(
    results: Mapping[str, Any], completed: Mapping[str, Any], logged: Sequence[Mapping[str, Any]]
) -> Evaluation | None:
    """Find where and at which loss a finished training ended; a loss that nothing tells is nan.

    Its results say so. Runs that have none are taken at the last step that their log holds, unless the log
    itself says that there were more to come.
    """
    for record in (results, completed):
        step, loss = _whole(record.get("step")), _loss(record)
        if step is not None and loss is not None:
            return Evaluation(step, loss)
    if not (found := _evaluations(logged)):
        return None
    last = max([found[-1].step, *(_whole(entry.get("max_steps")) or 0 for entry in logged)])
    return found[-1] if found[-1].step == last else Evaluation(last, math.nan)


def cut_notes(facts: Sequence[RunFacts]) -> list[str]:
    """Name the finished runs whose log does not end as their training did."""
    cut = [run.run_id for run in facts if run.is_curve_cut]
    said = "learning curve left out, metrics.jsonl does not end as the training did"
    return [f"{said}: {some_of(cut, SHOWN)}"] if cut else []


def _identity(run: RunFolder, rows: pd.DataFrame | None) -> RunKey:
    """Family, variant and seed, by the rows of a run where it has any, else by its configuration."""
    if rows is not None and len(rows):
        first = rows.iloc[0]
        return str(first["family"]), str(first["variant"]), int(first["seed"])
    try:
        config = read_yaml(run.config_file)
        said = str(config["family"]), str(config["model"]["ffn"]), int(config["seed"])
    except (KeyError, TypeError, ValueError):  # a UsageError is a ValueError
        raise UsageError(
            f"{run.config_file} does not say family, model.ffn and seed; is it damaged?"
        ) from None
    named = RUN_NAME.fullmatch(run.path.name)
    if run.run_id.split("/")[:2] != [*said[:2]] or (named and int(named["seed"]) != said[2]):
        raise UsageError(f"{run.config_file} is of another run, {run_name(said)}")
    return said


def held_out_rows(facts: Sequence[RunFacts]) -> pd.DataFrame:
    """Write the held-out loss of every finished run as a row, as if it had been scored."""
    return pd.DataFrame(
        [
            {
                "run_id": run.run_id,
                "family": run.family,
                "variant": run.variant,
                "seed": run.seed,
                "benchmark": HELD_OUT,
                "task": "validation",
                "group": "held-out text",
                "metric": HELD_OUT_LOSS.name,
                "score": run.eval_loss,
                "n_items": 0,
                "head": NO_HEAD,
                "primary": True,
            }
            for run in facts
            if run.eval_loss is not None
        ],
        columns=list(ROW_COLUMNS),
    )


def _origin(provenance: Mapping[str, Any]) -> str | None:
    """Say what made a run; a resumed run counts by its last session."""
    sessions = provenance.get("sessions")
    session = mapping(sessions[-1]) if isinstance(sessions, list) and sessions else {}
    versions, git = mapping(session.get("versions")), mapping(session.get("git"))
    parts = [f"{name} {versions[name]}" for name in ("torch", "transformers") if versions.get(name)]
    if git.get("commit"):
        changed = "" if git.get("clean") else " with uncommitted changes"
        parts.append(f"commit {str(git['commit'])[:7]}{changed}")
    elif versions.get("ffn-ablations"):
        parts.append(f"ffn-ablations {versions['ffn-ablations']}")
    if provenance.get("device"):
        parts.append(f"on {provenance['device']}")
    return ", ".join(parts) or None


def _is_compile_failed(provenance: Mapping[str, Any], logged: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any session says so, or any line of one that was killed before it could."""
    sessions = provenance.get("sessions")
    told = [mapping(session) for session in sessions] if isinstance(sessions, list) else []
    return any("torch_compile_failure" in session for session in told) or any(
        line.get("torch_compile_failed") is True for line in logged
    )


def _read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a run; one cut off when the run was killed is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    logged = []
    for line in lines:
        try:
            logged.append(mapping(parse_json(line)))
        except ValueError:
            continue
    return logged


def _evaluations(logged: Sequence[Mapping[str, Any]]) -> tuple[Evaluation, ...]:
    """Collect what was evaluated; a resumed run may repeat a step, and the last word counts."""
    found = {}
    for entry in logged:
        step, loss = _whole(entry.get("step")), _loss(entry)
        if step is not None and loss is not None:
            found[step] = Evaluation(step, loss, _whole(entry.get("tokens")), _hours(entry))
    return tuple(found[step] for step in sorted(found))


def _loss(entry: Mapping[str, Any]) -> float | None:
    """The held-out loss, which no language model brings to zero."""
    loss = _number(entry.get("eval_loss"))
    return loss if loss is not None and loss > 0 else None


def _hours(entry: Mapping[str, Any]) -> float | None:
    time_s = _number(entry.get("time_s"))
    return None if time_s is None else (time_s - (_number(entry.get("compile_s")) or 0.0)) / 3600


def _curve(logged: Sequence[Mapping[str, Any]], name: str) -> tuple[tuple[int, float], ...]:
    """Collect (step, value); a resumed run may repeat a step, and the last word counts."""
    points = {
        entry["step"]: value
        for entry in logged
        if (value := _number(entry.get(name))) is not None and _whole(entry.get("step")) is not None
    }
    return tuple(sorted(points.items()))


def _text(value: object) -> str:
    """A line of text, cut where it is long; the record may be a stranger's."""
    return " ".join(value.split())[:LONGEST_TEXT] if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    """A finite number, or nothing: a diverged run logs nan."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < LARGEST else None
