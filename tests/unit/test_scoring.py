"""Scores against lm-eval's own models and against one sentence at a time in plain transformers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM, RobertaConfig, RobertaForMaskedLM

from eval.files import read_json_rows
from eval.lm_models import CausalScorer, MaskedScorer
from eval.scoring import (
    ScoredText,
    causal_log_likelihoods,
    num_positions,
    pseudo_log_likelihoods,
    split_head,
)
from ffn_variants import FAMILIES, FFN_VARIANTS, UsageError, build_model

PARADIGMS = ("anaphor_gender_agreement", "principle_A_case_2", "wh_vs_that_with_gap", "passive_1")
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


@pytest.fixture(scope="module")
def tokenizer(shared_data):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(shared_data / "tokenizer-10k")


@pytest.fixture(scope="module")
def sentences(shared_data) -> list[str]:
    """60 pairs of each of four paradigms, good and bad in turn; two of the four have identical pairs."""
    rows = [
        row
        for uid in PARADIGMS
        for row in read_json_rows(shared_data / "blimp" / "full" / f"{uid}.jsonl.gz", ("sentence_good",))[:60]
    ]
    return [row[side] for row in rows for side in ("sentence_good", "sentence_bad")]


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


def requests(texts: list[str], context: str = "") -> list[SimpleNamespace]:
    return [SimpleNamespace(args=(context, text)) for text in texts]


def decisions(scores: np.ndarray) -> np.ndarray:
    return np.sign(scores[0::2] - scores[1::2])


def test_causal_scores_equal_those_of_lm_eval(tokenizer, sentences):
    from lm_eval.models.huggingface import HFLM

    model = stock_causal()
    # Its prefix token is the end token unless it is told otherwise.
    reference = HFLM(
        pretrained=model,
        tokenizer=tokenizer,
        batch_size=16,
        device="cpu",
        prefix_token_id=tokenizer.bos_token_id,
    )
    expected = reference.loglikelihood(requests(sentences), disable_tqdm=True)
    found = CausalScorer(model, tokenizer).loglikelihood(requests(sentences))
    expected_scores = np.array([score for score, _ in expected])
    scores = np.array([score for score, _ in found])
    np.testing.assert_allclose(scores, expected_scores, rtol=0, atol=1e-4)
    same = scores[0::2] == scores[1::2]
    np.testing.assert_array_equal(decisions(scores)[~same], decisions(expected_scores)[~same])
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]


def test_pseudo_log_likelihoods_equal_one_sentence_at_a_time(tokenizer, sentences):
    model = stock_masked()
    chosen = sentences[::12] + sentences[1::12]
    expected = []
    for sentence in chosen:
        ids = tokenizer(sentence, return_tensors="pt")["input_ids"]
        total = 0.0
        for position in range(1, ids.shape[1] - 1):
            masked = ids.clone()
            masked[0, position] = tokenizer.mask_token_id
            with torch.no_grad():
                logits = model(input_ids=masked, attention_mask=torch.ones_like(ids)).logits[0, position]
            total += torch.log_softmax(logits.double(), -1)[ids[0, position]].item()
        expected.append(total)
    scores = [score for score, _ in MaskedScorer(model, tokenizer).loglikelihood(requests(chosen))]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("ffn", FFN_VARIANTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_of_every_variant_equal_a_plain_forward_pass(family, ffn):
    torch.manual_seed(1)
    layers = "num_layers" if family == "gpt_neo" else "num_hidden_layers"
    heads = "num_heads" if family == "gpt_neo" else "num_attention_heads"
    model = build_model(
        family, ffn, vocab_size=50, hidden_size=8, intermediate_size=16, max_position_embeddings=20,
        **{layers: 2, heads: 2}, **IDS,
    ).eval()  # fmt: skip
    rng = np.random.default_rng(0)
    texts = [
        ScoredText(ids := [1, *rng.integers(5, 49, length).tolist(), 2], 1 + length // 3, len(ids) - 1)
        for length in (1, 2, 3, 5, 5, 8)
    ]
    if family == "gpt_neo":
        found = causal_log_likelihoods(model, texts, batch_tokens=12)
    else:
        found = pseudo_log_likelihoods(model, texts, mask_token_id=49, batch_tokens=12)
    for index, text in enumerate(texts):
        ids = torch.tensor([text.input_ids])
        total = 0.0
        for position in range(text.start, text.end):
            seen = ids.clone()
            seen[0, position] = ids[0, position] if family == "gpt_neo" else 49
            with torch.no_grad():
                logits = model(input_ids=seen).logits[0, position - (family == "gpt_neo")]
            total += torch.log_softmax(logits.double(), -1)[ids[0, position]].item()
        assert found.log_likelihood[index] == pytest.approx(total, abs=1e-4)


def test_batch_size_and_company_change_no_score(tokenizer, sentences):
    for scorer in (CausalScorer(stock_causal(), tokenizer), MaskedScorer(stock_masked(), tokenizer)):
        texts = scorer.encode([("", sentence) for sentence in sentences[:40]])
        scorer.batch_tokens = 1
        alone = scorer.score(texts).log_likelihood
        scorer.batch_tokens = 4096
        together = scorer.score(texts[::-1]).log_likelihood[::-1]
        np.testing.assert_allclose(alone, together, rtol=0, atol=1e-4)


def test_identical_sentences_tie_exactly(tokenizer):
    for scorer in (CausalScorer(stock_causal(), tokenizer), MaskedScorer(stock_masked(), tokenizer)):
        same = "Some boys think that Anna is here."
        (first, _), _, (second, _) = scorer.loglikelihood(requests([same, "Anna is here.", same]))
        assert first == second


def test_a_context_is_read_and_not_scored(tokenizer):
    for scorer in (CausalScorer(stock_causal(), tokenizer), MaskedScorer(stock_masked(), tokenizer)):
        with_context = scorer.encode([("Anna ", "is here.")])[0]
        assert with_context.input_ids[0] == 1
        scored = tokenizer.decode(with_context.input_ids[with_context.start : with_context.end])
        assert scored == " is here."


def test_greedy_marks_the_first_choice(tokenizer):
    model = stock_causal()
    with torch.no_grad():
        best = model(input_ids=torch.tensor([[1]])).logits[0, -1].argmax().item()
    other = (best + 1) % 10_000
    scores = causal_log_likelihoods(model, [ScoredText([1, best], 1, 2), ScoredText([1, other], 1, 2)])
    assert scores.is_greedy.tolist() == [True, False]


def test_a_head_that_is_not_all_of_the_rest_is_not_used_alone():
    class Scaled(GPTNeoForCausalLM):
        def forward(self, **inputs):
            output = super().forward(**inputs)
            output.logits = output.logits / 2
            return output

    config = GPTNeoConfig(
        vocab_size=50, hidden_size=8, num_layers=1, num_heads=1, intermediate_size=8,
        max_position_embeddings=16, attention_types=[[["global"], 1]], initializer_range=0.5,
    )  # fmt: skip
    model = Scaled(config).eval()
    ids = torch.tensor([[1, 4, 9]])
    backbone, head = split_head(model)
    torch.testing.assert_close(head(backbone(ids)), model(input_ids=ids).logits)
    assert isinstance(head, torch.nn.Identity)


def test_num_positions_counts_what_can_be_read():
    assert num_positions(stock_causal()) == 64
    model = stock_masked()
    assert num_positions(model) == 64
    model(input_ids=torch.ones(1, 64, dtype=torch.long))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.ones(1, 65, dtype=torch.long))


def test_what_cannot_be_scored_is_a_clear_error(tokenizer):
    scorer = CausalScorer(stock_causal(), tokenizer)
    with pytest.raises(UsageError, match="no token"):
        scorer.loglikelihood(requests([""]))
    with pytest.raises(UsageError, match="101 tokens does not fit the model's 64 positions"):
        scorer.loglikelihood(requests([" cat" * 100]))
    with pytest.raises(UsageError, match="does not write"):
        scorer.generate_until([])
    with pytest.raises(UsageError, match="rolling"):
        scorer.loglikelihood_rolling([])


def test_the_models_are_registered_with_lm_eval():
    from lm_eval.api.registry import get_model

    assert get_model("ffn-clm") is CausalScorer
    assert get_model("ffn-mlm") is MaskedScorer


def test_a_folder_can_be_given_instead_of_a_model(tokenizer, tmp_path):
    for scorer, model in ((CausalScorer, stock_causal()), (MaskedScorer, stock_masked())):
        folder = tmp_path / scorer.__name__
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        # lm-eval's command line passes its own settings too.
        loaded = scorer(str(folder), device="cpu", batch_size=1, max_batch_size=None)
        texts = requests(["Anna is here.", "Anna are here."])
        assert loaded.loglikelihood(texts) == scorer(model, tokenizer).loglikelihood(texts)
    with pytest.raises(UsageError, match="cannot load the model"):
        CausalScorer(tmp_path / "absent")
