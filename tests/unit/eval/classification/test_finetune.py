"""Fine-tuning: inputs, metrics by hand, splits, training, faulty data, and rates chosen on held-out data."""

import itertools
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import yaml
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from benchmarks.fr_kan_probe import FeatureHead, as_features
from eval.classification.classifier import load_classifier, load_classifier_tokenizer, make_classifier
from eval.classification.data import hold_out, read_task_data, split
from eval.classification.example_tokens import Encoded, encode
from eval.classification.examples import flatten_multirc, read_examples
from eval.classification.find_tasks import GLUE_TASKS, embedded_tasks, find_task
from eval.classification.finetune import (
    build_scheduler,
    evaluation_interval,
    finetune,
    num_steps,
    shuffled_batches,
)
from eval.classification.heads import build_head
from eval.classification.prediction import predict
from eval.classification.score_task import METRICS, evaluate_tasks, majority_baselines, majority_scores, train
from eval.config import EvalConfig
from eval.finetuning import (
    BINARY_METRICS,
    METRIC_NAMES,
    MULTI_LABEL_METRICS,
    FinetuneConfig,
    Finetuning,
    unfit_metric,
)
from ffn_variants import FAMILIES, FFN_VARIANTS, UsageError, build_model
from pretrain.data.embedded import stories
from pretrain.data.tokenizer import train_tokenizer
from scores.head_descriptions import parse_head
from scores.store import read_baselines, write_baselines
from tests.cases import diagonal_is_fast, first_is_fast, listed

# Classification: inputs, metrics by hand, splits, training, and faulty data.
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(stories(200, 0)), 400)


@pytest.fixture(scope="module")
def save_model(tmp_path_factory, tokenizer) -> Callable:
    """Saves a tiny model that was not trained, each kind once; what it gives must be left as it is."""

    @cache
    def save(family: str, ffn: str = "gelu"):
        folder = tmp_path_factory.mktemp(f"{family}-{ffn}")
        torch.manual_seed(0)
        depth = {"num_layers" if family == "t5" else "num_hidden_layers": 1}
        depth |= {"num_heads" if family == "t5" else "num_attention_heads": 2}
        sizes = {"vocab_size": len(tokenizer), "hidden_size": 16, "intermediate_size": 32}
        model = build_model(family, ffn, max_position_embeddings=33, **sizes, **depth, **IDS)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return save


def write_glue(folder, task: str, rows: list[dict], *splits: str) -> EvalConfig:
    for part in splits or ("train", "validation"):
        (folder / f"{task}.{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return EvalConfig(glue_dir=folder, finetune=FinetuneConfig(num_train_epochs=1))


def glue_config(config: EvalConfig, **changes) -> EvalConfig:
    return config.model_copy(update={"finetune": config.finetune.model_copy(update=changes)})


def test_each_task_reports_what_babylm_reports():
    headline = {name: task.metrics[0] for name, task in GLUE_TASKS.items() if task.metrics != ("accuracy",)}
    assert headline == {"cola": "matthews_correlation", "mrpc": "f1", "qqp": "f1"}
    assert all("accuracy" in task.metrics for task in GLUE_TASKS.values())
    num_labels = {name: task.num_labels for name, task in GLUE_TASKS.items()}
    assert num_labels == {**dict.fromkeys(GLUE_TASKS, 2), "mnli": 3, "mnli-mm": 3}
    assert GLUE_TASKS["mnli"].file_name("train") == GLUE_TASKS["mnli-mm"].file_name("train")


INPUTS = yaml.safe_load(Path(__file__).with_name("inputs.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("tasks", "row", "expected"), INPUTS)
def test_inputs_are_those_of_babylm(tasks, row, expected):
    for task in tasks.split():
        assert GLUE_TASKS[task].make_input(row) == tuple(expected)


def test_tokens_are_wrapped_and_cut_as_the_tokenizer_does_it(tokenizer):
    pairs = [("the dog ran", "it " * 40), ("the dog", "it ran")]
    found = encode(tokenizer, pairs, [1, 0], 32)
    first, second = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in pairs[0])
    long = [1, *first, 2, 2, *second[: 32 - len(first) - 4], 2]
    assert found.tokens.tolist() == long + tokenizer(*pairs[1])["input_ids"]
    assert found.lengths.tolist() == [32, len(found.tokens) - 32]
    assert found.truncated.tolist() == [True, False]
    assert found.labels.tolist() == [1, 0]
    single = encode(tokenizer, [("the dog ran", None)], [0], len(first) + 2)
    assert single.tokens.tolist() == [1, *first, 2]
    assert single.truncated.tolist() == [False]


def test_examples_are_taken_in_the_order_asked_for():
    lists = [[1, 2], [3, 4, 5], [6], [7, 8, 9, 10]]
    data = Encoded.from_lists(lists, [0, 1, 0, 2], [False, True, False, False], ["a", "b", "c", "d"])
    taken = data.take([3, 0, 1, 3])
    assert taken.tokens.tolist() == [*lists[3], *lists[0], *lists[1], *lists[3]]
    assert taken.lengths.tolist() == [4, 2, 3, 4]
    assert (taken.labels.tolist(), taken.idx.tolist()) == ([2, 0, 1, 2], ["d", "a", "b", "d"])
    assert taken.truncated.tolist() == [False, False, True, False]


def test_nested_multirc_becomes_one_row_an_answer():
    first = {"idx": 1, "question": "Q1", "answers": [{"idx": 0, "text": "A", "label": 1}]}
    second = {"idx": 2, "question": "Q2", "answers": [{"text": "B", "label": 0}, {"text": "C", "label": 1}]}
    flat = flatten_multirc({"idx": 5, "passage": {"text": "P.", "questions": [first, second]}})
    found = [(row["paragraph"], row["question"], row["answer"], row["label"]) for row in flat]
    assert found == [("P.", "Q1", "A", 1), ("P.", "Q2", "B", 0), ("P.", "Q2", "C", 1)]
    assert flat[0]["idx"] == "5-1-0"
    assert flatten_multirc(flat[0]) == [flat[0]]


def test_the_real_files_are_read(shared_data):
    config = EvalConfig(glue_dir=shared_data / "glue")
    sizes = {"cola": 1019, "sst2": 508, "mrpc": 177, "qqp": 5000, "mnli": 6562, "mnli-mm": 6284}
    sizes |= {"qnli": 2286, "rte": 99, "boolq": 723, "multirc": 913, "wsc": 83}
    found = {name: read_examples(task, "validation", config) for name, task in GLUE_TASKS.items()}
    assert {name: len(examples) for name, examples in found.items()} == sizes
    assert len(read_examples(GLUE_TASKS["cola"], "train", config)) == 8164


def test_one_empty_text_of_a_pair_is_allowed_and_no_other_label(tmp_path):
    rows = [{"question1": "a?", "question2": "", "label": 0}] * 2
    assert len(read_examples(GLUE_TASKS["qqp"], "train", write_glue(tmp_path, "qqp", rows))) == 2
    config = write_glue(tmp_path, "cola", [{"sentence": "a", "label": 2}])
    with pytest.raises(UsageError, match=r"cola.train.jsonl, row 1: label 2; cola's labels are 0, 1"):
        read_examples(GLUE_TASKS["cola"], "train", config)


def test_the_held_out_part_is_disjoint_and_seeded():
    data = Encoded.from_lists([[n] for n in range(50)], np.arange(50))
    train, held_out = hold_out(data, 0.1, 12)
    assert len(held_out) == 5
    assert sorted([*train.labels, *held_out.labels]) == list(range(50))
    again, other = (hold_out(data, 0.1, seed)[1].labels.tolist() for seed in (12, 13))
    assert again == held_out.labels.tolist() != other
    assert [len(part) for part in hold_out(data.take([0, 1]), 0.9, 0)] == [1, 1]


def test_an_epoch_holds_every_example_once_in_random_batches():
    settings = Finetuning(per_device_train_batch_size=32)
    batches, again = (list(shuffled_batches(100, np.random.default_rng(1), settings)) for _ in range(2))
    assert [len(batch) for batch in batches] == [32, 32, 32, 4]
    assert sorted(np.concatenate(batches)) == list(range(100))
    np.testing.assert_array_equal(np.concatenate(batches), np.concatenate(again))
    dropped = settings.model_copy(update={"dataloader_drop_last": True})
    for count, sizes in ((100, [32, 32, 32]), (5, [5])):
        batches = shuffled_batches(count, np.random.default_rng(1), dropped)
        assert [len(batch) for batch in batches] == sizes


def test_evaluations_are_counted_as_transformers_counts_them():
    for eval_steps, expected in ((None, 25), (200, 200), (0.05, 13), (0.001, 1)):
        settings = Finetuning(eval_steps=eval_steps, per_device_train_batch_size=4)
        assert num_steps(99, settings) == 25
        assert evaluation_interval(25, settings) == expected


def test_the_cosine_of_babylm25_is_its_formula():
    settings = FinetuneConfig(preset="babylm25").resolve("rte")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=settings.learning_rate)
    scheduler = build_scheduler(optimizer, settings, 105)
    for step in range(105):
        cosine = 0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * (step - 6) / 99))
        factor = step / 6 if step < 6 else cosine
        assert scheduler.get_last_lr()[0] == pytest.approx(3e-5 * factor)
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize(("family", "ffn"), diagonal_is_fast(list(FAMILIES), list(FFN_VARIANTS)[::10]))
@pytest.mark.ci
def test_only_the_head_is_new(save_model, family, ffn):
    folder = save_model(family, ffn)
    tokenizer = load_classifier_tokenizer(folder)
    model, again = (load_classifier(folder, 2, 3, tokenizer) for _ in range(2))
    assert model.config.ffn == ffn
    assert model.config.pad_token_id == tokenizer.pad_token_id == 0
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    other = load_classifier(folder, 2, 4, tokenizer)
    both = zip(model.named_parameters(), other.parameters(), strict=True)
    changed = {name for (name, a), b in both if not torch.equal(a, b)}
    assert changed
    assert not any(name.startswith(model.base_model_prefix) for name in changed)


def test_a_folder_that_lacks_something_is_refused(save_model, tokenizer, tmp_path):
    folder = shutil.copytree(save_model("roberta"), tmp_path / "copy")
    weights = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "self.query.weight" not in name}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UsageError, match=r"1 weights are missing.*query"):
        load_classifier(folder, 2, 0, tokenizer)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    del config["pad_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match=r"no pad_token.*set tokenizer\.pad_token"):
        load_classifier_tokenizer(folder)


def separable(num_examples: int, seed: int) -> Encoded:
    """Sequences with one telling token among random ones, which a classifier must learn."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, num_examples)
    ids = [[1, *rng.integers(20, 60, rng.integers(1, 8)), 10 + label, 2] for label in labels]
    return Encoded.from_lists(ids, labels)


@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])  # T5's attention has a dropout that is no module
def test_the_weights_are_those_of_a_padded_training(save_model, tokenizer, family, error):
    """Against a plain loop over transformers' own forward pass: AdamW, clipping, linear decay."""
    data = separable(70, 3)
    steps = {"num_train_epochs": 2, "eval_steps": 99}
    settings = Finetuning(learning_rate=1e-2, per_device_train_batch_size=16, **steps)
    folder = save_model(family)
    models = [load_classifier(folder, 2, 12, tokenizer) for _ in range(2)]
    for module in [module for model in models for module in model.modules()]:
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    finetune(make_classifier(models[0]), data, data, METRICS["accuracy"], settings, 5)
    plain, generator = models[1].train(), np.random.default_rng(5)
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-2, weight_decay=0.0)
    starts = np.cumsum(data.lengths) - data.lengths
    orders = [generator.permutation(70) for _ in range(2)]
    for step, batch in enumerate(x for order in orders for x in np.array_split(order, [16, 32, 48, 64])):
        ids = torch.zeros(len(batch), 20, dtype=torch.long)
        for row, index in enumerate(batch):
            length = data.lengths[index]
            ids[row, :length] = torch.from_numpy(data.tokens[starts[index] :][:length])
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - step / 10)
        labels = torch.from_numpy(data.labels[batch])
        plain(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    for (name, found), wanted in zip(models[0].named_parameters(), plain.parameters(), strict=True):
        if not name.endswith("key.bias"):  # its gradient is zero but for rounding, which Adam magnifies
            assert error(found.detach(), wanted.detach()) < 1e-3, name


def scripted(classifier, scores: list[float], weights: list) -> Callable:
    """A metric that returns these scores one after another, and notes the weights at each evaluation."""
    script = iter(scores)

    def metric(labels: np.ndarray, predictions: np.ndarray) -> float:
        weights.append(classifier.head.layers.weight.detach().clone())
        return next(script)

    return metric


@pytest.mark.parametrize(
    ("scores", "changes", "num_evaluations", "best"),
    [
        ([10.0, 30.0, 20.0, 15.0, 5.0, 99.0], {"patience": 3}, 5, 2),
        ([10.0, 30.0, 20.0, 15.0, 5.0, 99.0], {"patience": None}, 6, 6),
        # Less than the threshold better is no reason to go on, but the best all the same.
        ([10.0, 10.05, 10.04, 99.0], {"patience": 2, "threshold": 0.001}, 3, 2),
        ([10.0, 10.2, 10.25, 10.4, 5.0, 5.0], {"patience": 2, "threshold": 0.001}, 6, 4),
        ([10.0, 30.0, 30.0, 20.0], {"patience": 2, "loss_breaks_ties": False}, 4, 2),
    ],
)
def test_the_best_weights_are_kept_and_patience_stops(
    save_model, tokenizer, scores, changes, num_evaluations, best
):
    classifier = make_classifier(load_classifier(save_model("gpt_neo"), 2, 0, tokenizer))
    weights: list = []
    epochs = {"num_train_epochs": len(scores), "per_device_train_batch_size": 16}
    settings = Finetuning(learning_rate=1e-3, **epochs).model_copy(update=changes)
    metric = scripted(classifier, scores, weights)
    result = finetune(classifier, separable(64, 0), separable(16, 1), metric, settings, 0)
    assert result.scores == scores[:num_evaluations]
    assert result.step == 4 * best
    assert torch.equal(classifier.head.layers.weight, weights[best - 1])


def test_without_an_evaluation_on_the_way_the_last_weights_stay(save_model, tokenizer):
    """As the BabyLM 2023 pipeline does where training is shorter than its 200 steps."""
    classifier = make_classifier(load_classifier(save_model("gpt_neo"), 2, 0, tokenizer))
    before = classifier.head.layers.weight.detach().clone()
    settings = Finetuning(eval_steps=200, num_train_epochs=2, per_device_train_batch_size=16)
    result = finetune(classifier, separable(64, 0), separable(16, 1), METRICS["f1"], settings, 0)
    assert (result.step, result.scores) == (8, [])
    assert not torch.equal(classifier.head.layers.weight, before)
    diverging = Finetuning(learning_rate=1e30, num_train_epochs=3, per_device_train_batch_size=16)
    with pytest.raises(UsageError, match=r"diverged before step .* lower --finetune\.learning-rate"):
        finetune(classifier, separable(64, 0), separable(16, 1), METRICS["f1"], diverging, 0)


def test_the_recipe_of_fr_kans_notebooks_is_adamw_at_one_rate_without_clipping():
    """A linear head's weights after five epochs, against the formulas in float64."""
    rng = np.random.default_rng(0)
    vectors, labels = 9 * rng.normal(size=(150, 8)).astype(np.float32), rng.integers(0, 3, 150)
    config = FinetuneConfig(preset="fr-kan", learning_rate=0.01, dtype="float32")
    torch.manual_seed(0)
    head = build_head(parse_head("linear"), 8, 3)
    weights = [parameter.detach().double().numpy() for parameter in head.parameters()]
    data = as_features(torch.from_numpy(vectors), labels)
    classifier = FeatureHead(head, dropout=0.0)
    went = finetune(classifier, data, data, METRICS["accuracy"], config.resolve("any"), 7)
    generator, moments, step = np.random.default_rng(7), [(0 * w, 0 * w) for w in weights], 0
    for batch in (part for _ in range(5) for part in np.split(generator.permutation(150), [64, 128])):
        step, x = step + 1, vectors[batch].astype(float)
        off = np.exp(x @ weights[0].T + weights[1])
        off = (off / off.sum(1, keepdims=True) - np.eye(3)[labels[batch]]) / len(batch)
        for weight, (mean, square), gradient in zip(weights, moments, (off.T @ x, off.sum(0)), strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            change = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
            weight -= 0.01 * (change + 0.01 * weight)
    assert (went.step, len(went.scores)) == (step, 1)
    for parameter, weight in zip(head.parameters(), weights, strict=True):
        np.testing.assert_allclose(parameter.detach(), weight, rtol=2e-5, atol=2e-6)


@pytest.fixture
def mnli(tmp_path) -> EvalConfig:
    rows = [{"premise": f"the dog {n}", "hypothesis": "it ran", "label": n % 3, "idx": n} for n in range(30)]
    config = write_glue(tmp_path, "mnli", rows, "train", "validation_matched", "validation_mismatched")
    return glue_config(config, per_device_train_batch_size=8, seeds=(3, 4))


def test_one_training_serves_both_parts_of_mnli_and_every_seed_is_kept(save_model, mnli):
    messages: list[str] = []
    tasks = [GLUE_TASKS["mnli"], GLUE_TASKS["mnli-mm"]]
    results = evaluate_tasks(save_model("roberta"), tasks, mnli, tell=messages.append)
    assert list(results) == ["mnli", "mnli-mm"]
    metrics, items = results["mnli"]
    by_seed = (items["label"] == items["prediction"]).groupby(items["seed"]).mean()
    assert metrics == {"accuracy": pytest.approx(100 * by_seed.mean())}
    assert by_seed.index.tolist() == [3, 4]
    assert items["idx"].tolist() == [str(n) for n in range(30)] * 2
    logits = np.stack(items["logits"])
    assert logits.shape == (60, 3)
    assert (logits[:30] != logits[30:]).any()
    # The same examples, model and training: what is predicted for the second part is what is for the first.
    np.testing.assert_array_equal(logits, np.stack(results["mnli-mm"][1]["logits"]))
    assert sum("epoch 1/1 step 1/" in message for message in messages) == 2


def test_a_file_is_tokenised_once_for_all_runs_and_seeds(save_model, tmp_path, mnli, monkeypatch):
    def logits() -> np.ndarray:
        found = evaluate_tasks(save_model("roberta"), [GLUE_TASKS["mnli"]], mnli)
        return np.stack(found["mnli"][1]["logits"])

    counted = Mock(side_effect=encode)
    monkeypatch.setattr("eval.classification.example_tokens._cache", {})
    monkeypatch.setattr("eval.classification.data.encode", counted)
    np.testing.assert_array_equal(logits(), logits())
    assert counted.call_count == 2
    rows = [{"premise": "a dog", "hypothesis": "it ran", "label": n % 3, "idx": n} for n in range(30)]
    write_glue(tmp_path, "mnli", rows, "train")
    logits()
    assert counted.call_count == 3


def test_inputs_longer_than_the_models_positions_are_cut_and_counted(save_model, tokenizer, tmp_path):
    rows = [{"sentence": "the dog ran " * (1 + n % 2 * 40), "label": n % 2, "idx": n} for n in range(20)]
    config = glue_config(write_glue(tmp_path, "cola", rows), max_length=512)
    for family, positions in (("gpt_neo", 33), ("roberta", 32)):
        _, items = evaluate_tasks(save_model(family), [GLUE_TASKS["cola"]], config)["cola"]
        assert items["truncated"].tolist() == [False, True] * 10
        data = read_task_data([GLUE_TASKS["cola"]], tokenizer, positions, config, Finetuning())
        assert data.train.lengths.max() == positions


@pytest.mark.parametrize(
    ("labels", "message"),
    [([1] * 20, "all 18 training examples have label 1"), ([1], "1 training examples are too few")],
)
def test_training_sets_that_teach_nothing_are_refused(save_model, tmp_path, mnli, labels, message):
    rows = [{"sentence": f"the dog {n}", "label": label} for n, label in enumerate(labels)]
    config = write_glue(tmp_path, "cola", rows)
    with pytest.raises(UsageError, match=message):
        evaluate_tasks(save_model("gpt_neo"), [GLUE_TASKS["cola"]], config)
    by_f1 = glue_config(mnli, metric_for_best_model="f1")
    with pytest.raises(UsageError, match="mnli: f1 is for two labels and there are 3"):
        evaluate_tasks(save_model("gpt_neo"), [GLUE_TASKS["mnli"]], by_f1)


def test_choosing_on_the_validation_file_uses_all_of_the_training_set(save_model, monkeypatch):
    task = embedded_tasks(EvalConfig())["acceptability"]
    calls = []
    monkeypatch.setattr("eval.classification.score_task.finetune", lambda *arguments: calls.append(arguments))
    glue = FinetuneConfig(select_on="validation", max_train_examples=40, max_validation_examples=20)
    evaluate_tasks(save_model("gpt_neo"), [task], EvalConfig(finetune=glue))
    assert [len(part) for part in calls[0][1:3]] == [40, 20]


def test_the_source_study_averages_are_rows(save_model, tmp_path):
    question = {"question": "who", "answer": "it"}
    rows = [{"paragraph": f"the dog {n}", "label": n % 2, **question} for n in range(30)]
    config = write_glue(tmp_path, "multirc", rows)
    glue = FinetuneConfig(preset="source-study", num_train_epochs=1)
    config = config.model_copy(update={"finetune": glue})
    metrics, items = evaluate_tasks(save_model("gpt_neo"), [GLUE_TASKS["multirc"]], config)["multirc"]
    both = items["label"].to_numpy(), items["prediction"].to_numpy()
    single = {name: METRICS[name](*both) for name in ("accuracy", "f1", "matthews_correlation")}
    mean = pytest.approx((single["f1"] + single["matthews_correlation"]) / 2)
    assert metrics == {**single, "mean_f1_matthews": mean}


def test_the_majority_baselines_are_those_that_babylm_published(shared_data, tmp_path):
    config = EvalConfig(glue_dir=shared_data / "glue")
    published = {"mrpc": ("f1", 82.0), "rte": ("accuracy", 50.5), "boolq": ("accuracy", 59.9)}
    published |= {"cola": ("matthews_correlation", 0.0), "wsc": ("accuracy", 61.4)}
    for name, (metric, score) in published.items():
        assert round(majority_baselines(GLUE_TASKS[name], config)[metric], 1) == score
    write_baselines(tmp_path, {"glue": {"rte": {"accuracy": 50.5}}})
    write_baselines(tmp_path, {"glue": {"wsc": {"accuracy": 61.4}}})
    assert read_baselines(tmp_path) == {"glue": {"rte": {"accuracy": 50.5}, "wsc": {"accuracy": 61.4}}}
    assert read_baselines(tmp_path / "absent") == {}


# Metrics of classification against their formulas, and learning rates chosen on held-out data.
# Metrics of classification against their formulas in numpy, and what constant answers score.
def f1_of(true: np.ndarray, predicted: np.ndarray) -> float:
    """2 TP / (2 TP + FP + FN) of decisions 0 and 1; 0 where there are none."""
    both, either = (true & predicted).sum(), true.sum() + predicted.sum()
    return float(2 * both / either) if either else 0.0


@pytest.fixture(params=[2, 5])
def answers(request) -> tuple[np.ndarray, np.ndarray]:
    """Labels and predictions that agree more often than by chance."""
    rng = np.random.default_rng(request.param)
    labels = rng.integers(0, request.param, 200)
    return labels, np.where(rng.random(200) < 0.6, labels, rng.integers(0, request.param, 200))


def test_shares_and_means_of_f1_are_their_formulas(answers):
    labels, predictions = answers
    each = [f1_of(labels == c, predictions == c) for c in np.unique(labels)]
    right = pytest.approx(100 * (labels == predictions).mean())
    assert set(METRICS) == set(METRIC_NAMES)
    assert METRICS["macro_f1"](labels, predictions) == pytest.approx(100 * np.mean(each))
    assert METRICS["micro_f1"](labels, predictions) == right
    assert METRICS["accuracy"](labels, predictions) == right
    if len(each) == 2:
        assert METRICS["f1"](labels, predictions) == pytest.approx(100 * each[1])


def test_agreement_beyond_chance_is_its_formula(answers):
    labels, predictions = answers
    num = labels.max() + 1
    table = np.zeros((num, num))
    np.add.at(table, (labels, predictions), 1)
    share = table / table.sum()
    chance = (share.sum(0) * share.sum(1)).sum()
    kappa = (np.trace(share) - chance) / (1 - chance)
    assert METRICS["cohen_kappa"](labels, predictions) == pytest.approx(100 * kappa)
    one_hot = [np.eye(num)[x] for x in (labels, predictions)]
    first, second = (x - x.mean(0) for x in one_hot)
    root = np.sqrt((first * first).sum() * (second * second).sum())
    correlation = (first * second).sum() / root  # R_K of Gorodkin (2004)
    assert METRICS["matthews_correlation"](labels, predictions) == pytest.approx(100 * correlation)


def test_agreement_of_one_answer_is_zero():
    ones = np.ones(4, dtype=int)
    assert METRICS["cohen_kappa"](ones, ones) == METRICS["matthews_correlation"](ones, ones) == 0
    assert METRICS["cohen_kappa"](np.array([0, 1, 0, 1]), ones) == 0


def test_with_several_labels_an_example_is_right_as_a_whole_and_f1_counts_decisions():
    rng = np.random.default_rng(0)
    labels = (rng.random((50, 4)) < (0.5, 0.3, 0.6, 0.0)).astype(np.int64)
    predictions = np.where(rng.random((50, 4)) < 0.8, labels, 1 - labels)
    predictions[:, 3] = 0
    right = (labels == predictions).all(1)
    each = [f1_of(labels[:, c] == 1, predictions[:, c] == 1) for c in range(4)]
    assert each[3] == 0
    assert METRICS["accuracy"](labels, predictions) == pytest.approx(100 * right.mean())
    assert METRICS["macro_f1"](labels, predictions) == pytest.approx(100 * np.mean(each))
    of_all = f1_of(labels == 1, predictions == 1)
    assert METRICS["micro_f1"](labels, predictions) == pytest.approx(100 * of_all)


@pytest.mark.parametrize("several", [False, True])
def test_no_constant_answer_does_better_on_the_training_set(several):
    rng = np.random.default_rng(1)
    if several:
        labels = (rng.random((60, 4)) < (0.7, 0.45, 0.2, 0.05)).astype(np.int64)
        constants = [np.array(answer) for answer in itertools.product([0, 1], repeat=4)]
        names = MULTI_LABEL_METRICS
    else:
        labels, constants = rng.choice(3, 60, p=[0.2, 0.5, 0.3]), [np.array(c) for c in range(3)]
        names = tuple(name for name in METRICS if name not in BINARY_METRICS)
    found = majority_scores(names, labels, labels)
    for name in names:
        best = max(METRICS[name](labels, np.broadcast_to(c, labels.shape)) for c in constants)
        assert found[name] == pytest.approx(best), name


@pytest.mark.parametrize(("metric", "num_labels", "several", "message"), listed(__file__, "metrics that fit"))
def test_a_metric_fits_a_task_or_says_which_do(metric, num_labels, several, message):
    reason = unfit_metric(metric, num_labels, several)
    assert reason.startswith(message) if message else reason is None


def test_constant_answers_by_hand():
    train, labels = np.array([0, 0, 0, 1]), np.array([0, 1, 1, 1, 0])
    scores = majority_scores(("accuracy", "f1", "matthews_correlation", "mean_accuracy_f1"), train, labels)
    assert list(scores.values()) == pytest.approx([40, 100 * 2 * 3 / (2 * 3 + 2), 0, (0 + 40) / 2])


# Learning rates that are chosen on held-out data, against trainings one by one.
RATES = (1e-6, 3e-3, 0.1)


@pytest.fixture
def model(save_model) -> Path:
    return save_model("gpt_neo")


@pytest.fixture
def task(tmp_path) -> str:
    """One task of two labels, told by a word."""
    for name, size in (("train", 160), ("validation", 40)):
        labels = np.random.default_rng(size).integers(0, 2, size).tolist()
        texts = [f"the dog {n % 7} saw {('rain', 'sun')[y]} {n} times" for n, y in enumerate(labels)]
        rows = [{"text": text, "label": y} for text, y in zip(texts, labels, strict=True)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {"train": "train.jsonl", "validation": "validation.jsonl"}
    path = tmp_path / "weather.yaml"
    path.write_text(yaml.safe_dump({"files": files, "text": "text", "labels": [0, 1]}))
    return str(path)


def config(task: str, head: str, **changes) -> EvalConfig:
    settings = {"num_train_epochs": 3, "held_out_fraction": 0.4, "seeds": (3, 4), "pooling": "mean"}
    finetune = FinetuneConfig(head=(head,), **settings | changes)
    return EvalConfig(suites=(), classify=(task,), finetune=finetune)


def held_out_score(model: Path, asked: EvalConfig, seed: int) -> tuple[float, float]:
    """Accuracy and minus the mean loss of one training on its held-out part, from its logits."""
    task = find_task(asked.classify[0], asked)
    settings = task.finetuning(asked.finetune)
    data = read_task_data([task], load_classifier_tokenizer(model), 32, asked, settings, seed)
    _, part = split(data, task, settings, seed)
    logits = predict(train(model, [task], asked, settings, seed).classifier, part, 64).logits.astype(float)
    loss = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(logits)), part.labels]
    return 100 * float(np.mean(logits.argmax(1) == part.labels)), -float(loss.mean())


@pytest.mark.parametrize("head", first_is_fast(["linear frozen", "linear"]))
@pytest.mark.ci
def test_the_candidate_with_the_best_held_out_part_is_reported_for_each_seed(model, task, head):
    tuned = config(task, head, head_learning_rates=RATES)
    _, items = evaluate_tasks(model, [find_task(task, tuned)], tuned)["weather"]
    for seed in (3, 4):
        ranked = []
        for rate in RATES:
            alone = config(task, head, head_learning_rate=rate, seeds=(seed,))
            ranked.append((held_out_score(model, alone, seed), f"head_learning_rate={rate:g}", alone))
        _, words, alone = max(ranked, key=lambda own: own[0])
        own = items[items["seed"] == seed]
        assert set(own["chosen"]) == {words}
        _, expected = evaluate_tasks(model, [find_task(task, alone)], alone)["weather"]
        np.testing.assert_array_equal(np.stack(own["logits"]), np.stack(expected["logits"]))
        assert "chosen" not in expected
    assert len({score for score, _, _ in ranked}) > 1


def test_a_rate_that_diverges_is_not_chosen_and_several_are_told(model, task):
    asked = config(task, "linear frozen", head_learning_rates=(1e38, 1e-3))
    _, items = evaluate_tasks(model, [find_task(task, asked)], asked)["weather"]
    assert set(items["chosen"]) == {"head_learning_rate=0.001"}
    asked = config(task, "linear frozen", head_learning_rates=(1e38, 3e38))
    with pytest.raises(UsageError, match="diverged"):
        evaluate_tasks(model, [find_task(task, asked)], asked)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preset": "babylm23", "head_learning_rates": (1e-3,)}, "part held out of the training set"),
        ({"select_on": "validation", "head_learning_rates": (1.0, 0.1)}, "set select_on to held-out"),
        ({"head_learning_rate": 1e-3, "head_learning_rates": (1e-3, 1e-2)}, "leave out one"),
        ({"head_learning_rates": (0.0,)}, "greater than 0"),
    ],
)
def test_choices_that_cannot_be_made_are_refused(given, message):
    with pytest.raises(ValidationError, match=message):
        FinetuneConfig(**given)
