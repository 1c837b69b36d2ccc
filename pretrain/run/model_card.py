"""The model card beside saved weights: what the model is, what it was trained on, how to load it."""

from __future__ import annotations

from typing import Any

from base.families import AUTO_CLASSES, PIPELINES, Objective, get_family
from base.text.tokens import FOR_OTHERS
from ffn_variants import get_variant
from ffn_variants.names import variant_file
from pretrain.config import ResolvedConfig
from pretrain.data import corpus
from pretrain.run.run_folder import to_yaml

_WRITING = """inputs = tokenizer("Once upon a time", return_tensors="pt")
print(tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True))

# the same in one step, with draws
write = pipeline("text-generation", folder{trust})
print(write("Once upon a time")[0]["generated_text"])"""

_READ_FIRST = """# needs ffn-ablations; the feed-forward variant is ffn_{ffn}.py in this folder:
# read it first, as trust_remote_code=True runs it"""


def model_card(config: ResolvedConfig, counts: dict[str, int], results: dict[str, Any], samples: str) -> str:
    """Markdown with the metadata block of the Hugging Face hub.

    Args:
        config: The run.
        counts: Its ``parameters`` (``pretrain.model.costs``).
        results: Final figures of the loop.
        samples: What the model writes, as Markdown.
    """
    spec = get_variant(config.model.ffn)
    objective = get_family(config.family).objective
    task = f"\npipeline_tag: {PIPELINES[objective]}" if objective in PIPELINES else ""
    # Of a variant in a file, a copy lies beside the weights.
    placeless = config.model_copy(update={"model": config.model.model_copy(update={"ffn_file": None})})
    name = f"{config.family} with {config.model.ffn} feed-forward networks, seed {config.seed}"
    return f"""---
language: en
library_name: transformers{task}
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
{_loading(objective, config.model.ffn)}
```

{FOR_OTHERS}

## Configuration

```yaml
{to_yaml(placeless).strip()}
```
"""


def _loading(objective: Objective, ffn: str) -> str:
    """Python that loads the model, and lets it write if it does; a variant in a file needs consent."""
    auto_class = AUTO_CLASSES[objective]
    is_own = variant_file(ffn) is not None
    trust = ", trust_remote_code=True" if is_own else ""
    start = _READ_FIRST.format(ffn=ffn) if is_own else "import ffn_variants  # registers the architecture"
    is_causal = objective == "causal"
    code = f"""{start}
from transformers import AutoTokenizer, {auto_class}{", pipeline" if is_causal else ""}

folder = "path/to/this/folder"
model = {auto_class}.from_pretrained(folder{trust})
tokenizer = AutoTokenizer.from_pretrained(folder{trust})"""
    return f"{code}\n\n{_WRITING.format(trust=trust)}" if is_causal else code
