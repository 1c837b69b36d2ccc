"""A tuned study archived without its models, brought back elsewhere, and gone on with there."""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import ffn_ablations
from base.records import parse_record, record_text
from slurm.archive.tar import read_tar, write_tar
from tests.bad_inputs import CONFIG, STUDY
from tests.processes import run_command

pytestmark = pytest.mark.ci  # its runs are shared by all of its tests

TUNE = {"optim.learning_rate": [1e-3, 1e-2], "seeds": [101], "widen": 0, "shared": False}


def write_study(folder: Path, evaluation: dict[str, Any] | None = None) -> Path:
    """A study of two variants and two seeds whose runs take a second, on texts in the folder."""
    rows = [
        json.dumps({"text": f"Once there was a cat who saw {i} dogs and {i % 7} birds."}) for i in range(80)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for name, some in (("train.jsonl", rows[:64]), ("held-out.jsonl", rows[64:])):
        (folder / name).write_text("\n".join(some) + "\n")
    files = {"train_files": ["train.jsonl"], "validation_files": ["held-out.jsonl"]}
    config = CONFIG | {"output": {"runs_dir": "runs"}, "optim": {"max_steps": 6}}
    config["data"] = {"source": "files", "vocab_size": 270, "block_size": 64, **files}
    (folder / "tiny.yaml").write_text(yaml.safe_dump(config))
    scored = {"suites": ["embedded-pairs"], "max_pairs": 4} | (evaluation or {})
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump(STUDY | {"tune": TUNE, "evaluation": scored}))
    return file


def run_in(folder: Path, module: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    with contextlib.chdir(folder):
        return run_command(module, *args)


def add_a_story(folder: Path) -> None:
    """Change the texts of a study under their name."""
    with (folder / "train.jsonl").open("a") as file:
        file.write(json.dumps({"text": "A story that was not there."}) + "\n")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study that is finished, and its archives."""
    folder = tmp_path_factory.mktemp("finished")
    write_study(folder)
    with contextlib.chdir(folder):
        ffn_ablations.study(folder / "study.yaml").run(workers=2, cells_per_job=2)
    done = run_in(folder, "slurm.archive.keep", "runs/study", "--out", "archives")
    assert done.returncode == 0, done.stderr
    assert "8 runs in 2 archives" in done.stdout
    return folder


@pytest.fixture
def elsewhere(finished: Path, tmp_path: Path) -> Path:
    """Another folder with the same texts and study, where the archives were brought back."""
    write_study(tmp_path)
    shutil.copytree(finished / "archives", tmp_path / "archives")
    done = run_in(tmp_path, "slurm.archive.restore", "archives")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "runs/study: 8 finished runs brought back, without their models\n"
    return tmp_path


def numbers(folder: Path, out: str = "report") -> dict[str, Any]:
    """Every number of a report, without the days and places on which it was written."""
    done = run_in(folder, "eval.report", "runs/study", "--out", out)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / out / "report.json").read_text())


def rewrite(archive: Path, change) -> None:
    """Write an archive again with changed members."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(archive.read_bytes()))) as tar:
        members = [(one, tar.extractfile(one).read()) for one in tar]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for member, content in members:
            new, new_content = change(member, content)
            new.size = len(new_content)
            tar.addfile(new, io.BytesIO(new_content))
    archive.write_bytes(lzma.compress(stream.getvalue()))


def test_the_report_is_the_same(finished: Path, elsewhere: Path) -> None:
    assert numbers(elsewhere) == numbers(finished)
    assert "8 runs were trained, 4 of which are compared: " in (elsewhere / "report/report.md").read_text()
    status = run_in(elsewhere, "slurm.status", "runs/study").stdout
    assert status.count("done      from an archive") == 8
    assert not list(elsewhere.glob("runs/study/*/*/*/model"))


def test_nothing_is_run_again_and_a_newcomer_is_judged_beside_the_others(elsewhere: Path) -> None:
    before = {path: path.read_bytes() for path in elsewhere.glob("runs/study/*/*/*/COMPLETED")}
    call = ("slurm.submit", "study.yaml", "--workers", "2", "--cells-per-job", "2")
    again = run_in(elsewhere, *call)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "0 cells run" in again.stdout
    added = run_in(elsewhere, *call, "--add", "silu")
    assert added.returncode == 0, added.stdout + added.stderr
    assert "4 cells run" in added.stdout
    assert {path: path.read_bytes() for path in before} == before
    report = json.loads((elsewhere / "runs/study/report/report.json").read_text())
    assert "silu" in json.dumps(report["comparisons"])


def test_archiving_is_repeatable_to_the_byte_and_adds_what_is_new(finished: Path, elsewhere: Path) -> None:
    """A study that was brought back gives the archives that it came from."""
    before = {path: path.read_bytes() for path in (finished / "archives").glob("*/*.tar.xz")}
    again = run_in(elsewhere, "slurm.archive.keep", "runs/study", "--out", "again")
    assert again.returncode == 0, again.stderr
    made = {path: path.read_bytes() for path in (elsewhere / "again").glob("*/*.tar.xz")}
    assert list(made.values()) == list(before.values())
    same = run_in(elsewhere, "slurm.archive.keep", "runs/study", "--out", "again")
    assert "0 of them changed" in same.stdout


def test_nothing_tells_whose_machine_it_was(finished: Path) -> None:
    for archive in (finished / "archives").glob("*/*.tar.xz"):
        content = lzma.decompress(archive.read_bytes())
        assert str(finished).encode() not in content
        assert b'"host"' not in content


def test_texts_that_changed_since_are_refused_before_anything_is_trained(elsewhere: Path) -> None:
    add_a_story(elsewhere)
    done = run_in(elsewhere, "slurm.submit", "study.yaml", "--add", "silu")
    assert done.returncode == 2
    assert "was trained on other texts than train.jsonl holds now" in done.stderr
    assert not (elsewhere / "runs/study/gpt_neo/silu").exists()


def test_scores_that_were_not_archived_are_refused_in_a_line(elsewhere: Path) -> None:
    write_study(elsewhere, {"max_pairs": 6})
    done = run_in(elsewhere, "slurm.submit", "study.yaml")
    assert done.returncode == 2
    assert "4 runs were archived without their models and lack scores" in done.stderr
    planned = run_in(elsewhere, "slurm.submit", "study.yaml", "--dry-run")
    assert (planned.returncode, planned.stderr) == (2, done.stderr)
    scored = run_in(elsewhere, "eval", "runs/study")
    assert scored.returncode == 2
    assert "8 runs that were archived without their models" in scored.stderr


@pytest.mark.parametrize(("module", "args"), [("pretrain.generate", ()), ("eval.push", ("--repo", "me/it"))])
def test_what_needs_a_model_says_that_it_was_left_out(elsewhere: Path, module: str, args) -> None:
    run = next(elsewhere.glob("runs/study/*/*/*/COMPLETED")).parent
    done = run_in(elsewhere, module, str(run.relative_to(elsewhere)), *args)
    assert done.returncode == 2
    assert "was archived without its model; remove the folder, and the command that trains" in done.stderr


def _truncate(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-60])


def _flip(archive: Path) -> None:
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    archive.write_bytes(bytes(content))


def _change_a_loss(archive: Path) -> None:
    def change(member: tarfile.TarInfo, content: bytes):
        return member, content.replace(b'"eval_loss": 5', b'"eval_loss": 4') if (
            member.name.endswith("metrics.jsonl")
        ) else content

    rewrite(archive, change)


def _rename(name: str):
    def attack(archive: Path) -> None:
        def change(member: tarfile.TarInfo, content: bytes):
            if member.name.endswith("metrics.jsonl"):
                member.name = name
            return member, content

        rewrite(archive, change)

    return attack


def _link(archive: Path) -> None:
    def change(member: tarfile.TarInfo, content: bytes):
        if member.name.endswith("metrics.jsonl"):
            member.type, member.linkname, content = tarfile.SYMTYPE, "/etc/passwd", b""
        return member, content

    rewrite(archive, change)


def _sparse(archive: Path) -> None:
    def change(member: tarfile.TarInfo, content: bytes):
        if member.name.endswith("metrics.jsonl"):
            member.type = tarfile.GNUTYPE_SPARSE
        return member, content

    rewrite(archive, change)


@pytest.mark.parametrize(
    "attack",
    [
        _truncate,
        _flip,
        _change_a_loss,
        _link,
        _sparse,
        _rename("seed1-00000000/../../../../outside"),
        _rename("/tmp/outside"),
        _rename("../outside"),
        _rename("seed1-00000000/sitecustomize.py"),
    ],
)
def test_a_damaged_or_hostile_archive_is_named_and_the_others_are_brought_back(
    attack, finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished / "archives", tmp_path / "archives")
    attack(tmp_path / "archives/gpt_neo/relu.tar.xz")
    done = run_in(tmp_path, "slurm.archive.restore", "archives")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "left out: archives/gpt_neo/relu.tar.xz" in done.stdout
    assert "Traceback" not in done.stderr
    assert len(list(tmp_path.glob("runs/study/gpt_neo/gelu/*/COMPLETED"))) == 4
    assert not list(tmp_path.rglob("outside*"))
    assert not list(tmp_path.rglob("sitecustomize.py"))
    assert not list(tmp_path.rglob("*.tmp-*"))


def test_a_run_under_another_name_is_left_out(finished: Path, tmp_path: Path) -> None:
    """An archive that was renamed, and a run in it that was, hold what is not what they are called."""
    shutil.copytree(finished / "archives", tmp_path / "archives")
    gelu, relu = (tmp_path / f"archives/gpt_neo/{name}.tar.xz" for name in ("gelu", "relu"))

    def change(member: tarfile.TarInfo, content: bytes):
        member.name = re.sub(r"^(seed101)-[0-9a-f]{8}/", r"\1-01234567/", member.name)
        return member, content

    rewrite(relu, change)
    gelu.rename(gelu.with_name("silu.tar.xz"))
    done = run_in(tmp_path, "slurm.archive.restore", "archives")
    assert done.returncode == 2
    assert done.stdout.count("its config is of another family or variant than the archive") == 4
    assert "files of several runs" in done.stdout
    assert not list(tmp_path.glob("runs/study/*/silu/*"))


def _without(part: str):
    """Take members of an archive out, by what their names hold."""

    def attack(folder: Path) -> None:
        archive = folder / "gpt_neo/relu.tar.xz"
        runs = {
            run: {name: content for name, content in files.items() if part not in f"{run}/{name}"}
            for run, files in read_tar(archive).items()
        }
        write_tar(archive, {run: files for run, files in runs.items() if files})

    return attack


def _exchange(*names: str):
    """Give a run of an archive files of the other variant's run of the same seed."""

    def attack(folder: Path) -> None:
        gelu, relu = (folder / f"gpt_neo/{name}.tar.xz" for name in ("gelu", "relu"))
        (run,) = (run for run in read_tar(gelu) if run.startswith("seed1-"))
        runs = read_tar(relu)
        (other,) = (run for run in runs if run.startswith("seed1-"))
        theirs = {name: text for name, text in read_tar(gelu)[run].items() if name.startswith(names)}
        own = {name: text for name, text in runs[other].items() if not name.startswith(names)}
        write_tar(relu, runs | {other: own | theirs})

    return attack


@pytest.mark.parametrize(
    ("attack", "words", "left"),
    [
        (lambda folder: (folder / "gpt_neo/relu.tar.xz").unlink(), "relu.tar.xz is no file", 4),
        (_without("seed1-"), "relu.tar.xz lacks seed1-", 7),
        (_without("eval/"), "is gone", 6),
        (_without("metrics.jsonl"), "metrics.jsonl is gone", 4),
        (_exchange("eval/"), "eval/rows.parquet is of other weights (", 7),
        (_exchange("eval/", "ARCHIVED"), "eval/rows.parquet is of other weights (", 7),
        (_exchange("eval/", "ARCHIVED", "COMPLETED"), "files of several runs", 7),
        (_exchange("metrics.jsonl"), "metrics.jsonl has", 7),
    ],
)
def test_runs_that_an_archive_lacks_or_has_of_others_are_named(
    attack, words: str, left: int, finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished / "archives", tmp_path / "archives")
    attack(tmp_path / "archives")
    done = run_in(tmp_path, "slurm.archive.restore", "archives")
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stdout
    assert len(list(tmp_path.glob("runs/study/gpt_neo/*/*/COMPLETED"))) == left


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpt_neo\n", "holds a str"),
        ("name: study\n", "does not say which runs"),
        ("3" * 5000, "5,000 digits"),
    ],
)
def test_a_study_file_of_one_line_is_refused(text: str, words: str, finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished / "archives", tmp_path / "archives")
    (tmp_path / "archives/study.yaml").write_text(text)
    done = run_in(tmp_path, "slurm.archive.restore", "archives")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_tuning_of_another_study_is_refused(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished / "archives", tmp_path / "archives")
    file = tmp_path / "archives/tuning.json"
    tuning = parse_record(file.read_bytes())
    tuning["plan"]["cells"][0] = "gpt_neo/gelu/seed101-01234567"
    file.write_text(record_text(tuning))
    done = run_in(tmp_path, "slurm.archive.restore", "archives")
    assert done.returncode == 2
    assert "is of another study: study.yaml has no gpt_neo/gelu/seed101-01234567" in done.stderr


def test_another_study_of_the_same_name_keeps_its_words(finished: Path, tmp_path: Path) -> None:
    """What is brought back beside it is told to be none of its cells; again, nothing is to be done."""
    (tmp_path / "runs/study").mkdir(parents=True)
    own = "name: study\ncells: [gpt_neo/gelu/seed1-01234567]\n"
    (tmp_path / "runs/study/study.yaml").write_text(own)
    first, again = (run_in(tmp_path, "slurm.archive.restore", str(finished / "archives")) for _ in range(2))
    assert "note: 8 of them are no cells of runs/study/study.yaml" in first.stdout
    assert "0 finished runs brought back, without their models; 8 were there already" in again.stdout
    assert (tmp_path / "runs/study/study.yaml").read_text() == own


def test_killed_between_any_two_files_the_same_command_arrives(finished: Path, tmp_path: Path) -> None:
    """What a killed restore leaves: files of the study without the last, and a run that is not moved yet."""
    study = tmp_path / "runs/study"
    left = study / "restore.tmp-1/gpt_neo/gelu/seed1-00000000"
    left.mkdir(parents=True)
    (left / "config.yaml").write_text("family: gpt")
    shutil.copy(finished / "archives/tuning.json", study)
    done = run_in(tmp_path, "slurm.archive.restore", str(finished / "archives"))
    assert done.stdout == "runs/study: 8 finished runs brought back, without their models\n"
    for name in ("study.yaml", "tuning.json", "history.jsonl"):
        assert (study / name).read_bytes() == (finished / "archives" / name).read_bytes()
    assert numbers(tmp_path) == numbers(finished)


def test_cells_that_failed_are_not_done_afterwards(finished: Path, tmp_path: Path) -> None:
    """A failed cell, and one that is trained and not scored, are left out; the first is told and counted."""
    shutil.copytree(finished, tmp_path / "there")
    there = tmp_path / "there"
    failed, unscored = sorted((there / "runs/study/cells").glob("*relu--seed[12]-*"))
    for cell, name in ((failed, "failed"), (unscored, "running")):
        state = json.loads(cell.read_text())
        cell.write_text(json.dumps(state | {"name": name, "error": "it broke", "pid": 1}))
        (there / "runs/study" / cell.stem.replace("--", "/") / "COMPLETED").unlink()
    shutil.rmtree(there / "archives")
    kept = run_in(there, "slurm.archive.keep", "runs/study", "--out", "archives")
    assert "6 runs in 2 archives" in kept.stdout
    assert "left out, not finished: gpt_neo/relu/seed1" in kept.stdout
    done = run_in(tmp_path, "slurm.archive.restore", "there/archives")
    assert done.returncode == 0, done.stderr
    status = run_in(tmp_path, "slurm.status", "runs/study").stdout
    assert "8 cells: 6 done, 1 failed, 1 waiting" in status
    assert "it broke" in status


def test_an_archive_keeps_what_is_not_here_and_is_of_one_study(finished: Path, elsewhere: Path) -> None:
    """A run whose folder was removed stays archived; another study is not written over these."""
    gone = next(elsewhere.glob("runs/study/gpt_neo/gelu/seed1-*"))
    shutil.rmtree(gone)
    before = (elsewhere / "archives/gpt_neo/gelu.tar.xz").read_bytes()
    kept = run_in(elsewhere, "slurm.archive.keep", "runs/study", "--out", "archives")
    assert "8 runs in 2 archives" in kept.stdout
    assert (elsewhere / "archives/gpt_neo/gelu.tar.xz").read_bytes() == before
    (elsewhere / "runs/study").rename(elsewhere / "runs/other")
    file = elsewhere / "runs/other/study.yaml"
    file.write_text(file.read_text().replace("name: study", "name: other"))
    refused = run_in(elsewhere, "slurm.archive.keep", "runs/other", "--out", "archives")
    assert refused.returncode == 2
    assert "archives has the archives of the study 'study'; name another folder" in refused.stderr
    assert (elsewhere / "archives/gpt_neo/gelu.tar.xz").read_bytes() == before


def test_texts_that_changed_are_refused_for_other_seeds_too(elsewhere: Path) -> None:
    add_a_story(elsewhere)
    done = run_in(elsewhere, "slurm.submit", "study.yaml", "--seeds", "3")
    assert done.returncode == 2
    assert "was trained on other texts than train.jsonl holds now" in done.stderr


def _lose(name: str):
    def attack(archives: Path) -> None:
        (archives / name).unlink()

    return attack


def _link_history(archives: Path) -> None:
    (archives / "history.jsonl").unlink()
    (archives / "history.jsonl").symlink_to("/etc/hostname")


def _cut_study(archives: Path) -> None:
    file = archives / "study.yaml"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[: 2 * len(lines) // 3]))


def _empty_study(archives: Path) -> None:
    (archives / "study.yaml").write_text("")


def _fail_nobody(archives: Path) -> None:
    (archives / "failed.json").write_text('{"' + 300 * "x" + '": "it broke"}')


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (
            _lose("tuning.json"),
            "tuning.json is gone, without which the luck of each choice is in no interval",
        ),
        (_link_history, "history.jsonl is a link"),
        (_cut_study, "study.yaml does not say which runs the study has; fetch it anew"),
        (_empty_study, "study.yaml names no study: it is empty or damaged; fetch it anew"),
        (_fail_nobody, "is no run); fetch it anew"),
    ],
)
def test_what_no_number_may_rest_on_is_refused_and_nothing_is_written(
    attack, said: str, finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished / "archives", tmp_path / "archives")
    attack(tmp_path / "archives")
    before = sorted(path.name for path in (tmp_path / "archives").rglob("*"))
    done = run_in(tmp_path, "slurm.archive.restore", "archives")
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.glob("runs/study/*"))
    assert sorted(path.name for path in (tmp_path / "archives").rglob("*")) == before


def test_a_report_without_what_was_chosen_is_refused(elsewhere: Path) -> None:
    (elsewhere / "runs/study/tuning.json").unlink()
    done = run_in(elsewhere, "eval.report", "runs/study", "--out", "report")
    assert done.returncode == 2
    assert "tuning.json is gone" in done.stderr
    kept = run_in(elsewhere, "slurm.archive.keep", "runs/study", "--out", "archives")
    assert kept.returncode == 2
    assert "tuning.json is gone" in kept.stderr
    assert (elsewhere / "archives/tuning.json").is_file()


@pytest.mark.parametrize(
    ("name", "said", "count"),
    [("eval/done.json", "is missing or damaged, and scores need it", 2), ("ARCHIVED", "no archived run", 4)],
)
def test_a_run_without_what_its_files_are_checked_by_is_left_out(
    name: str, said: str, count: int, finished: Path, tmp_path: Path
) -> None:
    """A run of the tuning has no scores."""
    shutil.copytree(finished / "archives", tmp_path / "archives")

    def change(member: tarfile.TarInfo, content: bytes):
        return member, b"" if member.name.endswith(f"/{name}") else content

    rewrite(tmp_path / "archives/gpt_neo/relu.tar.xz", change)
    done = run_in(tmp_path, "slurm.archive.restore", "archives")
    assert done.returncode == 2
    assert done.stdout.count(said) == count
    assert done.stdout.count("; fetch the archive anew") == count
    assert len(list(tmp_path.glob("runs/study/gpt_neo/relu/*"))) == 4 - count


def test_archiving_a_damaged_study_costs_no_archive(elsewhere: Path) -> None:
    """Of a damaged run the archived copy stays; a damaged study is refused; a lost history is told."""
    archives, study = elsewhere / "archives", elsewhere / "runs/study"
    before = {path: path.read_bytes() for path in archives.rglob("*") if path.is_file()}
    next(study.glob("gpt_neo/gelu/seed1-*/eval/done.json")).unlink()
    (study / "history.jsonl").unlink()
    kept = run_in(elsewhere, "slurm.archive.keep", "runs/study", "--out", "archives")
    assert kept.returncode == 2
    assert "kept as archived before: runs/study/gpt_neo/gelu/seed1-" in kept.stdout
    assert "kept as archived before: history.jsonl, which runs/study has no more" in kept.stdout
    _cut_study(study)
    kept = run_in(elsewhere, "slurm.archive.keep", "runs/study", "--out", "archives")
    assert kept.returncode == 2
    assert "study.yaml does not say which runs the study has" in kept.stderr
    assert {path: path.read_bytes() for path in archives.rglob("*") if path.is_file()} == before


def test_a_folder_without_a_finished_run_is_told(elsewhere: Path) -> None:
    run = next(elsewhere.glob("runs/study/gpt_neo/gelu/seed1-*"))
    shutil.rmtree(run)
    run.mkdir()
    done = run_in(elsewhere, "slurm.archive.restore", "archives")
    assert "0 finished runs brought back, without their models; 8 were there already" in done.stdout
    assert "note: 1 of those that were there are not finished, such as gpt_neo/gelu/seed1-" in done.stdout
