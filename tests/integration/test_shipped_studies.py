"""Every shipped study in an empty folder, and the leaderboard, whose runs lead to its numbers."""

import contextlib
import re
import tarfile
from pathlib import Path

import pytest
import yaml

from base.errors import AbsentError, UsageError
from base.run.folder_names import RunFolder, StudyFolder
from ffn_variants.registry import FFN_VARIANTS
from pretrain.run.provenance import source_change
from slurm.arguments import SubmitArgs, overrides
from slurm.commands import study_run
from slurm.next_stage import check_unchanged
from slurm.study.study import load_study
from tests.processes import run_command

STUDIES = sorted((Path(__file__).parents[2] / "configs" / "studies").glob("*.yaml"))
OF_HUNDREDS = ("zoo", "grids", "tuned")
"""Those of hundreds of cells."""


def local_places(study: Path) -> set[str]:
    """The files and folders of data that a study's file names, first of each kind."""
    content = yaml.safe_load(study.read_text())
    data, evaluation = content.get("config", {}).get("data", {}), content.get("evaluation", {})
    assert ".." not in str(content)
    places = set(data.get("train_files", [])[:1])
    suites = evaluation.get("suites", [])
    if "babylm23" in suites and "blimp_dir" in evaluation:
        places.add(f"{evaluation['blimp_dir']}/filtered")
    places.update([evaluation["babylm25_dir"]] if "babylm25_dir" in evaluation else [])
    if "glue" in suites and "glue_dir" in evaluation:
        places.add(evaluation["glue_dir"])
    return places


@pytest.mark.ci
@pytest.mark.parametrize(
    "study",
    [
        pytest.param(study, id=study.stem, marks=[pytest.mark.slow] if study.stem in OF_HUNDREDS else [])
        for study in STUDIES
    ],
)
def test_a_plan_needs_no_data_and_a_run_says_which(study, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert study_run([study.stem, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "in all " in printed
    needed = [line for line in printed.splitlines() if line.startswith("needed before it runs: ")]
    assert {line.split(": ")[1] for line in needed} == local_places(study)
    assert all("put it there, or link your copy" in line for line in needed)
    if needed:
        with pytest.raises(AbsentError, match="link your copy"):
            study_run([study.stem])
    assert not list(tmp_path.iterdir())


PUBLISHED = {"zoo": "docs/zoo", **{f"zoo-{x}": f"docs/zoo/{x}" for x in ("roberta", "sizes", "flops")}}
"""Where the runs of each study lie; the report of the first lies there too."""
SECTIONS = {"zoo-roberta": "RoBERTa", "zoo-sizes": "Larger and smaller", "zoo-flops": "At equal FLOPs"}
"""Where the page has the numbers of a study whose report does not lie beside it."""


@pytest.fixture(scope="module")
def zoo(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the studies were brought back."""
    if not hasattr(tarfile, "data_filter"):
        pytest.skip("archives are unpacked by Python 3.11.4 or newer")
    folder = tmp_path_factory.mktemp("zoo")
    for place in PUBLISHED.values():
        with contextlib.chdir(folder):
            done = run_command("slurm.archive", repository / place / "runs", "--restore")
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def top(report: str) -> str:
    """What a report says first: its card, its table and warnings."""
    return report[: report.index("<details>")]


def report_of(study: str, zoo: Path) -> str:
    """The report of restored runs."""
    with contextlib.chdir(zoo):
        done = run_command("report", f"runs/{study}", "--out", study)
    assert done.returncode == 0, done.stderr
    return (zoo / study / "report.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_published_report_follows_from_the_published_runs(zoo: Path, repository: Path) -> None:
    published = (repository / "docs/zoo/report.md").read_text(encoding="utf-8")
    assert top(report_of("zoo", zoo)) == top(published)


@pytest.mark.slow
@pytest.mark.parametrize("study", SECTIONS)
def test_differences_on_the_page_follow_from_the_published_runs(zoo, repository, study):
    """Each is in the study's report, or in that of all variants, which a table has beside it."""
    page = (repository / "docs/zoo/README.md").read_text(encoding="utf-8")
    section = " ".join(page.split(f"## {SECTIONS[study]}\n")[1].split("\n## ")[0].replace("**", "").split())
    reports = report_of(study, zoo) + (repository / "docs/zoo/report.md").read_text(encoding="utf-8")
    differences = re.findall(r"([+-]\d\.\d{3})(?: \|)? (\[[+-]\d\.\d{3}, [+-]\d\.\d{3}\])", section)
    assert len(differences) >= 2
    assert [pair for pair in differences if " | ".join(pair) not in reports] == []


@pytest.mark.parametrize("study", PUBLISHED)
def test_with_the_texts_of_its_runs_a_study_goes_on_with_them(study, zoo, repository, monkeypatch) -> None:
    monkeypatch.chdir(zoo)
    listing = yaml.safe_load((zoo / "runs" / study / "study.yaml").read_text())
    page = (repository / "docs/zoo/README.md").read_text(encoding="utf-8")
    (flags,) = re.findall(r"--texts (\S+)[\s\\]+--validation-texts (\S+)", page)
    texts, held_out = ((file,) for file in flags)
    given = load_study(
        Path(study), overrides(SubmitArgs(study=study, texts=texts, validation_texts=held_out))
    )
    of_sitting = {cell.run_id for cell in given.cells if cell.variant in listing["variants"]}
    assert of_sitting <= set(listing["cells"])
    check_unchanged(given)
    with pytest.raises(UsageError, match=f"add --texts {texts[0]} --validation-texts {held_out[0]}, or"):
        check_unchanged(load_study(Path(study)))


def test_its_page_tells_as_many_variants_and_runs_as_there_are(zoo: Path, repository: Path) -> None:
    page = " ".join((repository / "docs/zoo/README.md").read_text(encoding="utf-8").split())
    report = (repository / "docs/zoo/report.md").read_text(encoding="utf-8")
    variants = set(re.findall(r"^\| `([\w-]+)` \|", top(report), flags=re.MULTILINE))
    assert variants <= FFN_VARIANTS.keys()
    is_whole = variants == FFN_VARIANTS.keys()
    told = f"All {len(variants)}" if is_whole else f"{len(variants)} of the {len(FFN_VARIANTS)}"
    assert f"**{told} variants" in page
    assert f"{len(StudyFolder(zoo / 'runs/zoo').run_folders())} runs" in page


@pytest.mark.parametrize("study", PUBLISHED)
def test_every_variant_still_computes_what_its_published_runs_computed(zoo: Path, study: str) -> None:
    """A changed source names the one before in ``earlier_sources``, or the runs are made anew."""
    runs: list[RunFolder] = StudyFolder(zoo / "runs" / study).run_folders()
    changes = {run.run_id: source_change(run.path, run.path.parent.name) for run in runs}
    assert not {run_id: change for run_id, change in changes.items() if change}
