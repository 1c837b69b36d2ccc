"""Models whose variant came from a user's file: what lies beside the weights, and who may run it."""

import json
import logging
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification

from ffn_variants import UsageError, build_model, load_variant
from ffn_variants.models import modeling
from ffn_variants.models.loading import load_pretrained
from ffn_variants.source_fingerprint import source_fingerprint
from tests.cases import SMALL, forget_variants, listed

pytestmark = pytest.mark.usefixtures("own_variants")

TOKENS = torch.arange(10)[None]


def edit_config(folder: Path, **changes: object) -> None:
    """Change fields of a saved model; None takes one out."""
    path = folder / "config.json"
    fields = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in fields.items() if value is not None}))


@pytest.fixture
def saved(repository, tmp_path) -> tuple[Path, torch.Tensor]:
    """A saved model with xIELU, what it answers, and a process that does not know the variant."""
    load_variant(f"{repository}/examples/xielu.py:XIELU")
    torch.manual_seed(3)
    model = build_model("gpt_neo", "my-xielu", {"beta": 0.25}, **SMALL).eval()
    model.save_pretrained(tmp_path / "model")
    forget_variants("my-xielu")
    return tmp_path / "model", model(TOKENS).logits


def test_the_file_and_a_module_for_transformers_lie_beside_the_weights(saved, repository):
    folder, _ = saved
    assert (folder / "ffn_my-xielu.py").read_bytes() == (repository / "examples/xielu.py").read_bytes()
    config = json.loads((folder / "config.json").read_text())
    assert config["auto_map"] == {"AutoConfig": "modeling_ffn.FFNGPTNeoConfig"}
    assert config["ffn_files"] == {"my-xielu": "ffn_my-xielu.py:XIELU"}
    spec = load_variant(f"{folder}/ffn_my-xielu.py:XIELU")
    assert source_fingerprint(spec.name) == config["ffn_source"]


def test_models_of_other_variants_bring_no_code(tmp_path):
    build_model("gpt_neo", "swish", **SMALL).save_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.py"))
    config = json.loads((tmp_path / "config.json").read_text())
    assert "auto_map" not in config
    assert config["ffn_files"] is None


def test_transformers_loads_it_with_consent(saved):
    folder, logits = saved
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
    assert torch.equal(model(TOKENS).logits, logits)
    forget_variants("my-xielu")
    assert AutoModel.from_pretrained(folder, trust_remote_code=True).config.ffn == "my-xielu"
    forget_variants("my-xielu")
    classes = AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=True, num_labels=3)
    assert classes(TOKENS).logits.shape == (1, 3)


def test_without_consent_nothing_of_the_folder_is_run(saved):
    folder, _ = saved
    (folder / "ffn_my-xielu.py").write_text("raise AssertionError('was run')\n")
    assert AutoConfig.from_pretrained(folder).ffn == "my-xielu"  # what is written there can be read
    told = r"brings its FFN variant 'my-xielu' in ffn_my-xielu\.py, which is code; .*: --trust-remote-code"
    for load in (AutoModelForCausalLM.from_pretrained, partial(load_pretrained, AutoModelForCausalLM)):
        with pytest.raises(UsageError, match=told):
            load(folder)
    with pytest.raises(
        UsageError, match=r"'my-xielu' is in ffn_my-xielu\.py beside the weights, which was not run"
    ):
        AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))


def test_a_variant_that_is_registered_is_taken_without_running_the_folder_s(saved, repository):
    folder, logits = saved
    (folder / "ffn_my-xielu.py").write_text("raise AssertionError('was run')\n")
    load_variant(f"{repository}/examples/xielu.py:XIELU")
    for trust in (False, True):
        model, _ = load_pretrained(AutoModelForCausalLM, folder, trust)
        assert torch.equal(model.eval()(TOKENS).logits, logits)


def test_two_models_whose_variants_share_a_name_are_not_mixed_up(saved, repository, tmp_path):
    """Not by transformers itself either."""
    folder, logits = saved
    text = (repository / "examples/xielu.py").read_text().replace("wide.square()", "wide")
    (tmp_path / "other.py").write_text(text)
    load_variant(f"{tmp_path}/other.py:XIELU")
    with pytest.raises(UsageError, match="an FFN variant 'my-xielu' is there already"):
        AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
    with pytest.raises(UsageError, match="brings its FFN variant 'my-xielu'"):
        load_pretrained(AutoModelForCausalLM, folder)
    forget_variants("my-xielu")
    load_variant(f"{repository}/examples/xielu.py:XIELU")
    assert torch.equal(AutoModelForCausalLM.from_pretrained(folder)(TOKENS).logits, logits)


@pytest.mark.parametrize("family", ["gpt_neo", "t5"])
def test_a_copy_of_a_copy_is_the_same_model(family, repository, tmp_path):
    load_variant(f"{repository}/examples/channel_elu.py:CHANNEL_ELU")
    build_model(family, "channel-elu", **SMALL).save_pretrained(tmp_path / "a")
    for before, after in (("a", "b"), ("b", "c")):
        forget_variants("channel-elu")
        AutoModel.from_pretrained(tmp_path / before, trust_remote_code=True).save_pretrained(tmp_path / after)
    names = {path.name for path in (tmp_path / "a").iterdir()} - {"generation_config.json"}
    assert {path.name for path in (tmp_path / "c").iterdir()} == names
    assert {"ffn_channel-elu.py", "modeling_ffn.py"} < names
    configs = [json.loads((tmp_path / name / "config.json").read_text()) for name in "bc"]
    assert configs[0] == configs[1]
    shutil.rmtree(tmp_path / "a")
    forget_variants("channel-elu")
    again = AutoModel.from_pretrained(tmp_path / "c", trust_remote_code=True)
    assert sum("alpha" in name for name in again.state_dict()) == (4 if family == "t5" else 2)


@pytest.mark.parametrize(("change", "message"), listed(__file__, "hand-made configs"))
def test_a_hand_made_config_is_refused_in_one_line(saved, change, message):
    folder, _ = saved
    shutil.copy(folder / "ffn_my-xielu.py", folder.parent / "outside.py")
    edit_config(folder, **change)
    with pytest.raises(UsageError, match=message):
        load_pretrained(AutoModelForCausalLM, folder, trust_remote_code=True)


def test_a_file_that_holds_another_variant_is_refused(saved, repository):
    folder, _ = saved
    shutil.copy(repository / "examples/channel_elu.py", folder / "ffn_my-xielu.py")
    edit_config(folder, ffn_files={"my-xielu": "ffn_my-xielu.py:CHANNEL_ELU"})
    for load in (AutoModelForCausalLM.from_pretrained, partial(load_pretrained, AutoModelForCausalLM)):
        with pytest.raises(UsageError, match=r"ffn_my-xielu\.py: holds the variant 'channel-elu'"):
            load(folder, trust_remote_code=True)


# A model knows the source of its variant that its weights were trained through


@pytest.fixture
def saved_swish(tmp_path):
    """A folder with a new model."""
    modeling._warn_of_other_source.cache_clear()
    torch.manual_seed(0)
    build_model("gpt_neo", "swish", **SMALL).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def told(caplog):
    """What this project said; transformers tells of heads."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("ffn_variants")]


def recorded(folder):
    return json.loads((folder / "config.json").read_text()).get("ffn_source")


def test_another_source_is_told_once_in_one_line_and_kept(saved_swish, tmp_path, other_formula, caplog):
    before = source_fingerprint("swish")
    assert recorded(saved_swish) == before
    AutoModel.from_pretrained(saved_swish)
    assert not told(caplog)
    other_formula()
    with caplog.at_level(logging.WARNING):
        model = AutoModel.from_pretrained(saved_swish)
        AutoModelForSequenceClassification.from_pretrained(saved_swish, num_labels=2)
    (line,) = told(caplog)
    now = source_fingerprint("swish")
    assert f"trained through another 'swish' (source {before}, now {now})" in line
    assert f"add '{before}' to earlier_sources" in line
    assert "\n" not in line
    model.save_pretrained(tmp_path / "again")
    assert recorded(tmp_path / "again") == before


def test_older_models_say_nothing_of_their_source(saved_swish, tmp_path, other_formula, caplog):
    edit_config(saved_swish, ffn_source=None)
    other_formula()
    AutoModel.from_pretrained(saved_swish).save_pretrained(tmp_path / "again")
    assert not told(caplog)
    assert recorded(tmp_path / "again") is None
