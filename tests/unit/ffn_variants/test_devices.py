"""Which device a command computes on, told by an environment and a torch that pretend to have GPUs."""

import re
from pathlib import Path

import pytest
import torch

from base.errors import UsageError
from eval.evaluate import choose_workers
from ffn_variants import devices
from ffn_variants.devices import check_device, choose_device, use_gpu, visible_gpus
from pretrain import train
from slurm import commands
from tests.cases import listed

TOO_OLD = "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver"
NO_DRIVER = "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"
VARIABLES = ("CUDA_VISIBLE_DEVICES", "ACCELERATE_USE_CPU", "SLURM_JOB_ID")


@pytest.fixture(autouse=True)
def _nothing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    devices._note_that_there_is_none.cache_clear()


def pretend(
    monkeypatch: pytest.MonkeyPatch, trouble: str = "", cuda: str | None = "13.0", files: tuple[str, ...] = ()
) -> None:
    """A torch for that CUDA, which cannot use a GPU for such a reason, and what lies in /dev."""

    def init() -> None:
        raise RuntimeError(trouble)

    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: not trouble)
    monkeypatch.setattr(torch.cuda, "init", init)
    monkeypatch.setattr(devices, "glob", lambda pattern: list(files))


@pytest.mark.parametrize(("given", "count", "names"), listed(__file__, "names of GPUs"))
def test_gpus_have_the_names_of_the_variable(monkeypatch, given, count, names) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    assert visible_gpus() == list(names)


@pytest.mark.parametrize(("trouble", "cuda", "files"), listed(__file__, "GPUs that cannot be used"))
def test_a_gpu_that_torch_cannot_use_is_never_the_cpu(monkeypatch, trouble, cuda, files) -> None:
    pretend(monkeypatch, trouble, cuda, files)
    for use in (use_gpu, lambda: choose_device(None), lambda: choose_workers(1, None)):
        with pytest.raises(UsageError, match="there is an NVIDIA GPU, and torch") as told:
            use()
        assert trouble.split(". ")[0] in str(told.value)
        assert str(told.value).endswith("or compute on the CPU: CUDA_VISIBLE_DEVICES= before the command")


@pytest.mark.parametrize(("name", "value", "trouble"), listed(__file__, "wishes for the CPU"))
def test_the_cpu_is_taken_where_it_is_asked_for(monkeypatch, capsys, name, value, trouble) -> None:
    pretend(monkeypatch, trouble, files=("/dev/nvidia0",))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv(name, value)
    assert not use_gpu()
    assert choose_device(None) == choose_device("cpu") == "cpu"
    assert visible_gpus() == []
    monkeypatch.delenv(name)
    assert trouble or use_gpu()
    pretend(monkeypatch, "Torch not compiled with CUDA enabled", None)
    assert not use_gpu()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("given", ["cuda:0", "7"])
def test_a_name_of_no_gpu_is_told_and_is_no_wish_for_the_cpu(monkeypatch, given) -> None:
    pretend(monkeypatch, "No CUDA GPUs are available", files=("/dev/nvidia0",))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    with pytest.raises(UsageError, match=re.escape(f"under CUDA_VISIBLE_DEVICES={given!r}; mend that")):
        use_gpu()


def test_a_torch_for_gpus_computes_on_a_cpu_that_has_none_and_says_so_once(monkeypatch, capsys) -> None:
    """What PyPI installs on Linux, also where nobody has a GPU."""
    pretend(monkeypatch, NO_DRIVER)
    assert not use_gpu()
    assert choose_device(None) == "cpu"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("note: torch ")
    assert line.endswith("finds no NVIDIA GPU, so this computes on the CPU")


def test_the_gpus_of_a_node_are_not_those_of_a_job_without_any(monkeypatch) -> None:
    pretend(monkeypatch, "No CUDA GPUs are available", files=("/dev/nvidia0",))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert not use_gpu()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(UsageError, match="No CUDA GPUs are available"):
        use_gpu()


@pytest.mark.parametrize(("name", "told"), listed(__file__, "absent devices"))
def test_a_device_that_is_not_here_is_told_in_one_line(monkeypatch, name, told) -> None:
    pretend(monkeypatch, NO_DRIVER)
    with pytest.raises(UsageError, match=told) as error:
        choose_device(name)
    assert len(str(error.value)) < 250


def test_a_gpu_that_is_not_there_or_for_which_torch_has_no_kernels_is_told(monkeypatch) -> None:
    def ones(*sizes: int, device: str) -> None:
        raise RuntimeError(
            "CUDA error: no kernel image is available for execution on the device\nCUDA kernel"
        )

    pretend(monkeypatch)
    monkeypatch.setattr(torch, "ones", ones)
    with pytest.raises(UsageError, match="no kernel image is available for execution on the device; mend"):
        choose_device(None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert check_device("cuda:1") == "cuda:1"
    with pytest.raises(UsageError, match="'cuda:2' cannot be used here: GPUs here: 2, from cuda:0; give an"):
        check_device("cuda:2")


def test_commands_refuse_before_anything_is_written(monkeypatch, tmp_path: Path, capsys) -> None:
    pretend(monkeypatch, TOO_OLD)
    runs = ["--runs-dir", str(tmp_path / "runs")]
    for main, args, reason in (
        (train.main, ["tiny", "--seeds", "1,2", *runs], "2 of 2 seeds failed, for the reasons above"),
        (commands.study_run, ["quickstart", *runs], "is too old"),
    ):
        with pytest.raises(UsageError, match=reason):
            main(args)
    assert not list(tmp_path.iterdir())
    capsys.readouterr()
    told = []
    for rank in ("0", "1"):  # of several processes the first alone says what it would train
        monkeypatch.setenv("RANK", rank)
        train.main(["tiny", "--dry-run", *runs])  # of a machine that it may not run on
        told.append(str(tmp_path) in capsys.readouterr().out)
    assert told == [True, False]
