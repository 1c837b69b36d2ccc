"""Files that are read: one reader for each format, one line for what is wrong, and none of their code."""

import json
import os
import pickle
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, GPTNeoConfig, GPTNeoForCausalLM

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import PACKAGES
from base.model_folders import clean_name, refuse_code
from base.options import Option, like, read_value
from base.records import (
    parse_json,
    parse_record,
    peek_record,
    read_json,
    read_record,
    set_aside,
    write_record,
)
from base.text.tokens import read_tokenizer
from eval.backbones import backbone_runs
from ffn_variants.models.loading import load_pretrained
from pretrain.sampling import load_causal_model
from tests.bad_inputs import NO_JSON, UNREADABLE


# Files that are read: one reader for each format, and one line for what is wrong.
# State files: what does not parse is told and taken as not there, and other versions are read.
@dataclass(frozen=True)
class Place:
    name: str
    step: int = 0
    losses: list[float] = field(default_factory=list)


PLACE = Place("gelu/seed1", 3, [0.1, 1e-300, float("inf")])


@pytest.fixture
def path(tmp_path):
    write_record(tmp_path / "made" / "place.json", PLACE)
    return tmp_path / "made" / "place.json"


def test_what_was_written_is_read(path, capsys):
    assert read_record(path, Place) == PLACE
    plain = {"name": "gelu/seed1", "step": 3, "losses": [0.1, 1e-300, float("inf")]}
    assert read_record(path, dict) == peek_record(path) == parse_record(path.read_bytes()) == plain
    assert [file.name for file in path.parent.iterdir()] == ["place.json"]
    assert capsys.readouterr() == ("", "")


def test_records_of_older_and_newer_versions_are_read(tmp_path):
    (tmp_path / "a.json").write_text('{"name": "a", "sha256": "1f8a"}')  # a checksum, and not all keys
    assert read_record(tmp_path / "a.json", Place) == Place("a")
    write_record(tmp_path / "a.json", {"name": "a", "step": 2, "gpu_hours": 3.5})
    assert read_record(tmp_path / "a.json", Place) == Place("a", 2)


def test_an_absent_file_is_none_and_a_folder_in_its_place_is_told(tmp_path, capsys):
    assert read_record(tmp_path / "a.json", Place) is None
    assert peek_record(tmp_path / "a.json") == {}
    (tmp_path / "file").touch()
    assert read_record(tmp_path / "file" / "a.json", Place) is None
    assert capsys.readouterr() == ("", "")
    assert read_record(tmp_path, Place) is None
    assert capsys.readouterr().err == f"note: {tmp_path} is damaged (Is a directory); taken as not there\n"


def damages(content: bytes) -> dict[str, bytes]:
    return {
        "empty": b"",
        "cut": content[: len(content) // 2],
        "zeroed": bytes(len(content)),
        "binary": b"\xff\xfe" + content,
        "a list": b"[1]",
        "nested": b"[" * 10_000,
        "key gone": json.dumps({"step": 3}).encode(),
        "other type": json.dumps({"name": "a", "step": "many"}).encode(),
    }


@pytest.mark.parametrize("damage", damages(b""))
def test_a_damaged_file_is_told_in_one_line_and_taken_as_not_there(damage, path, capsys):
    content = damages(path.read_bytes())[damage]
    path.write_bytes(content)
    assert read_record(path, Place) is None
    line = capsys.readouterr().err
    field = {"key gone": "name: ", "other type": "step: "}.get(damage, "")
    assert line.startswith(f"note: {path} is damaged ({field}")
    assert line.endswith("); taken as not there\n")
    assert line.count("\n") == 1
    assert path.read_bytes() == content
    assert read_record(path, Place) is None
    assert capsys.readouterr().err == ""  # once
    write_record(path, PLACE)
    assert read_record(path, Place) == PLACE


@pytest.mark.parametrize("text", ['{"count": 2', "", "\udcff", "[1]"])
def test_what_is_no_record_holds_nothing(text, tmp_path):
    (tmp_path / "a.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert peek_record(tmp_path / "a.json") == {}
    with pytest.raises(ValueError, match=r"it is"):
        parse_record((tmp_path / "a.json").read_bytes())


def test_a_folder_is_set_aside(tmp_path, capsys):
    for name in "ab":
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / name).touch()
        set_aside(tmp_path / "model", f"it is\n{name}")
    assert os.listdir(tmp_path / "model.broken") == ["b"]
    assert capsys.readouterr().err.count("\n") == 2


# Reading JSON and YAML that anybody may have written: one function each, and one line for what is wrong.
OWN_ROUND_TRIPS = {"report/document/document.py", "base/device_errors.py"}
"""Where what this project wrote just before is read, without a file, and a table below the readers."""


def test_every_file_goes_through_one_reader_of_its_format(repository: Path) -> None:
    found = {
        path.relative_to(repository).as_posix()
        for package in PACKAGES
        for path in (repository / package).rglob("*.py")
        if re.search(r"\bjson\.loads?\(|\byaml\.\w*load\w*\(|\bJSONDecoder\(", path.read_text())
    }
    assert found == {"base/records.py", "base/config_input.py"} | OWN_ROUND_TRIPS


@pytest.mark.parametrize("name", [name for name in UNREADABLE if name not in ("empty.bin", "loop.yaml")])
def test_what_is_no_yaml_mapping_is_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(UNREADABLE[name])
    with pytest.raises(UsageError) as told:
        read_yaml(tmp_path / name)
    assert name in str(told.value)
    assert len(str(told.value)) < 500


@pytest.mark.parametrize("name", NO_JSON)
def test_what_is_no_json_is_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        parse_json(NO_JSON[name])
    (tmp_path / "config.json").write_bytes(NO_JSON[name])
    for read in (read_json, lambda path: refuse_code(path.parent)):
        with pytest.raises(UsageError, match=r"config\.json is not JSON \([^\n]+$"):
            read(tmp_path / "config.json")


@pytest.mark.parametrize("digits", [309, 4000, 100_000])
def test_a_number_that_no_float_has_room_for_is_no_option(digits: int) -> None:
    value = like(3, read_value("9" * digits))
    with pytest.raises(UsageError, match="grid_size must be a finite number"):
        Option(default=3, help="").check("grid_size", value)


# What a saved model's folder may not bring.
@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sizes = {"hidden_size": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 16, "intermediate_size": 8}
    config = GPTNeoConfig(**sizes, attention_types=[[["global"], 1]], max_position_embeddings=8)
    GPTNeoForCausalLM(config).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def bring_code(folder: Path, name: str) -> None:
    """Let a folder name a class in a module that leaves a file behind when it is imported."""
    (folder / "own.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\nclass Own: pass\n")
    path = folder / name
    content = json.loads(path.read_text()) if path.exists() else {}
    classes = dict.fromkeys(("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer"), "own.Own")
    path.write_text(json.dumps(content | {"auto_map": classes}))


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_a_folder_with_code_of_its_own_is_refused_and_nothing_runs(folder, name, monkeypatch):
    assert load_pretrained(AutoModelForCausalLM, folder)[0].config.hidden_size == 8
    bring_code(folder, name)
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # transformers asks where it is not told
    for load in (
        lambda: load_pretrained(AutoModelForCausalLM, folder),
        lambda: read_tokenizer(folder),
        lambda: load_causal_model(folder),
        lambda: backbone_runs(folder, [1], folder.parent / "runs"),
    ):
        with pytest.raises(UsageError, match="names code of its own"):
            load()
    assert not (folder / "ran").exists()


def test_pickled_weights_are_not_read(folder):
    class Program:
        def __reduce__(self):
            return open, (str(folder / "ran"), "w")

    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Program()))
    with pytest.raises(UsageError, match="cannot load the model"):
        load_pretrained(AutoModelForCausalLM, folder)
    assert not (folder / "ran").exists()


def test_a_name_of_somebody_else_is_fit_for_a_path_and_a_line():
    names = {"gpt_neo": "gpt_neo", "..": "unnamed", "../../x": "x", "a\x1b[2Jb\nc": "a-2Jb-c", "": "unnamed"}
    assert {text: clean_name(text) for text in names} == names


def test_the_type_of_a_model_leads_to_no_folder_elsewhere(folder):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "../../../up\n"}))
    runs = folder.parent / "runs"
    (run,) = backbone_runs(folder, [1], runs)
    assert run.resolve().is_relative_to(runs.resolve())
    assert "\n" not in str(run)
