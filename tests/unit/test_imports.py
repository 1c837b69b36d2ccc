"""Saved models come back whichever of this project and transformers was imported first.

Everything runs in fresh processes, as a process of pytest has imported it all already.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import ffn_variants
from ffn_variants import build_model
from tests.cases import first_is_fast

OURS_FIRST = "import ffn_variants, transformers"
THEIRS_FIRST = "import transformers; transformers.AutoConfig; import ffn_variants"
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
@pytest.mark.ci
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
@pytest.mark.parametrize("loaded", ["AutoConfig", "AutoTokenizer", "pipeline"])
def test_every_auto_class_knows_the_models_when_transformers_came_first(loaded: str, folder: Path) -> None:
    names, ffn, _ = load(THEIRS_FIRST, LOADS[loaded], folder)
    assert CLASSES[loaded] in names
    assert ffn == (None if loaded == "AutoTokenizer" else "kan")


@pytest.mark.parametrize(
    "first", first_is_fast(["", "import transformers; transformers.AutoModel\n"]), ids=["alone", "after"]
)
@pytest.mark.ci
def test_an_unpickled_config_brings_its_models(first: str, folder: Path) -> None:
    """Its class is found in a module of ``ffn_variants``, of which nothing is imported before."""
    assert run_python(
        f"{first}import json, pickle, sys\n"
        "before = 'ffn_variants' in sys.modules\n"
        f"config = pickle.load(open({str(folder / 'config.pkl')!r}, 'rb'))\n"
        "from transformers import AutoModel, AutoModelForMaskedLM, CONFIG_MAPPING\n"
        "masked = AutoModelForMaskedLM._model_mapping[CONFIG_MAPPING['ffn_roberta']]\n"
        "print(json.dumps([before, type(AutoModel.from_config(config)).__name__, masked.__name__]))"
    ) == [False, "FFNGPTNeoModel", "FFNRobertaForMaskedLM"]


def test_every_public_name_is_there() -> None:
    space: dict[str, Any] = {}
    exec("from ffn_variants import *", space)
    del space["__builtins__"]
    assert sorted(space) == sorted(ffn_variants.__all__) == sorted(set(ffn_variants.__all__))
    for name, value in space.items():
        home = getattr(value, "__module__", None)
        assert home is None or home.partition(".")[0] in ("base", "ffn_variants", "typing"), name


@pytest.mark.ci
def test_without_this_project_a_saved_model_is_refused(folder: Path) -> None:
    """What registers the models is the import, and nothing else that is installed."""
    assert run_python(
        "import json, transformers\n"
        "try:\n"
        f"    transformers.AutoConfig.from_pretrained({str(folder)!r})\n"
        "except ValueError as error:\n"
        "    print(json.dumps('ffn_gpt_neo' in str(error)))"
    )
