"""The card of a pushed model: that of its training, with metadata, scores and how to load it from the hub."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from huggingface_hub import ModelCardData

from base.errors import UsageError
from base.families import AUTO_CLASSES, PIPELINES, get_family
from base.run.folders import RunFolder
from base.text.tokens import FOR_OTHERS
from eval.push.scores import read_results, table
from pretrain.config import RunConfig

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


def make_card(run: RunFolder, config: RunConfig, repo: str, licence: str | None) -> str:
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


def _use(config: RunConfig, repo: str) -> str:
    auto = AUTO_CLASSES[get_family(config.family).objective]
    installed = (
        "`trust_remote_code=True` is needed there too, for the variant's own file."
        if config.model.ffn_file is not None
        else "`import ffn_variants` before the load then takes its classes, and runs no code from here."
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


def _configuration(config: RunConfig) -> str:
    """The recipe as YAML, without what it says of the machine."""
    values = config.model_dump(mode="json", exclude={"output"})
    if file := values["model"].get("ffn_file"):
        values["model"]["ffn_file"] = f"ffn_{config.model.ffn}.py:{file.rpartition(':')[2]}"
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def _places(config: RunConfig) -> list[str]:
    """Paths of the machine of the training, the longest first, which a card shortens to names."""
    values = [getattr(getattr(config, section), field) for section, field in _PATHS]
    paths = [path for value in values for path in ([value] if isinstance(value, str) else value or [])]
    return sorted((path for path in paths if "/" in path), key=len, reverse=True)
