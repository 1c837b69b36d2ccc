"""Inputs that no command can work with: see test_bad_inputs.py.

A case is a command line as a user types it, in a folder that holds ``files()``, and words of what it must
answer. Most are rows of bad_inputs.yaml: command lines, and changes of a file that is well by itself.
"""

import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import yaml

from base.config_input import deep_merge

LONG = "x" * 5000
DIGITS = "9" * 4000


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
    "unfilled.yaml": b"optim: {max_steps: ${steps}}\n",
    "object.yaml": b"model: !!python/object/apply:os.system ['touch made']\n",
    "loop.yaml": b"model: &a\n  ffn_options: *a\n",
    "keys.yaml": b"? [a, b]\n: c\n",
    "date.yaml": b"seed: 2026-99-99\n",
    "tabs.yaml": b"model:\n\thidden_size: 3\n",
    "deep.yaml": b"a: " + b"{b: " * 3000 + b"1" + b"}" * 3000,
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
VALID = ROWS["valid"]
"""Files that are well by themselves."""
HEADER = "family,variant,seed,benchmark,score\n"
SCORES = "".join(f"f,{v},{s},blimp,{50 + s}\n" for v in ("gelu", "kan") for s in range(3))
CORPORA: dict[str, tuple[bytes, str]] = {
    **{name: (text.encode(), words) for name, (text, words) in ROWS["corpora"].items()},
    "latin1.txt": ("é\n".encode("latin-1") * 3, "is not UTF-8 text"),
    "cut.jsonl.gz": (bytes.fromhex("1f8b0800000000000003ab56"), "broken gzip file"),
    "utf16.txt": ("text\n".encode("utf-16"), "iconv -f UTF-16"),
    "zipped.txt": (bytes.fromhex("1f8b080000000000"), "NUL byte; this is no text file"),
    "few-lines.txt": (b"word " * 15_000 + b"\n" + b"word " * 15_000, "1 document in 2 lines"),
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
    study, task = VALID["study.yaml"], VALID["task.yaml"]
    changed = {
        "config": {
            name: deep_merge(VALID["tiny.yaml"], change) for name, (change, _) in ROWS["configs"].items()
        },
        "study": {name: study | change for name, (change, _) in ROWS["studies"].items()},
        "backbones": {
            name: study | VALID["backbones.yaml"] | change for name, (change, _) in ROWS["backbones"].items()
        },
        "task": {name: task | change for name, (change, _) in ROWS["tasks"].items()},
        "preset": {name: preset for name, (preset, _) in ROWS["presets"].items()},
    }
    values = VALID | {
        f"{name}.{kind}.yaml": content for kind, own in changed.items() for name, content in own.items()
    }
    tables = {
        f"{name}.csv": table.format(header=HEADER, rows=SCORES, relu=SCORES.replace("gelu", "relu"))
        for name, (table, _) in ROWS["tables"].items()
    }
    mine = ROWS["variant"]
    texts = {
        **{name: yaml.safe_dump(content).replace("{long}", LONG) for name, content in values.items()},
        **tables,
        "scores.csv": HEADER + SCORES,
        "mine.py": mine,
        "own/mine.py": mine,
        "fails.py": "x = 1\ny = x.z\n",
        "taken.py": mine.replace('"mine"', '"gelu"'),
        "neighbour.py": f"import fails\n{mine}",
        "train.jsonl": rows,
        "validation.jsonl": rows,
        "text.txt": "One document.\n",
        "blank.txt": "\n",
        "begun/run/config.yaml": "",
        "runs/default/gpt_neo/config.yaml": "",
        "begun/study/study.yaml": "",
        "begun/quickstart/study.yaml": "",
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
