"""The configuration files of a throw-away SLURM, and whether its programs are installed."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
INSTALL = (
    "no SLURM on this machine; as root: make slurm-packages, "
    "which is apt-get install -y --no-install-recommends slurmctld slurmd slurm-client munge"
)

# cred_expire: how long a requeued job waits before it starts again; 121 s by default.
SLURM_CONF = """\
ClusterName=mini
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1
JobRequeue=1
ReturnToService=2
"""


def missing_programs() -> list[str]:
    """The programs of SLURM and MUNGE that are not installed here."""
    return [name for name in PROGRAMS if find_program(name) is None]


def find_program(name: str) -> str | None:
    """Where a program of SLURM lies; None if it is not installed."""
    # The daemons' folder is often not on an ordinary user's PATH.
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def _version() -> tuple[int, int]:
    program = find_program("slurmctld")
    assert program
    words = subprocess.run([program, "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.(\d+)", words)
    assert found, words
    return int(found[1]), int(found[2])


def _host() -> str:
    return socket.gethostname().split(".")[0]


def user_name() -> str:
    """The user of this process, who owns the daemons."""
    return pwd.getpwuid(os.getuid()).pw_name


def _free_ports(count: int) -> list[int]:
    """Ports below the range from which the system gives ports to outgoing connections."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports += [port] * (port not in ports)
    return ports


def write_config(folder: Path, nodes: Sequence[str], *, cpus: int, options: Mapping[str, object]) -> None:
    """Write slurm.conf, cgroup.conf and a key for MUNGE, with free ports.

    Args:
        folder: Where they are written, and where the daemons keep their files.
        nodes: Names of the nodes; all are this host.
        cpus: Processors per node.
        options: More lines of slurm.conf.
    """
    (folder / "state").mkdir(parents=True, exist_ok=True)
    ports = iter(_free_ports(1 + len(nodes)))
    lines = [SLURM_CONF.format(host=_host(), user=user_name(), folder=folder, port=next(ports))]
    lines += [f"{name}={value}\n" for name, value in options.items()]
    for node in nodes:
        lines.append(
            f"NodeName={node} NodeHostname={_host()} NodeAddr=127.0.0.1 Port={next(ports)} "
            f"CPUs={cpus} RealMemory=4000\n"
        )
    lines.append("PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n")
    (folder / "slurm.conf").write_text("".join(lines))
    plugin = "cgroup/v1" if _version() < (24, 5) else "disabled"  # "disabled" is fatal before 24.05
    (folder / "cgroup.conf").write_text(f"CgroupPlugin={plugin}\n")
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(random.SystemRandom().randbytes(1024))
