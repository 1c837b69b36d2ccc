"""What the doctor tells of this CPU, and of GPUs that an nvidia-smi and a torch pretend."""

from types import SimpleNamespace

import pytest
import torch

from base.errors import UsageError
from ffn_ablations import doctor
from ffn_variants.kernels import compilation
from slurm.local import describe_gpus

SMI = """#!/bin/sh
case "$1" in
*driver_version*) echo "GPU-a1, 580.159, {mode}"; echo "GPU-b2, 580.159, Default";;
*gpu_uuid*) echo "GPU-b2, 77, their-job";;
*) echo "{mode}";;
esac
"""


@pytest.fixture
def two_gpus(monkeypatch, tmp_path):
    """Two GPUs of which somebody uses the second; returns what sets the compute mode of the first."""

    def set_mode(mode: str) -> None:
        (tmp_path / "nvidia-smi").write_text(SMI.format(mode=mode), encoding="utf-8")
        (tmp_path / "nvidia-smi").chmod(0o755)

    set_mode("Default")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    pretended = {
        "is_available": lambda: True,
        "device_count": lambda: 2,
        "mem_get_info": lambda number: ((2**35, 2**36), (2**31, 2**36))[number],
        "get_arch_list": lambda: ["sm_80", "sm_90a"],
        "get_device_properties": [
            SimpleNamespace(name="H200", uuid="a1", major=9, minor=0),
            SimpleNamespace(name="B200", uuid="b2", major=12, minor=0),
        ].__getitem__,
    }
    for name, answer in pretended.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    monkeypatch.setattr(doctor, "choose_device", lambda _: "cuda")
    return set_mode


def test_of_gpus_it_names_who_uses_them_and_what_fails(two_gpus, capsys) -> None:
    two_gpus("Exclusive_Process")
    doctor.main([])
    _, first, second, others, no_kernels, _, *parts = capsys.readouterr().out.splitlines()
    assert first == "GPU 0     H200, driver 580.159, mode Exclusive_Process, 32 of 64 GiB free"
    assert second.endswith("mode Default, 2 of 64 GiB free")
    assert "their-job, process 77" in others
    assert "sm_80 sm_90a alone" in no_kernels
    assert [line.split()[:2] for line in parts] == [[part, "FAILS"] for part in ("Triton", "flash", "graph")]


def test_of_a_cpu_it_needs_no_gpu(capsys) -> None:
    doctor.main([])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["torch", "device", "bf16", "compiler", "threads"]
    assert "no NVIDIA GPU is used" in lines[1]


def test_which_gpus_a_torch_is_built_for() -> None:
    known = {(7, 5): False, (8, 9): True, (9, 0): True, (12, 0): False}
    assert {gpu: doctor.is_built_for(gpu, ["sm_80", "sm_90a"]) for gpu in known} == known
    assert doctor.is_built_for((12, 0), ["compute_90"])


@pytest.mark.parametrize("lacks", ["triton", "compiler", "Python.h"])
def test_what_triton_lacks_is_named(lacks, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(compilation, "has_triton", lambda: lacks != "triton")
    monkeypatch.setenv("CC", "absent" if lacks == "compiler" else "true")
    if lacks == "Python.h":
        monkeypatch.setattr(compilation.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert lacks in compilation.missing_for_triton()


def test_workers_share_gpus_but_not_one_in_exclusive_mode(two_gpus, tmp_path) -> None:
    assert describe_gpus(3).startswith("2 GPUs, 2 of 3 workers on each; small models gain 1.7 times")
    two_gpus("Exclusive_Process")
    assert describe_gpus(2).startswith("2 GPUs, 1 of 2 workers on each")
    with pytest.raises(UsageError, match="--workers 3 puts 2 processes on a GPU in exclusive mode"):
        describe_gpus(3)
    (tmp_path / "control").touch()  # of MPS
    assert describe_gpus(8) == "2 GPUs, 4 of 8 workers on each"
