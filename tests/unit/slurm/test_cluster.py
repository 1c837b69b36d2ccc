"""Site presets, and what jobs ask SLURM for by them."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from base.errors import UsageError
from slurm import cluster
from slurm.arguments import SubmitArgs
from slurm.cluster import ClusterPreset, first_start, load_preset, max_array_size, minutes_of
from slurm.commands import study_run
from slurm.jobs import SlurmSubmitter
from tests.cases import listed

PRESETS = sorted((Path(__file__).parents[3] / "configs" / "clusters").glob("*.yaml"))


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_shipped_presets_load(path: Path) -> None:
    preset = load_preset(path)
    assert minutes_of(preset.time) * 60 > preset.signal_delay_s


@pytest.mark.parametrize(
    ("time", "minutes"),
    [
        *(("90", 90), ("0", 1), ("90:30", 91), ("4:00:00", 240), ("0:00:10", 1)),
        *(("1-0", 1440), ("1-12:30", 2190), ("2-00:00:01", 2881)),
    ],
)
def test_times_are_read_as_sbatch_reads_them(time: str, minutes: int) -> None:
    assert minutes_of(time) == minutes


def test_a_time_without_quotes_is_no_number_to_the_base_of_60(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("time: 4:00:00\n")
    assert minutes_of(load_preset(tmp_path / "mine.yaml").time) == 240


@pytest.mark.parametrize("time", ["", "soon", "1:2:3:4", "x-1", "-5", "1:", "123456789"])
def test_no_time(time: str) -> None:
    with pytest.raises(ValueError, match="is not minutes"):
        minutes_of(time)


def test_what_slurm_cannot_find_is_told_at_once(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "sbatch").write_text("#!/bin/sh\necho no answer >&2; sleep 9\n")
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(cluster, "TIMEOUT_S", 0.3)
    monkeypatch.delenv("SLURM_CONF", raising=False)
    with pytest.raises(UsageError, match=r"sbatch failed: no answer; .* once squeue works"):
        first_start("")
    monkeypatch.setenv("SLURM_CONF", "/absent")
    with pytest.raises(UsageError, match="SLURM_CONF is /absent"):
        first_start("")


@pytest.mark.parametrize(
    ("backup", "told"), [("true", "no controller of SLURM is up"), ("echo 'b at c is UP'", "does not exist")]
)
def test_no_controller_is_up(backup: str, told: str, tmp_path: Path, monkeypatch) -> None:
    for name in ("sbatch", "srun", "scontrol"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho 'Slurmctld(primary) at a is DOWN'; {backup}; exit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("SLURM_CONF", raising=False)
    with pytest.raises(UsageError, match=told):
        study_run(["absent", "--cluster", "slurm"])


@pytest.fixture
def srun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name where there is none: submitit looks for it, and does not start it."""
    (tmp_path / "srun").touch(0o755)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{tmp_path}")


def asked_by(**preset: Any) -> str:
    submitter = SlurmSubmitter.__new__(SlurmSubmitter)  # which asks for a SLURM
    vars(submitter)["study"] = SimpleNamespace(config=SimpleNamespace(name="s"), folder=Path("runs/s"))
    submitter.preset = ClusterPreset(**preset)
    submitter.options = SubmitArgs(study=Path("s"), cluster="slurm")
    submitter.snapshot = Path("/code $x")
    return submitter.asked(4)


@pytest.mark.usefixtures("srun")
def test_what_yaml_leaves_empty_or_false_is_no_option() -> None:
    given = {"reservation": None, "exclusive": False, "contiguous": True, "requeue": False, "nice": 0}
    options = asked_by(additional_parameters=given).split("before Python starts:")[0].splitlines()
    assert {"  contiguous", "  nice 0", "  array 0-3%4"} <= set(options)
    assert not any(word in line for word in ("reservation", "exclusive", "requeue") for line in options)
    assert "  requeue" in asked_by().splitlines()
    assert "'/code $x" in asked_by()  # its folder is a name, whatever stands in it


@pytest.mark.parametrize(("said", "size"), listed(__file__, "sizes of arrays"))
def test_an_array_has_as_many_elements_as_the_site_allows(monkeypatch, said: str | None, size: int) -> None:
    monkeypatch.setattr(cluster, "_output", lambda *_: said)
    assert max_array_size() == size
