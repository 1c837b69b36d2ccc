"""Inputs that no command can work with, as data: see test_bad_inputs.py.

A case is a command line as a user types it, in a folder that holds ``files()``, and words of what it must
answer. ``{long}`` stands for 5,000 characters, ``{digits}`` for 4,000 digits.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

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
}
"""Files that are no configuration, whatever it is for."""
UNREADABLE |= {
    "date.yaml": b"seed: 2026-99-99\n",
}
NO_JSON = {
    "deepest": b"[" * 100_000,
    "digits": b'{"model_type": ' + b"9" * 100_000 + b"}",
    "binary": bytes(range(256)),
    "cut": b'{"text": "a',
}
"""What is no JSON, whatever it is for."""


def files() -> dict[str, bytes]:
    """Every file that the cases name, by its name."""
    rows = "\n".join(json.dumps({"sentence": f"a story {i}", "label": i % 2}) for i in range(20))
    scores = "\n".join(
        f"gpt_neo,{variant},{seed},blimp,{50 + seed + place}"
        for place, variant in enumerate(("gelu", "kan"))
        for seed in range(3)
    )
    texts = {
        "tiny.yaml": yaml.safe_dump(CONFIG),
        "study.yaml": yaml.safe_dump(STUDY),
        "task.yaml": yaml.safe_dump(TASK),
        "turns.yaml": yaml.safe_dump(TURNS),
        "mine.py": MINE,
        "fails.py": "x = 1\ny = x.z\n",
        "taken.py": MINE.replace('"mine"', '"gelu"'),
        "neighbour.py": f"import fails\n{MINE}",
        "train.jsonl": rows,
        "validation.jsonl": rows,
        "scores.csv": f"family,variant,seed,benchmark,score\n{scores}\n",
        "text.txt": "One document.\n",
        "lines.txt": "".join(f"Story number {i}.\n" for i in range(3000)),
        "kinds/a.txt": "text\n",
        "kinds/b.jsonl": '{"text": "alone"}\n',
        "one.jsonl": '{"text": "alone"}\n',
        **{name: yaml.safe_dump(values) for name, values in configs().items()},
        **{f"{name}.study.yaml": yaml.safe_dump(STUDY | changes) for name, changes in studies().items()},
        **{f"{name}.task.yaml": yaml.safe_dump(TASK | changes) for name, changes in tasks().items()},
        **{f"{name}.preset.yaml": yaml.safe_dump(values) for name, (values, _) in PRESETS.items()},
        **{f"{name}.csv": text for name, (text, _) in TABLES.items()},
        **{name: text for name, (text, _) in CORPORA.items() if isinstance(text, str)},
    }
    binary = {name: text for name, (text, _) in CORPORA.items() if isinstance(text, bytes)}
    for name, content in NO_JSON.items():
        binary |= {place.format(name): content for place in JSON_READERS}
    return {name: text.encode() for name, text in texts.items()} | UNREADABLE | binary


def configs() -> dict[str, Any]:
    """YAML files of training that are one change away from one that works."""
    return {f"{name}.config.yaml": _merged(CONFIG, change) for name, (change, _) in CONFIGS.items()}


def studies() -> dict[str, Any]:
    """What each faulty study has in place of ``STUDY``'s."""
    return {name: change for name, (change, _) in STUDIES.items()}


def tasks() -> dict[str, Any]:
    """What each faulty task has in place of ``TASK``'s."""
    return {name: change for name, (change, _) in TASKS.items()}


def _merged(values: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    both = {
        name: {**values.get(name, {}), **new} if isinstance(new, dict) else new
        for name, new in change.items()
    }
    return values | both


# What is typed in place of a variant's name, and words of what is said of it.
OWN_VARIANTS = {
    "absent.py:MINE": "absent.py: no such file; give path/to/mine.py:SPEC",
    "mine.py": "Write mine.py:MINE",
    "mine.py:MINN": "unknown FFNSpec 'MINN'; did you mean 'MINE'?",
    "one.jsonl:MINE": "names no Python file (.py)",
    "fails.py:MINE": "fails.py, line 2: AttributeError: 'int' object has no attribute 'z'",
    "taken.py:MINE": "an FFN variant 'gelu' is there already",
    "neighbour.py:MINE": "neighbour.py: imports fails, which lies beside it",
    "{long}.py:MINE": "cannot be read",
}


# Each change of a configuration, and words of what is said of it.
CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "typo-section": ({"modle": {}}, "did you mean model?"),
    "typo-key": ({"model": {"hiden_size": 3}}, "did you mean hidden_size?"),
    "section-is-word": ({"model": "kan"}, "must be a mapping of keys to values"),
    "family": ({"family": "gpt_neoo"}, "did you mean 'gpt_neo'?"),
    "ffn": ({"model": {"ffn": "kann"}}, "did you mean 'kan'?"),
    "ffn-file": ({"model": {"ffn": "mine.py:MINE"}}, "is code; read that file, then consent to run it: type"),
    "ffn-file-field": (
        {"model": {"ffn": "mine", "ffn_file": "mine.py:MINE"}},
        "is code; read that file, then",
    ),
    "options-word": ({"model": {"ffn": "kan", "ffn_options": {"grid_size": "many"}}}, "grid_size"),
    "options-of-none": ({"model": {"ffn_options": {"grid_size": 3}}}, "grid_size"),
    "width-zero": ({"model": {"hidden_size": 0}}, "must be greater than 0"),
    "width-fraction": ({"model": {"hidden_size": 16.5}}, "must be a whole number"),
    "width-huge": ({"model": {"hidden_size": 1_000_000}}, "memory"),
    "vocabulary-huge": ({"data": {"vocab_size": 10**12}}, "memory"),
    "heads": ({"model": {"num_attention_heads": 3}}, "is not a multiple of model.num_attention_heads 3"),
    "heads-odd": (
        {"family": "llama", "model": {"hidden_size": 36, "num_attention_heads": 12}},
        "heads of 3 channels, and Llama rotates pairs",
    ),
    "dropout": ({"model": {"hidden_dropout": 1}}, "must be less than 1"),
    "budget": ({"model": {"ffn_budget": "parms"}}, "did you mean 'params'?"),
    "positions-small": ({"model": {"max_position_embeddings": 8}}, "too small for data.block_size"),
    "seed-negative": ({"seed": -1}, "must be at least 0"),
    "seed-huge": ({"seed": 2**40}, "seed"),
    "rate-inf": ({"optim": {"learning_rate": float("inf")}}, "finite"),
    "batch-twice": ({"train": {"batch_size": 8, "gradient_accumulation_steps": 2}}, "follows from"),
    "rows-word": ({"train": {"per_device_train_batch_size": "aut"}}, "must be a whole number or 'auto'"),
    "precision": ({"train": {"mixed_precision": "fp16"}}, "mixed_precision"),
    "tracker": ({"train": {"tracker": "wandbb"}}, "did you mean 'wandb'?"),
    "masks": ({"family": "roberta", "train": {"mlm_probability": 1.0}}, "must be less than 1"),
    "suite": ({"train": {"eval_every": 2, "eval_suite": "blimpp"}}, "unknown suite"),
    "initialisation": (
        {"model": {"ffn": "spline-kan", "ffn_options": {"initialisation": "publishd"}}},
        "did you mean 'published'?",
    ),
    "knots-of-none": ({"splines": {"knot_updates": [0.1]}}, "which has no splines"),
    "source": ({"data": {"source": "tinystory"}}, "did you mean 'tinystories'?"),
    "files-without": ({"data": {"source": "files"}}, "needs data.train_files"),
    "files-without-source": ({"data": {"train_files": ["train.jsonl"]}}, "has no effect"),
    "files-folder": ({"data": {"source": "files", "train_files": ["folder"]}}, "has no file of a known"),
    "files-format": ({"data": {"source": "files", "train_files": ["tiny.yaml"]}}, "unknown format"),
    "dir-absent": ({"data": {"source": "tinystories", "tinystories_dir": "absent"}}, "no such folder"),
    "dir-empty": ({"data": {"source": "tinystories", "tinystories_dir": "folder"}}, "has no train* file"),
    "tokenizer-absent": ({"data": {"tokenizer": "absent"}}, "absent"),
    "vocabulary-small": ({"data": {"vocab_size": 100}}, "must be at least 262"),
    "block-small": ({"data": {"block_size": 4}}, "must be at least 8"),
    "share": ({"data": {"validation_fraction": 0.9}}, "must be at most 0.5"),
    "study-dot": ({"output": {"study": ".."}}, "output.study"),
    "study-shell": ({"output": {"study": "a; touch made"}}, "output.study"),
    "name-slash": ({"output": {"run_name": "a/../../b"}}, "output.run_name"),
    "runs-file": ({"output": {"runs_dir": "one.jsonl"}}, "one.jsonl"),
}

_RATE = {"optim": {"learning_rate": 0.1}}

_BACKBONES = {
    "families": {},
    "variants": [],
    "backbones": ["mine"],
    "evaluation": {"suites": [], "classify": ["task.yaml"]},
    "report": {"factor": "head", "baseline": "default"},
}

# Each change of a study, and words of what is said of it.
_TUNE: dict[str, Any] = {"optim.learning_rate": [1e-3, 3e-3], "seeds": [101, 102]}
STUDIES: dict[str, tuple[dict[str, Any], str]] = {
    "typo": ({"varients": ["gelu"]}, "did you mean variants?"),
    "no-variants": ({"variants": []}, "name families and variants to be trained"),
    "variants-twice": ({"variants": ["gelu", "relu", "relu"]}, "are one run"),
    "variants-path": ({"variants": ["gelu", "../x"]}, "names no Python file"),
    "variants-default": ({"variants": ["gelu", "kan", "kan grid_size=5"]}, "are one run"),
    "variants-option": ({"variants": ["gelu", "kan grid=3"]}, "did you mean 'grid_size'?"),
    "variants-option-first": ({"variants": ["gelu", "grid_size=3"]}, "quotes keep a variant"),
    "variants-budget": ({"variants": ["gelu", "kan ffn_budget=parms"]}, "did you mean 'params'?"),
    "variants-budget-twice": ({"variants": ["gelu", "gelu ffn_budget=params"]}, "are one run"),
    "variants-file-option": ({"variants": ["gelu", "mine.py:MINE a=2"]}, "mine.py:MINE, which is code"),
    "sizes-empty": ({"sizes": {}}, "sizes: "),
    "sizes-same": ({"sizes": {"a": {}, "b": {}}}, "are one run"),
    "sizes-typo": ({"sizes": {"a": {"model": {"hiden_size": 16}}}}, "size a: "),
    "sizes-heads": ({"sizes": {"a": {"model": {"hidden_size": 17}}}}, "gpt_neo, gelu, size a: "),
    "sizes-budget": (
        {"variants": ["gelu", "kan ffn_budget=params"], "sizes": {"a": {"model": {"intermediate_size": 4}}}},
        "gpt_neo, kan ffn_budget=params, size a: ",
    ),
    "sizes-seed": ({"sizes": {"a": {"seed": 3}}}, "sizes.a.seed has no effect"),
    "sizes-and-config": ({"sizes": {"a": _RATE}, "config": _RATE}, "config sets it too"),
    "tokens-many": ({"tokens": ["many"]}, "is no number of training tokens"),
    "tokens-few": ({"tokens": [100]}, "are fewer than the 1,024 of one step"),
    "tokens-twice": ({"tokens": ["1M", "1000k"]}, "are one run"),
    "tokens-none": ({"tokens": []}, "tokens: "),
    "tokens-and-steps": ({"tokens": ["1M"], "config": {"optim": {"max_steps": 3}}}, "tokens decide it"),
    "axes-typo": ({"axes": {"optim.learnin_rate": [1]}}, "did you mean 'optim.learning_rate'?"),
    "axes-section": ({"axes": {"optim": [1]}}, "is no field of a run's configuration"),
    "axes-value": ({"axes": {"optim.learning_rate": ["fast"]}}, "valid number"),
    "axes-twice": ({"axes": {"optim.learning_rate": [0.1, "1e-1"]}}, "are one run"),
    "axes-neutral": ({"axes": {"train.logging_steps": [1, 2]}}, "cannot change what is trained"),
    "axes-seed": ({"axes": {"seed": [1]}}, "the study's `seeds` name them"),
    "axes-options": ({"axes": {"model.ffn_options.grid_size": [3]}}, "write it under `variants`"),
    "axes-and-config": ({"axes": {"optim.learning_rate": [1]}, "config": _RATE}, "axes set it"),
    "axes-and-tokens": ({"axes": {"optim.max_steps": [3]}, "tokens": ["1M"]}, "tokens decide it"),
    "tune-seeds": ({"tune": _TUNE | {"seeds": [2, 101]}}, "tune.seeds 2 are seeds of the study too"),
    "tune-field": ({"tune": {"optim.rate": [1, 2], "seeds": [101]}}, "optim.rate"),
    "tune-budget": ({"tune": {"train.batch_size": [4, 8], "seeds": [101]}}, "the budget cannot be equal"),
    "tune-twice": (
        {"tune": _TUNE, "config": {"optim": {"learning_rate": 1e-3}}},
        "config.optim.learning_rate has no effect: tune tries it",
    ),
    "tune-axis": (
        {"tune": _TUNE, "axes": {"optim.learning_rate": [1e-3, 3e-3]}},
        "axes.optim.learning_rate has no effect: tune tries it",
    ),
    "tune-words": (
        {"tune": {"optim.lr_scheduler_type": ["linear", "cosine"], "seeds": [101], "widen": 1}},
        "has no numbers to go on with",
    ),
    "tune-wide": (
        {"tune": {"optim.adam_beta1": [0.5, 0.9], "seeds": [101]}},
        "widen 2 may try 1.62",
    ),
    "tune-backbones": (_BACKBONES | {"tune": _TUNE}, "tune has no effect on backbones"),
    "axes-backbones": (_BACKBONES | {"axes": {"optim.learning_rate": [1]}}, "axes has no effect on"),
    "factor-axis": ({"report": {"factor": "size"}}, "unknown factor"),
    "factor-level": ({"tokens": ["1M"], "report": {"factor": "tokens", "baseline": "2M"}}, "2M"),
    "variants-file": ({"variants": ["gelu", "mine.py:MINE"]}, "mine.py:MINE, which is code; read that file"),
    "variants-file-absent": ({"variants": ["gelu", "absent.py:SPEC"]}, "absent.py:SPEC, which is code"),
    "no-baseline": ({"variants": ["relu", "kan"]}, "unknown baseline variant"),
    "families-unknown": ({"families": {"gpt": "tiny.yaml"}}, "unknown family"),
    "families-absent": ({"families": {"gpt_neo": "no.yaml"}}, "no.yaml"),
    "seeds-none": ({"seeds": []}, "seeds"),
    "seeds-twice": ({"seeds": [1, 1]}, "are one run"),
    "seeds-negative": ({"seeds": [-1]}, "seeds"),
    "seeds-range-huge": ({"seeds": "1-1000000000"}, "seeds"),
    "seeds-adaptive-typo": ({"seeds": {"first": 3, "most": 9, "untill": "decided"}}, "did you mean until?"),
    "seeds-adaptive-order": ({"seeds": {"first": 9, "most": 3}}, "need at most"),
    "seeds-adaptive-huge": ({"seeds": {"first": 3, "most": 10**9}}, "most"),
    "seeds-adaptive-many": ({"seeds": {"first": 2, "most": 10_000}}, "looks"),
    "name-parent": ({"name": "../escape"}, "name"),
    "name-shell": ({"name": "a;touch made"}, "name"),
    "config-typo": ({"config": {"optim": {"learnin_rate": 1}}}, "did you mean learning_rate?"),
    "config-ffn": ({"config": {"model": {"ffn": "kan"}}}, "variants"),
    "config-seed": ({"config": {"seed": 3}}, "seeds"),
    "config-family": ({"config": {"family": "roberta"}}, "families"),
    "config-run-name": ({"config": {"output": {"run_name": "mine"}}}, "run_name"),
    "config-run-name-bad": ({"config": {"output": {"run_name": "../x"}}, "seeds": [1]}, "run_name"),
    "config-lines": ({"config": {"data": {"source": "files", "train_files": ["lines.txt"]}}}, "txt-split"),
    "config-runs-dir": ({"config": {"output": {"runs_dir": "one.jsonl"}}}, "one.jsonl"),
    "blimp-empty": ({"evaluation": {"suites": ["blimp"], "blimp_dir": "folder"}}, "folder"),
    "ewok-absent": ({"evaluation": {"suites": ["ewok"], "babylm25_dir": "folder"}}, "no ewok_filtered"),
    "comps-no-folder": ({"evaluation": {"suites": ["comps"]}}, "--babylm25-dir FOLDER"),
    "classify-unknown": ({"evaluation": {"classify": ["sst3"]}}, "unknown classification task"),
    "length": ({"evaluation": {"suites": ["glue"], "finetune": {"max_length": 4096}}}, "max_length"),
    "head-unknown": ({"evaluation": {"finetune": {"head": ["liner"]}}}, "did you mean 'linear'?"),
    "head-none": ({"evaluation": {"finetune": {"head": []}}}, "one or more are needed"),
    "preset-unknown": ({"evaluation": {"finetune": {"preset": "babylm"}}}, "preset"),
    **{
        f"backbones-{name}": (_BACKBONES | change, words)
        for name, (change, words) in {
            "empty": ({"backbones": [""]}, "no saved model"),
            "folder": ({"backbones": ["folder"]}, "no saved model"),
            "file": ({"backbones": ["one.jsonl"]}, "there is no such folder"),
            "long": ({"backbones": [LONG]}, "too long"),
            "twice": ({"backbones": ["mine", "mine"]}, "two backbones are called mine"),
            "families": ({"families": {"gpt_neo": "tiny.yaml"}}, "families has no effect on backbones"),
            "config": ({"config": {"optim": {}}}, "no effect on backbones"),
            "run-name": ({"config": {"output": {"run_name": "mine"}}}, "run_name has no effect"),
            "runs-file": ({"config": {"output": {"runs_dir": "one.jsonl"}}}, "one.jsonl is a file"),
            "texts": ({"evaluation": {"suites": ["blimp"]}}, "score no texts"),
            "nothing": ({"evaluation": {"suites": []}}, "nothing is named"),
        }.items()
    },
    "device": ({"evaluation": {"device": "gpu"}}, "device"),
    "margin-nan": ({"report": {"margin": float("nan")}}, "margin"),
    "margins-unknown": ({"report": {"margins": {"held-out-lose": 1}}}, "did you mean 'held-out-loss'?"),
    "primary-unknown": ({"report": {"primary": ["blimpp"]}}, "unknown outcome"),
    "factor-unknown": ({"report": {"factor": "heads"}}, "factor"),
    "baseline-unknown": ({"report": {"baseline": "gelly"}}, "unknown baseline"),
    "looks-order": ({"report": {"looks": [6, 3]}}, "ascending"),
    "method-former": ({"report": {"method": "bootstrap"}}, "method"),
}


def _hub(**splits: Any) -> dict[str, Any]:
    return {"files": None, "hub": {"path": "a/b", **splits}}


# Each change of a classification task, and words of what is said of it.
TASKS: dict[str, tuple[dict[str, Any], str]] = {
    "typo": ({"lables": []}, "did you mean labels?"),
    "name-dots": ({"name": "../x"}, "name"),
    "text-none": ({"text": []}, "must have at least 1"),
    "text-three": ({"text": ["a", "b", "c"]}, "must have at most 2"),
    "labels-bool": ({"labels": [True, False]}, "put each in quotes"),
    "metrics-unknown": ({"metrics": ["acuracy"]}, "must be 'accuracy', 'f1'"),
    "no-source": ({"files": None}, "files"),
    "benchmark-own": ({"benchmark": "glue"}, "has tasks of its own"),
    "segments-one-label": ({"segment_labels": "own"}, "needs multi_label: true"),
    "segments-typo": ({"segment_lables": "own"}, "did you mean segment_labels?"),
    "splits-open": (_hub(train="train+"), "splits joined by +"),
    "splits-twice": (_hub(train="train+train"), "each once"),
    "splits-same": (_hub(train="train+validation"), "trained on and reported on"),
    "two-sources": ({"hub": {"path": "a/b"}}, "files"),
    "label-names": ({"label_names": ["a", "b", "c"]}, "label_names has 3 names"),
    "labels-twice": ({"labels": ["a", "b", "a"]}, "label 'a' stands there twice"),
    "template": ({"text": "Q: {}"}, "braces hold the name of a field"),
    "majority": ({"majority": True, "multi_label": True}, "exclude each other"),
    "two-labels": ({"metrics": ["f1"], "labels": [0, 1, 2]}, "f1 is for two labels"),
    "ending": ({"files": {"train": "a.xlsx", "validation": "b.xlsx"}}, "a task's files end in"),
    "absent": (
        {"files": {"train": "absent.csv", "validation": "train.jsonl"}},
        "absent.csv; a relative path under files: starts",
    ),
}

# Presets of a cluster, and words of what is said of them.
PRESETS: dict[str, tuple[dict[str, Any], str]] = {
    "typo": ({"partion": "gpu"}, "did you mean partition?"),
    "time-word": ({"time": "an hour"}, "is not minutes"),
    "time-short": ({"time": "1"}, "would be told to save at its start"),
    "nodes-zero": ({"nodes": 0}, "must be at least 1"),
    "memory-inf": ({"mem_gb": float("inf")}, "finite"),
    "environment-list": ({"environment": ["A=1"]}, "must be a mapping"),
    "processes": ({"tasks_per_node": 3}, "3 processes cannot share"),
}

HEADER = "family,variant,seed,benchmark,score\n"
ROWS = "".join(f"f,{v},{s},blimp,{50 + s}\n" for v in ("gelu", "kan") for s in range(3))

# Tables of scores, and words of what is said of them.
TABLES: dict[str, tuple[str, str]] = {
    "empty": ("", "empty"),
    "header-only": (HEADER, "no rows"),
    "no-score": ("family,variant,seed,benchmark\nf,gelu,1,blimp\n", "score"),
    "score-word": (HEADER + "f,gelu,1,blimp,high\n", "score"),
    "score-inf": (HEADER + "f,gelu,9,blimp,inf\n" + ROWS, "score"),
    "seed-fraction": (HEADER + ROWS + "f,kan,1.5,blimp,50\n", "seed 1.5 in row 8"),
    "seed-huge": (HEADER + ROWS + f"f,kan,{2**63},blimp,50\n", "is not a whole number"),
    "nameless": (HEADER + ROWS + "f,,3,blimp,50\n", "row 8 has no variant"),
    "score-twice": (HEADER + "f,gelu,1,blimp,50\nf,gelu,1,blimp,51\n", "duplicates with"),
    "no-baseline": (HEADER + ROWS.replace("gelu", "relu"), "gelu"),
    "one-variant": (HEADER + "f,gelu,1,blimp,50\nf,gelu,2,blimp,51\n", "variant"),
    "columns-twice": ("family,variant,seed,benchmark,score,score\n" + ROWS.replace("\n", ",1\n"), "score"),
}

# Text files that no corpus can be read from, and words of what is said of them.
CORPORA: dict[str, tuple[str | bytes, str]] = {
    "broken.jsonl": ('{"text": "a"}\n{"text"\n', "line 2: is not JSON"),
    "list.jsonl": ("[1]\n", "is a JSON list"),
    "field.jsonl": ('{"story": "a"}\n', "has no field 'text'"),
    "half.jsonl": ('{"text": "\\ud800"}\n', "is no character"),
    "latin1.txt": ("é\n".encode("latin-1") * 3, "is not UTF-8 text"),
    "nul.txt": (b"a\0b\n", "NUL byte"),
    "cut.jsonl.gz": (bytes.fromhex("1f8b0800000000000003ab56"), "broken gzip file"),
    "not.jsonl.gz": ("text\n", "broken gzip file"),
    "not.parquet": ("text\n", "is not a readable parquet file"),
    "table.csv": ("text\nalone\n", "orient='records', lines=True"),
    "utf16.txt": ("text\n".encode("utf-16"), "this is not a text file"),
    "zipped.txt": (bytes.fromhex("1f8b080000000000"), "is not a text file"),
    "few-lines.txt": ("word " * 15_000 + "\n" + "word " * 15_000, "1 document in 2 lines"),
    "empty.jsonl": ("", "no train document"),
    "lines.txt": ("".join(f"Story number {i}.\n" for i in range(3000)), "--data.txt-split lines"),
}

# Commands that look into a run, and a task that each could take.
LOOKING = {
    "eval.explain": "sst2",
    "eval.explain --plot spaces": "sst2",
    "eval.explain --measure segments": "turns.yaml",
}

TYPED: list[tuple[str, str]] = [
    # Training: words that are no flags, and flags that are not as they must be.
    ("pretrain.train --fnn kan", "did you mean --ffn?"),
    ("pretrain.train tiny.yaml study.yaml", "one word too many"),
    ("pretrain.train absent.yaml", "does not exist"),
    ("pretrain.train tinny", "did you mean tiny?"),
    ("pretrain.train tiny.yaml --seed -1", "--seed"),
    ("pretrain.train tiny.yaml --seed 1-3", "--seeds 1-3"),
    ("pretrain.train tiny.yaml --seeds", "--seeds"),
    ("pretrain.train tiny.yaml --seeds 1,2 --seed 3", "leave one out"),
    ("pretrain.train tiny.yaml --seeds 1,2 --run-name mine", "names the folder of one run"),
    ("pretrain.train tiny.yaml --ffn '$(touch made)'", "unknown FFN variant"),
    ("pretrain.train tiny.yaml --model.hidden-size -- -3", "--model.hidden-size"),
    ("pretrain.train tiny.yaml --train.gradient-accumulation-steps 2", "unknown flag"),
    ("pretrain.train tiny.yaml --train.torch-compile --train.no-torch-compile", "not allowed with"),
    ("pretrain.train tiny.yaml --runs-dir one.jsonl", "one.jsonl"),
    ("pretrain.train tiny.yaml --train.eval-every 1 --eval-suite glue", "glue"),
    # Studies: flags, files that are no studies, and what cannot be of a study that is well.
    ("slurm.submit", "is missing"),
    ("slurm.submit absent.yaml", "does not exist"),
    ("slurm.submit quickstrat", "did you mean quickstart?"),
    ("slurm.submit tiny.yaml", "unknown key"),
    ("slurm.submit scores.csv", "scores.csv"),
    ("slurm.submit variants-file-absent.study.yaml --trust-remote-code", "absent.py: no such file"),
    ("slurm.submit study.yaml --add reluu", "did you mean 'relu'?"),
    ("slurm.submit study.yaml --add absent.py:SPEC --trust-remote-code", "absent.py: no such file"),
    ("slurm.submit study.yaml --add", "--add needs a value"),
    ("slurm.submit study.yaml --variants relu", "baseline"),
    ("slurm.status variants-file.study.yaml", "was not submitted yet"),
    ("slurm.submit study.yaml --cluster slrum", "did you mean 'slurm'?"),
    ("slurm.submit study.yaml --workers 0", "--workers"),
    ("slurm.submit study.yaml --runs-dir one.jsonl", "one.jsonl"),
    ("slurm.submit study.yaml --cluster slurm --preset absent.yaml --dry-run", "does not exist"),
    ("slurm.submit study.yaml --cluster slurm --preset one-gpus --dry-run", "did you mean one-gpu?"),
    ("slurm.submit study.yaml --preset one-gpu --dry-run", "add --cluster slurm"),
    ("slurm.submit study.yaml --cluster slurm --cells-at-once 2 --dry-run", ""),
    ("slurm.status", "is missing"),
    ("slurm.status absent", "does not exist"),
    ("slurm.status folder", "holds no study.yaml"),
    ("slurm.status study.yaml --html", "was not submitted yet"),
    ("slurm.status study.yaml --html page.html", "page.html"),
    ("slurm.status study.yaml --watsch", "did you mean --watch?"),
    ("slurm.cancel", "is missing"),
    ("slurm.cancel absent", "does not exist"),
    ("slurm.archive absent", "absent holds no study"),
    ("slurm.archive folder --out out", "folder holds no study"),
    ("slurm.archive absent --restore", "absent does not exist"),
    ("slurm.archive folder --restore", "folder holds no archive of a study"),
    ("slurm.archive one.jsonl --restore", "one.jsonl is damaged, or no archive of a study"),
    ("slurm.archive folder --restore --out x", "leave one of them out"),
    ("slurm.archive folder --restore --run-dir x", "did you mean --runs-dir?"),
    # The one command.
    ("ffn_ablations frobnicate", "unknown command 'frobnicate'"),
    ("ffn_ablations trani", "did you mean train?"),
    ("ffn_ablations study", "study is one of: study run, study status"),
    ("ffn_ablations study rn quickstart", "did you mean study run?"),
    ("ffn_ablations --verison", "unknown command"),
    ("ffn_ablations list studies tinny", "did you mean 'tiny'?"),
    ("ffn_ablations list studies tiny --copy", "tiny.yaml exists here already"),
    ("ffn_ablations list studies --copy", "--copy needs the name"),
    ("ffn_ablations list studies tiny quickstart", "one word too many"),
    # Evaluation.
    ("eval", "RUNS is missing: Folders of runs"),
    ("eval absent", "absent"),
    ("eval folder", "folder"),
    ("eval folder --suite blimpp", "did you mean 'blimp'?"),
    ("eval.explain folder sst2 --trust-remote-code", "is no run folder"),
    ("eval folder --max-pairs 0", "--max-pairs"),
    ("eval folder --device gpu", "gpu"),
    ("eval folder --suites blimp --blimp-dir one.jsonl", "one.jsonl"),
    *(
        (f"eval folder --suites {suite} --babylm25-dir folder", f"the suite {suite} needs it")
        for suite in ("blimp-filtered", "blimp-supplement", "ewok", "comps", "wug-past")
    ),
    ("eval folder --suites comps --babylm25-dir absent", "no folder absent"),
    ("eval folder --suites perplexity --text-file absent.txt", "absent.txt"),
    ("eval folder --classify sst3", "unknown classification task"),
    ("eval folder --classify absent.yaml", "absent.yaml"),
    ("eval folder --head liner", "did you mean 'linear'?"),
    ("eval folder --finetune.learning-rate inf", "finite"),
    ("eval folder --finetune.max-length 3", "max-length"),
    ("eval folder --protocol babylm", "protocol"),
    ("eval folder --finetune.head-learning-rates -1", "must be greater than 0"),
    ("eval folder --finetune.head-learning-rates 0.1 --finetune.select-on validation", "held-out"),
    ("eval folder --finetune.preset frkan", "did you mean 'fr-kan'?"),
    # The hub.
    ("eval.push", "PATH is missing"),
    ("eval.push folder", "repo"),
    ("eval.push absent --repo me/model", "absent is no run"),
    ("eval.push folder --repo me/model", "folder is no run"),
    ("eval.push folder --repo model", "is no name of the hub"),
    ("eval.push folder --repo me/a--b", "is no name of the hub"),
    ("eval.push folder --repo me/model --dry-run one.jsonl", "is a file or not empty"),
    ("eval.push folder --repo me/model --public yes", "one word too many"),
    # Reports.
    ("report", "name what to report on"),
    ("report absent.csv", "absent.csv"),
    ("report scores.csv --columns variant", "is no pair"),
    ("report scores.csv --paper --labels labels.yaml", "unknown flag --labels"),
    ("report scores.csv --columns variant=x", "column in --columns variant="),
    ("report scores.csv --scores blimp", "column in --scores"),
    ("report scores.csv --names x", "no column names runs"),
    ("report --scores blimp scores.csv", "was read as a value of --scores"),
    ("report scores.csv --out one.jsonl", "one.jsonl"),
    ("report scores.csv --baseline gelly", "unknown baseline"),
    ("report scores.csv --margin 0", "margin"),
    ("report scores.csv --margin blimp=1 blimp=2", "blimp"),
    ("report scores.csv --chance blimp=nan", "chance"),
    ("report scores.csv --looks 6 3", "looks"),
    ("report scores.csv --contrast 'kan - '", "kan"),
    ("report scores.csv --primary blimpp", "unknown metric"),
    ("report scores.csv --head linear", "head"),
    ("report scores.csv --factor size", "unknown factor"),
    ("report scores.csv --axis size", "missing column(s) size"),
    ("report scores.csv --axis seed", "'seed' is no axis"),
    ("report folder --axis size", "--axis is about a table"),
    ("report scores.csv --method student", "method"),
    ("report scores.csv --published thesiss", "did you mean 'thesis'?"),
    ("report scores.csv --published thesis --plan", "leave out one"),
    ("report thesis:table9", "unknown published table"),
    ("report thesis:table5-times", "unknown published table"),
    ("report fr-kan:table3", "--published fr-kan"),
    ("report --plan --sd 0", "--sd"),
    ("report --plan --sd 1 --variants 1", "variants"),
    # Lists of what there is.
    ("eval.heads liner", "did you mean 'linear'?"),
    ("eval.heads 'kan grid_size={digits}'", "grid_size must be a finite number"),
    (
        "pretrain.train tiny.yaml --ffn kan --model.ffn-options grid_size {digits}",
        "grid_size must be a finite",
    ),
    ("pretrain.train tiny.yaml --seed {digits}", "--seed: must be"),
    ("pretrain.train tiny.yaml --optim.learning-rate {digits}", "--optim.learning-rate: must be"),
    ("report scores.csv --margin {digits}", "margin"),
    ("eval.heads 'mlp width=3 width=4'", "width is given twice"),
    ("eval.heads 'mlp widt=3'", "did you mean 'width'?"),
    ("eval.heads frozen", "'frozen' is no head"),
    ("eval.heads 'default width=3'", "default takes no options"),
    ("eval.heads 'swipe pooling=smu'", "did you mean 'sum'?"),
    ("eval.heads 'segment-attention window=0'", "at least 3"),
    ("eval.heads --hidden-size 0", "hidden-size"),
    ("eval.tasks sst3", "unknown classification task"),
    ("eval.tasks absent.yaml", "absent.yaml"),
    ("ffn_variants --hidden-size 0", "--hidden-size"),
    ("ffn_variants --ffn-budget flop", "did you mean 'flops'?"),
    ("ffn_variants kan", "one word too many"),
    ("ffn_variants.check", "is missing"),
    ("ffn_variants.check kann", "did you mean 'kan'?"),
    ("ffn_variants.check kan --ffn-options grid 3", "'kan': 'grid'"),
    ("ffn_variants.check mine.py:MINE --ffn-options init 3", "takes no options"),
    # Other FFNs in a pretrained model.
    *(
        (f"{command} {place}", words)
        for command in ("ffn_variants.check", "pretrain.train tiny.yaml --ffn")
        for place, words in OWN_VARIANTS.items()
    ),
    ("pretrain.train tiny.yaml --ffn mine.py:MINE --model.ffn-file mine.py:MINE", "leave it out"),
    ("pretrain.train tiny.yaml --ffn kan --model.ffn-file mine.py:MINE", "leave it out"),
    ("pretrain.train tiny.yaml --ffn mine.py:MINE --model.ffn-options init 3", "takes no options"),
    ("pretrain.generate folder --trust-remote-cod", "did you mean --trust-remote-code?"),
    # Looking into a run.
    *(
        case
        for command, task in LOOKING.items()
        for case in (
            (command, "is missing"),
            (f"{command} folder", "is missing"),
            (f"{command} absent {task}", "absent"),
            (f"{command} folder {task}", "folder"),
            (f"{command} one.jsonl {task}", "one.jsonl"),
            (f"{command} folder sst3", "unknown classification task"),
            (f"{command} folder twice.yaml", "named twice"),
            (f"{command} folder {task} --head liner", "did you mean 'linear'?"),
            (f"{command} folder {task} --glue-dir absent", ""),
            (f"{command} folder {task} --learning-rate nan", "learning-rate"),
        )
    ),
    ("eval.explain folder sst2 --examples 0", "--examples"),
    ("eval.explain folder sst2 --train-documents 0", "--train-documents"),
    ("eval.explain folder sst2 --measure lime --plot spaces", "--measure and --plot"),
    ("eval.explain folder sst2 --measure limes", "did you mean 'lime'?"),
    ("eval.inspect", "is missing"),
    ("eval.inspect absent", "absent"),
    ("eval.inspect folder", "folder"),
    ("eval.inspect folder --out one.jsonl", "--out names a folder"),
    ("eval.inspect folder --tokens 0", "--tokens"),
    ("pretrain.generate", "is missing"),
    ("pretrain.generate absent", "no such folder"),
    ("pretrain.generate folder", "is no run folder"),
    ("pretrain.generate folder --temperature -1", "--temperature"),
    ("pretrain.generate folder --top-p 2", "--top-p"),
]

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

CASES: list[tuple[str, str]] = [
    *TYPED,
    *(
        (reader.format(name), name)
        for reader in YAML_READERS
        for name in UNREADABLE
        if name.endswith(".yaml")
    ),
    *((reader.format(name), name) for reader in JSON_READERS.values() for name in NO_JSON),
    *((f"pretrain.train {name}.config.yaml", words) for name, (_, words) in CONFIGS.items()),
    *((f"slurm.submit {name}.study.yaml --dry-run", words) for name, (_, words) in STUDIES.items()),
    *(
        (f"slurm.submit study.yaml --cluster slurm --preset {name}.preset.yaml --dry-run", words)
        for name, (_, words) in PRESETS.items()
    ),
    *((f"eval folder --classify {name}.task.yaml", words) for name, (_, words) in TASKS.items()),
    *((f"report {name}.csv --out out", words) for name, (_, words) in TABLES.items()),
    *(
        (f"pretrain.train tiny.yaml --data.source files --data.train-files {name}", words)
        for name, (_, words) in CORPORA.items()
    ),
]
