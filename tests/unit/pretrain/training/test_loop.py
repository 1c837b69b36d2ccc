"""The training loop against a loop written by hand, and its invariants."""

import functools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch._inductor.exc import InductorError
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModelForCausalLM, get_linear_schedule_with_warmup, set_seed

from base.errors import UsageError
from base.records import read_record, write_record
from base.run.folder_names import RunFolder
from ffn_variants.kernels import compilation
from ffn_variants.kernels.compilation import compiled
from ffn_variants.models import packed_attention
from pretrain.config import ResolvedConfig
from pretrain.data.prepare import prepare_data, word_frequency_loss
from pretrain.data.step_batches import BatchSource, dropout_seed, rows_of_step, stage
from pretrain.model import linear_cross_entropy
from pretrain.model.build import build, special_token_ids
from pretrain.model.objective import PackedLoss
from pretrain.run.run_folder import run_dir
from pretrain.training import device
from pretrain.training import loop as loop_module
from pretrain.training.loop import Loop
from pretrain.training.metrics_log import MetricsFile
from pretrain.training.training_run import train
from report.inputs.run_facts import read_facts
from tests.cases import first_is_fast
from tests.interrupted import train_until


@pytest.fixture(scope="module")
def trained(small_config) -> tuple[ResolvedConfig, Path]:
    """A finished run, which no test changes."""
    config = small_config("trained")
    return config, train(config)


def weights(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path / "model" / "model.safetensors")


def same_weights(one: Path, other: Path) -> bool:
    states = weights(one), weights(other)
    return all(torch.equal(a, b) for a, b in zip(*(state.values() for state in states), strict=True))


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_a_resumed_run_ends_as_one_that_was_never_interrupted(trained, tiny, monkeypatch):
    config = tiny()
    train_until(3, config)
    path = train(config)
    record = json.loads((path / "provenance.json").read_text())
    assert [session["resumed_from_step"] for session in record["sessions"]] == [0, 2]
    assert same_weights(path, trained[1])
    times = {"time_s", "compile_s", "tokens_per_s"}
    first, second = (
        [{k: v for k, v in line.items() if k not in times} for line in lines(p)] for p in (path, trained[1])
    )
    assert first == second


@pytest.mark.ci
def test_experts_are_balanced_and_a_resumed_run_goes_on_where_they_were(tiny, monkeypatch):
    flags = ("--ffn", "moe", "--model.intermediate-size", "8", "--run-name")
    path = train(tiny(*flags, "whole"))
    train_until(3, tiny(*flags, "resumed"))
    assert same_weights(path, train(tiny(*flags, "resumed")))
    whole = weights(path)
    shifts = [value for key, value in whole.items() if key.endswith("shifts")]
    loads = [value for key, value in whole.items() if key.endswith("load")]
    assert len(shifts) == len(loads) == 2
    assert not any(load.any() for load in loads)
    for each in shifts:  # an expert moves by one at most with each of six updates, and hardly any keeps still
        assert 0 < each.abs().max() <= 6
        assert each.count_nonzero() > 4


def test_every_epoch_visits_every_row_once_in_its_own_order():
    stream = np.concatenate([rows_of_step(10, 4, seed=3, step=step) for step in range(10)]).reshape(4, 10)
    assert (np.sort(stream, axis=1) == np.arange(10)).all()
    assert len({tuple(epoch) for epoch in stream.tolist()}) == 4
    assert rows_of_step(10, 4, seed=4, step=0).tolist() != stream[0, :4].tolist()
    small = np.bincount(rows_of_step(3, 7, seed=0, step=0))  # a corpus below one step
    assert sorted(small) == [2, 2, 3]


def test_dropout_streams_differ():
    seeds = {dropout_seed(seed, step, rank) for seed in range(4) for step in range(4) for rank in range(4)}
    assert len(seeds) == 64


def test_total_steps(tiny):
    optim = tiny().optim
    epochs = optim.model_copy(update={"max_steps": None, "num_train_epochs": 2.5})
    assert (optim.total_steps(100, 8), epochs.total_steps(100, 8), epochs.total_steps(1, 8)) == (6, 31, 1)


def test_steps_equal_a_loop_written_by_hand(tiny):
    """Stock forward pass with labels, unfused AdamW, transformers' schedule, torch's clipping."""
    config = tiny("--train.batch-size", "16", "--optim.warmup-steps", "2")
    ours = [line for line in lines(train(config)) if "loss" in line]

    data = prepare_data(config)
    set_seed(config.seed)
    model = build(config, len(data.tokenizer), special_token_ids(data.tokenizer))
    assert config.optim.weight_decay == 0
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0, fused=False, foreach=False)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 6)
    losses, norms, tokens = [], [], 0
    for step in range(6):
        rows = rows_of_step(len(data.train.input_ids), 16, config.seed, step)
        ids = torch.from_numpy(data.train.input_ids[rows].astype(np.int64))
        positions = torch.from_numpy(data.train.position_ids[rows].astype(np.int64))
        document = (positions == 0).cumsum(1)
        mask = torch.where(document[:, :, None] == document[:, None, :], 0.0, -1e30)[:, None]
        labels = torch.where(positions == 0, -100, ids)  # transformers shifts them
        loss = model(
            input_ids=ids, position_ids=positions, attention_mask=mask, labels=labels, use_cache=False
        ).loss
        loss.backward()
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        tokens += int((ids != 0).sum())
        used = optimizer.param_groups[0]["lr"]
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 2:  # a line has the means of its two steps
            line = ours[step // 2]
            assert (line["step"], line["tokens"]) == (step + 1, tokens)
            assert line["loss"] == pytest.approx(np.mean(losses[-2:]), abs=2e-5)
            assert line["grad_norm"] == pytest.approx(np.mean(norms[-2:]), rel=1e-3)
            assert line["grad_norm_max"] == pytest.approx(max(norms[-2:]), rel=1e-3)
            assert line["learning_rate"] == pytest.approx(used)


@pytest.mark.parametrize("family", first_is_fast(["gpt_neo", "roberta", "t5"]))
@pytest.mark.ci
def test_one_seed_decides_everything(tiny, family):
    first, again = (train(tiny("--family", family, "--run-name", name)) for name in ("first", "again"))
    other = train(tiny("--family", family, "--seed", "1"))
    assert same_weights(first, again)
    assert lines(first)[0]["eval_loss"] == lines(again)[0]["eval_loss"] != lines(other)[0]["eval_loss"]


def test_run_folder_has_what_readers_expect(trained):
    config, path = trained
    names = {"config.yaml", "provenance.json", "metrics.jsonl", "checkpoints", "model", "COMPLETED"}
    assert {entry.name for entry in path.iterdir()} >= names
    steps = [line for line in lines(path) if "loss" in line]
    keys = {"step", "max_steps", "loss", "learning_rate", "grad_norm", "tokens_per_s", "epoch", "time_s"}
    assert all(line.keys() >= keys for line in steps)
    assert [line["step"] for line in steps] == [2, 4, 6]
    evaluations = [line["eval_loss"] for line in lines(path) if "eval_loss" in line]
    assert evaluations[-1] < evaluations[0]
    provenance = json.loads((path / "provenance.json").read_text())
    assert provenance["parameters"]["total"] == sum(v.numel() for v in weights(path).values())
    assert provenance["results"]["peak_memory_mb"] > 0
    expected = word_frequency_loss(prepare_data(config), is_causal=True)
    assert provenance["word_frequency_loss"] == pytest.approx(expected, abs=1e-6)
    assert "gelu" in (path / "model" / "README.md").read_text()
    assert len(list((path / "checkpoints").iterdir())) == 2


def test_the_saved_model_scores_as_the_loop_did(trained):
    config, path = trained
    data = prepare_data(config)
    loss = PackedLoss(AutoModelForCausalLM.from_pretrained(path / "model").eval(), "gpt_neo")
    with torch.no_grad():
        batches = list(BatchSource(config, None, 0).held_out(data.validation))
        total = sum(float(loss(**batch)) for batch in batches)
    count = sum(len(batch["target_ids"]) for batch in batches)
    assert total / count == pytest.approx(lines(path)[-1]["eval_loss"], abs=1e-5)


def test_a_corpus_changed_meanwhile_is_refused(trained, tiny):
    path = shutil.copytree(trained[1], run_dir(tiny()))
    (path / "COMPLETED").unlink()
    record = read_record(path / "provenance.json", dict)
    write_record(path / "provenance.json", record | {"data_fingerprint": "another"})
    with pytest.raises(UsageError, match=r"begun on other data \(fingerprint another, now"):
        train(tiny())


def test_metrics_after_the_checkpoint_and_torn_lines_are_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"st')
    MetricsFile(path, last_step=2).append({"step": 3})
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3]


@pytest.mark.ci
def test_checkpoints_by_minutes_or_never(tiny):
    every = train(tiny("--train.save-minutes", "1e-9", "--run-name", "minutes"))
    assert sorted(path.name for path in (every / "checkpoints").iterdir()) == ["step_0000004", "step_0000005"]
    path = train(tiny("--run-name", "never", train={"save_steps": None, "save_minutes": None}))
    assert not (path / "checkpoints").exists()


class CountReads(TorchDispatchMode):
    """Counts the operations that fetch a number from the device."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return func(*args, **(kwargs or {}))


def test_no_step_reads_from_the_device(tiny, monkeypatch):
    with CountReads() as counting:
        torch.ones(()).item()
    assert counting.count == 1
    reads: list[int] = []

    def counted(loop, step, update=Loop._update):
        with CountReads() as counting:
            result = update(loop, step)
        reads.append(counting.count)
        return result

    monkeypatch.setattr(Loop, "_update", counted)
    monkeypatch.setattr(packed_attention, "_group", lambda _: None)  # which reads on a CPU alone
    train(tiny("--train.no-torch-compile"))
    assert reads == [0] * 6


@pytest.mark.ci
def test_a_run_that_could_not_compile_says_so_in_its_records(tiny, monkeypatch):
    def fused(*args):
        raise InductorError(OSError("no compiler"), None)

    monkeypatch.setattr(torch, "compile", lambda function, **_: fused)
    monkeypatch.setattr(compilation._State, "failure", "")
    function = linear_cross_entropy._losses_and_probabilities.__wrapped__
    monkeypatch.setattr(linear_cross_entropy, "_losses_and_probabilities", compiled(function))
    path = train(tiny("--train.torch-compile"))
    assert all(line["torch_compile_failed"] is True for line in lines(path))
    (session,) = read_record(path / "provenance.json", dict)["sessions"]
    assert "no compiler" in session["torch_compile_failure"]
    assert read_facts(RunFolder(path), "run").is_compile_failed
    monkeypatch.undo()
    other = train(tiny("--seed", "5"))
    assert not any("torch_compile_failed" in line for line in lines(other))
    assert not read_facts(RunFolder(other), "run").is_compile_failed


def test_a_run_goes_on_without_graphs_and_flash_attention_and_says_so(trained, tiny, monkeypatch, capsys):
    """Steps are to be recorded, here on a CPU, which cannot."""
    monkeypatch.setattr(Loop, "_on_gpu", True)
    monkeypatch.setattr(loop_module, "stage", functools.partial(stage, pin=False))
    monkeypatch.setattr(packed_attention, "FAILURES", ["no kernel image"])
    path = train(tiny("--run-name", "unrecorded"))
    (session,) = read_record(path / "provenance.json", dict)["sessions"]
    assert session["flash_attention_failure"] == "no kernel image"
    assert capsys.readouterr().err.count(session["cuda_graph_failure"]) == 1
    assert read_facts(RunFolder(path), "run").is_compile_failed
    assert same_weights(path, trained[1])


@pytest.fixture
def long_run(monkeypatch) -> pytest.MonkeyPatch:
    """Every run is long, on a CPU that multiplies bf16."""
    monkeypatch.setattr(device, "multiplies_bf16", lambda: True)
    monkeypatch.setattr(device, "LONG_RUN", 0)
    return monkeypatch


def test_a_run_goes_on_in_the_precision_that_it_began_with(tiny, long_run):
    whole = train(tiny("--run-name", "whole"))
    train_until(3, tiny())
    long_run.setattr(device, "LONG_RUN", 1e30)
    path = train(tiny())
    assert same_weights(path, whole)
    for one in (path, whole):
        assert read_record(one / "provenance.json", dict)["mixed_precision"] == "bf16"
    short = train(tiny("--run-name", "short"))
    assert (a := weights(whole)).keys() == (b := weights(short)).keys()
    assert max((a[name] - b[name]).abs().max() for name in a) > 1e-5  # float32 is another run


@pytest.mark.parametrize("asked", ["auto", True])
@pytest.mark.ci
def test_a_run_whose_model_cannot_be_compiled_is_trained_without(asked, tiny, long_run, capsys):
    def graph(*args, **inputs):
        raise InductorError(OSError("no compiler"), None)

    long_run.setattr(torch, "compile", lambda function, **_: graph)
    long_run.setattr(device, "multiplies_bf16", lambda: False)
    path = train(device.with_train(tiny(), torch_compile="auto", compile_model=asked))
    assert "note: the model cannot be compiled (InductorError" in capsys.readouterr().err
    record = read_record(path / "provenance.json", dict)
    assert record["compile_model"] is False
    assert "no compiler" in record["sessions"][-1]["torch_compile_failure"]
    long_run.undo()
    assert same_weights(path, train(tiny("--run-name", "short")))


@pytest.mark.ci
def test_a_report_reads_the_parameters_of_a_run_that_a_token_meets(tiny):
    """Of eight experts a token meets two."""
    path = train(tiny("--ffn", "moe"))
    facts, state = read_facts(RunFolder(path), "run"), weights(path)
    own = sum(value.numel() for key, value in state.items() if ".mlp." in key and value.is_floating_point())
    experts = sum(value.numel() for key, value in state.items() if ".mlp.ffn.c_" in key)
    assert facts.num_ffn_parameters == own
    assert facts.num_active_parameters == facts.num_parameters - round(experts * 6 / 8)
