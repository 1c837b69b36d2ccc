"""The project's models for lm-eval: what they make of requests, and how they are found."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from lm_eval.api.registry import get_model

from eval.scoring.scorers import CausalScorer, MaskedScorer
from eval.zero_shot.lm_eval_tasks import CausalModel, MaskedModel
from ffn_variants import UsageError


@pytest.mark.slow
def test_suites_of_this_project_are_scored_without_lm_eval():
    """Its import takes seconds."""
    code = (
        "import sys; import eval.evaluate, eval.scoring.scorers, eval.zero_shot.during_training\n"
        "from eval.config import EvalConfig\n"
        "from eval.work_units import check_sources\n"
        "check_sources(EvalConfig(suites=('embedded-pairs',)))\n"
        "sys.exit('lm_eval' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


CASES = {"ffn-clm": (CausalModel, CausalScorer, "causal"), "ffn-mlm": (MaskedModel, MaskedScorer, "masked")}


@pytest.mark.parametrize("name", CASES)
def test_a_folder_can_be_given_instead_of_a_model(stock_model, tokenizer, tmp_path, name):
    kind, scorer, objective = CASES[name]
    assert get_model(name) is kind
    model = stock_model(objective)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    # lm-eval's command line passes its own settings too.
    loaded = kind(str(tmp_path), device="cpu", batch_size=1, max_batch_size=None)
    pairs = [("", "Anna is here."), ("Anna ", "are here."), ("", "Anna is here.")]
    scores = scorer(model, tokenizer).score_continuations(pairs)
    found = loaded.loglikelihood([SimpleNamespace(args=pair) for pair in pairs])
    assert found == list(zip(scores.log_likelihood, scores.is_greedy, strict=True))
    assert found[0] == found[2]  # what is the same ties exactly
    with pytest.raises(UsageError, match="cannot load the model"):
        kind(tmp_path / "absent")
    with pytest.raises(UsageError, match="prefixes: unknown key, did you mean prefix"):
        kind(tmp_path, prefixes="eos")
    with pytest.raises(UsageError, match="do not write any"):
        loaded.generate_until([])
