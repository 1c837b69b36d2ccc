"""Inputs that no command can work with: see test_bad_inputs.py.

A case is a command line as a user types it, in a folder that holds ``files()``, and words of what it must
answer. Most are rows of bad_inputs.yaml: command lines, and changes of a file that is well by itself.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from base.config_input import deep_merge

LONG = "x" * 5000
DIGITS = "9" * 4000

SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
CONFIG: dict[str, Any] = {
    "model": SIZES,
    "data": {"num_stories": 60, "vocab_size": 300, "block_size": 64},
    "optim": {"max_steps": 2},
    "train": {"torch_compile": False},
    "output": {"runs_dir": "out"},
}
STUDY: dict[str, Any] = {
    "name": "study",
    "families": {"gpt_neo": "tiny.yaml"},
    "variants": ["gelu", "relu"],
    "seeds": [1, 2],
    "evaluation": {"suites": ["embedded-pairs"]},
}
TASK: dict[str, Any] = {
    "files": {"train": "train.jsonl", "validation": "validation.jsonl"},
    "text": ["sentence"],
    "label": "label",
    "labels": ["no", "yes"],
}
TURNS: dict[str, Any] = TASK | {"multi_label": True, "metrics": ["micro_f1"], "segment_labels": "own"}

MINE = """from torch import nn
from ffn_variants import FFNSpec

MINE = FFNSpec(
    name="mine",
    kind="activation",
    build=lambda f: nn.Tanh(),
    formula="tanh x",
    reference="none",
    multiply_adds=lambda d, f: 2 * d * f,
)
"""

UNREADABLE = {
    "empty.bin": b"",
    "binary.yaml": bytes(range(256)),
    "latin1.yaml": "family: gpt_neo # é\n".encode("latin-1"),
    "utf16.yaml": "family: gpt_neo\n".encode("utf-16"),
    "nul.yaml": b"family: gpt\0neo\n",
    "twice.yaml": b"seed: 1\nseed: 2\n",
    "twice-inside.yaml": b"optim: {learning_rate: 1e-3, learning_rate: 1e-4}\n",
    "list.yaml": b"- family: gpt_neo\n",
    "broken.yaml": b"model: [\n",
    "object.yaml": b"model: !!python/object/apply:os.system ['touch made']\n",
    "loop.yaml": b"model: &a\n  ffn_options: *a\n",
    "keys.yaml": b"? [a, b]\n: c\n",
    "date.yaml": b"seed: 2026-99-99\n",
}
"""Files that are no configuration, whatever it is for."""
NO_JSON = {
    "deepest": b"[" * 100_000,
    "digits": b'{"model_type": ' + b"9" * 100_000 + b"}",
    "binary": bytes(range(256)),
    "cut": b'{"text": "a',
}
"""What is no JSON, whatever it is for."""


ROWS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
BACKBONES = {
    "families": {},
    "variants": [],
    "backbones": ["mine"],
    "evaluation": {"suites": [], "classify": ["task.yaml"]},
    "report": {"factor": "head", "baseline": "default"},
}
HEADER = "family,variant,seed,benchmark,score\n"
SCORES = "".join(f"f,{v},{s},blimp,{50 + s}\n" for v in ("gelu", "kan") for s in range(3))

CORPORA: dict[str, tuple[bytes, str]] = {
    "broken.jsonl": (b'{"text": "a"}\n{"text"\n', "line 2: is not JSON"),
    "list.jsonl": (b"[1]\n", "is a JSON list"),
    "field.jsonl": (b'{"story": "a"}\n', "has no field 'text'"),
    "half.jsonl": (b'{"text": "\\ud800"}\n', "is no character"),
    "latin1.txt": ("é\n".encode("latin-1") * 3, "is not UTF-8 text"),
    "nul.txt": (b"a\x00b\n", "NUL byte"),
    "cut.jsonl.gz": (bytes.fromhex("1f8b0800000000000003ab56"), "broken gzip file"),
    "not.jsonl.gz": (b"text\n", "broken gzip file"),
    "not.parquet": (b"text\n", "is not a readable parquet file"),
    "table.csv": (b"text\nalone\n", "orient='records', lines=True"),
    "utf16.txt": ("text\n".encode("utf-16"), "this is not a text file"),
    "zipped.txt": (bytes.fromhex("1f8b080000000000"), "is not a text file"),
    "few-lines.txt": (b"word " * 15_000 + b"\n" + b"word " * 15_000, "1 document in 2 lines"),
    "empty.jsonl": (b"", "no train document"),
    "lines.txt": ("".join(f"Story number {i}.\n" for i in range(3000)).encode(), "--data.txt-split lines"),
}
"""Text files that no corpus can be read from, and words of what is said of them."""

YAML_READERS = (
    "pretrain.train {}",
    "slurm.submit {} --dry-run",
    "slurm.submit study.yaml --cluster slurm --preset {} --dry-run",
    "eval.tasks {}",
)
"""Commands that read a YAML file, which stands for ``{}``."""
JSON_READERS = {
    "{}-model/config.json": "pretrain.generate {}-model",
    "{}-backbone/config.json": "eval {}-backbone --classify sst2 --finetune.seeds 1",
    "{}-tokenizer/tokenizer_config.json": "pretrain.train tiny.yaml --data.tokenizer {}-tokenizer",
    "{}-texts.jsonl": "pretrain.train tiny.yaml --data.source files --data.train-files {}-texts.jsonl",
    "{}-results.json": "report {}-results.json",
}
"""By the place of a JSON file the command that reads it; a word stands for ``{}``."""
READERS = {
    "configs": "pretrain.train {}.config.yaml",
    "studies": "slurm.submit {}.study.yaml --dry-run",
    "backbones": "slurm.submit {}.backbones.yaml --dry-run",
    "tasks": "eval folder --classify {}.task.yaml",
    "presets": "slurm.submit study.yaml --cluster slurm --preset {}.preset.yaml --dry-run",
    "tables": "report {}.csv --out out",
}
"""By the section of bad_inputs.yaml the command that gets the file of a row."""


def files() -> dict[str, bytes]:
    """Every file that the cases name, by its name."""
    rows = "\n".join(json.dumps({"sentence": f"a story {i}", "label": i % 2}) for i in range(20))
    values = {
        "tiny.yaml": CONFIG,
        "study.yaml": STUDY,
        "task.yaml": TASK,
        "turns.yaml": TURNS,
        **{
            f"{name}.config.yaml": deep_merge(CONFIG, change) for name, (change, _) in ROWS["configs"].items()
        },
        **{f"{name}.study.yaml": STUDY | change for name, (change, _) in ROWS["studies"].items()},
        **{
            f"{name}.backbones.yaml": STUDY | BACKBONES | change
            for name, (change, _) in ROWS["backbones"].items()
        },
        **{f"{name}.task.yaml": TASK | change for name, (change, _) in ROWS["tasks"].items()},
        **{f"{name}.preset.yaml": preset for name, (preset, _) in ROWS["presets"].items()},
    }
    tables = {
        f"{name}.csv": table.format(header=HEADER, rows=SCORES, relu=SCORES.replace("gelu", "relu"))
        for name, (table, _) in ROWS["tables"].items()
    }
    texts = {
        **{name: yaml.safe_dump(content).replace("{long}", LONG) for name, content in values.items()},
        **tables,
        "scores.csv": HEADER + SCORES,
        "mine.py": MINE,
        "fails.py": "x = 1\ny = x.z\n",
        "taken.py": MINE.replace('"mine"', '"gelu"'),
        "neighbour.py": f"import fails\n{MINE}",
        "train.jsonl": rows,
        "validation.jsonl": rows,
        "text.txt": "One document.\n",
        "kinds/a.txt": "text\n",
        "kinds/b.jsonl": '{"text": "alone"}\n',
        "one.jsonl": '{"text": "alone"}\n',
    }
    binary = UNREADABLE | {name: content for name, (content, _) in CORPORA.items()}
    binary |= {place.format(name): content for name, content in NO_JSON.items() for place in JSON_READERS}
    return {name: text.encode() for name, text in texts.items()} | binary


def in_turn(readers: Iterable[str], names: Iterable[str]) -> list[tuple[str, str]]:
    """Each name with one of the commands; what they are read by is one function (test_readers.py)."""
    return [(reader.format(name), name) for reader, name in zip(itertools.cycle(readers), names)]


CASES: list[tuple[str, str]] = [
    *ROWS["typed"].items(),
    *in_turn(YAML_READERS, [name for name in UNREADABLE if name.endswith(".yaml")]),
    *in_turn(JSON_READERS.values(), [*NO_JSON, *NO_JSON]),
    *(
        (command.format(name), words)
        for section, command in READERS.items()
        for name, (_, words) in ROWS[section].items()
    ),
    *(
        (f"pretrain.train tiny.yaml --data.source files --data.train-files {name}", words)
        for name, (_, words) in CORPORA.items()
    ),
]
