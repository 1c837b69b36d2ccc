"""``slurm.submit`` killed between any two steps: no cell is twice in the queue, and one job ends the study.

The cluster's partition is down, so that jobs wait and can be counted.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm.queue import handover
from tests.slurm.cluster import Cluster
from tests.slurm.studies import SubmittedStudy, TinyStudy

Make = Callable[..., SubmittedStudy]
Act = Callable[[], None]
# One writes the array's intent, its id, the last job's intent and its id.
WRITES = (1, 2, 3, 4)
SBATCH = """\
#!/bin/sh
number=$(cat {folder}/count 2>/dev/null || echo 0)
echo $((number + 1)) > {folder}/count
[ $((number + 1)) = {at} ] || exec {real} "$@"
case {how} in
    before) kill -9 $PPID ;;
    orphan) cp "$1" {folder}/read; kill -9 $PPID; sleep 4; exec {real} {folder}/read ;;
    after) {real} "$@" > /dev/null; kill -9 $PPID ;;
    lost) {real} "$@" > /dev/null; echo Socket timed out >&2; exit 1 ;;
esac
"""


@pytest.fixture(scope="module")
def held_cluster() -> Iterator[Cluster]:
    """One where no job starts."""
    with Cluster(1) as cluster:
        cluster.run("scontrol", "update", "partitionname=debug", "state=down")
        yield cluster


@pytest.fixture
def held(held_cluster: Cluster, tmp_path: Path, base_config: Path) -> Iterator[SubmittedStudy]:
    made = SubmittedStudy(TinyStudy(tmp_path, base_config), held_cluster)
    yield made
    held_cluster.run("scancel", *{job.split("_")[0] for job, *_ in living(made)}, check=False)
    made.close()


def living(submitted: SubmittedStudy) -> list[tuple[str, str, str]]:
    """Id, name and dependency of every job that waits or runs, by SLURM alone."""
    lines = submitted.cluster.run("squeue", "-h", "-r", "-o", "%i|%j|%E").splitlines()
    return [(job, name, after) for job, name, after in (line.split("|", 2) for line in lines)]


def cell_of(submitted: SubmittedStudy, job: str) -> tuple[str, ...]:
    """The cells of a job, as its own script and file say: by its name, whatever was noted down."""
    (record,) = [one for one in submitted.records() if job in one["elements"]]
    return tuple(record["elements"][job])


def assert_exactly_once(submitted: SubmittedStudy, num_cells: int = 2) -> None:
    """Every cell is in the queue once, and one job waits for all of them."""
    jobs = living(submitted)
    lasts = [(job, after) for job, name, after in jobs if name.startswith("tiny-report-")]
    arrays = [job for job, name, _ in jobs if not name.startswith("tiny-report-")]
    counts = Counter(cell for job in arrays for cell in cell_of(submitted, job))
    assert len(arrays) == num_cells, jobs
    assert sorted(counts.values()) == [1] * num_cells, jobs
    assert len(lasts) == 1, jobs
    for array in {job.split("_")[0] for job in arrays}:
        assert f"afterany:{array}" in lasts[0][1], jobs


def killed(submitted: SubmittedStudy, prepare: Act) -> None:
    """Give the command in a process of its own, which is killed on its way."""

    def submit() -> None:
        prepare()
        submitted.submit()

    process = multiprocessing.get_context("fork").Process(target=submit)
    process.start()
    process.join(timeout=120)
    assert process.exitcode == -signal.SIGKILL


def die_at_write(number: int, is_done: bool) -> None:
    """Let this process die before or after a record is written for the nth time."""
    write, count = handover.write_submission, iter(range(1, 99))

    def dying(*args: object) -> None:
        at = next(count) == number
        if at and not is_done:
            os.kill(os.getpid(), signal.SIGKILL)
        write(*args)
        if at:
            os.kill(os.getpid(), signal.SIGKILL)

    handover.write_submission = dying


def wrap_sbatch(submitted: SubmittedStudy, monkeypatch: pytest.MonkeyPatch, how: str, at: int) -> None:
    """Put a program named sbatch before SLURM's on the PATH."""
    folder = submitted.study.file.with_name("bin")
    folder.mkdir()
    program = folder / "sbatch"
    program.write_text(SBATCH.format(folder=folder, how=how, at=at, real="/usr/bin/sbatch"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("at", [pytest.param(1, marks=()), pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "how",
    ["after", pytest.param("before", marks=pytest.mark.slow), pytest.param("orphan", marks=pytest.mark.slow)],
)
def test_killed_while_sbatch_is_called(
    held: SubmittedStudy, monkeypatch: pytest.MonkeyPatch, how: str, at: int
) -> None:
    wrap_sbatch(held, monkeypatch, how, at)
    killed(held, lambda: None)
    said = held.submit()
    assert f"a command was killed, and SLURM {'does not have' if how == 'before' else 'has'} its " in said
    assert_exactly_once(held)
    assert "nothing to submit" in held.submit()
    assert_exactly_once(held)


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2])
def test_an_answer_of_sbatch_that_is_lost(
    held: SubmittedStudy, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    wrap_sbatch(held, monkeypatch, "lost", at)
    held.submit()
    assert_exactly_once(held)


@pytest.mark.slow
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("number", WRITES)
def test_killed_while_it_notes_down(held: SubmittedStudy, number: int, is_done: bool) -> None:
    killed(held, lambda: die_at_write(number, is_done))
    held.submit()
    assert_exactly_once(held)


def test_the_last_job_waits_for_all_arrays_and_is_replaced_where_it_was_cancelled(
    held: SubmittedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    held.submit()
    (first,) = [job for job, name, _ in living(held) if "report" in name]
    held.cluster.run("scancel", first)
    assert "the report comes after them" in held.submit()
    assert_exactly_once(held)

    content = held.study.file.read_text()
    held.study.file.write_text(content.replace("- relu", "- relu\n- silu"))
    monkeypatch.setattr(
        "slurm.run.finish.cancel_quietly", lambda _: None
    )  # killed before it cancels the older
    assert "submitted 1 cells" in held.submit()
    monkeypatch.undo()
    assert "nothing to submit" in held.submit()
    assert_exactly_once(held, num_cells=3)


@pytest.mark.slow
def test_jobs_whose_record_was_damaged_are_replaced(held: SubmittedStudy) -> None:
    held.submit("--no-report")
    (record,) = (held.study.folder / "submissions").glob("*.json")
    record.write_bytes(record.read_bytes()[:20])
    held.submit()
    assert_exactly_once(held)


@pytest.mark.slow
def test_a_silent_slurm_is_given_nothing(held: SubmittedStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    wrap_sbatch(held, monkeypatch, "after", 1)
    killed(held, lambda: None)
    silent = held.study.file.with_name("bin") / "squeue"
    silent.write_text("#!/bin/sh\nexit 1\n")
    silent.chmod(0o755)
    with pytest.raises(ValueError, match="SLURM does not answer"):
        held.submit()
    silent.unlink()
    held.submit()
    assert_exactly_once(held)


@pytest.mark.slow
def test_cancel_takes_only_jobs_of_the_study(held: SubmittedStudy) -> None:
    foreign = held.cluster.run("sbatch", "--parsable", "-J", "mine", "--wrap", "true").strip()
    held.submit()
    for path in (held.study.folder / "submissions").glob("*.json"):
        content = path.read_text()
        (array,) = [one["array"] for one in held.records() if one["key"] in content]
        lines = [
            line for line in content.replace(f'"{array}', f'"{foreign}').splitlines() if "sha256" not in line
        ]
        path.write_text("\n".join(lines).replace('"is_dropped": false,', '"is_dropped": false'))
    assert "nothing of this study" in held.submit("--cancel")
    assert foreign in {job for job, *_ in living(held)}


@pytest.mark.slow
def test_the_report_arrives_where_every_command_was_killed(
    on_cluster: Make, undisturbed: TinyStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs begin that nobody noted the ids of; the last job comes with the next command."""
    submitted = on_cluster()
    wrap_sbatch(submitted, monkeypatch, "after", 1)
    killed(submitted, lambda: None)
    submitted.cluster.wait_until(lambda: len(submitted.study.states()) == 2, 120, "two cells that began")
    submitted.submit()
    submitted.wait_until_over()
    assert [state["attempts"] for state in submitted.study.states().values()] == [1, 1]
    assert submitted.status().splitlines()[-1] == "2 cells: 2 done"
    assert (submitted.study.folder / "report" / "report.md").is_file()
    for variant in ("gelu", "relu"):
        assert submitted.study.weights(variant) == undisturbed.weights(variant)
