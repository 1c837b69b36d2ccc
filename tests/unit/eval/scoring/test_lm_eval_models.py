"""The project's models for lm-eval: what they make of requests, and how they are found."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM, RobertaConfig, RobertaForMaskedLM

from eval.scoring.scorers import CausalScorer, MaskedScorer
from eval.zero_shot.lm_eval_tasks import CausalModel, LMEvalModel, MaskedModel
from ffn_variants import UsageError

IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def stock_causal() -> GPTNeoForCausalLM:
    torch.manual_seed(0)
    config = GPTNeoConfig(
        vocab_size=10_000, hidden_size=64, num_layers=2, num_heads=2, intermediate_size=128,
        max_position_embeddings=64, window_size=8, attention_types=[[["global", "local"], 1]],
        initializer_range=0.2, **IDS,
    )  # fmt: skip
    return GPTNeoForCausalLM(config).eval()


def stock_masked() -> RobertaForMaskedLM:
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=10_000, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
        max_position_embeddings=65, type_vocab_size=1, initializer_range=0.2, **IDS,
    )  # fmt: skip
    return RobertaForMaskedLM(config).eval()


def texts(sentences: list[str]) -> list[tuple[str, str]]:
    return [("", sentence) for sentence in sentences]


def test_identical_sentences_tie_exactly(tokenizer):
    for scorer in (CausalScorer(stock_causal(), tokenizer), MaskedScorer(stock_masked(), tokenizer)):
        same = "Some boys think that Anna is here."
        first, _, second = scorer.score_continuations(texts([same, "Anna is here.", same])).log_likelihood
        assert first == second


def test_a_context_is_read_and_not_scored(tokenizer):
    for scorer in (CausalScorer(stock_causal(), tokenizer), MaskedScorer(stock_masked(), tokenizer)):
        with_context = scorer.encode([("Anna ", "is here.")])[0]
        assert with_context.input_ids[0] == 1
        scored = tokenizer.decode(with_context.input_ids[with_context.start : with_context.end])
        assert scored == " is here."


def test_what_cannot_be_scored_is_a_clear_error(tokenizer):
    scorer = CausalScorer(stock_causal(), tokenizer)
    with pytest.raises(UsageError, match="no token"):
        scorer.score_continuations(texts([""]))
    with pytest.raises(UsageError, match="101 tokens does not fit the model's 64 positions"):
        scorer.score_continuations(texts([" cat" * 100]))
    with pytest.raises(UsageError, match="do not write any"):
        LMEvalModel(scorer).generate_until([])


@pytest.mark.ci
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


def test_the_models_are_registered_with_lm_eval():
    from lm_eval.api.registry import get_model

    assert get_model("ffn-clm") is CausalModel
    assert get_model("ffn-mlm") is MaskedModel


def test_a_folder_can_be_given_instead_of_a_model(tokenizer, tmp_path):
    cases = ((CausalModel, CausalScorer, stock_causal()), (MaskedModel, MaskedScorer, stock_masked()))
    for kind, scorer, model in cases:
        folder = tmp_path / kind.__name__
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        # lm-eval's command line passes its own settings too.
        loaded = kind(str(folder), device="cpu", batch_size=1, max_batch_size=None)
        pairs = texts(["Anna is here.", "Anna are here."])
        scores = scorer(model, tokenizer).score_continuations(pairs)
        found = loaded.loglikelihood([SimpleNamespace(args=pair) for pair in pairs])
        assert found == list(zip(scores.log_likelihood, scores.is_greedy, strict=True))
    with pytest.raises(UsageError, match="cannot load the model"):
        CausalModel(tmp_path / "absent")
    with pytest.raises(UsageError, match="prefixes: unknown key, did you mean prefix"):
        CausalModel(tmp_path / "CausalModel", prefixes="eos")
