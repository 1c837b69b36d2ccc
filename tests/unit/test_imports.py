"""What importing costs, and that models come back whichever of this project and transformers came first.

Everything runs in fresh processes, as a process of pytest has imported it all already.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import ffn_variants
from ffn_variants import build_model

HEAVY = ("torch", "transformers", "matplotlib", "sklearn", "datasets", "submitit")
OURS_FIRST = "import ffn_variants, transformers"
THEIRS_FIRST = "import transformers; transformers.AutoConfig; import ffn_variants"
# With each, another module of transformers is half imported when its table of configs is made.
ORDERS = [
    "import ffn_variants; from transformers import GPTNeoConfig",
    "from transformers import AutoModel, pipeline; import ffn_variants",
]
MORE_ORDERS = [
    OURS_FIRST,
    THEIRS_FIRST,
    "import ffn_variants; from transformers import RobertaForMaskedLM",
    "import ffn_variants; from transformers import PreTrainedModel",
    "import ffn_variants; from transformers import GenerationMixin",
    "import ffn_variants, importlib; importlib.reload(ffn_variants)",
]
LOADS = {
    "AutoConfig": "x = transformers.AutoConfig.from_pretrained(folder)",
    "AutoConfig.for_model": "x = transformers.AutoConfig.for_model('ffn_gpt_neo', ffn='kan')",
    "AutoModel": "x = transformers.AutoModel.from_pretrained(folder)",
    "AutoModelForCausalLM": "x = transformers.AutoModelForCausalLM.from_pretrained(folder)",
    "AutoModelForSequenceClassification": (
        "x = transformers.AutoModelForSequenceClassification.from_pretrained(folder)"
    ),
    "AutoTokenizer": "x = transformers.AutoTokenizer.from_pretrained(folder)",
    "pipeline": "x = transformers.pipeline('text-generation', folder).model",
    "from_config": (
        "x = transformers.AutoModelForCausalLM.from_config(ffn_variants.FFNGPTNeoConfig(**json.loads(sizes)))"
    ),
    "unpickled config": (
        "import pickle; x = pickle.load(open(f'{folder}/config.pkl', 'rb')); "
        "x = transformers.AutoModel.from_config(x)"
    ),
}
CLASSES = {
    "AutoConfig": "FFNGPTNeoConfig",
    "AutoConfig.for_model": "FFNGPTNeoConfig",
    "AutoModel": "FFNGPTNeoModel",
    "AutoModelForCausalLM": "FFNGPTNeoForCausalLM",
    "AutoModelForSequenceClassification": "FFNGPTNeoForSequenceClassification",
    "AutoTokenizer": "PreTrainedTokenizerBase",
    "pipeline": "FFNGPTNeoForCausalLM",
    "from_config": "FFNGPTNeoForCausalLM",
    "unpickled config": "FFNGPTNeoModel",
}
SIZES = {"ffn": "kan", "hidden_size": 8, "intermediate_size": 8, "num_layers": 1, "num_heads": 2}
SIZES |= {"attention_types": [[["global"], 1]], "vocab_size": 300, "max_position_embeddings": 16}


def run_python(code: str) -> Any:
    """Run code in a process of its own; returns what it printed last, as JSON."""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved kan model with its tokenizer, and its config as a pickle."""
    import pickle

    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    sizes = {name: value for name, value in SIZES.items() if name != "ffn"}
    model = build_model("gpt_neo", "kan", **sizes)
    model.save_pretrained(path)
    (path / "config.pkl").write_bytes(pickle.dumps(model.config))
    words = {"<pad>": 0, "<s>": 1, "</s>": 2, "a": 3}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="<pad>")), pad_token="<pad>"
    )
    tokenizer.save_pretrained(path)
    return path


@pytest.mark.parametrize(
    "module",
    [
        *("ffn_variants", "base.errors", "base.files", "base.command_line"),
        *("ffn_variants.budget", "pretrain.run.run_dir", "pretrain.model.costs", "eval.runner.evaluate"),
        *(
            "eval.report.__main__",
            "eval.classification.heads.__main__",
            "eval.concept_space",
            "eval.explain",
            "eval.sufficiency",
        ),
        *("slurm.state", "slurm.status"),
    ],
)
def test_importing_loads_no_library_of_models(module: str) -> None:
    code = f"import json, sys, {module}; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    assert run_python(code) == []


def load(order: str, statement: str, folder: Path) -> Any:
    """Import, load and describe what came."""
    return run_python(
        f"{order}\nimport json, ffn_variants, transformers\n"
        f"folder, sizes = {str(folder)!r}, {json.dumps(json.dumps(SIZES))}\n{statement}\n"
        "config = getattr(x, 'config', x)\n"
        "weights = {k: v.double().sum().item() for k, v in x.state_dict().items()} "
        "if hasattr(x, 'state_dict') else {}\n"
        "print(json.dumps([[c.__name__ for c in type(x).__mro__], getattr(config, 'ffn', None), weights]))"
    )


@pytest.mark.parametrize("order", [*ORDERS, *(pytest.param(o, marks=pytest.mark.slow) for o in MORE_ORDERS)])
def test_a_model_comes_back_in_any_order_of_imports(order: str, folder: Path) -> None:
    names, ffn, weights = load(order, LOADS["AutoModelForCausalLM"], folder)
    assert names[0] == "FFNGPTNeoForCausalLM"
    assert ffn == "kan"
    from safetensors.torch import load_file

    saved = {k: v.double().sum().item() for k, v in load_file(folder / "model.safetensors").items()}
    assert any(".spline_weight" in name for name in saved)
    assert saved.items() <= weights.items()


@pytest.mark.slow
@pytest.mark.parametrize("loaded", LOADS)
def test_every_auto_class_knows_the_models_at_once(loaded: str, folder: Path) -> None:
    names, ffn, _ = load(OURS_FIRST, LOADS[loaded], folder)
    assert CLASSES[loaded] in names
    assert ffn == (None if loaded == "AutoTokenizer" else "kan")


@pytest.mark.slow
@pytest.mark.parametrize("loaded", ["AutoConfig", "AutoTokenizer", "pipeline", "unpickled config"])
def test_every_auto_class_knows_the_models_when_transformers_came_first(loaded: str, folder: Path) -> None:
    names, ffn, _ = load(THEIRS_FIRST, LOADS[loaded], folder)
    assert CLASSES[loaded] in names
    assert ffn == (None if loaded == "AutoTokenizer" else "kan")


def test_the_config_alone_is_enough_to_know_the_models(folder: Path) -> None:
    # The stand-in of a config class answers as the class itself does, before anything else has loaded it.
    assert run_python(
        "import json, sys, ffn_variants\n"
        "from transformers import CONFIG_MAPPING\n"
        "before = 'ffn_variants.models.modeling' in sys.modules\n"
        "found = CONFIG_MAPPING['ffn_roberta'].model_type\n"
        "real = CONFIG_MAPPING['ffn_roberta'] is ffn_variants.FFNRobertaConfig\n"
        f"config = CONFIG_MAPPING['ffn_gpt_neo'].from_pretrained({str(folder)!r})\n"
        "print(json.dumps([before, found, real, config.ffn]))"
    ) == [False, "ffn_roberta", True, "kan"]


@pytest.mark.slow
def test_threads_that_import_at_the_same_time_all_know_the_models(folder: Path) -> None:
    """The first import of transformers by several threads, each through another of its modules."""
    assert (
        run_python(
            "import ffn_variants, json, sys, transformers\n"
            "from concurrent.futures import ThreadPoolExecutor\n"
            "from threading import Barrier\n"
            "sys.setswitchinterval(1e-5)\n"
            "barrier = Barrier(4)\n"
            "def load(name):\n"
            "    barrier.wait()\n"
            "    getattr(transformers, name)\n"
            "    from transformers import AutoModelForCausalLM\n"
            f"    return type(AutoModelForCausalLM.from_pretrained({str(folder)!r})).__name__\n"
            "names = ['AutoTokenizer', 'GPTNeoForCausalLM', 'AutoModel', 'RobertaConfig']\n"
            "with ThreadPoolExecutor(4) as pool:\n"
            "    print(json.dumps(list(pool.map(load, names))))"
        )
        == ["FFNGPTNeoForCausalLM"] * 4
    )


def test_every_public_name_is_there() -> None:
    """Read from the source: a type checker sees other lines than the ones that run."""
    source = ast.parse(Path(ffn_variants.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in source.body if isinstance(node, ast.If)]
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(seen) == sorted(ffn_variants.__all__)
    homes, star, listed = run_python(
        "import json, sys, ffn_variants\n"
        "listed = set(ffn_variants.__all__) <= set(dir(ffn_variants))\n"
        "space = {}\n"
        "exec('from ffn_variants import *', space)\n"
        "homes = {n: [m for m in sys.modules if m.startswith(('base.', 'ffn_variants.')) and "
        "getattr(sys.modules[m], n, None) is getattr(ffn_variants, n)] for n in ffn_variants.__all__}\n"
        "print(json.dumps([homes, sorted(n for n in space if n != '__builtins__'), listed]))"
    )
    assert listed
    assert star == sorted(ffn_variants.__all__)
    for name, module in seen.items():
        assert module in homes[name]


def test_an_unknown_name_is_named() -> None:
    with pytest.raises(AttributeError, match="module 'ffn_variants' has no attribute 'build_modle'"):
        ffn_variants.build_modle  # type: ignore[missing-attribute]
    with pytest.raises(ImportError, match="build_modle"):
        exec("from ffn_variants import build_modle")
