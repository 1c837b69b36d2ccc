"""What a preset says arrives in a job of a real SLURM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from slurm.queue.cluster import ClusterPreset
from slurm.run.sbatch import Packing, SlurmSubmitter
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
    submitter.preset, submitter.packing, submitter.snapshot = preset, Packing(), tmp_path
    jobs = tmp_path / "s" / "jobs"
    jobs.mkdir(parents=True)
    script = tmp_path / "job.sh"
    body = 'printf "%s\n" $SRUN_CPUS_PER_TASK $OMP_NUM_THREADS "$HF_HOME" "$OTHER"'
    script.write_text(submitter._executor(1, [])._make_submission_file_text(f"bash -c '{body}'", "x"))
    job = cluster.run("sbatch", "--parsable", f"--chdir={tmp_path}", script).strip()
    cluster.wait_until(lambda: cluster.state(job) == "COMPLETED", 30, f"end of job {job}")
    said = (jobs / f"{job}_0_log.out").read_text().splitlines()
    assert said == [f"{CORES}", f"{CORES}", f"{tmp_path}/scratch/hf", "$(touch ran)"]
    assert not (tmp_path / "ran").exists()
