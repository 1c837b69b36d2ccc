"""What docs/security.md says: a stranger's files are data, whatever command reads them.

Each file of a hostile study would leave a mark if anything in it were run.
"""

import ast
import json
import os
import pickle
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from base.files import PACKAGES
from base.run.folder_names import RunFolder
from ffn_variants import load_variant
from tests.processes import run_command

RUNS_CODE = {"eval", "exec", "os.system", "os.popen"}
RUNS_CODE |= {"pickle.load", "pickle.loads", "torch.load", "yaml.load"}
CONSENTS = ("False", "trust_remote_code", "args.trust_remote_code", "arguments.trust_remote_code")
"""What may be passed on as consent: never a constant True."""
TYPED = "ffn_ablations/try_layer.py"
"""Writes the studies that it runs, of the files that were typed and no others."""
KNOWN = {
    ("ffn_variants/variant_files.py", "exec"),  # a variant in a file that was typed, or consented to
    ("base/config_input.py", "yaml.load"),  # with a loader below SafeLoader; test_records.py holds it
    ("slurm/worker.py", "pickle.loads"),  # what the command that started it writes into a pipe
}


def calls(path: Path) -> Iterator[ast.Call]:
    yield from (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_that_is_read_is_run(repository: Path, package: str):
    found, loads = set(), 0
    for path in sorted((repository / package).rglob("*.py")):
        name = path.relative_to(repository).as_posix()
        assert not re.search(r"trust\w*: bool = (?!False)", path.read_text()), f"{name} consents by default"
        for call in calls(path):
            keywords = {word.arg: word.value for word in call.keywords}
            called = ast.unparse(call.func)
            if called in RUNS_CODE and ast.unparse(keywords.get("weights_only", call)) != "True":
                found.add((name, called))
            for option in ("trust_remote_code", "allow_pickle", "shell"):
                if option in keywords:
                    allowed = CONSENTS if option == "trust_remote_code" else ("False",)
                    allowed += ("True",) * (name == TYPED)
                    assert ast.unparse(keywords[option]) in allowed, f"{name}:{call.lineno} {option}"
            loads += called.endswith("from_pretrained")
    assert found == {known for known in KNOWN if known[0].startswith(f"{package}/")}
    assert loads or package not in ("base", "ffn_variants")


class Mark:
    """Leaves a mark where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "somebody-ran-code"


@pytest.fixture
def hostile(make_run, mark: Path) -> Path:
    """A study of one finished run, in which everything that can hold code does."""
    run = RunFolder(make_run())
    study = run.study.path
    yaml = f'!!python/object/apply:os.mkdir ["{mark}"]'
    run.completion_marker.write_text(json.dumps({"results": {"step": 1, "eval_loss": 3.0}}))
    code = f"import os\nos.mkdir({str(mark)!r})\n"
    config = json.loads((run.model_dir / "config.json").read_text())
    names = ("AutoConfig", "AutoModel", "AutoModelForCausalLM")
    config["auto_map"] = dict.fromkeys(names, "modeling_own.Own")
    (run.model_dir / "config.json").write_text(json.dumps(config))
    (run.model_dir / "modeling_own.py").write_text(code)
    (run.model_dir / "__init__.py").write_text(code)
    (run.model_dir / "model.safetensors").unlink()
    (run.model_dir / "pytorch_model.bin").write_bytes(pickle.dumps(Mark(mark)))
    (study / "sitecustomize.py").write_text(code)
    (study / "study.yaml").write_text(f"name: {yaml}\ncells: [{run.run_id}]\n")
    for folder in ("cells", "jobs", "code/base"):
        (study / folder).mkdir(parents=True)
    (study / "jobs" / "1_submitted.pkl").write_bytes(pickle.dumps(Mark(mark)))
    (study / "jobs" / "1_0_result.pkl").write_bytes(pickle.dumps(Mark(mark)))
    (study / "code" / "base" / "__init__.py").write_text(code)
    for name in ("tuning.json", "cells/a--b--c.json"):
        (study / name).write_bytes(pickle.dumps(Mark(mark)))
    (study / "turns.jsonl").write_text('{"text": ["a", "b"], "own": [["x"], []], "label": ["x"]}\n')
    (study / "turns.yaml").write_text(
        "files: {train: turns.jsonl, validation: turns.jsonl}\ntext: text\nlabels: [x, y]\n"
        "multi_label: true\nsegment_labels: own\nmetrics: [micro_f1]\n"
    )
    (study / "backbones.yaml").write_text(
        f"name: backbones\nbackbones: [{run.path}]\nseeds: [1]\n"
        f"evaluation: {{suites: [], classify: [{study}/turns.yaml]}}\n"
        "report: {factor: head, baseline: default}\n"
    )
    (study / "code" / "mine.py").write_text(code)
    (study / "linked.py").symlink_to("code/mine.py")
    base = Path(__file__).parents[2] / "configs" / "tiny.yaml"
    for place in ("code/mine", "linked"):
        (study / f"{place[:4]}.yaml").write_text(
            f"name: own\nfamilies: {{gpt_neo: {base}}}\nvariants: [gelu, {place}.py:SPEC]\nseeds: [1]\n"
        )
    run.eval_dir.mkdir()
    for path in (run.rows_file, run.ledger_file, run.baselines_file, run.eval_dir / "rows.csv"):
        path.write_bytes(pickle.dumps(Mark(mark)))
    return study


READING = """
slurm.status {study}
eval {study} --suites embedded-pairs --pair-tasks wh_gap
eval {run} --suites embedded-pairs embedded-glue --pair-tasks wh_gap
report {study} --out {study}/report
eval.push {run} --repo me/model --dry-run {study}/pushed
pretrain.generate {run}
eval.explain {run} sst2
eval.inspect {run} --out {study}/inspection
eval {run}/model --classify sst2
eval.explain {run} {study}/turns.yaml --measure segments
slurm.submit {study}/code.yaml --runs-dir {study}/runs
slurm.submit {study}/link.yaml --runs-dir {study}/runs
slurm.cancel {study}/code.yaml --runs-dir {study}/runs
slurm.status {study}/code.yaml --runs-dir {study}/runs
slurm.submit {study}/backbones.yaml --runs-dir {study}/runs
"""
"""Every command that reads what somebody else may have written."""


def call(line: str, study: Path) -> subprocess.CompletedProcess[str]:
    """Run a command on a study of one run; it ends well, or as a mistake of its user."""
    (run,) = study.glob("gpt_neo/*/*")
    done = run_command(*line.format(study=study, run=run).split())
    assert "Traceback" not in done.stderr, line
    assert "unknown flag" not in done.stderr, line
    assert done.returncode in (0, 2), (line, done.stdout, done.stderr)
    return done


@pytest.mark.ci
def test_no_command_runs_what_a_study_brings(hostile: Path, mark: Path):
    for line in READING.strip().splitlines():
        call(line, hostile)
        if ".yaml" not in line:  # which names the study's own file, behind which some would not look
            aside = (hostile / "study.yaml").rename(hostile / "aside")
            call(line, hostile)
            aside.rename(hostile / "study.yaml")
        assert not mark.exists(), line


@pytest.fixture
def with_own_variant(make_run, mark: Path, tmp_path: Path, repository: Path, own_variants) -> Path:
    """A study of one run whose variant lies in its folder and beside its weights, and is hostile."""
    text = (repository / "examples" / "channel_elu.py").read_text()
    file = tmp_path / "mine.py"
    file.write_text(f"import os\nos.mkdir({str(mark)!r})\n{text}")
    load_variant(f"{file}:CHANNEL_ELU")
    mark.rmdir()
    run = RunFolder(make_run(ffn=f"{file}:CHANNEL_ELU"))
    file.rename(run.variant_file)
    assert (run.model_dir / "ffn_channel-elu.py").is_file()
    run.completion_marker.write_text(json.dumps({"results": {"step": 1, "eval_loss": 3.0}}))
    return run.study.path


NEEDS_CONSENT = """
pretrain.train {run}/config.yaml
pretrain.train {run}/config.yaml --dry-run
pretrain.train {run}/config.yaml --ffn channel-elu
pretrain.generate {run}
pretrain.generate {run}/model
eval {run}/model --classify sst2
"""
NEEDS_NONE = """
slurm.status {study}
report {study} --out {study}/report
pretrain.train --help
eval.push {run} --repo me/model --dry-run {study}/pushed
ffn_variants
"""


@pytest.mark.ci
def test_a_folder_s_own_variant_needs_consent(with_own_variant: Path, mark: Path):
    for line in NEEDS_CONSENT.strip().splitlines():
        done = call(line, with_own_variant)
        assert "which is code; read" in done.stderr, line
        assert done.returncode == 2
    scored = call("eval {run} --suites embedded-pairs", with_own_variant)
    assert (scored.returncode, "channel-elu" in scored.stderr) == (2, True)
    for line in NEEDS_NONE.strip().splitlines():
        call(line, with_own_variant)
    assert not mark.exists()


@pytest.mark.ci
def test_with_consent_it_would_be_run(with_own_variant: Path, mark: Path):
    pickle.loads(pickle.dumps(Mark(mark)))  # the marks of the tests above would have been seen
    mark.rmdir()
    (run,) = with_own_variant.glob("gpt_neo/*/*")
    done = run_command("pretrain.generate", run, "--max-new-tokens", "2", "--trust-remote-code")
    assert done.returncode == 0, done.stderr
    assert mark.is_dir()
