"""What a preset says arrives in a job of a real SLURM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from slurm.arguments import SubmitArgs
from slurm.cluster import ClusterPreset
from slurm.jobs import SlurmSubmitter
from tests.slurm.cluster import Cluster

CORES = 2


@pytest.mark.ci
def test_a_step_has_the_cores_and_the_variables_of_its_preset(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing here binds tasks to cores, so it is only seen that srun was told how many a task has."""
    preset = ClusterPreset(
        gpus_per_node=0,
        cpus_per_task=CORES,
        setup=(f"export SCRATCH={tmp_path}/scratch",),
        environment={"HF_HOME": "$SCRATCH/hf", "OTHER": "$(touch ran)"},
        additional_parameters={"reservation": None, "exclusive": False, "comment": "a b"},
    )
    submitter = SlurmSubmitter.__new__(SlurmSubmitter)
    submitter.study = SimpleNamespace(config=SimpleNamespace(name="s"), folder=tmp_path / "s")
    submitter.preset, submitter.snapshot = preset, tmp_path
    submitter.options = SubmitArgs(study=Path("s"))
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    names = ("SRUN_CPUS_PER_TASK", "OMP_NUM_THREADS", "HF_HOME", "OTHER")
    code = f"[__import__('os').getenv(name) for name in {names}]"
    job = submitter._cells_executor(1, []).submit(eval, code)
    cluster.wait_until(lambda: cluster.state(job.job_id) == "COMPLETED", 30, f"end of job {job.job_id}")
    assert job.result() == [f"{CORES}", f"{CORES}", f"{tmp_path}/scratch/hf", "$(touch ran)"]
    assert not (tmp_path / "ran").exists()
