"""The card of a pushed model: that of its training, with metadata, scores and how to load it from the hub.

The licences are those that a model's card may name, as the hub writes them.

https://huggingface.co/docs/hub/repositories-licenses
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from base.errors import UsageError, unknown_name
from base.families import AUTO_CLASSES, PIPELINES, get_family
from base.text.tokens import FOR_OTHERS
from eval.push.scores import Score, model_index, table
from pretrain.config import RunConfig
from pretrain.run.folders import RunFolder

LICENCES = (
    *(
        "apache-2.0",
        "mit",
        "openrail",
        "bigscience-openrail-m",
        "bigcode-openrail-m",
    ),
    *(
        "afl-3.0",
        "artistic-2.0",
        "bsl-1.0",
        "bsd",
        "bsd-2-clause",
        "bsd-3-clause",
    ),
    *(
        "bsd-3-clause-clear",
        "c-uda",
        "cc",
        "cc0-1.0",
        "cc-by-2.0",
        "cc-by-2.5",
    ),
    *(
        "cc-by-3.0",
        "cc-by-4.0",
        "cc-by-sa-3.0",
        "cc-by-sa-4.0",
        "cc-by-nc-2.0",
    ),
    *(
        "cc-by-nc-3.0",
        "cc-by-nc-4.0",
        "cc-by-nd-4.0",
        "cc-by-nc-nd-3.0",
    ),
    *(
        "cc-by-nc-nd-4.0",
        "cc-by-nc-sa-2.0",
        "cc-by-nc-sa-3.0",
        "cc-by-nc-sa-4.0",
    ),
    *(
        "cdla-sharing-1.0",
        "cdla-permissive-1.0",
        "cdla-permissive-2.0",
        "wtfpl",
    ),
    *(
        "ecl-2.0",
        "epl-1.0",
        "epl-2.0",
        "etalab-2.0",
        "eupl-1.1",
        "eupl-1.2",
        "agpl-3.0",
    ),
    *(
        "gfdl",
        "gpl",
        "gpl-2.0",
        "gpl-3.0",
        "lgpl",
        "lgpl-2.1",
        "lgpl-3.0",
        "isc",
        "ms-pl",
    ),
    *(
        "mpl-2.0",
        "odc-by",
        "odbl",
        "osl-3.0",
        "postgresql",
        "ofl-1.1",
        "ncsa",
        "unlicense",
    ),
    *(
        "zlib",
        "pddl",
        "unknown",
        "other",
    ),
)


def check_licence(name: str) -> None:
    """Refuse a licence that the hub does not know; ``other`` is one that it takes."""
    if name not in LICENCES:
        raise unknown_name("licence", name, LICENCES)


_PATHS = (
    ("data", "train_files"),
    ("data", "validation_files"),
    ("data", "tinystories_dir"),
    ("data", "tokenizer"),
    ("train", "eval_dir"),
)
"""Fields of a configuration that name places on the machine of the training."""


def write_card(
    run: RunFolder,
    config: RunConfig,
    scores: Sequence[Score],
    place: str,
    revision: str,
    seeds: Sequence[str],
    licence: str | None,
) -> str:
    """Return the card, Markdown with the hub's metadata.

    Args:
        run: The run, whose model has a card of its training.
        config: Its configuration.
        scores: What it scored.
        place: The repository, ``owner/name``.
        revision: The branch that this card is for; empty for the first.
        seeds: The branches of all seeds that the repository has; empty for a run alone.
        licence: As the hub writes it; None leaves it open.

    Raises:
        UsageError: If the training's card is gone.
    """
    file = run.model_dir / "README.md"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise UsageError(
            f"{file} is gone or unreadable; its training wrote it, and a push is based on it"
        ) from None
    head, *parts = re.split(
        r"^## ", re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL), flags=re.MULTILINE
    )
    kept = {part.partition("\n")[0]: f"## {part.strip()}" for part in parts}
    metadata = yaml.safe_dump(_metadata(config, scores, place, licence), sort_keys=False, allow_unicode=True)
    sections = [
        head.strip(),
        *_seeds(config, revision, seeds),
        *([f"## Scores\n\n{_SCORES}\n\n{table(scores)}"] if scores else []),
        *([kept["Samples"]] if "Samples" in kept else []),
        _use(config, place, revision),
        f"## Configuration\n\n```yaml\n{_configuration(config).strip()}\n```",
    ]
    return _without_places(f"---\n{metadata}---\n\n" + "\n\n".join(sections) + "\n", config)


_SCORES = (
    "Percentages, but for losses and perplexities. They are of this one training; another seed scores "
    "otherwise."
)


def _metadata(config: RunConfig, scores: Sequence[Score], place: str, licence: str | None) -> dict[str, Any]:
    task = PIPELINES.get(get_family(config.family).objective)
    metadata: dict[str, Any] = {"library_name": "transformers"}
    if config.data.source != "files":  # which language texts of one's own have, nobody said
        metadata["language"] = "en"
    if licence:
        metadata["license"] = licence
    if task:
        metadata["pipeline_tag"] = task
    if config.data.source == "tinystories":
        metadata["datasets"] = ["roneneldan/TinyStories"]
    metadata["tags"] = ["ffn-ablations", config.family, config.model.ffn]
    if index := model_index(place.rpartition("/")[2], scores, task or PIPELINES["causal"]):
        metadata["model-index"] = index
    return metadata


def _seeds(config: RunConfig, revision: str, seeds: Sequence[str]) -> list[str]:
    if not seeds:
        return []
    here = f"This is seed {config.seed}" + ("" if revision else ", on the branch `main`")
    return [
        f"{here}. Each seed is a revision of this repository: {', '.join(f'`{each}`' for each in seeds)}."
    ]


def _use(config: RunConfig, place: str, revision: str) -> str:
    auto = AUTO_CLASSES[get_family(config.family).objective]
    chosen = f', revision="{revision}"' if revision else ""
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

name = "{place}"
model = {auto}.from_pretrained(name{chosen}, trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(name{chosen}, trust_remote_code=True)
```

The `.py` files beside the weights are the model's code: the feed-forward variant and the classes around
it. `trust_remote_code=True` runs them; read them first. With `pip install "ffn-ablations[torch]"` they
are not needed: {installed}

{FOR_OTHERS}"""


def _configuration(config: RunConfig) -> str:
    """The recipe as YAML, without what it says of the machine."""
    values = config.model_dump(mode="json", exclude={"output"})
    for section, field in _PATHS:
        value = values[section][field]
        values[section][field] = [_name(x) for x in value] if isinstance(value, list) else _name(value)
    if file := values["model"].get("ffn_file"):
        values["model"]["ffn_file"] = f"ffn_{config.model.ffn}.py:{file.rpartition(':')[2]}"
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def _name(path: str | None) -> str | None:
    return path and Path(path).name


def _without_places(text: str, config: RunConfig) -> str:
    """Shorten paths of the machine of the training, which the training's card has, to names."""
    for section, field in _PATHS:
        value = getattr(getattr(config, section), field)
        for path in [value] if isinstance(value, str) else value or []:
            if "/" in path:
                text = text.replace(path, Path(path).name)
    return text
