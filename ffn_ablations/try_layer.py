"""``ffn-ablations try mine.py:MyFFN``: check a layer; write and run the study that fits into some minutes."""

from __future__ import annotations

import contextlib
import io
import math
import re
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from base.config_input import deep_merge, find_config, read_yaml
from base.errors import UsageError
from base.files import ABANDONED_S, remove_leftovers, write_text
from base.printing import duration
from base.text.text_files import files_of, names_held_out
from ffn_ablations.try_arguments import HELD_OUT_FILE, TryArgs
from ffn_variants.check import passes_all
from ffn_variants.names import names_file
from ffn_variants.variant_files import load_variant
from pretrain.data.corpus import check_present
from pretrain.data.text_summary import doubts, in_one_line, read_through
from pretrain.resolution import load_config
from pretrain.run import provenance
from pretrain.training.device import choose_precision, is_long
from slurm.arguments import SubmitArgs, runs_dir_override
from slurm.cell_state import read_state
from slurm.launch import launch
from slurm.study.cells import RunCell, absolute_variant, trained_cells
from slurm.study.ffn_levels import read_level
from slurm.study.study import Changes, load_study
from slurm.study_dry_run import CHARACTERS_PER_TOKEN

EVALUATIONS = 10
"""Of a run; what is timed is training up to the first, a tenth of all."""
TIMING = "ffn-try-"
"""How folders of the timing begin, among temporary ones."""
GENERATED = "These texts are generated and rank nothing: give --texts, and --name, for a verdict on a layer."
LATE = """note: the minutes are over, as runs take longer than when timed; all are still run. Ctrl-C ends it;
the same command goes on, and ffn-ablations study run {file} --seeds 1-3 goes on with fewer"""
HELD_OUT = 300
"""Documents of one's own text; where they are paragraphs, the 60 of a shipped config are few."""
MOST_EPOCHS = 4
"""Of texts that are enough for the smallest size."""
RESERVE = 0.2
"""Of the minutes, for processes, the report, and what takes longer than it was measured."""
FEWEST_SEEDS, SEEDS, MOST_SEEDS = 3, 8, 20
"""Below the first nothing is run; below the second no larger size, as it would tell less."""
LARGER_TAKES = 6
"""Times as long as a run of the size before: what fits less often is not measured."""
EMBEDDED_SIZES = {"tiny": 317}
TEXT_SIZES = {"mini-gpt-neo": 1000, "small-gpt-neo": 3200}
STEPS = EMBEDDED_SIZES | TEXT_SIZES
"""Shipped configs with their recipes (docs/recipes.md); fewer steps may not leave the unigram plateau.

Its rate is everybody's: with a choice of rates at two seeds each, that choice was 83% of the variance.
"""


@dataclass(frozen=True)
class Plan:
    """A study that fits."""

    size: str
    seeds: int
    seconds: float


def try_layer(options: TryArgs) -> int:
    """Check a layer, plan a study and run it; returns 1 where a check failed or runs are left."""
    started_s = time.monotonic()
    remove_leftovers(Path(tempfile.gettempdir()), ABANDONED_S, f"{TIMING}*")
    spec = load_variant(options.layer)
    study = _study(options, spec.name)
    file = Path(f"{study['name']}.yaml")
    if not file.exists():
        _look_at_texts(options, study)
    if not passes_all(spec, {}):
        print("mend what failed, as its line says, and give the command again")
        return 1
    if file.exists():
        print(f"{file} is there: going on with it; for a new plan remove it, or give --name")
    else:
        plan, parameters = _plan(options, study, started_s)
        print(_describe(file, plan, parameters, options))
        if options.dry_run:
            return 0
        write_text(file, _planned_text(study, plan))
    where: dict[str, Any] = {"workers": options.workers}
    if options.cluster:
        where = {"cluster": "slurm", "preset": options.cluster, "max_running": options.workers}
    # Those that were typed may be run.
    whole = SubmitArgs(study=file, **where, add=study["variants"], dry_run=options.dry_run)
    left_s = max(0.0, 60 * options.minutes - (time.monotonic() - started_s))
    late = threading.Timer(left_s, print, [LATE.format(file=file)], {"flush": True})
    late.daemon = True  # it ends with whatever ends the study
    late.start()
    status = launch(whole)
    late.cancel()
    if note := read_yaml(file).get("report", {}).get("note"):
        print(note)
    return status


def _study(options: TryArgs, layer: str) -> dict[str, Any]:
    """Return what a study's file says, but for what is planned."""
    others = [load_variant(one).name if names_file(one) else str(read_level(one)) for one in options.against]
    data: dict[str, Any] = {"source": "embedded"}
    if options.texts:
        files = files_of(options.texts)
        held_out = [str(file) for file in files if names_held_out(file)]
        train = [str(file) for file in files if str(file) not in held_out]
        data = {"source": "files", "train_files": list(map(str, options.texts))}
        data |= {"train_files": train, "validation_files": held_out} if train and held_out else {}
        data |= {"txt_split": options.txt_split, "text_field": options.text_field}
        data |= {"max_validation_documents": HELD_OUT}
    return {
        "name": options.name or f"try-{layer}",
        "variants": [*options.against, options.layer],
        "config": {"model": {"ffn_budget": "params"}, "data": data},
        "evaluation": {"suites": []},
        "report": {
            "baseline": others[0],
            "contrasts": [f"{layer} - {other}" for other in others[1:]],
            "primary": ["held-out-loss"],
            "margins": {"held-out-loss": 0.02},
            "note": "" if options.texts else GENERATED,
        },
    }


def _look_at_texts(options: TryArgs, study: Mapping[str, Any]) -> None:
    """Say what the texts hold and what looks wrong with them."""
    if not options.texts:
        print("texts: none given, so a generated corpus: it shows that the layer works, and ranks nothing")
        return
    name, steps = next(iter(TEXT_SIZES.items()))
    config = load_config(find_config(Path(name), "config"), overrides={"data": study["config"]["data"]})
    try:
        check_present(config.data)
        summary = read_through(config.data)
    except UsageError as error:
        raise UsageError(_in_own_words(str(error))) from None
    print(_in_own_words(f"texts: {in_one_line(config.data, summary)}"))
    tokens = steps * config.train.batch_size * config.data.block_size
    epochs = tokens * CHARACTERS_PER_TOKEN / max(1, summary.characters)
    if epochs > MOST_EPOCHS:
        print(f"note: a run reads these texts {epochs:,.0f} times; more text tells more")
    for doubt in doubts(config.data, summary):
        print(_in_own_words(doubt))


def _in_own_words(text: str) -> str:
    """Write what a run is told of its texts with the flags that there are here."""
    text = re.sub(r"by --data\.validation-files.*|(in )?data\.validation_files", f"in {HELD_OUT_FILE}", text)
    return text.replace("data.train_files", "the others").replace("--data.", "--")


def _text(study: Mapping[str, Any], size: str, steps: int, eval_steps: int, seeds: str) -> str:
    """Write a study's file, a line for each key."""
    of_plan = {"optim": {"max_steps": steps}, "train": {"eval_steps": eval_steps}}
    content = {"name": study["name"], "families": {"gpt_neo": size}, **study, "seeds": seeds}
    content["config"] = deep_merge(study["config"], of_plan)
    comments = {
        "families": "the model: a config that ships",
        "variants": "by name; of a file by its place beside this one",
        "seeds": "runs of each variant; a wider range adds to what is done",
        "config": "as many parameters each; steps enough to leave the unigram plateau",
        "report": "differences below the margin, in nats a token, are negligible",
    }
    lines = []
    for key, value in content.items():
        lines += [f"# {comments[key]}"] if key in comments else []
        line = yaml.safe_dump({key: value}, default_flow_style=True, width=10_000, sort_keys=False)
        lines.append(line.strip().removeprefix("{").removesuffix("}"))
    return "\n".join([*lines, ""])


def _planned_text(study: Mapping[str, Any], plan: Plan) -> str:
    steps = STEPS[plan.size]
    return _text(study, plan.size, steps, steps // EVALUATIONS, f"1-{plan.seeds}")


def _timed_text(study: Mapping[str, Any], size: str, steps: int) -> str:
    """Write the study that is timed, in the precision that its longer runs will choose."""
    file = find_config(Path(size), "config").absolute()  # perhaps of the user, as in the study
    whole = load_config(file)
    train = {"mixed_precision": choose_precision(whole.train.mixed_precision, is_long(whole, STEPS[size]))}
    return _text({**study, "config": {**study["config"], "train": train}}, str(file), steps, steps, "1")


def _plan(options: TryArgs, study: Mapping[str, Any], started_s: float) -> tuple[Plan, dict[str, int]]:
    """Time the sizes that may fit, and choose; returns the parameters of each variant's model as well."""
    seconds: dict[str, float] = {}
    parameters: dict[str, dict[str, int]] = {}
    num_arms = len(study["variants"])
    for size in TEXT_SIZES if options.texts else EMBEDDED_SIZES:
        print(f"timing {STEPS[size] // EVALUATIONS} steps of {size} with each variant", flush=True)
        seconds[size], parameters[size] = _measure(study, size, options)
        left = available(options.minutes, time.monotonic() - started_s)
        if LARGER_TAKES * study_seconds(seconds[size], SEEDS * num_arms, options.workers) > left:
            break
    plan = choose(seconds, num_arms, options.minutes, options.workers, time.monotonic() - started_s)
    return plan, parameters[plan.size]


def _measure(study: Mapping[str, Any], size: str, options: TryArgs) -> tuple[float, dict[str, int]]:
    """Train every variant for a tenth of its steps, as many at once as in the study, in a temporary folder.

    Returns:
        The seconds of a whole run, the mean over variants; and by variant the parameters of its model.

    Raises:
        UsageError: If one fails.
    """
    with tempfile.TemporaryDirectory(prefix=TIMING) as folder:
        file, runs = Path(folder, "timing.yaml"), Path(folder, "runs")
        variants = [absolute_variant(one, Path(), "") for one in study["variants"]]
        steps = STEPS[size] // EVALUATIONS
        write_text(file, _timed_text({**study, "variants": variants}, size, steps))
        if not options.dry_run:  # the study finds its texts prepared
            cache = Path("runs", ".cache").absolute()
            cache.mkdir(parents=True, exist_ok=True)
            runs.mkdir()
            (runs / ".cache").symlink_to(cache)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            launch(SubmitArgs(study=file, runs_dir=runs, workers=options.workers, add=variants, report=False))
        changes = Changes(add=tuple(variants))
        cells = trained_cells(load_study(file, runs_dir_override(runs), changes=changes).planned)
        for cell in cells:
            if error := read_state(cell.study_dir, cell.run_id).error:
                raise UsageError(f"{steps} steps of {size} failed; {cell.variant}: {error}")
        records = {cell.variant: provenance.read(cell.run_dir) for cell in cells}
        parameters = {variant: record["parameters"]["total"] for variant, record in records.items()}
        return _run_seconds(cells), parameters


def _run_seconds(cells: Sequence[RunCell]) -> float:
    """Forecast a run; what is compiled is kept, so that later runs take the least of it."""
    seconds, compiling = [], []
    for cell in cells:
        state, results = read_state(cell.study_dir, cell.run_id), provenance.read(cell.run_dir)["results"]
        training = results["time_s"] - results["compile_s"]
        beside = state.finished_s - state.started_s - results["time_s"]
        seconds.append(beside + EVALUATIONS * training)
        compiling.append(results["compile_s"])
    return fmean(seconds) + min(compiling)


def _describe(file: Path, plan: Plan, parameters: Mapping[str, int], options: TryArgs) -> str:
    """Say what is run, in few lines."""
    where = f", as jobs of SLURM ({options.cluster}) at this machine's speed" if options.cluster else ""
    variants = ", ".join(f"{name} ({count:,} parameters)" for name, count in parameters.items())
    return (
        f"study     {file}\n"
        f"variants  {variants}\n"
        f"model     {plan.size}, {STEPS[plan.size]:,} steps, its learning rate for all\n"
        f"seeds     {plan.seeds} of each\n"
        f"takes     about {duration(plan.seconds)}, {options.workers} runs at a time{where}"
    )


def available(minutes: float, spent: float) -> float:
    """Return the seconds that a study may take, of a user's minutes of which so many seconds are gone."""
    return (1 - RESERVE) * 60 * minutes - spent


def choose(
    seconds: Mapping[str, float], num_arms: int, minutes: float, workers: int, spent: float = 0.0
) -> Plan:
    """Choose the largest size at which eight seeds fit, else the smallest with as many as do.

    Args:
        seconds: Of a run on average, by sizes that grow.
        num_arms: Variants.
        minutes: What a user gives.
        workers: Runs at the same time.
        spent: Seconds of the minutes that are gone.

    Raises:
        UsageError: If not even three seeds of the smallest fit; names the minutes.
    """
    smallest, most = next(iter(seconds)), available(minutes, spent)
    for size in reversed([*seconds]):
        for seeds in range(MOST_SEEDS, (FEWEST_SEEDS if size == smallest else SEEDS) - 1, -1):
            needed = study_seconds(seconds[size], seeds * num_arms, workers)
            if needed <= most:
                return Plan(size, seeds, needed)
    num_runs = FEWEST_SEEDS * num_arms
    least = study_seconds(seconds[smallest], num_runs, workers)
    raise UsageError(
        f"{FEWEST_SEEDS} seeds of {smallest}, {num_runs} runs, do not fit into {minutes:g} minutes; give "
        f"--minutes {math.ceil((least + spent) / (1 - RESERVE) / 60)}, more --workers, or fewer variants to "
        "--against"
    )


def study_seconds(of_a_run: float, num_runs: int, workers: int) -> float:
    """Forecast a study, runs side by side."""
    return math.ceil(num_runs / workers) * of_a_run
