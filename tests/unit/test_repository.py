"""What holds for the repository as a whole: links, shipped configs, the direction of imports, file sizes."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import yaml

import scores.suites
from base.files import PACKAGES
from base.run.folder_names import Inside, RunFolder, StudyFolder
from eval.config import EvalConfig
from eval.zero_shot.pairs_and_choices import read_items
from eval.zero_shot.text_task import find_suite_tasks
from ffn_variants import FFN_VARIANTS, build_ffn, load_variant
from ffn_variants.check import CHECKS
from tests.changed import all_files

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path for folder in (".", "benchmarks", "docs", "docs/*") for path in ROOT.glob(f"{folder}/*.md")
)
OF_PROGRAMS = {ROOT / "docs/zoo/report.md", *ROOT.glob("docs/example-*/*.md")}
WRITTEN_BY_HAND = [path for path in DOCUMENTS if path not in OF_PROGRAMS]


def floors_of_the_page() -> dict[str, tuple[str, ...]]:
    """What stands on each floor of a package, from the ground up; of all packages under no name.

    What stands on a floor may import what stands below it, and nothing beside or above it. A name is a file
    or a folder.
    """
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    lines = page.split("## Who may import whom")[1].split("```")[1].strip("\n").splitlines()
    told: dict[str, str] = {}
    house = ""
    for line in lines:
        house = line[:14].strip() or house
        told[house] = told.get(house, "") + line[14:]
    return {
        "" if house == "packages" else house: tuple(text.replace("|", " ").split(">")[::-1])
        for house, text in told.items()
    }


FLOORS = floors_of_the_page()
# The training command scores a model on its way, where --eval-every asks for it.
EXCEPTIONS = {("pretrain.train", "eval.zero_shot.during_training")}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_images_resolve(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        page = document.parent / name if name else document
        assert page.exists(), f"{document.name} links to {target}"
        assert not anchor or anchor in _anchors(page), f"{document.name} links to {target}"


def _anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", WRITTEN_BY_HAND, ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_ends_at_100_characters(document: Path) -> None:
    """Longer may be what stands in a block of code or a table, and a line that has no place to end at."""
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    prose = [line.rstrip() for line in text.splitlines() if not line.startswith(("|", "!["))]
    prose = [re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "_"), line) for line in prose]
    long = [line for line in prose if len(line) > 100 and " " in line.lstrip("- ")]
    assert not long, f"{document.name}: {long[0]}"


FOLDERS = "|".join((*PACKAGES, "benchmarks", "configs", "docs", "tests"))
# What a command writes, what pages on adding things add, what was deleted and has its numbers still.
NAMED_AND_ABSENT = {"report/report.md", "ffn_variants/variants/mish.py", "benchmarks/seeds.py"}
NAMED_AND_ABSENT |= {"eval/zero_shot/agreement.py", "tests/unit/eval/zero_shot/test_agreement.py"}


@pytest.mark.parametrize("document", WRITTEN_BY_HAND, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_tests_named_in_prose_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for name in re.findall(rf"(?<![\w/.])((?:{FOLDERS})/[\w/-]+\.(?:py|yaml|md))", text):
        assert name in NAMED_AND_ABSENT or (ROOT / name).exists(), f"{document.name} names {name}"
    for path, name in re.findall(r"(tests/[\w/-]+\.py)::(\w+)", text):
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{document.name}: {path}::{name}"


def test_functions_named_in_the_architecture_exist() -> None:
    """Rows of the tables of calls: a function in backquotes, `` in ``, and the file that defines it."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    calls = page.split("## What a command calls")[1].split("\n## ")[0]
    steps = [re.fullmatch(r"\| `([\w.]+)` in `([\w/]+\.py)` \| .*", line) for line in calls.splitlines()]
    named = [(step[1], step[2]) for step in steps if step]
    num_rows = sum(line.startswith("| `") for line in calls.splitlines())
    assert len(named) == num_rows > 60
    assert [(name, file) for name, file in named if name not in definitions(ROOT / file)] == []


def definitions(path: Path) -> set[str]:
    """Functions and classes of a file, and methods and fields of its classes as ``Class.name``."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        for part in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(part, ast.FunctionDef):
                names.add(f"{node.name}.{part.name}")
            elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                names.add(f"{node.name}.{part.target.id}")
    return names


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for package in PACKAGES for path in (ROOT / package).rglob("*.py")}


@cache
def imports_of(module: str) -> tuple[str, ...]:
    """Every module of this project that a module imports, wherever in its file."""
    found = []
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: a relative import"
            base = node.module or ""
            full = [f"{base}.{alias.name}" for alias in node.names]
            found += [name if name in MODULES else base for name in full]
    known = [name for name in found if name in MODULES]
    return tuple(name for name in known if (module, name) not in EXCEPTIONS)


def floor_of(module: str, house: str) -> tuple[int, str] | None:
    """On which floor a module stands, and in which room; None where it is not of that house."""
    inside = module if not house else module.removeprefix(f"{house}.")
    if house and inside == module:
        return None
    rooms = [(number, room) for number, floor in enumerate(FLOORS[house]) for room in floor.split()]
    own = [(n, room) for n, room in rooms if inside == room or inside.startswith(f"{room}.")]
    assert own, f"{module}: docs/architecture.md has no place for it under 'Who may import whom', {house!r}"
    return max(own, key=lambda place: len(place[1]))


def upward_imports(house: str) -> list[str]:
    found = []
    for module in MODULES:
        for imported in imports_of(module):
            here, there = floor_of(module, house), floor_of(imported, house)
            if here and there and here != there and there[0] >= here[0]:
                found.append(f"{module} imports {imported}, which stands no lower (docs/architecture.md)")
    return found


@pytest.mark.parametrize("house", FLOORS)
def test_imports_go_down(house: str) -> None:
    assert upward_imports(house) == []


def test_every_package_has_a_floor_and_is_known_to_the_code() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"benchmarks", "tests"}
    assert set(" ".join(FLOORS[""]).split()) == folders == set(PACKAGES)
    several = {"ffn_variants", "pretrain", "eval", "report", "slurm", "ffn_ablations"}
    assert FLOORS.keys() == {"", *several}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_architecture_has_a_line_for_every_folder_from_the_top_floor_down(package: str) -> None:
    tree = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("## A line for each")[1]
    (own,) = re.findall(rf"^{package}/.*\n((?: .*\n)*)", tree, re.MULTILINE)
    told = re.findall(r"^  (\w+)/", own, re.MULTILINE)
    folders = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    assert set(told) == folders - ({"text"} if package == "base" else set())
    floors = {room: n for n, floor in enumerate(FLOORS.get(package, ())) for room in floor.split()}
    heights = [floors.get(folder, 0) for folder in told]
    assert heights == sorted(heights, reverse=True)


def test_no_files_import_each_other() -> None:
    """Not even by a way round: what imports nothing that is left is taken away until nothing is left."""
    waiting = {module: set(imports_of(module)) - {module} for module in MODULES}
    while free := {module for module, needed in waiting.items() if not needed & waiting.keys()}:
        waiting = {module: needed for module, needed in waiting.items() if module not in free}
    assert not waiting, f"a circle among {sorted(waiting)}"


def test_every_module_is_used_by_another() -> None:
    """By an import, or a text that has its dotted name."""
    used = {imported for module in MODULES for imported in imports_of(module) if imported != module}
    for path in (ROOT / name for name in all_files(ROOT) if name.partition("/")[0] in PACKAGES):
        words = re.findall(r"\b[a-z]\w*(?:\.\w+)+", path.read_text(encoding="utf-8"))
        used.update(word for word in words if MODULES.get(word) != path)
    # The kernels are loaded relative to their package, on a GPU.
    used.update(
        name for name, path in MODULES.items() if path.stem in ("__init__", "__main__", "triton_kernels")
    )
    alone = [MODULES[name].relative_to(ROOT).as_posix() for name in sorted(MODULES.keys() - used)]
    told = "name a variant's file in ffn_variants/registry.py, a command in ffn_ablations/cli.py"
    assert alone == [], f"no other module uses it: {told}"


def test_imports_stand_at_the_top() -> None:
    """At most one in 1,000 lines stands in a function, those of a command's ``main`` apart."""
    inside = [
        f"{module}:{node.lineno}"
        for module, path in MODULES.items()
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef) and function.name != "main"
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES.values())
    assert len(set(inside)) <= lines / 1000, inside


def test_an_installation_has_every_package_and_data_file() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert told["package-dir"] == {"ffn_ablations.configs": "configs"}
    places = {name: name.replace("ffn_ablations.configs", "configs") for name in told["packages"]}
    folders = {name: ROOT / place.replace(".", "/") for name, place in places.items()}
    tops = {*PACKAGES, "configs"}
    tracked_files = {ROOT / name for name in all_files(ROOT) if name.partition("/")[0] in tops}
    odd = {file.parent for file in tracked_files} ^ set(folders.values())
    unlisted = [str(folder.relative_to(ROOT)) for folder in odd]
    assert unlisted == [], "list each folder of Python or configs under packages in pyproject.toml, no other"
    installed = {path for folder in folders.values() for path in folder.glob("*.py")} | {
        path
        for package, patterns in told["package-data"].items()
        for pattern in patterns
        for path in folders[package].glob(pattern)
    }
    assert not {str(path.relative_to(ROOT)) for path in tracked_files - installed}, "package-data"


def test_no_large_or_generated_file_is_tracked() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert files
    for path in files:
        assert not path.is_file() or path.stat().st_size <= 2**20, f"{path} is over 1 MB"
        assert path.suffix not in {".safetensors", ".parquet", ".bin", ".pt"}, path


@pytest.mark.usefixtures("own_variants")
def test_the_files_shown_in_the_page_on_adding_a_variant_work(monkeypatch, tmp_path):
    page = (ROOT / "docs/adding-a-variant.md").read_text(encoding="utf-8")
    own, built_in = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "mine.py").write_text(own, encoding="utf-8")
    learnable = load_variant(f"{tmp_path}/mine.py:SPEC")
    for check in CHECKS.values():
        check(learnable.name, {"init": 0.5})
    z = np.linspace(-5, 5, 24).reshape(3, 8)
    got = learnable.build(8, init=0.5)(torch.from_numpy(z)).detach().numpy()
    np.testing.assert_allclose(got, z * np.tanh(np.log1p(np.exp(0.5 * z))), rtol=1e-6)

    shown: dict = {"__name__": "mish"}
    exec(built_in, shown)
    monkeypatch.setitem(FFN_VARIANTS, "mish", shown["SPEC"])
    ffn = build_ffn("mish", 8, 16)
    assert sum(p.numel() for p in ffn.parameters()) == shown["SPEC"].num_params(8, 16)
    assert shown["SPEC"].flops_per_token(8, 16) == 2 * 2 * 8 * 16
    x = np.linspace(-5, 5, 101)
    y = ffn.act(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(y, x * np.tanh(np.log1p(np.exp(x))), rtol=1e-12)


def test_the_suite_shown_in_the_page_on_adding_one_works(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/adding-a-suite.md").read_text(encoding="utf-8")
    module, test = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (row,) = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    spec = scores.suites.read_suite(row)
    monkeypatch.setitem(scores.suites.SUITES, spec.name, spec)
    shown = ModuleType(spec.finder.partition(":")[0])
    monkeypatch.setitem(sys.modules, shown.__name__, shown)
    exec(module, vars(shown))
    tested: dict = {"__name__": "test_agreement"}
    exec(test, tested)
    (check,) = (value for name, value in tested.items() if name.startswith("test_"))
    (mark,) = check.pytestmark
    for values in mark.args[1]:
        check(*values)
    tasks = find_suite_tasks(spec.name, EvalConfig(max_pairs=5))
    assert [task.name for task in tasks] == list(spec.tasks)
    assert [len(read_items(task)) for task in tasks] == [5, 5]


def test_only_one_file_knows_what_lies_in_the_folders_of_runs_and_studies() -> None:
    """Elsewhere no file is named, nothing steps up from a run to its study, nor down into it."""
    fields = [*vars(RunFolder).values(), *vars(StudyFolder).values()]
    parts = {part for place in fields if isinstance(place, Inside) for part in place.name.split("/")}
    named = [re.escape(part) for part in parts if re.match(r"\w+\.|[A-Z]", part)]
    assert {"config\\.yaml", "COMPLETED"} <= set(named)
    spelled = re.compile(rf"(^|/)({'|'.join(named)})$")
    found = []
    for path in MODULES.values():
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        # The last reads what trackers left, whose files have names of their own.
        where_names_are = ("folder_names.py", "base/files.py", "base/model_folders.py", "logged_runs.py")
        if name.endswith(where_names_are):
            continue
        found += [(name, word) for word in re.findall(r"\.parents\[|\.parent\.parent|\*/\*/\*", text)]
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Constant(value=str(word)) if " " not in word and spelled.search(word):
                    found.append((name, word))
                case ast.BinOp(op=ast.Div(), right=ast.Constant(value=word)) if word in parts:
                    found.append((name, f"/ {word}"))
    assert not found
