"""What the models of a variant must do, in every family."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from base.errors import UsageError
from base.families import FAMILIES
from base.files import CODE_ROOT
from base.names import BASELINE
from ffn_variants.budget import matching_width
from ffn_variants.check.ffn import CheckError, Options
from ffn_variants.models.families import build_model
from ffn_variants.models.layers import ffn_modules
from ffn_variants.models.loading import quiet_transformers

SIZES = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 61,
    "max_position_embeddings": 33,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

_ELSEWHERE = """
import json, sys
import torch
if sys.argv[2] == "import":
    import ffn_variants
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], trust_remote_code=True).eval()
print(json.dumps(model(torch.arange(3, 23)[None]).logits.tolist()))
"""


def _model(family: str, name: str, options: Options | None = None, seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    return build_model(family, name, options, **SIZES)


def trains(name: str, options: Options) -> None:
    """In every family a step of training has a finite loss, and so has the next."""
    for family in FAMILIES:
        model: Any = _model(family, name, options)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        ids = torch.arange(3, 43).view(2, 20)
        for step in (1, 2):
            loss: Tensor = model(ids, labels=ids).loss
            if not torch.isfinite(loss):
                raise CheckError(
                    f"the loss of {family} is {loss.item()} at step {step}; look for a division, a root or a "
                    "logarithm that the inputs of a first step can break"
                )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def paired(name: str, options: Options) -> None:
    """At one seed all weights outside the FFN are those of the baseline."""
    for family in FAMILIES:
        own, other = _outside(_model(family, name, options)), _outside(_model(family, BASELINE))
        differing = [
            key for key, value in other.items() if key not in own or not torch.equal(value, own[key])
        ]
        if differing:
            raise CheckError(
                f"in {family} {differing[0]} differs from the {BASELINE} model's at the same seed, so runs "
                "would not be paired; leave torch's seed alone in the constructor"
            )


def _outside(model: PreTrainedModel) -> dict[str, Tensor]:
    """The weights outside the FFNs; those of linear layers that an activation keeps are not told apart."""
    inside = {
        id(tensor)
        for layer in model.modules()
        for part in ffn_modules(layer)
        for tensor in part.state_dict(keep_vars=True).values()
    }
    state = model.state_dict(keep_vars=True)
    return {key: tensor.detach() for key, tensor in state.items() if id(tensor) not in inside}


def budgets(name: str, options: Options) -> None:
    """A width of equal parameters or FLOPs is found, or is refused in one line."""
    for budget in ("params", "flops"):
        try:
            matching_width(name, options, SIZES["hidden_size"], SIZES["intermediate_size"], budget)
        except UsageError:
            continue  # its counts allow none, which a run says too


def elsewhere(name: str, options: Options) -> None:
    """A saved model gives the same outputs in another process, loaded by transformers."""
    model: Any = _model("gpt_neo", name, options).eval()
    with tempfile.TemporaryDirectory() as folder:
        with quiet_transformers():
            model.save_pretrained(folder)
        needs_import = "import" if not model.config.ffn_files else "no import"
        done = subprocess.run(
            [sys.executable, "-c", _ELSEWHERE, folder, needs_import],
            env={
                **os.environ,
                "HF_HOME": str(Path(folder) / "hf"),
                "PYTHONPATH": _path(),
                "HF_HUB_OFFLINE": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise CheckError(f"another process cannot load a saved model ({said[0][:300]}); mend what it names")
    if not torch.equal(torch.tensor(json.loads(done.stdout)), model(torch.arange(3, 23)[None]).logits):
        raise CheckError(
            "a saved model gives other outputs in another process; forward may depend on parameters, "
            "persistent buffers and options alone"
        )


def _path() -> str:
    return os.pathsep.join(filter(None, (str(CODE_ROOT), os.environ.get("PYTHONPATH"))))


MODEL_CHECKS: dict[str, Callable[[str, Options], None]] = {
    "a step of training in every family": trains,
    "all other weights paired": paired,
    "equal budgets": budgets,
    "a saved model in another process": elsewhere,
}
"""By what each is called; each takes the variant's name and its options."""
