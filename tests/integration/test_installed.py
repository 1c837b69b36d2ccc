"""The wheel in empty environments, from another folder and with a fresh HOME: what its users have.

    python -m pytest tests/integration/test_installed.py -m network -s

Packages come from the registry that pip is set to. With -s the figures of docs/commands.md are printed.
"""

import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from base.files import PACKAGES

pytestmark = [pytest.mark.network, pytest.mark.slow]
IMPORTED_S = 1.0
TOLD = 'which is not installed; pip install "ffn-ablations[torch]" installs it'
TABLE = "\n".join(
    [
        "family,variant,seed,benchmark,score",
        *(
            f"gpt_neo,{variant},{seed},blimp,{60 + place + seed / 10}"
            for place, variant in enumerate(("gelu", "kan"))
            for seed in range(4)
        ),
    ]
)


class Installation:
    """An environment with the wheel, and a folder to work in."""

    def __init__(self, folder: Path, wheel: Path, extra: str, constraints: Path) -> None:
        self.bin, self.work = folder / "venv" / "bin", folder / "work"
        (folder / "home").mkdir()
        self.work.mkdir()
        self.home = folder / "home"
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        pip = [str(self.bin / "python"), "-m", "pip", "install", "-q", "-c", str(constraints)]
        # Where PYTHONPATH names a clone that was built, pip takes that for installed.
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([*pip, f"ffn-ablations{extra} @ {wheel.as_uri()}"], env=own, check=True)

    def python(self, *words: object) -> subprocess.CompletedProcess[str]:
        return self._run("python", *words, check=True)

    def command(self, *words: object) -> subprocess.CompletedProcess[str]:
        return self._run("ffn-ablations", *words)

    def megabytes(self) -> float:
        packages = next(self.bin.parent.glob("lib/python*/site-packages"))
        return sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) / 2**20

    def _run(self, program: str, *words: object, check: bool = False) -> subprocess.CompletedProcess[str]:
        env = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.home), "OMP_NUM_THREADS": "1"}
        command = [str(self.bin / program), *map(str, words)]
        done = subprocess.run(command, cwd=self.work, env=env, capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stderr
        return done


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    copy = tmp_path_factory.mktemp("source") / "clone"  # setuptools writes beside what it builds
    subprocess.run(["git", "clone", "-q", str(repository), str(copy)], check=True)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(copy)]
    subprocess.run(pip, check=True)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def light(wheel: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return Installation(tmp_path_factory.mktemp("light"), wheel, "", repository / "constraints.txt")


@pytest.fixture(scope="module")
def full(wheel: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return Installation(tmp_path_factory.mktemp("full"), wheel, "[torch]", repository / "constraints.txt")


def test_the_wheel_holds_the_packages_and_the_configs_alone(wheel: Path, repository: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES, "configs"], cwd=repository, capture_output=True, text=True, check=True
    )
    expected = {re.sub("^configs/", "ffn_ablations/configs/", name) for name in listed.stdout.split()}
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == expected


def test_the_light_installation_writes_a_report_and_names_what_it_lacks(light: Installation) -> None:
    (light.work / "scores.csv").write_text(TABLE)
    done = light.command("report", "scores.csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "scores-report/report.md"
    for words in (["train", "tiny"], ["eval", "."], ["study", "run", "quickstart"], ["variants"]):
        refused = light.command(*words)
        assert (refused.returncode, refused.stdout) == (2, "")
        (line,) = refused.stderr.splitlines()
        assert line.endswith(TOLD)
    assert {path.name for path in light.work.iterdir()} == {"scores.csv", "scores-report"}
    code = "import time; import report.command; print(time.process_time())"
    seconds = min(float(light.python("-c", code).stdout) for _ in range(3))
    print(f"light: {light.megabytes():.0f} MB of packages, report imported in {seconds:.2f} s")
    assert seconds < IMPORTED_S


def test_the_quickstart_runs_from_any_folder(full: Installation, light: Installation) -> None:
    assert re.fullmatch(r"ffn-ablations \d+\.\d+\.\d+\n", full.command("--version").stdout)
    start = time.monotonic()
    done = full.command("study", "run", "quickstart", "--cells-per-job", 3)
    took = time.monotonic() - start
    assert done.returncode == 0, done.stderr
    report = full.work / done.stdout.splitlines()[-1]
    assert report == full.work / "runs/quickstart/report/report.md"
    version = full.command("--version").stdout.strip()
    assert f", {version}, on " in report.read_text()
    assert "18 cells: 18 done" in full.command("study", "status", "quickstart").stdout
    print(f"full: {full.megabytes():.0f} MB of packages, quickstart in {took:.0f} s")
    # What another computed, the light installation reads.
    again = light.command("report", full.work / "runs/quickstart", "--out", "again")
    assert again.returncode == 0, again.stderr
    assert "18 done" in light.command("study", "status", full.work / "runs/quickstart").stdout
