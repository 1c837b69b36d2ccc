"""The model card beside saved weights: what the model is, what it was trained on, how to load it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from base.families import AUTO_CLASSES, PIPELINES, get_family
from ffn_variants import get_variant
from pretrain.config import RunConfig
from pretrain.data import corpus
from pretrain.run.run_dir import to_yaml


def model_card(config: RunConfig, counts: dict[str, int], results: dict[str, Any], samples: str) -> str:
    """Markdown with the metadata block of the Hugging Face hub.

    Args:
        config: The run.
        counts: Parameters as ``ffn_variants.count_parameters`` gives them.
        results: Final figures of the loop.
        samples: What the model writes, as Markdown.
    """
    spec = get_variant(config.model.ffn)
    objective = get_family(config.family).objective
    task, auto_class = PIPELINES[objective], AUTO_CLASSES[objective]
    name = f"{config.family} with {config.model.ffn} feed-forward networks, seed {config.seed}"
    return f"""---
language: en
library_name: transformers
pipeline_tag: {task}
---

# {name}

Every feed-forward network of the model is `{spec.name}`: {spec.formula} ({spec.reference}).

| | |
| --- | --- |
| parameters | {counts["total"]:,} (feed-forward {counts["ffn"]:,}, embeddings {counts["embedding"]:,}) |
| corpus | {corpus.describe(config.data)} |
| trained on | {results["tokens"]:,} tokens, {results["step"]:,} steps, {results["epoch"]:.2f} epochs |
| training loss | {results["loss"]:.4f} nats per predicted token |
| held-out loss | {results["eval_loss"]:.4f} nats per predicted token |
| held-out perplexity | {results["eval_perplexity"]:.2f} |

## Samples

{samples}

## Loading

```python
import ffn_variants  # registers the architecture
from transformers import AutoTokenizer, {auto_class}

model = {auto_class}.from_pretrained("path/to/this/folder")
tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")
```

## Configuration

```yaml
{to_yaml(config).strip()}
```
"""


def write_model_card(
    folder: Path, config: RunConfig, counts: dict[str, int], results: dict[str, Any], samples: str
) -> None:
    """Write the card as the folder's README.md."""
    (folder / "README.md").write_text(model_card(config, counts, results, samples), encoding="utf-8")
