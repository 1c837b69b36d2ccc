"""The training loop against a loop written by hand, and its invariants."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch._inductor.exc import InductorError
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import get_linear_schedule_with_warmup, set_seed

from base.errors import UsageError
from base.records import read_record, write_record
from base.run.folder_names import RunFolder
from ffn_variants.kernels import compilation
from ffn_variants.kernels.compilation import compiled
from ffn_variants.models import packed_attention
from pretrain.config import RunConfig
from pretrain.data.prepare import cached_summary, prepare_data
from pretrain.data.step_batches import BatchSource, dropout_seed, rows_of_step
from pretrain.model import linear_cross_entropy
from pretrain.model.build import build, build_masker, special_token_ids
from pretrain.resolution import load_config
from pretrain.training.loop import Loop
from pretrain.training.metrics_log import MetricsFile
from pretrain.training.training_run import train
from pretrain.training.update import build_optimizer, total_steps
from report.inputs.run_facts import read_facts


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory) -> Path:
    """One folder of runs, so that all tests share the packed corpus."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def tiny(runs_dir, request):
    """Make a small run's configuration; each test has a study of its own."""

    def _tiny(family: str = "gpt_neo", *flags: str) -> RunConfig:
        base = {
            "model": {"hidden_size": 32, "intermediate_size": 32, "window_size": 9},
            "data": {"num_stories": 150, "vocab_size": 300, "block_size": 64},
            "optim": {"learning_rate": 0.01, "max_steps": 6},
            "train": {
                "batch_size": 8,
                "logging_steps": 2,
                "save_steps": 2,
                "torch_compile": False,
            },
            "output": {"runs_dir": str(runs_dir), "study": re.sub(r"\W+", "-", request.node.name)},
        }
        return load_config(None, ["--family", family, *flags], base)

    return _tiny


def weights(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path / "model" / "model.safetensors")


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def train_until(last: int, config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train and interrupt before the step behind ``last``."""

    def stop(loop, step, update=Loop._update):
        if loop.state.step == last:
            raise KeyboardInterrupt
        return update(loop, step)

    with monkeypatch.context() as patched:
        patched.setattr(Loop, "_update", stop)
        with pytest.raises(KeyboardInterrupt):
            train(config)


@pytest.mark.ci
def test_experts_are_balanced_and_a_resumed_run_goes_on_where_they_were(tiny, monkeypatch):
    config = tiny("gpt_neo", "--ffn", "moe", "--model.intermediate-size", "8")
    other = config.model_copy(update={"output": config.output.model_copy(update={"study": "moe-resumed"})})
    whole = weights(train(config))
    train_until(3, other, monkeypatch)
    resumed = weights(train(other))
    assert all(torch.equal(value, resumed[key]) for key, value in whole.items())
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
    assert (total_steps(optim, 100, 8), total_steps(epochs, 100, 8), total_steps(epochs, 1, 8)) == (6, 31, 1)


def test_steps_equal_a_loop_written_by_hand(tiny):
    """Stock forward pass with labels, unfused AdamW, transformers' schedule, torch's clipping."""
    config = tiny("gpt_neo", "--train.batch-size", "16", "--optim.warmup-steps", "2")
    config = config.model_copy(update={"train": config.train.model_copy(update={"logging_steps": 1})})
    path = train(config)
    ours = [line for line in lines(path) if "loss" in line]

    data = prepare_data(config)
    set_seed(config.seed)
    model = build(config, len(data.tokenizer), special_token_ids(data.tokenizer))
    decayed = [p for p in model.parameters() if p.ndim > 1]
    assert config.optim.weight_decay == 0
    assert len(decayed) > 5
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0, fused=False, foreach=False)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 6)
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
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        used = optimizer.param_groups[0]["lr"]
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        assert ours[step]["loss"] == pytest.approx(loss.item(), abs=2e-5)
        assert ours[step]["grad_norm"] == pytest.approx(norm.item(), rel=1e-3)
        assert ours[step]["learning_rate"] == pytest.approx(used)
        assert ours[step]["tokens"] - (ours[step - 1]["tokens"] if step else 0) == int((ids != 0).sum())


@pytest.mark.parametrize("family", ["roberta", "t5"])
def test_two_processes_read_what_one_reads(tiny, family):
    config = tiny(family)
    data = prepare_data(config)
    masker = build_masker(config, data.tokenizer)
    one = BatchSource(config, masker, 0).step(data.train, 3)
    two = [BatchSource(config, masker, 0, process, 2).step(data.train, 3) for process in range(2)]
    for name in {"input_ids", "decoder_input_ids"} & set(one.batches[0]):
        assert (torch.cat([share.batches[0][name] for share in two]) == one.batches[0][name]).all()
    assert {share.num_targets for share in two} == {one.num_targets}
    assert sum(len(share.batches[0]["target_ids"]) for share in two) == one.num_targets


@pytest.mark.parametrize(
    "family", ["gpt_neo", *(pytest.param(name, marks=pytest.mark.slow) for name in ("roberta", "t5"))]
)
@pytest.mark.ci
def test_one_seed_decides_everything(tiny, family):
    first = train(tiny(family, "--run-name", "first"))
    again = train(tiny(family, "--run-name", "again"))
    other = train(tiny(family, "--seed", "1"))
    assert all(
        torch.equal(a, b) for a, b in zip(weights(first).values(), weights(again).values(), strict=True)
    )
    assert lines(first)[0]["eval_loss"] == lines(again)[0]["eval_loss"] != lines(other)[0]["eval_loss"]


@pytest.mark.parametrize("optimizer", ["adafactor", "muon"])
@pytest.mark.ci
def test_a_run_with_another_optimizer_goes_on_to_the_same_bits(tiny, monkeypatch, optimizer):
    flags = ("--optim.optimizer", optimizer, "--run-name")
    expected = train(tiny("gpt_neo", *flags, "whole"))
    config = tiny("gpt_neo", *flags, "stopped")

    train_until(5, config, monkeypatch)
    path = train(config)
    assert json.loads((path / "provenance.json").read_text())["sessions"][1]["resumed_from_step"] == 4
    assert all(
        torch.equal(a, b) for a, b in zip(weights(expected).values(), weights(path).values(), strict=True)
    )


def test_a_finished_run_is_left_alone(tiny, capsys):
    config = tiny()
    path = train(config)
    before = (path / "metrics.jsonl").stat().st_mtime_ns
    capsys.readouterr()
    assert train(config) == path
    assert capsys.readouterr().out == f"{path} is finished; nothing to do\n"
    assert (path / "metrics.jsonl").stat().st_mtime_ns == before


def test_run_folder_has_what_readers_expect(tiny):
    path = train(tiny("roberta", "--ffn", "swish"))
    assert {entry.name for entry in path.iterdir()} >= {
        "config.yaml",
        "provenance.json",
        "metrics.jsonl",
        "checkpoints",
        "model",
        "COMPLETED",
    }
    steps = [line for line in lines(path) if "loss" in line]
    keys = {"step", "max_steps", "loss", "learning_rate", "grad_norm", "tokens_per_s", "epoch", "time_s"}
    assert all(line.keys() >= keys for line in steps)
    assert [line["step"] for line in steps] == [2, 4, 6]
    evaluations = [line["eval_loss"] for line in lines(path) if "eval_loss" in line]
    assert evaluations[-1] < evaluations[0]
    provenance = json.loads((path / "provenance.json").read_text())
    assert provenance["parameters"]["total"] == sum(v.numel() for v in weights(path).values())
    assert provenance["results"]["peak_memory_mb"] > 0
    assert "swish" in (path / "model" / "README.md").read_text()
    assert len(list((path / "checkpoints").iterdir())) == 2


def test_the_saved_model_scores_as_the_loop_did(tiny):
    from transformers import AutoModelForCausalLM

    from pretrain.model.objective import PackedLoss

    config = tiny()
    path = train(config)
    data = prepare_data(config)
    loss = PackedLoss(AutoModelForCausalLM.from_pretrained(path / "model").eval(), "gpt_neo")
    source = BatchSource(config, None, 0)
    with torch.no_grad():
        batches = list(source.held_out(data.validation))
        total = sum(float(loss(**batch)) for batch in batches)
    count = sum(len(batch["target_ids"]) for batch in batches)
    assert total / count == pytest.approx(lines(path)[-1]["eval_loss"], abs=1e-5)


def test_a_corpus_changed_meanwhile_is_refused(tiny):
    path = train(tiny())
    (path / "COMPLETED").unlink()
    record = read_record(path / "provenance.json", dict)
    write_record(path / "provenance.json", record | {"data_fingerprint": "another"})
    with pytest.raises(UsageError, match=r"begun on other data \(fingerprint another, now"):
        train(tiny())


def test_a_diverging_run_stops_with_a_message(tiny):
    flags = ["--optim.learning-rate", "1e30", "--optim.max-grad-norm", "1e9", "--train.eval-steps", "6"]
    with pytest.raises(
        UsageError, match=r"the loss is (nan|inf) and the .* at step 2; lower --optim.learning-rate"
    ):
        train(tiny("gpt_neo", *flags))


def test_weight_decay_spares_vectors(tiny):
    optim = tiny().optim.model_copy(update={"weight_decay": 0.5})
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3))
    groups = build_optimizer(model, optim).param_groups
    assert [(group["weight_decay"], len(group["params"])) for group in groups] == [(0.5, 1), (0.0, 3)]


def test_metrics_after_the_checkpoint_and_torn_lines_are_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"st')
    MetricsFile(path, last_step=2).append({"step": 3})
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3]


def test_data_is_built_once_and_shared(tiny, capsys):
    config = tiny()
    prepare_data(config)
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = prepare_data(tiny("roberta", "--seed", "9", "--ffn", "kan"))
    assert capsys.readouterr().out == ""
    summary = cached_summary(config)
    assert summary is not None
    assert summary["train"]["num_tokens"] == data.train.num_tokens == int((data.train.input_ids != 0).sum())
    assert data.train.num_tokens > 0.95 * data.train.input_ids.size


@pytest.mark.ci
def test_checkpoints_by_minutes(tiny):
    every = train(tiny("gpt_neo", "--train.save-minutes", "1e-9", "--run-name", "minutes"))
    assert sorted(path.name for path in (every / "checkpoints").iterdir()) == ["step_0000004", "step_0000005"]
    never = tiny("gpt_neo", "--run-name", "never")
    none = {"save_steps": None, "save_minutes": None}
    path = train(never.model_copy(update={"train": never.train.model_copy(update=none)}))
    assert not (path / "checkpoints").exists()


class CountReads(TorchDispatchMode):
    """Counts the operations that fetch a number from the device."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return function(*args, **(kwargs or {}))


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
    train(tiny("gpt_neo", "--train.no-torch-compile"))
    assert reads == [0] * 6


@pytest.fixture
def kernel(monkeypatch):
    """Have a run compile its loss by something else."""

    def replace(compiler) -> None:
        monkeypatch.setattr(torch, "compile", lambda function, **_: compiler(function))
        function = linear_cross_entropy._losses_and_probabilities.__wrapped__
        monkeypatch.setattr(linear_cross_entropy, "_losses_and_probabilities", compiled(function))

    yield replace
    compilation._State.failure = ""


@pytest.mark.ci
def test_a_run_that_could_not_compile_says_so_in_its_records(tiny, kernel):
    def failing(function):
        def fused(*args):
            raise InductorError(OSError("no compiler"), None)

        return fused

    kernel(failing)
    with pytest.warns(UserWarning, match="torch.compile failed"):
        path = train(tiny("gpt_neo", "--train.torch-compile"))
    assert all(line["torch_compile_failed"] is True for line in lines(path))
    (session,) = read_record(path / "provenance.json", dict)["sessions"]
    assert "no compiler" in session["torch_compile_failure"]
    assert read_facts(RunFolder(path), "run").is_compile_failed
    other = train(tiny("gpt_neo", "--seed", "5"))
    assert not any("torch_compile_failed" in line for line in lines(other))
    assert not read_facts(RunFolder(other), "run").is_compile_failed


@pytest.mark.parametrize("ffn", ["no-ffn", "moe"])
@pytest.mark.ci
def test_a_report_reads_the_parameters_of_a_run_that_a_token_meets(tiny, ffn):
    """No FFN at all is a size, too; of eight experts a token meets two."""
    path = train(tiny("gpt_neo", "--ffn", ffn))
    facts, state = read_facts(RunFolder(path), "run"), weights(path)
    own = sum(value.numel() for key, value in state.items() if ".mlp." in key and value.is_floating_point())
    experts = sum(value.numel() for key, value in state.items() if ".mlp.ffn.c_" in key)
    assert facts.num_ffn_parameters == own
    assert facts.num_active_parameters == facts.num_parameters - round(experts * 6 / 8)
    assert (facts.ffn_flops_per_token == 0) == (ffn == "no-ffn")


@pytest.mark.ci
def test_memory_that_runs_out_in_a_kernel_halves_a_pass_and_compiling_goes_on(tiny, kernel, capsys):
    calls = []

    def tight(function):
        def fused(*args):
            calls.append(args)
            if len(calls) in (1, 4):
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 256.00 MiB.")
            return function(*args)

        return fused

    kernel(tight)
    path = train(tiny("gpt_neo", "--train.torch-compile", "--find-batch-size"))
    printed = capsys.readouterr().out
    assert "out of memory with 8 rows per forward pass; trying 4" in printed
    assert "out of memory with 4 rows per forward pass; trying 2" in printed
    record = read_record(path / "provenance.json", dict)
    assert record["per_device_train_batch_size"] == 2
    assert not any("torch_compile_failed" in line for line in lines(path))
