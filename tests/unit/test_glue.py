"""Classification: inputs, metrics by hand, splits, training, and faulty data."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM, RobertaConfig, RobertaForMaskedLM

from eval.config import EvalConfig, GlueConfig
from eval.finetune import Encoded, fine_tune, predict, shuffled_batches
from eval.glue import METRICS, encode, evaluate_tasks, hold_out, load_classifier
from eval.glue_tasks import GLUE_TASKS, embedded_tasks, flatten_multirc, read_examples
from ffn_variants import FAMILIES, FFN_VARIANTS, UsageError, build_model
from pretrain.embedded import stories
from pretrain.tokenizer import train_tokenizer

IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(stories(200, 0)), 400)


@pytest.fixture(scope="module")
def save_model(tmp_path_factory, tokenizer) -> Callable:
    def save(family: str, ffn: str = "gelu"):
        folder = tmp_path_factory.mktemp(f"{family}-{ffn}")
        torch.manual_seed(0)
        layers = {"num_layers": 1, "num_heads": 2}
        if family == "roberta":
            layers = {"num_hidden_layers": 1, "num_attention_heads": 2}
        sizes = {"vocab_size": len(tokenizer), "hidden_size": 16, "intermediate_size": 32}
        model = build_model(family, ffn, max_position_embeddings=33, **sizes, **layers, **IDS)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return save


def write_glue(folder, name: str, rows: list[dict]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_metrics_by_hand():
    labels, predictions = np.array([1, 1, 1, 0, 0, 0, 0, 1]), np.array([1, 1, 0, 0, 0, 1, 0, 1])
    tp, fp, fn, tn = 3, 1, 1, 3
    assert METRICS["accuracy"](labels, predictions) == pytest.approx(100 * 6 / 8)
    assert METRICS["f1"](labels, predictions) == pytest.approx(100 * 2 * tp / (2 * tp + fp + fn))
    root = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    assert METRICS["matthews_correlation"](labels, predictions) == pytest.approx(
        100 * (tp * tn - fp * fn) / root
    )


def test_metrics_where_one_class_is_absent():
    ones, zeros = np.ones(4, dtype=int), np.zeros(4, dtype=int)
    assert METRICS["f1"](zeros, zeros) == 0
    assert METRICS["matthews_correlation"](ones, ones) == 0
    assert METRICS["matthews_correlation"](np.array([0, 1]), np.array([1, 0])) == -100


def test_each_task_reports_what_babylm_reports():
    headline = {name: task.metrics[0] for name, task in GLUE_TASKS.items() if task.metrics != ("accuracy",)}
    assert headline == {"cola": "matthews_correlation", "mrpc": "f1", "qqp": "f1"}
    assert all("accuracy" in task.metrics for task in GLUE_TASKS.values())
    assert {name: task.num_labels for name, task in GLUE_TASKS.items() if task.num_labels != 2} == {
        "mnli": 3,
        "mnli-mm": 3,
    }


@pytest.mark.parametrize(
    ("task", "row", "expected"),
    [
        ("cola", {"sentence": "A."}, ("A.", None)),
        ("sst2", {"sentence": "A."}, ("A.", None)),
        ("mrpc", {"sentence1": "A.", "sentence2": "B."}, ("A.", "B.")),
        ("qqp", {"question1": "A?", "question2": "B?"}, ("A?", "B?")),
        ("mnli", {"premise": "A.", "hypothesis": "B."}, ("A.", "B.")),
        ("mnli-mm", {"premise": "A.", "hypothesis": "B."}, ("A.", "B.")),
        ("qnli", {"question": "A?", "sentence": "B."}, ("A?", "B.")),
        ("rte", {"sentence1": "A.", "sentence2": "B."}, ("A.", "B.")),
        ("boolq", {"question": "a", "passage": "P."}, ("a", "P.")),
        (
            "multirc",
            {"paragraph": "P.", "question": "Who?", "answer": "Bo"},
            ("Question: Who? Answer: Bo", "P."),
        ),
        (
            "wsc",
            {"text": "T.", "span1_text": "Bo", "span2_text": "he"},
            ('Does "he" refer to "Bo" in this passage?', "T."),
        ),
    ],
)
def test_inputs_are_those_of_babylm(task, row, expected):
    assert GLUE_TASKS[task].make_input(row) == expected


def test_tokens_are_wrapped_and_cut_as_the_tokenizer_does_it(tokenizer):
    rows = [{"sentence1": "the dog ran", "sentence2": "it " * 40, "label": 1}]
    found = encode(tokenizer, GLUE_TASKS["rte"], rows, 32).input_ids[0]
    first, second = (
        tokenizer(rows[0][key], add_special_tokens=False)["input_ids"] for key in ("sentence1", "sentence2")
    )
    assert found == [1, *first, 2, 2, *second[: 32 - len(first) - 4], 2]
    single = encode(tokenizer, GLUE_TASKS["cola"], [{"sentence": "the dog ran", "label": 0}], 32)
    assert single.input_ids[0] == [1, *first, 2]
    assert single.labels.tolist() == [0]


def test_nested_multirc_becomes_one_row_an_answer():
    nested = {
        "idx": 5,
        "passage": {
            "text": "P.",
            "questions": [
                {"idx": 1, "question": "Q1", "answers": [{"idx": 0, "text": "A", "label": 1}]},
                {
                    "idx": 2,
                    "question": "Q2",
                    "answers": [{"text": "B", "label": 0}, {"text": "C", "label": 1}],
                },
            ],
        },
    }
    flat = flatten_multirc(nested)
    assert [(row["question"], row["answer"], row["label"]) for row in flat] == [
        ("Q1", "A", 1),
        ("Q2", "B", 0),
        ("Q2", "C", 1),
    ]
    assert {row["paragraph"] for row in flat} == {"P."}
    assert flat[0]["idx"] == "5-1-0"
    assert flatten_multirc(flat[0]) == [flat[0]]


def test_the_real_files_are_read(shared_data):
    config = EvalConfig(glue_dir=shared_data / "glue")
    sizes = {name: len(read_examples(task, "validation", config)) for name, task in GLUE_TASKS.items()}
    assert sizes == {
        "cola": 1019, "sst2": 508, "mrpc": 177, "qqp": 5000, "mnli": 6562, "mnli-mm": 6284, "qnli": 2286,
        "rte": 99, "boolq": 723, "multirc": 913, "wsc": 83,
    }  # fmt: skip
    assert len(read_examples(GLUE_TASKS["cola"], "train", config)) == 8164
    assert GLUE_TASKS["mnli"].train == GLUE_TASKS["mnli-mm"].train


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"sentence": "a", "label": 2}], r"row 1: label 2; cola's labels are 0, 1"),
        ([{"sentence": "a", "label": 1}, {"sentence": "a", "label": "x"}], r"row 2: label 'x'"),
        ([{"sentence": "a"}], r"row 1: no column 'label'"),
        ([{"text": "a", "label": 1}], r"row 1: no text in column 'sentence'"),
        ([{"sentence": "a", "label": -1}], r"label -1"),
    ],
)
def test_faulty_examples_are_named(tmp_path, rows, message):
    write_glue(tmp_path / "glue", "cola.train", rows)
    with pytest.raises(UsageError, match=message) as error:
        read_examples(GLUE_TASKS["cola"], "train", EvalConfig(glue_dir=tmp_path / "glue"))
    assert "cola.train.jsonl" in str(error.value)


def test_missing_glue_files_are_named(tmp_path):
    with pytest.raises(UsageError, match="no folder"):
        read_examples(GLUE_TASKS["rte"], "train", EvalConfig(glue_dir=tmp_path / "absent"))
    with pytest.raises(UsageError, match=r"no mnli\.validation_mismatched"):
        read_examples(GLUE_TASKS["mnli-mm"], "validation", EvalConfig(glue_dir=tmp_path))
    with pytest.raises(UsageError, match="--glue-dir FOLDER"):
        read_examples(GLUE_TASKS["rte"], "train", EvalConfig())


def test_the_held_out_part_is_disjoint_and_seeded():
    data = Encoded([[n] for n in range(50)], np.arange(50))
    train, held_out = hold_out(data, 0.1, 12)
    assert len(held_out) == 5
    assert sorted([*train.labels, *held_out.labels]) == list(range(50))
    assert [ids[0] for ids in train.input_ids] == train.labels.tolist()
    assert hold_out(data, 0.1, 12)[1].labels.tolist() == held_out.labels.tolist()
    assert hold_out(data, 0.1, 13)[1].labels.tolist() != held_out.labels.tolist()
    assert [len(part) for part in hold_out(data.take([0, 1]), 0.9, 0)] == [1, 1]


def test_batches_hold_every_example_once_and_like_lengths_together():
    lengths = np.random.default_rng(0).integers(1, 60, 1000)
    data = Encoded([[0] * length for length in lengths], np.zeros(1000, dtype=int))
    batches = list(shuffled_batches(data, 32, np.random.default_rng(1)))
    assert sorted(np.concatenate(batches)) == list(range(1000))
    padding = sum(lengths[batch].max() * len(batch) for batch in batches) / lengths.sum() - 1
    assert padding < 0.05
    first = [lengths[batch].max() for batch in batches]
    assert first != sorted(first)
    again = list(shuffled_batches(data, 32, np.random.default_rng(1)))
    assert all((a == b).all() for a, b in zip(batches, again, strict=True))


def test_padding_changes_no_prediction(save_model, tokenizer):
    for family in FAMILIES:
        model, _ = load_classifier(save_model(family), 3, seed=1)
        data = Encoded([[1, *range(10, 10 + length), 2] for length in (1, 5, 20, 3)], np.zeros(4, dtype=int))
        together = predict(model, data, 4)
        alone = np.concatenate([predict(model, data.take([index]), 1) for index in range(4)])
        np.testing.assert_allclose(together, alone, atol=1e-5)
        assert together.shape == (4, 3)


@pytest.mark.parametrize("ffn", FFN_VARIANTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_only_the_head_is_new(save_model, family, ffn):
    folder = save_model(family, ffn)
    model, tokenizer = load_classifier(folder, 2, seed=3)
    again, _ = load_classifier(folder, 2, seed=3)
    assert model.config.ffn == ffn
    assert model.config.pad_token_id == tokenizer.pad_token_id == 0
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    other, _ = load_classifier(folder, 2, seed=4)
    changed = {
        name
        for (name, a), b in zip(model.named_parameters(), other.parameters(), strict=True)
        if not torch.equal(a, b)
    }
    assert changed
    assert not any(name.startswith(model.base_model_prefix) for name in changed)


def test_a_backbone_without_all_weights_is_refused(save_model, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = save_model("roberta")
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    dropped = next(name for name in weights if "attention.self.query.weight" in name)
    del weights[dropped]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UsageError, match=r"1 weights are missing.*query"):
        load_classifier(tmp_path, 2, seed=0)


def test_stock_models_are_fine_tuned_too(tmp_path, tokenizer):
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 16, "intermediate_size": 32, **IDS}
    neo = GPTNeoConfig(num_layers=1, num_heads=2, attention_types=[[["global"], 1]], **sizes)
    roberta = RobertaConfig(num_hidden_layers=1, num_attention_heads=2, **sizes)
    for name, model in (("neo", GPTNeoForCausalLM(neo)), ("roberta", RobertaForMaskedLM(roberta))):
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        assert load_classifier(tmp_path / name, 2, seed=0)[0].config.num_labels == 2


def separable(num_examples: int, seed: int) -> Encoded:
    """Sequences with one telling token among random ones, which a classifier must learn."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, num_examples)
    ids = [[1, *rng.integers(20, 60, rng.integers(1, 8)), 10 + label, 2] for label in labels]
    return Encoded([[int(token) for token in sequence] for sequence in ids], labels)


@pytest.mark.parametrize("family", FAMILIES)
def test_training_learns_and_is_repeatable(save_model, family):
    config = GlueConfig(learning_rate=1e-2, per_device_train_batch_size=16, num_train_epochs=4)
    outcomes = []
    for _ in range(2):
        model, _ = load_classifier(save_model(family), 2, config.seed)
        result = fine_tune(model, separable(200, 0), separable(50, 1), METRICS["accuracy"], config)
        outcomes.append((result, predict(model, separable(100, 2), 16)))
    (result, logits), (repeated, logits_again) = outcomes
    assert METRICS["accuracy"](separable(100, 2).labels, logits.argmax(1)) > 90
    assert result == repeated
    np.testing.assert_array_equal(logits, logits_again)


def test_the_best_epoch_is_kept_and_patience_stops(save_model):
    model, _ = load_classifier(save_model("gpt_neo"), 2, 0)
    script = iter([10.0, 30.0, 20.0, 15.0, 5.0, 99.0])
    weights = []

    def metric(labels: np.ndarray, predictions: np.ndarray) -> float:
        weights.append(model.score.weight.detach().clone())
        return next(script)

    config = GlueConfig(learning_rate=1e-3, num_train_epochs=6, patience=3, per_device_train_batch_size=16)
    result = fine_tune(model, separable(64, 0), separable(16, 1), metric, config)
    assert result.best_epoch == 2
    assert result.scores == (10.0, 30.0, 20.0, 15.0, 5.0)
    assert torch.equal(model.score.weight, weights[1])


def test_one_training_serves_both_parts_of_mnli(save_model, tmp_path, monkeypatch):
    rows = [{"premise": f"the dog {n}", "hypothesis": "it ran", "label": n % 3, "idx": n} for n in range(30)]
    for name in ("train", "validation_matched", "validation_mismatched"):
        write_glue(tmp_path, f"mnli.{name}", rows)
    calls = []
    monkeypatch.setattr("eval.glue.fine_tune", lambda *arguments: calls.append(arguments))
    config = EvalConfig(glue_dir=tmp_path)
    results = evaluate_tasks(save_model("roberta"), [GLUE_TASKS["mnli"], GLUE_TASKS["mnli-mm"]], config)
    assert len(calls) == 1
    assert list(results) == ["mnli", "mnli-mm"]
    train, selection = calls[0][1:3]
    assert (len(train), len(selection)) == (27, 3)
    metrics, items = results["mnli"]
    assert metrics == {"accuracy": 100 * float((items["label"] == items["prediction"]).mean())}
    assert [len(logits) for logits in items["logits"]] == [3] * 30
    assert items["idx"].tolist() == [str(n) for n in range(30)]


def test_choosing_on_the_validation_file_uses_all_of_the_training_set(save_model, monkeypatch):
    task = embedded_tasks(EvalConfig())["acceptability"]
    calls = []
    monkeypatch.setattr("eval.glue.fine_tune", lambda *arguments: calls.append(arguments))
    glue = GlueConfig(select_on="validation", max_train_examples=40, max_validation_examples=20)
    evaluate_tasks(save_model("gpt_neo"), [task], EvalConfig(glue=glue))
    assert [len(part) for part in calls[0][1:3]] == [40, 20]


def test_the_embedded_tasks_are_complete():
    tasks = embedded_tasks(EvalConfig())
    for task in tasks.values():
        for split in ("train", "validation"):
            examples = read_examples(task, split, EvalConfig())
            assert {example["label"] for example in examples} == {0, 1}
        assert task.benchmark == "embedded-glue"
    assert len(tasks) == 2
