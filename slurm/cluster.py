"""What a site's SLURM wants to be told: ``configs/clusters/*.yaml``."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from base.config_input import find_config, read_config
from base.errors import UsageError, shown
from base.sections import Section
from slurm.arguments import SubmitArgs

SET_BY_STUDY = ("array", "dependency", "job-name")
"""Options of sbatch that a study sets itself."""


class ClusterPreset(Section):
    """What every job of a study asks SLURM for."""

    partition: str | None = None
    """Partition; the site's default if not named."""
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    """Features that nodes must have, such as ``a100``."""
    time: str = "4:00:00"
    """Time limit of a job, as sbatch takes it: minutes, [days-]hours:minutes:seconds. A job that reaches it
    saves, is queued again and continues."""
    gpus_per_node: Annotated[int, Field(ge=0)] = 1
    cpus_per_task: Annotated[int, Field(ge=1)] = 8
    mem_gb: Annotated[float, Field(gt=0)] | None = None
    """Memory of a node; the site's default if not named."""
    max_running: Annotated[int, Field(ge=1)] | None = None
    """Jobs of a study that run at the same time; --max-running goes before it."""
    report_partition: str | None = None
    """Partition of the last job, which writes the report on one core; that of the cells if not named."""
    modules: tuple[str, ...] = ()
    """Loaded with ``module load`` before Python starts."""
    setup: tuple[str, ...] = ()
    """Further shell lines before Python starts; a failing one ends the job."""
    signal_delay_s: Annotated[int, Field(ge=1)] = 120
    """Seconds before the time limit at which a job is told to save."""
    max_timeouts: Annotated[int, Field(ge=0)] = 50
    """How often a job that reached its time limit is queued again."""
    additional_parameters: dict[str, bool | int | float | str | None] = Field(default_factory=dict)
    """Any other option of sbatch, by its long name without dashes; true is one without a value, and null and
    false leave it out."""

    @field_validator("time", mode="before")
    @classmethod
    def _readable(cls, value: object) -> str:
        text = str(value)
        if minutes_of(text) < 10 and text.isdigit():
            raise ValueError(f'{text} alone is minutes; write "{text}:00:00" for hours or "0:0{text}:00"')
        return text

    @model_validator(mode="after")
    def _time_to_save(self) -> ClusterPreset:
        if minutes_of(self.time) * 60 <= self.signal_delay_s:
            raise ValueError(
                f"a job of {minutes_of(self.time)} min would be told to save at its start, as signal_delay_s "
                f"is {self.signal_delay_s}; give it more time or a shorter delay"
            )
        return self

    @field_validator("additional_parameters")
    @classmethod
    def _others(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name.replace("_", "-") in SET_BY_STUDY:
                raise ValueError(f"{name} is how a study finds its jobs again; leave it out")
            if name.replace("-", "_") in cls.model_fields:
                raise ValueError(f"{name} is a field of the preset; write it there")
        return value

    @property
    def options(self) -> dict[str, bool | int | float | str]:
        """Further options of every job, without what null or false leaves out."""
        options = {"requeue": True}
        options |= {name.replace("_", "-"): value for name, value in self.additional_parameters.items()}
        return {name: value for name, value in options.items() if value is not None and value is not False}


def load_preset(path: Path | None) -> ClusterPreset:
    """Read a site's preset; None gives the defaults: one GPU, eight cores, four hours.

    Raises:
        UsageError: If the file is missing or a value in it does not fit; names the file and the key.
    """
    if path is None:
        return ClusterPreset()
    return read_config(find_config(path, "preset"), ClusterPreset)


def preset_of(options: SubmitArgs) -> ClusterPreset:
    """Read the preset that was typed, and refuse what does not fit it, and a machine without SLURM.

    Raises:
        UsageError: Naming what to change.
    """
    preset, at_once, in_all = load_preset(options.preset), options.cells_at_once, options.cells_per_process
    if not all(map(shutil.which, ("sbatch", "srun", "scontrol"))):
        raise UsageError(
            "no SLURM here: no sbatch and srun on the PATH; log in to the cluster, or use --cluster local"
        )
    _refuse_absent_file()
    # Of all commands this one alone tells at once that nobody is there; sbatch takes 18 s.
    ping = subprocess.run(("scontrol", "ping"), check=False, capture_output=True, text=True).stdout
    if " is DOWN" in ping and " is UP" not in ping:
        raise UsageError("no controller of SLURM is up; give the same command again once squeue works")
    if at_once > in_all:
        raise UsageError(f"--cells-at-once {at_once} is above --cells-per-job {in_all}; raise the latter")
    return preset


def minutes_of(time: str) -> int:
    """Return a time limit in whole minutes, at least 1.

    Args:
        time: ``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours[:minutes[:seconds]]``.

    Raises:
        ValueError: If it is none of these.
    """
    days, dash, clock = time.rpartition("-")
    parts = clock.split(":")
    words = [*parts, days] if dash else parts
    if not all(word.isdigit() and len(word) < 9 for word in words) or len(parts) > 3:
        raise ValueError(f"time {shown(time)} is not minutes, hours:minutes:seconds or days-hours:minutes")
    numbers = [int(part) for part in parts]
    if not dash and len(numbers) < 3:
        numbers = [0, *numbers]  # without days the first of two is minutes
    hours, minutes, seconds = (*numbers, 0, 0)[:3]
    total_s = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return max(1, -(-total_s // 60))


TIMEOUT_S = 30.0
_AWAY = re.compile("contact slurm|configuration (source|file)")
"""What SLURM says where it cannot be reached, whatever it was asked."""
# Still to start, for the first time or again.
_BEFORE = "PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT STOPPED SUSPENDED"
PENDING = frozenset(_BEFORE.split())
RUNNING = frozenset({"RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT", "RESIZING"})


@dataclass(frozen=True)
class QueuedJob:
    """A job or an element of an array, as long as SLURM remembers it."""

    state: str
    node: str
    reason: str
    name: str = ""


Queue = Mapping[str, QueuedJob]
"""Job id, ``123`` or ``123_4``, to the job."""


def cells_name(study_dir: Path) -> str:
    """The name of the jobs that have a study's cells; studies of one name in two folders have two."""
    place = study_dir.resolve()
    return f"{place.name}-{hashlib.sha256(bytes(place)).hexdigest()[:8]}"


def report_name(study_dir: Path) -> str:
    """The name of the job that follows them."""
    return f"{cells_name(study_dir)}-report"


def read_queue(study_dir: Path) -> Queue | None:
    """Ask for all jobs of a study, ended ones included as long as SLURM remembers them.

    Returns:
        The jobs; None where SLURM is not there or does not answer, which says nothing about any job.
    """
    names = f"{cells_name(study_dir)},{report_name(study_dir)}"
    text = _output("squeue", "--me", "-r", "-h", "-t", "all", f"--name={names}", "-o", "%i|%T|%N|%r|%j")
    if text is None:
        return None
    jobs = {}
    for line in text.splitlines():
        job_id, state, node, reason, name = [*line.split("|", 4), "", "", "", ""][:5]
        jobs[job_id] = QueuedJob(state, node, reason, name)
    return jobs


def living_arrays(queue: Queue, name: str) -> list[str]:
    """The ids of arrays, or of single jobs, of a name that run or are still to start, the oldest first."""
    alive = [job_id for job_id, job in queue.items() if job.name == name and job.state in PENDING | RUNNING]
    return sorted({job_id.split("_")[0] for job_id in alive}, key=int)


def scancel(*options: str) -> None:
    """Call scancel, which says nothing of jobs that have ended.

    Raises:
        UsageError: If it fails or does not end.
    """
    _call("scancel", *options, cure="give the same command again")


def first_start(script: str) -> str:
    """Ask SLURM when and where a job would start; nothing is handed in.

    Raises:
        UsageError: If SLURM would refuse it, or does not answer.
    """
    told = _call("sbatch", "--test-only", script=script, cure="change that in the preset").stderr.strip()
    return told.partition(" to start ")[2] or told


def max_array_size() -> int:
    """Return how many elements this site allows in an array; SLURM's default where it does not say."""
    lines = (_output("scontrol", "show", "config") or "").splitlines()
    sizes = [line.partition("=")[2].strip() for line in lines if line.startswith("MaxArraySize")]
    return max(1, int(sizes[0]) - 1) if sizes and sizes[0].isdigit() else 1000  # indices start at 0


def _refuse_absent_file() -> None:
    conf = os.environ.get("SLURM_CONF")
    if conf and not os.path.exists(conf):  # for which SLURM's commands wait a minute
        raise UsageError(f"SLURM_CONF is {conf}, and there is no such file; correct it, or unset SLURM_CONF")


def _output(*command: str) -> str | None:
    """What a command of SLURM prints; None where it fails or does not end."""
    with suppress(UsageError):
        return _call(*command).stdout
    return None


def _call(*command: str, script: str | None = None, cure: str = "") -> subprocess.CompletedProcess[str]:
    """Call a command of SLURM.

    Raises:
        UsageError: If it fails or does not end; ends with the cure.
    """
    how: Any = {"check": True, "capture_output": True, "text": True, "timeout": TIMEOUT_S}
    _refuse_absent_file()
    try:
        return subprocess.run(command, input=script, **how)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        words = " ".join((said.decode(errors="replace") if isinstance(said, bytes) else said).split())
        is_away = isinstance(error, subprocess.TimeoutExpired) or _AWAY.search(words)
        cure = "give the same command again once squeue works" if is_away else cure
        raise UsageError(f"{command[0]} failed: {words[-300:]}; {cure}") from None
