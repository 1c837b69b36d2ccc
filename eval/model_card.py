"""A run's scores as the hub takes them: results of the card's ``model-index``, and a table of them."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import yaml
from huggingface_hub import EvalResult, HfApi, ModelCardData
from huggingface_hub.utils import disable_progress_bars, httpx, logging

from base.errors import UsageError
from base.families import AUTO_CLASSES, PIPELINES, get_family
from base.hub import cannot_write
from base.printing import first_few
from base.records import peek_record
from base.run.folder_names import RunFolder
from base.run.manifest import read_completion, refuse_archived
from base.text.tokens import FOR_OTHERS
from eval.identity import weights_hash
from ffn_variants.bundle import bundle_code
from pretrain.config import ResolvedConfig
from pretrain.run.run_folder import read_run
from scores.items import foreign_tasks
from scores.rows import NO_HEAD, read_table
from scores.run_scores import decimals, suite_means
from scores.store import read_scores

MOST_TASKS = 20
"""Tasks of one benchmark that are listed one by one; of more, as BLiMP's 67, the means."""
MEAN = "mean"
"""The metric of a mean over tasks of several metrics."""


def read_results(run: RunFolder, task: str) -> list[EvalResult]:
    """Read what a run scored; says on standard error if that is nothing.

    Args:
        run: The run.
        task: What the hub calls the model's own task (``pipeline_tag``).

    Raises:
        UsageError: If its model or the scores are not as they were left, or are of other weights.
    """
    weights = weights_hash(run.path)
    if not run.is_scored:
        eval_command = f"ffn-ablations eval {run.path}"
        print(f"note: {run.path} has no scores, so its card has none; {eval_command}", file=sys.stderr)
        return []
    scores = read_scores(run)
    if scores.problem:
        raise UsageError(f"{run.rows_file} {scores.problem}; evaluate the run again")
    if scores.ledger is None or scores.ledger.weights != weights:
        raise UsageError(
            f"{run.path}: its scores are not known to be of this model (eval/done.json); evaluate it again"
        )
    parts = scores.rows.groupby(["benchmark", "head"], sort=True)
    return [
        EvalResult(
            task_type=task if head == NO_HEAD else "text-classification",
            dataset_type=str(benchmark),
            dataset_name=str(benchmark),
            metric_type=metric,
            metric_name=f"{name}, {metric}" + ("" if head == NO_HEAD else f", fine-tuned, {head} head"),
            metric_value=round(value, 4),
        )
        for (benchmark, head), rows in parts
        for name, metric, value in _values(run, rows)
    ]


def _values(run: RunFolder, rows: pd.DataFrame) -> list[tuple[str, str, float]]:
    """Name, metric and value of each mean over a benchmark's tasks, and of each task if they are few."""
    path, primary = run.items_file(str(rows["benchmark"].iloc[0])), rows[rows["primary"]]
    items = read_table(path) if path.is_file() else pa.table({})
    if foreign := foreign_tasks(items, rows):
        raise UsageError(
            f"{path} does not average to the accuracy of {first_few(foreign, 3)}; evaluate the run again"
        )
    counted = items.to_pandas() if items.num_columns else None
    metrics = set(primary["metric"])
    metric = metrics.pop() if len(metrics) == 1 else MEAN
    means = [(name, metric, value) for name, value in suite_means(rows, counted).items()]
    if len(primary) > MOST_TASKS and means:
        return means
    return means + list(primary[["task", "metric", "score"]].itertuples(index=False, name=None))


def table(results: Sequence[EvalResult]) -> str:
    """Write the card's table of scores."""
    lines = ["| benchmark | task and metric | score |", "| --- | --- | ---: |"]
    for x in results:
        digits = 1 if x.metric_type == MEAN else decimals(x.metric_type)
        lines.append(f"| {x.dataset_name} | {x.metric_name} | {x.metric_value:.{digits}f} |")
    return "\n".join(lines)


_PATHS = (
    ("data", "train_files"),
    ("data", "validation_files"),
    ("data", "tinystories_dir"),
    ("data", "tokenizer"),
    ("train", "eval_dir"),
)
"""Fields of a configuration that name places on the machine of the training."""
_SCORES = """## Scores

Percentages, but for losses and perplexities. They are of this one training; another seed scores otherwise.

"""


def make_card(run: RunFolder, config: ResolvedConfig, repo: str, licence: str | None) -> str:
    """Return the card, Markdown with the hub's metadata.

    Args:
        run: The run, whose model has a card of its training.
        config: Its configuration.
        repo: The repository, ``owner/name``.
        licence: As the hub writes it; None leaves it open.

    Raises:
        UsageError: If the training's card is gone, or the scores are not of this model.
    """
    file = run.model_dir / "README.md"
    try:
        text = file.read_text(encoding="utf-8").partition("\n---\n")[2]
    except (OSError, ValueError):
        raise UsageError(
            f"{file} is gone or unreadable; its training wrote it, and a push is based on it"
        ) from None
    task = PIPELINES.get(get_family(config.family).objective)
    results = read_results(run, task or PIPELINES["causal"])
    metadata = ModelCardData(
        language=None if config.data.source == "files" else "en",  # of one's own texts nobody said it
        library_name="transformers",
        license=licence,
        pipeline_tag=task,
        datasets=["roneneldan/TinyStories"] if config.data.source == "tinystories" else None,
        tags=["ffn-ablations", config.family, config.model.ffn],
        model_name=repo.rpartition("/")[2],
        eval_results=results or None,
    )
    about, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    parts = [
        about,
        _SCORES + table(results) if results else "",
        *(section for section in sections if section.startswith("## Samples")),
        _use(config, repo),
        f"## Configuration\n\n```yaml\n{_configuration(config)}```",
    ]
    body = "\n\n".join(part.strip() for part in parts if part)
    for path in _places(config):
        body = body.replace(path, Path(path).name)
    return f"---\n{metadata.to_yaml()}\n---\n\n{body}\n"


def _use(config: ResolvedConfig, repo: str) -> str:
    auto = AUTO_CLASSES[get_family(config.family).objective]
    installed = (
        "`trust_remote_code=True` is needed there too, for the variant's own file."
        if config.model.ffn_file is not None
        else "`import ffn_variants.models` before the load takes its classes, and runs no code from here."
    )
    return f"""## Use

```bash
pip install torch "transformers>=5.17"
```

```python
from transformers import AutoTokenizer, {auto}

name = "{repo}"
model = {auto}.from_pretrained(name, trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=True)
```

The `.py` files beside the weights are the model's code: the feed-forward variant and the classes around
it. `trust_remote_code=True` runs them; read them first. With `pip install "ffn-ablations[torch]"` they
are not needed: {installed}

{FOR_OTHERS}"""


def _configuration(config: ResolvedConfig) -> str:
    """The recipe as YAML, without what it says of the machine."""
    values = config.model_dump(mode="json", exclude={"output"})
    if file := values["model"].get("ffn_file"):
        values["model"]["ffn_file"] = f"ffn_{config.model.ffn}.py:{file.rpartition(':')[2]}"
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def _places(config: ResolvedConfig) -> list[str]:
    """Paths of the machine of the training, the longest first, which a card shortens to names."""
    values = [getattr(getattr(config, section), field) for section, field in _PATHS]
    paths = [path for value in values for path in ([value] if isinstance(value, str) else value or [])]
    return sorted((path for path in paths if "/" in path), key=len, reverse=True)


_DATA = (".safetensors", ".json", ".txt", ".model")
"""What a model and its tokenizer consist of; nothing else that lies in their folder is sent, as pickles."""


def pack(path: Path, folder: Path, repo: str, licence: str | None) -> None:
    """Write a run's model, its code and its card into a folder.

    Args:
        path: The run's folder.
        folder: Where to; made if absent.
        repo: The repository that the card names, ``owner/name``.
        licence: As the hub writes it; None leaves it open.

    Raises:
        UsageError: If there is nothing to push, or something of it is damaged.
    """
    run = RunFolder(path)
    if not run.is_run:
        raise UsageError(f"{path} is no run; name a folder such as runs/default/gpt_neo/kan/seed1-0123abcd")
    refuse_archived(run)
    if read_completion(run) is None or not run.has_model:
        raise UsageError(f"{path} is not finished; train it to its end first: the same command goes on")
    card = make_card(run, read_run(path), repo, licence)
    saved = peek_record(run.model_dir / "config.json")
    code, auto_map = bundle_code(saved, run.model_dir)
    variant_files = {
        Path(str(place).rpartition(":")[0]).name for place in (saved.get("ffn_files") or {}).values()
    }
    folder.mkdir(parents=True, exist_ok=True)
    for file in run.model_dir.glob("[!.]*"):
        if file.is_file() and (file.suffix in _DATA or file.name in variant_files):
            shutil.copyfile(file, folder / file.name)
    config = json.dumps({**saved, "auto_map": auto_map}, indent=2) + "\n"
    for name, text in {**code, "config.json": config, "README.md": card}.items():
        (folder / name).write_text(text, encoding="utf-8")


def upload(folder: Path, repo: str, is_public: bool) -> str:
    """Upload a folder; returns the address of the commit.

    Args:
        folder: What ``pack`` wrote.
        repo: Where to, ``owner/name``.
        is_public: Whether everybody may see a repository that is made anew; one that exists stays as it is.

    Raises:
        UsageError: If the hub does not take it, or gives no answer.
    """
    api = HfApi()
    logging.set_verbosity_error()  # that nothing has changed since the last push is no warning
    disable_progress_bars()
    try:
        api.create_repo(repo, private=not is_public, exist_ok=True)
        commit = api.upload_folder(repo_id=repo, folder_path=folder, commit_message="Push of ffn-ablations")
    except (OSError, ValueError, RuntimeError, httpx.HTTPError) as error:
        raise cannot_write(f"cannot push to {repo}", error) from None
    return str(commit.commit_url)
