"""A real SLURM for tests: its daemons run as child processes on this host and end with whoever started them.

It needs no systemd, no cgroups, no accounting and no root.
"""

import contextlib
import dataclasses
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from tests.slurm import leftovers
from tests.slurm.leftovers import is_step, parent_of, processes_of

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


# Options of slurm.conf that a test may want otherwise; times in seconds.
DEFAULTS = {"KillWait": 2, "MinJobAge": 300, "SlurmdTimeout": 30, "MaxArraySize": 1001}


@dataclasses.dataclass(frozen=True)
class QueuedJob:
    """A job, or one element of an array, as ``squeue`` tells of it.

    Attributes:
        job_id: ``12``, or ``12_3`` for element 3 of array 12.
        state: ``PENDING``, ``RUNNING``, ``COMPLETED``, ``CANCELLED``, ...
        node: Where it runs; empty while it waits.
        reason: Why it waits or failed, such as ``JobArrayTaskLimit``.
    """

    job_id: str
    state: str
    node: str
    reason: str


class Cluster:
    """A SLURM cluster on this host; a context manager that leaves no process behind.

    Args:
        num_nodes: Nodes n0, n1, ...; all of them are this host.
        cpus_per_node: Processors of a node, whatever this host really has.
        options: Lines of slurm.conf to add or replace, such as ``{"MaxArraySize": 5}``.
    """

    def __init__(
        self, num_nodes: int = 1, *, cpus_per_node: int = 2, options: Mapping[str, object] | None = None
    ) -> None:
        self.nodes = [f"n{index}" for index in range(num_nodes)]
        self._cpus_per_node = cpus_per_node
        self._options = DEFAULTS | dict(options or {})
        # A socket's path may have 107 characters, which pytest's own folders can exceed.
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-")).resolve()
        self.conf = self.folder / "slurm.conf"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._reaper: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the daemons and wait until every node is idle."""
        if missing := missing_programs():
            raise RuntimeError(f"{INSTALL} (absent: {', '.join(missing)})")
        write_config(self.folder, self.nodes, cpus=self._cpus_per_node, options=self._options)
        # Whatever ends this process, also SIGKILL, closes the pipe that the reaper reads.
        reap = [sys.executable, leftovers.__file__, str(self.conf)]
        self._reaper = subprocess.Popen(reap, stdin=subprocess.PIPE, start_new_session=True)
        self._start_munged()
        self._start_daemon("slurmctld", "-D", "-f", self.conf)
        for node in self.nodes:
            self._start_daemon(f"slurmd-{node}", "-D", "-f", self.conf, "-N", node)
        self.wait_until(lambda: self._responding() >= set(self.nodes), 30, "node that answers")

    def stop(self) -> None:
        """End the jobs, the daemons and whatever else still belongs to this cluster."""
        controller = self._daemons.get("slurmctld")
        if controller and controller.poll() is None and not missing_programs():
            with contextlib.suppress(subprocess.SubprocessError, TimeoutError):
                self.run("scancel", f"--user={user_name()}")
                self.wait_until(lambda: not self.queue(running_only=True), 5, "an empty queue")
        for name in sorted(self._daemons, reverse=True):  # slurmd before slurmctld before munged
            self._end_daemon(name, signal.SIGTERM)
        if self._reaper and self._reaper.stdin:
            self._reaper.stdin.close()
            self._reaper.wait(timeout=30)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self, **more: str) -> dict[str, str]:
        """The environment for commands that shall use this cluster, without traces of another job."""
        scrubbed = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SLURM_", "SBATCH_", "SQUEUE_", "SCANCEL_", "SUBMITIT_"))
        }
        path = os.pathsep.join((scrubbed.get("PATH", os.defpath), "/usr/sbin"))
        return scrubbed | {"SLURM_CONF": str(self.conf), "PATH": path} | more

    def run(self, *command: object, check: bool = True, timeout_s: float = 30) -> str:
        """Run a SLURM command and return what it prints; its error is told when it fails."""
        words = list(map(str, command))
        result = subprocess.run(
            words, env=self.environment(), capture_output=True, text=True, timeout=timeout_s
        )
        if check and result.returncode:
            raise subprocess.SubprocessError(f"{' '.join(words)}: {result.stderr.strip()}")
        return result.stdout

    def queue(self, *, running_only: bool = False) -> list[QueuedJob]:
        """Every job and array element that SLURM remembers, or those that are not over."""
        everything = () if running_only else ("-t", "all")
        lines = self.run("squeue", "-h", "-r", *everything, "-o", "%i|%T|%N|%r").splitlines()
        return [QueuedJob(*line.split("|", 3)) for line in lines]

    def state(self, job_id: str) -> str:
        """The state of one job or array element; empty if SLURM does not remember it."""
        return next((job.state for job in self.queue() if job.job_id == job_id), "")

    def wait_until(self, predicate: Callable[[], object], timeout_s: float, what: str) -> None:
        """Wait for a condition; a TimeoutError tells what did not happen, the queue and the logs."""
        deadline = time.monotonic() + timeout_s
        while not predicate():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {what} after {timeout_s:g} s\n{self.describe()}")
            time.sleep(0.1)

    def describe(self) -> str:
        """The queue and the end of each daemon's log, for the message of a failing test."""
        parts = [self.run("squeue", "-r", "-t", "all", check=False)]
        for log in sorted(self.folder.glob("*.log")):
            parts.append(f"{log.name}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-8:]))
        return "\n".join(parts)

    def kill_slurmd(self, node: str) -> None:
        """Kill a node's daemon; its jobs run on, which SLURM cannot know."""
        self._end_daemon(f"slurmd-{node}", signal.SIGKILL)

    def job_processes(self, node: str) -> list[psutil.Process]:
        """The processes inside the jobs of a node, and the slurmstepd above them."""
        found = [
            process
            for process, variables in processes_of(self.conf)
            if variables.get("SLURM_JOB_ID") and variables.get("SLURMD_NODENAME") == node
        ]
        parents = {parent for process in found if (parent := parent_of(process)) and is_step(parent)}
        return [*parents, *found]

    def _responding(self) -> set[str]:
        """Nodes that answer and take jobs; an asterisk marks the ones that do not."""
        lines = self.run("sinfo", "-h", "-N", "-o", "%N %T", check=False).splitlines()
        nodes = dict(line.split() for line in lines)
        return {name for name, state in nodes.items() if state in ("idle", "mixed", "allocated")}

    def _start_munged(self) -> None:
        sock = self.folder / "munge.sock"
        # The log too, as its folder in /var/log may be closed to an ordinary user.
        files = {"key": "munge.key", "pid": "munged.pid", "seed": "munged.seed", "log": "munged.log"}
        flags = [f"--{name}-file={self.folder / file}" for name, file in files.items()]
        self._start_daemon("munged", "-F", "--force", f"--socket={sock}", *flags)
        self.wait_until(sock.exists, 10, "socket of munged")

    def _start_daemon(self, name: str, *args: object) -> None:
        program = find_program(name.split("-")[0])
        assert program
        with (self.folder / f"{name}.log").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                [program, *map(str, args)],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop the daemons in order
            )

    def _end_daemon(self, name: str, signum: signal.Signals) -> None:
        daemon = self._daemons.pop(name)
        daemon.send_signal(signum)
        try:
            daemon.wait(timeout=10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


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
