"""Site presets, and the scripts that come of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from base.errors import UsageError
from slurm.queue.cluster import ClusterPreset, load_preset, minutes_of

PRESETS = sorted((Path(__file__).parents[4] / "configs" / "clusters").glob("*.yaml"))


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_shipped_presets_load(path: Path) -> None:
    preset = load_preset(path)
    assert minutes_of(preset.time) * 60 > preset.signal_delay_s


def test_the_preset_for_several_gpus_trains_distributed() -> None:
    (four,) = (path for path in PRESETS if path.stem == "four-gpus")
    assert load_preset(four).num_processes == load_preset(four).gpus_per_node == 4
    assert ClusterPreset().num_processes == 1


@pytest.mark.parametrize(
    ("time", "minutes"),
    [
        ("90", 90),
        ("90:30", 91),
        ("4:00:00", 240),
        ("0:00:10", 1),
        ("1-0", 1440),
        ("1-12:30", 2190),
        ("2-00:00:01", 2881),
    ],
)
def test_times_are_read_as_sbatch_reads_them(time: str, minutes: int) -> None:
    assert minutes_of(time) == minutes


@pytest.mark.parametrize("time", ["", "soon", "1:2:3:4", "x-1", "-5", "1:"])
def test_no_time(time: str) -> None:
    with pytest.raises(ValueError, match="is not minutes"):
        minutes_of(time)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"partitoin": "gpu"}, "partitoin"),
        ({"time": "soon"}, "'soon' is not minutes"),
        ({"nodes": 0}, "nodes"),
        ({"time": 2, "signal_delay_s": 120}, "told to save at its start"),
    ],
)
def test_mistakes_in_a_preset_name_the_file_and_the_key(content: dict, message: str, tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageError, match=message) as caught:
        load_preset(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_preset_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not exist; the shipped ones are: cpu, four-gpus, one-gpu"):
        load_preset(tmp_path / "none.yaml")


@pytest.mark.parametrize("name", ["job-name", "job_name", "array", "dependency"])
def test_what_a_study_finds_its_jobs_by_is_not_the_sites(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is how a study finds its jobs again"):
        ClusterPreset(additional_parameters={name: "x"})
    assert ClusterPreset(additional_parameters={"comment": "project 7"}).additional_parameters
