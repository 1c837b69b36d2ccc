"""``train.py --eval-every``: its scores are those of ``python -m eval``, and the model stays the same."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file

from base.errors import UsageError
from eval.config import EvalConfig
from eval.evaluate import evaluate_run
from eval.zero_shot.during_training import TrainingScorer
from pretrain.resolution import load_config
from pretrain.training.training_run import train
from tests.cases import first_is_fast


def settings(tmp_path, family: str, **chosen):
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    overrides = {
        "family": family,
        "model": {"ffn": "swish", **sizes},
        "data": {"source": "embedded", "num_stories": 300, "vocab_size": 400, "block_size": 64},
        "train": {"batch_size": 32, "torch_compile": False, **chosen},
        "output": {"runs_dir": str(tmp_path), "study": "scored" if chosen else "plain"},
    }
    return load_config(None, overrides=overrides)


@pytest.mark.parametrize("family", first_is_fast(["gpt_neo", "roberta"]))
@pytest.mark.ci
def test_scores_on_the_way_are_those_of_the_command_and_change_nothing(tmp_path, family):
    scored = train(settings(tmp_path, family, eval_every=3, eval_suite="embedded-pairs"), TrainingScorer)
    plain = train(settings(tmp_path, family))
    assert scored.name == plain.name
    ours, theirs = (load_file(run / "model" / "model.safetensors") for run in (scored, plain))
    assert all(ours[name].equal(theirs[name]) for name in theirs)
    lines = [json.loads(line) for line in (scored / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "embedded-pairs" in line]
    last = lines[-1]["max_steps"]
    assert [line["step"] for line in lines] == sorted({*range(3, last + 1, 3), last})
    rows = evaluate_run(scored, EvalConfig(suites=("embedded-pairs",)), progress=False)
    assert lines[-1]["embedded-pairs"] == pytest.approx(rows["score"].mean(), abs=1e-9)
    for group, score in rows.groupby("group")["score"].mean().items():
        assert lines[-1][f"embedded-pairs/{group}"] == pytest.approx(score, abs=1e-9)


def test_a_suite_without_pairs_or_data_is_refused_before_the_first_step(tmp_path):
    with pytest.raises(UsageError, match=r"train\.eval_suite 'blimp-fst'; did you mean 'blimp-fast'"):
        train(settings(tmp_path, "gpt_neo", eval_every=3, eval_suite="blimp-fst"), TrainingScorer)
    with pytest.raises(UsageError, match="blimp-fast is not on the hub"):
        train(settings(tmp_path, "gpt_neo", eval_every=3), TrainingScorer)
