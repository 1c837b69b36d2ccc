"""The code beside a model's weights: whoever has torch and transformers alone gets the same numbers."""

import itertools
import json
from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM
from transformers.dynamic_module_utils import get_relative_import_files

from base.errors import UsageError
from base.families import AUTO_CLASSES, FAMILIES
from ffn_variants import FFN_VARIANTS, build_model, load_variant
from ffn_variants.bundle import REPLACED, bundle_code, made_relative
from ffn_variants.models.loading import load_pretrained
from tests.bare import run_bare
from tests.cases import listed

SIZES = {"vocab_size": 40, "hidden_size": 8, "intermediate_size": 12, "max_position_embeddings": 24}
SIZES |= {"num_hidden_layers": 2, "num_attention_heads": 2}
FAST = list(zip(FAMILIES, ("gelu", "kan", "moe", "spline-kan"), strict=False))
CASES = [
    pytest.param(*case, marks=() if case in FAST else pytest.mark.slow)
    for case in itertools.product(FAMILIES, FFN_VARIANTS)
]
"""One variant in each family; `pytest -m slow` has all."""

ELSEWHERE = """
import json, pathlib, torch, transformers
torch.set_grad_enabled(False)
found = {}
for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    asked = json.loads((folder / "asked.json").read_text())
    ids = torch.tensor(asked["ids"])
    more = {"decoder_input_ids": ids} if asked["decoder"] else {}
    auto = getattr(transformers, asked["auto"])
    try:
        model = auto.from_pretrained(folder, trust_remote_code=True).eval()
        logits = model(input_ids=ids, **more).logits
        autos = json.loads((folder / "config.json").read_text())["auto_map"]
        names = {}
        for name in autos:
            own = getattr(transformers, name).from_pretrained(folder, trust_remote_code=True)
            names[name] = type(own).__name__
        found[folder.name] = [logits.tolist(), type(model).__module__.split(".")[0], names]
    except Exception as error:
        found[folder.name] = [f"{type(error).__name__}: {error}", "", {}]
print('\\n' + json.dumps(found))
"""


def save(folder: Path, family: str, variant: str, options: dict | None = None) -> torch.Tensor:
    """Save a model with its code; returns its logits, once it was loaded again.

    Where its weights lie in memory decides how some processors round: built and loaded models may differ in
    the last bit, and loaded ones lie alike in every process.
    """
    torch.manual_seed(3)
    model = build_model(family, variant, options, **SIZES).eval()
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    files, auto_map = bundle_code(config, folder)
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": auto_map}))
    ids = torch.arange(5, 15)[None]
    is_seq = family == "t5"
    asked = {"ids": ids.tolist(), "decoder": is_seq, "auto": AUTO_CLASSES[FAMILIES[family].objective]}
    (folder / "asked.json").write_text(json.dumps(asked))
    more = {"decoder_input_ids": ids} if is_seq else {}
    with torch.no_grad():
        built = model(input_ids=ids, **more).logits
        loaded = type(model).from_pretrained(folder).eval()(input_ids=ids, **more).logits
    torch.testing.assert_close(loaded, built, rtol=1e-5, atol=1e-5)
    return loaded


@pytest.fixture(scope="module")
def loaded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], tuple[torch.Tensor, list]]:
    """By family and variant the logits here, and those of a process that has no such project."""
    asked = (getattr(item, "callspec", None) for item in request.session.items if item.path == request.path)
    cases = [(x.params["family"], x.params["variant"]) for x in asked if x and "family" in x.params]
    home, models = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("models")
    here = {case: save(models / "--".join(case), *case) for case in cases}
    there = run_bare(ELSEWHERE, models, home=home)
    return {case: (logits, there["--".join(case)]) for case, logits in here.items()}


@pytest.mark.parametrize(("family", "variant"), CASES)
@pytest.mark.ci
def test_another_process_without_this_project_has_the_same_logits(loaded, family: str, variant: str) -> None:
    logits, (found, module, classes) = loaded[family, variant]
    assert module == "transformers_modules", found
    assert torch.equal(torch.tensor(found), logits)
    spec = FAMILIES[family]
    places = {
        "AutoConfig": spec.config_class,
        "AutoModel": spec.backbone_class,
        AUTO_CLASSES[spec.objective]: spec.model_class,
        "AutoModelForSequenceClassification": spec.classifier_class,
    }
    assert classes == {auto: place.rpartition(":")[2] for auto, place in places.items()}


@pytest.mark.parametrize("variant", ["relu", "kan", "spline-kan"])
def test_transformers_finds_every_file_and_no_other(tmp_path: Path, variant: str) -> None:
    save(tmp_path / "model", "gpt_neo", variant)
    entry = tmp_path / "model" / "modeling_ffn.py"
    found = {Path(path).stem for path in get_relative_import_files(entry)} | {entry.stem}
    names = {path.stem for path in (tmp_path / "model").glob("*.py")}
    assert found == names
    assert "ffn_variants_variants_series_kan" not in names
    assert "ffn_variants_stand_ins" in names
    assert not {module.replace(".", "_") for module in REPLACED} & names


def test_this_project_loads_it_without_consent_and_runs_none_of_it(tmp_path: Path) -> None:
    logits = save(tmp_path / "model", "gpt_neo", "kan")
    for path in (tmp_path / "model").glob("*.py"):
        path.write_text("raise SystemExit('run')")
    ids = torch.arange(5, 15)[None]
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model").eval()
    assert type(model).__module__ == "ffn_variants.models.modeling"
    again, _ = load_pretrained(AutoModelForCausalLM, tmp_path / "model")
    assert torch.equal(model(ids).logits, logits)
    assert torch.equal(again.eval()(ids).logits, logits)
    assert transformers.AutoConfig.from_pretrained(tmp_path / "model").ffn == "kan"


@pytest.mark.parametrize(("line", "words"), listed(__file__, "imports"))
def test_an_import_that_cannot_travel_is_told(line: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        made_relative(f"{line}\n", str, "mine.py")


@pytest.mark.ci
def test_a_class_of_a_file_travels(tmp_path: Path, repository: Path, own_variants: None) -> None:
    load_variant(f"{repository}/examples/gated_square.py:GatedSquare")
    logits = save(tmp_path / "models" / "own", "gpt_neo", "gated-square")
    found = run_bare(ELSEWHERE, tmp_path / "models", home=tmp_path)["own"]
    assert torch.equal(torch.tensor(found[0]), logits), found


def test_what_a_stand_in_lacks_is_told(tmp_path: Path, repository: Path, own_variants: None) -> None:
    text = (repository / "examples/xielu.py").read_text()
    (tmp_path / "mine.py").write_text(
        f"from base.errors import OccupiedError\n{text}".replace('"""xIELU', '"""x')
    )
    load_variant(f"{tmp_path}/mine.py:XIELU")
    with pytest.raises(UsageError, match="takes OccupiedError, which does not travel"):
        save(tmp_path / "model", "gpt_neo", "my-xielu")
    with pytest.raises(UsageError, match="'bert' is none of this project's"):
        bundle_code({"model_type": "bert"}, tmp_path)
