"""What the name of a metric says of its direction, unit and margin, and what it does not say."""

from __future__ import annotations

import pytest

from base.errors import UsageError
from scores.metrics import Declared, find_direction, find_metric, looks_like_a_loss

LOSS_NAMES = (
    *("loss", "val_loss", "validation-loss", "VAL_LOSS", "valLoss", "eval/loss", "train.loss", "loss2"),
    *("ppl", "word_ppl", "nll", "valNLL", "neg_log_likelihood", "negative-log-likelihood", "cross_entropy"),
    *("crossentropy", "xent", "error_rate", "top1_error", "wer", "cer", "mse", "rmse", "mae", "brier"),
    *("Perplexity", "wikitext/perplexity", "eval_ppl", "bpb", "val_bpb", "brier_score", "log_loss"),
    *("ece", "bits_per_char", "bpc", "Validation Loss"),
)  # fmt: skip


DOUBTFUL = (
    *("ce", "kl", "surprisal", "entropy", "neg_log_loss", "loss_reduction", "inverse_perplexity", "bpb_gain"),
    *("brier_skill_score", "accuracy_drop", "accuracy_loss"),
)
"""Names of which the direction is none that a word in them has."""


@pytest.mark.parametrize("name", DOUBTFUL)
def test_names_that_say_no_direction_ask_for_it(name: str):
    with pytest.raises(UsageError, match=f"--lower-is-better {name} or --higher-is-better {name}"):
        find_metric(name, ["score"], [30.0], Declared())


@pytest.mark.parametrize("metric", ["toxicity", "latency_ms", "ties"])
def test_a_metric_that_nobody_knows_is_not_taken_for_one_that_is_better_when_higher(metric: str):
    benchmark = "blimp" if metric == "ties" else "mine"
    with pytest.raises(UsageError, match=f"nothing says which scores of {metric} are better"):
        find_metric(benchmark, [metric], [30.0], Declared())
    for is_lower in (True, False):
        told = Declared(lower_is_better={metric: is_lower})
        assert find_direction(benchmark, metric, told) == ("lower" if is_lower else "higher")


@pytest.mark.parametrize("name", ["latency_ms", "train_time", "FID", "params", "GFLOPs", "miss_rate", "rank"])
def test_a_cost_is_not_taken_for_a_score(name: str):
    with pytest.raises(UsageError, match=f"nothing says which scores of {name} are better"):
        find_metric(name, ["score"], [30.0], Declared())


def test_losses_are_better_when_lower():
    for name in LOSS_NAMES:
        assert find_metric(name, ["score"], [3.0], Declared()).better == "lower", name
        assert find_metric("mine", [name], [3.0], Declared()).better == "lower", name
        assert find_metric(name, ["score"], [3.0], Declared(lower_is_better={name: False})).better == "higher"


def test_names_that_are_no_losses():
    for name in ("blimp", "glossary", "lossy", "bleu", "negation", "maze", "terse"):
        assert not looks_like_a_loss(name), name


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("accuracy \u2193", "lower"),
        ("accuracy \u2191", "higher"),
        ("PPL \u2191", "higher"),
        ("latency (lower is better)", "lower"),
        ("latency (higher is better)", "higher"),
    ],
)
def test_an_arrow_in_a_name_says_its_direction(name: str, better: str):
    assert find_metric(name, ["score"], [30.0], Declared()).better == better


@pytest.mark.parametrize(
    ("name", "unit", "margin"),
    [
        ("perplexity", "ratio", None),
        ("bits_per_byte", "bits per byte", 0.002),
        ("val_bpb", "bits per byte", 0.002),
        ("eval_loss", "nats", 0.02),
        ("held-out-loss", "nats", 0.02),
        ("val_loss", None, None),
    ],
)
def test_known_names_say_what_they_are(name: str, unit: str | None, margin: float | None):
    """A loss whose unit nobody said has no margin."""
    metric = find_metric(name, ["score"], [3.0, 3.1], Declared())
    assert (metric.better, metric.unit, metric.margin) == ("lower", unit, margin)


@pytest.mark.parametrize(
    ("scores", "unit", "margin"),
    [([50.0, 51.0, 501.0], "percent", 1.0), ([-3.0, -3.1], None, None), ([1500.0, 1501.0], None, None)],
)
def test_what_cannot_be_percentages_has_no_margin_of_a_point(scores: list[float], unit, margin):
    metric = find_metric("score", ["score"], scores, Declared())
    assert (metric.unit, metric.margin) == (unit, margin)
