"""Saved models come back whichever of this project and transformers was imported first.

Everything runs in fresh processes, as a process of pytest has imported it all already.
"""

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

import ffn_variants
from ffn_variants import build_model
from tests.cases import first_is_fast

SIZES = {"hidden_size": 8, "intermediate_size": 8, "num_layers": 1, "num_heads": 2}
SIZES |= {"attention_types": [[["global"], 1]], "vocab_size": 300, "max_position_embeddings": 16}


def run_python(code: str) -> Any:
    """Run code in a process of its own; returns what it printed last, as JSON."""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved kan model with its tokenizer, and its config as a pickle."""
    path = tmp_path_factory.mktemp("model")
    model = build_model("gpt_neo", "kan", **SIZES)
    model.save_pretrained(path)
    (path / "config.pkl").write_bytes(pickle.dumps(model.config))
    words = models.WordLevel({"<pad>": 0, "<s>": 1, "</s>": 2, "a": 3}, unk_token="<pad>")
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), pad_token="<pad>").save_pretrained(path)
    return path


ORDERS = [
    "import ffn_variants.models; from transformers import GPTNeoConfig",
    "from transformers import AutoModel, pipeline; import ffn_variants.models",
]
LOADS = """
import json, transformers
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification
config = AutoConfig.from_pretrained(folder)
language_model = AutoModelForCausalLM.from_pretrained(folder)
loaded = [
    config,
    AutoConfig.for_model("ffn_gpt_neo", ffn="kan"),
    AutoModel.from_pretrained(folder),
    AutoModelForSequenceClassification.from_pretrained(folder),
    transformers.pipeline("text-generation", folder).model,
    AutoModelForCausalLM.from_config(config),
    language_model,
]
ffns = {getattr(each, "config", each).ffn for each in loaded}
tokens = len(transformers.AutoTokenizer.from_pretrained(folder))
weights = {k: v.double().sum().item() for k, v in language_model.state_dict().items()}
print(json.dumps([[type(each).__name__ for each in loaded], sorted(ffns), tokens, weights]))
"""
CLASSES = ["Config"] * 2 + ["Model", "ForSequenceClassification"] + ["ForCausalLM"] * 3


@pytest.mark.parametrize("order", first_is_fast(ORDERS))
@pytest.mark.ci
def test_a_model_comes_back_in_any_order_of_imports(order: str, folder: Path) -> None:
    names, ffns, tokens, weights = run_python(f"{order}\nfolder = {str(folder)!r}\n{LOADS}")
    assert names == [f"FFNGPTNeo{name}" for name in CLASSES]
    assert (ffns, tokens) == (["kan"], 4)
    saved = {k: v.double().sum().item() for k, v in load_file(folder / "model.safetensors").items()}
    assert any(".spline_weight" in name for name in saved)
    assert saved.items() <= weights.items()


@pytest.mark.ci
def test_an_unpickled_config_brings_its_models_and_nothing_else_does(folder: Path) -> None:
    """Its class is found in a module of ``ffn_variants``, of which nothing is imported before."""
    assert run_python(
        "import json, pickle, transformers\n"
        "try:\n"
        f"    transformers.AutoConfig.from_pretrained({str(folder)!r})\n"
        "except ValueError as error:\n"
        "    is_refused = 'ffn_gpt_neo' in str(error)\n"
        f"config = pickle.load(open({str(folder / 'config.pkl')!r}, 'rb'))\n"
        "from transformers import AutoModel, AutoModelForMaskedLM, CONFIG_MAPPING\n"
        "masked = AutoModelForMaskedLM._model_mapping[CONFIG_MAPPING['ffn_roberta']]\n"
        "print(json.dumps([is_refused, type(AutoModel.from_config(config)).__name__, masked.__name__]))"
    ) == [True, "FFNGPTNeoModel", "FFNRobertaForMaskedLM"]


# Dynamo comes with transformers.
LIGHT = {
    "torch": "pretrain.run.code_version, slurm.launch, slurm.archive, report.command, eval.evaluate, "
    "pretrain.train, pretrain.generate, inside.classifier.explain, ffn_variants.list_variants",
    "torch._dynamo": "pretrain.run.provenance",
    "scipy.optimize": "report.write",
}


@pytest.mark.parametrize("heavy", LIGHT)
@pytest.mark.ci
def test_what_commands_begin_with_imports_nothing_that_takes_seconds(heavy: str) -> None:
    assert (
        run_python(f"import {LIGHT[heavy]}, json, sys; print(json.dumps({heavy!r} in sys.modules))") is False
    )


@pytest.mark.ci
def test_an_edited_variant_is_listed_as_it_is(repository: Path, tmp_path: Path) -> None:
    """The table that ships is of other code then."""
    for package in ("base", "eval", "ffn_ablations", "ffn_variants", "pretrain", "report", "scores", "slurm"):
        shutil.copytree(repository / package, tmp_path / package)
    (tmp_path / "inside").symlink_to(repository / "inside")
    file = tmp_path / "ffn_variants/variants/activations.py"
    file.write_text(file.read_text().replace('"x Phi(x)"', '"x Psi(x)"'))
    command = [sys.executable, "-m", "ffn_ablations", "list", "variants"]
    table = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "x Psi(x)" in table
    assert "swiglu" in table


def test_every_public_name_is_there() -> None:
    space: dict[str, Any] = {}
    exec("from ffn_variants import *", space)
    del space["__builtins__"]
    assert sorted(space) == sorted(ffn_variants.__all__) == sorted(set(ffn_variants.__all__))
    for name, value in space.items():
        home = getattr(value, "__module__", None)
        assert home is None or home.partition(".")[0] in ("base", "ffn_variants", "typing"), name
