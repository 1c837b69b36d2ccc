"""Variants from the user's own files: what is loaded, what is refused, and what is the same variant."""

import pickle
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
import torch
import yaml
from torch import nn
from transformers import AutoModelForCausalLM

from ffn_variants import (
    FFN_VARIANTS,
    FFNSpec,
    UsageError,
    build_ffn,
    build_model,
    get_variant,
    load_variant,
    names,
    register,
)
from ffn_variants.list_variants import TableArgs, table_rows
from ffn_variants.names import is_loaded, variant_file
from ffn_variants.source_fingerprint import source_fingerprint
from ffn_variants.variant_files import MODULE
from tests.cases import SMALL, forget_variants, listed, own_spec

pytestmark = pytest.mark.usefixtures("own_variants")

DATA = yaml.safe_load(Path(__file__).with_name("variant_mistakes.yaml").read_text(encoding="utf-8"))
TEXT: str = DATA["text"]
CLASSES: str = DATA["classes"]


@pytest.fixture
def write(tmp_path):
    def make(text: str = TEXT, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return make


def test_a_loaded_variant_is_built_by_its_name(write):
    path = write()
    spec = load_variant(f"{path}:MINE")
    assert get_variant("twice") is spec
    torch.manual_seed(0)
    ffn, x = build_ffn("twice", 3, 4), torch.randn(5, 3)
    first, second = (module for module in ffn.modules() if isinstance(module, nn.Linear))
    assert torch.equal(ffn(x), second(2 * first(x)))
    assert list(path.parent.iterdir()) == [path]  # no cache beside it


def test_relative_places_are_those_of_the_folder_the_command_runs_in(write, monkeypatch):
    path = write(name="sub/mine.py")
    monkeypatch.chdir(path.parent)
    assert load_variant("mine.py:MINE").name == "twice"
    file = variant_file("twice")
    assert file is not None
    assert (file.path, file.attribute) == (path, "MINE")
    assert variant_file("gelu") is None


def test_copies_are_the_same_variant_and_have_the_same_fingerprint(write, tmp_path):
    path = write()
    spec, source = load_variant(f"{path}:MINE"), source_fingerprint("twice")
    assert len(source) == 12
    copy = shutil.copy(path, tmp_path / "copy.py")
    assert load_variant(f"{copy}:MINE") is spec
    assert is_loaded(f"{copy}:MINE")
    path.unlink()
    assert source_fingerprint("twice") == source
    assert not is_loaded(f"{path}:MINE")


@pytest.mark.parametrize("hidden", DATA["hidden"].values(), ids=DATA["hidden"])
def test_the_fingerprint_is_of_what_no_name_leads_to(write, hidden):
    text = TEXT.replace("class Twice", f"{hidden}\nclass Twice").replace("2 * x", "bent(x)")
    found = []
    for number in "232":
        load_variant(f"{write(text.replace('+ 2', f'+ {number}').replace('= 2', f'= {number}'))}:MINE")
        found.append(source_fingerprint("twice"))
        del FFN_VARIANTS["twice"]
        for name in [name for name in sys.modules if name.startswith(MODULE)]:
            del sys.modules[name]  # as in another process
    assert found[0] == found[2] != found[1]
    assert "" not in found


def test_what_it_makes_can_be_pickled(write):
    load_variant(f"{write()}:MINE")
    ffn = build_ffn("twice", 3, 4)
    again = pickle.loads(pickle.dumps(ffn))
    x = torch.randn(2, 3)
    assert torch.equal(again(x), ffn(x))


@pytest.mark.parametrize("case", DATA["mistakes"].values(), ids=DATA["mistakes"])
def test_mistakes_are_one_line(case, tmp_path, write, monkeypatch):
    name, text = case.get("place", "mine.py:MINE"), case.get("text", TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))  # as `python -m` has it in the folder it runs in
    write("a = 1\n", "helper.py")
    if text is not None:
        write(text.replace(*case.get("instead", ("", ""))), name.partition(":")[0])
    before, modules = dict(FFN_VARIANTS), set(sys.modules)
    place = str(tmp_path / name)
    with pytest.raises(UsageError) as error:
        load_variant(place)
    told = str(error.value)
    wanted = case["told"].format(path=place.rpartition(":")[0] or place)
    assert wanted.split(str(tmp_path))[-1] in told
    assert before == FFN_VARIANTS
    assert "helper" not in set(sys.modules) - modules


@pytest.mark.parametrize(("name", "called", "kind", "counts"), listed(__file__, "classes"))
def test_a_class_is_a_variant_and_its_model_is_loaded_again(name, called, kind, counts, write, tmp_path):
    spec = load_variant(f"{write(CLASSES)}:{name}")
    assert (spec.name, spec.kind, get_variant(called)) == (called, kind, spec)
    before = torch.random.get_rng_state()
    assert (spec.num_params(3, 5), spec.multiply_adds(3, 5)) == counts
    assert torch.equal(torch.random.get_rng_state(), before)
    assert load_variant(f"{shutil.copy(tmp_path / 'mine.py', tmp_path / 'copy.py')}:{name}") is spec
    model = build_model("gpt_neo", called, **SMALL).eval()
    model.save_pretrained(tmp_path / "model")
    forget_variants(called)
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "model", trust_remote_code=True).eval()
    ids = torch.arange(10)[None]
    assert torch.equal(again(ids).logits, model(ids).logits)


def test_packages_and_this_project_may_be_imported_wherever_the_file_lies(write, repository):
    """A folder that holds packages of these names does not make them its neighbours."""
    path = write("import base.files, torch, numpy, math\n" + TEXT)
    for name in ("base", "torch", "numpy", "math"):
        (path.parent / name).mkdir()
    assert load_variant(f"{path}:MINE").name == "twice"


def test_an_edited_file_needs_a_new_process_or_a_new_name(write):
    path = write()
    load_variant(f"{path}:MINE")
    write(TEXT.replace("2 * x", "3 * x"))
    with pytest.raises(
        UsageError, match=r"'twice' is there already; .* after an edit of it, start a new process"
    ):
        load_variant(f"{path}:MINE")
    write(TEXT.replace("2 * x", "3 * x").replace('"twice"', '"thrice"'))
    assert load_variant(f"{path}:MINE").name == "thrice"
    assert {"twice", "thrice"} <= set(FFN_VARIANTS)
    other = write(TEXT.replace("2 * x", "4 * x"), "other.py")
    with pytest.raises(UsageError, match="an FFN variant 'twice' is there already"):
        load_variant(f"{other}:MINE")


def test_a_spec_of_a_notebook_can_be_registered(write):
    spec = own_spec("flat", lambda intermediate_size: nn.Identity())
    assert register(spec) is spec
    assert register(spec) is get_variant("flat")
    with pytest.raises(UsageError, match="an FFN variant 'gelu' is there already"):
        register(FFNSpec(**{**vars(spec), "name": "gelu"}))
    with pytest.raises(UsageError, match="an FFN variant 'flat' is there already"):  # one folder on a Mac
        register(FFNSpec(**{**vars(spec), "name": "Flat"}))
    with pytest.raises(UsageError, match="is no FFNSpec; make it with"):
        register("flat")  # type: ignore[bad-argument-type]


@dataclass
class Distribution:
    name: str = "own-ffns"


@pytest.fixture
def installed(monkeypatch, write):
    """Pretend that a package with these entry points is installed."""

    def install(**places: str) -> None:
        module = ModuleType("own_ffns")
        exec(TEXT, vars(module))
        monkeypatch.setitem(sys.modules, "own_ffns", module)
        found = [EntryPoint(name, place, "ffn_variants") for name, place in places.items()]
        for each in found:
            vars(each)["dist"] = Distribution()
        monkeypatch.setattr(names, "entry_points", lambda group: found)
        names.installed_variants.cache_clear()

    yield install
    names.installed_variants.cache_clear()


def test_installed_packages_bring_variants_when_they_are_asked_for(installed):
    installed(twice="own_ffns:MINE", broken="own_ffns:GONE", other="own_ffns:MINE", no="no_such_package:A")
    assert get_variant("twice").formula == "2 x + c"
    for name, message in {
        "broken": "FFN variant 'broken' of the installed package own-ffns cannot be loaded: AttributeError: ",
        "no": "FFN variant 'no' of the installed package own-ffns cannot be loaded: ModuleNotFoundError: ",
        "other": "FFN variant 'other' of the installed package own-ffns: its spec calls itself 'twice'",
    }.items():
        with pytest.raises(UsageError, match=message):
            get_variant(name)
    assert get_variant("gelu").name == "gelu"
    with pytest.raises(UsageError, match=r"unknown FFN variant 'twise'; did you mean 'twice'\?"):
        get_variant("twise")


def test_the_table_lists_them_and_says_what_is_broken(installed, capsys):
    installed(twice="own_ffns:MINE", broken="own_ffns:GONE")
    rows = table_rows(TableArgs(hidden_size=8, intermediate_size=16))
    assert rows[-1][:3] == ("twice", "activation", "2 x + c")
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_may_not_take_the_name_of_an_installed_variant(installed, write):
    installed(twice="own_ffns:MINE")
    with pytest.raises(UsageError, match="an FFN variant 'twice' is there already"):
        load_variant(f"{write()}:MINE")
