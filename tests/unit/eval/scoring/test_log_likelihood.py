"""Scores against lm-eval's own model, and against stock transformers one text at a time."""

from __future__ import annotations

import dataclasses
import random
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BloomConfig,
    BloomForCausalLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    PreTrainedModel,
    RobertaConfig,
    RobertaForMaskedLM,
)

from eval.data_files import read_rows
from eval.memory import Budget
from eval.scoring.causal import longest_tree, shared_causal_scores
from eval.scoring.log_likelihood import causal_log_likelihoods, num_positions, pseudo_log_likelihoods
from eval.scoring.text_batches import ScoredText, Scores
from ffn_variants import FFN_VARIANTS, UsageError, build_model

PARADIGMS = ("anaphor_gender_agreement", "principle_A_case_2", "wh_vs_that_with_gap", "passive_1")
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
MASK = 9999
TINY = {"vocab_size": 10_000, "hidden_size": 64, "intermediate_size": 128, "initializer_range": 0.2, **IDS}
CAUSAL = {"num_layers": 2, "num_heads": 2, "max_position_embeddings": 64, "window_size": 24}
ROTARY = {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64}
MASKED = {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 65}


@pytest.fixture(scope="module", params=[20, pytest.param(60, marks=pytest.mark.slow)], ids="{} pairs".format)
def sentences(request, shared_data) -> list[str]:
    """Pairs of each of four paradigms, good and bad in turn; two of the four have identical pairs."""
    return read_pairs(shared_data, PARADIGMS, request.param)


def read_pairs(shared_data, paradigms, count: int) -> list[str]:
    rows = [
        row
        for uid in paradigms
        for row in read_rows(shared_data / "blimp" / "full" / f"{uid}.jsonl.gz", ("sentence_good",))[:count]
    ]
    return [row[side] for row in rows for side in ("sentence_good", "sentence_bad")]


def encode(tokenizer, sentences: list[str], end: list[int]) -> list[ScoredText]:
    """``<s>`` + sentence + ``end``, with the sentence scored; a word is what white space separates."""
    texts = []
    for sentence in sentences:
        encoding = tokenizer(sentence, add_special_tokens=False)
        ids, words = encoding["input_ids"], encoding.word_ids()
        assert len(ids) == len(words)
        texts.append(ScoredText([1, *ids, *end], 1, 1 + len(ids), words=[-1, *words, *[-1] * len(end)]))
    return texts


def random_texts(num_texts: int, vocab_size: int, longest: int, seed: int = 0) -> list[ScoredText]:
    """Texts of random tokens that begin alike in many ways, each with its own scored part and words."""
    rng = random.Random(seed)
    texts = []
    for _ in range(num_texts):
        begin = rng.choice(texts).input_ids if texts and rng.random() < 0.7 else [1]
        ids = list(begin[: rng.randint(1, len(begin))])
        ids += [rng.randrange(3, vocab_size - 1) for _ in range(rng.randint(2, longest))]
        ids = ids[: longest + 2]
        start = rng.randint(1, len(ids) - 1)
        words = sorted(rng.randrange(6) for _ in ids)
        texts.append(ScoredText(ids, start, rng.randint(start + 1, len(ids)), words=words))
    return texts


def causal_one_by_one(model: PreTrainedModel, texts: list[ScoredText]) -> Scores:
    """The formula, one text at a time: the sum of log p(token | all tokens before it), in float64."""
    totals, greedy = [], []
    for text in texts:
        ids = torch.tensor([text.input_ids])
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, text.start - 1 : text.end - 1].double()
        targets = ids[0, text.start : text.end]
        totals.append(logits.log_softmax(-1)[torch.arange(len(targets)), targets].sum().item())
        greedy.append(bool((logits.argmax(-1) == targets).all()))
    return Scores(np.array(totals), np.array(greedy))


def masked_one_by_one(
    model: PreTrainedModel, texts: list[ScoredText], mask: int, masking: str = "original"
) -> Scores:
    """The formulas of Salazar et al. 2020 and Kauf and Ivanova 2023, one text at a time, in float64."""
    totals, greedy = [], []
    for text in texts:
        ids = torch.tensor([text.input_ids])
        places = list(range(text.start, text.end))
        copies = ids.repeat(len(places), 1)
        for row, place in enumerate(places):
            for other in range(place, text.end):
                same_word = text.words is not None and text.words[other] == text.words[place]
                if other == place or (masking == "within_word_l2r" and same_word):
                    copies[row, other] = mask
        with torch.no_grad():
            logits = model(input_ids=copies, attention_mask=torch.ones_like(copies)).logits
        logits = logits[torch.arange(len(places)), places].double()
        targets = ids[0, places]
        totals.append(logits.log_softmax(-1)[torch.arange(len(places)), targets].sum().item())
        greedy.append(bool((logits.argmax(-1) == targets).all()))
    return Scores(np.array(totals), np.array(greedy))


def hflm(model: PreTrainedModel, tokenizer, sentences: list[str], batch_size: int = 16) -> Scores:
    """Scores of ``<s>`` + sentence by lm-eval's own model."""
    from lm_eval.models.huggingface import HFLM

    # Its prefix token is the end token unless it is told otherwise.
    reference = HFLM(
        pretrained=model, tokenizer=tokenizer, batch_size=batch_size, device="cpu",
        prefix_token_id=tokenizer.bos_token_id,
    )  # fmt: skip
    requests = [SimpleNamespace(args=("", sentence)) for sentence in sentences]
    found = reference.loglikelihood(requests, disable_tqdm=True)
    return Scores(np.array([score for score, _ in found]), np.array([greedy for _, greedy in found]))


def assert_same(found: Scores, expected: Scores) -> None:
    """Scores within 1e-4 nats, and where texts come in pairs that differ, every decision."""
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(found.is_greedy, expected.is_greedy)


def assert_same_decisions(found: Scores, expected: Scores, sentences: list[str]) -> None:
    differ = np.array([good != bad for good, bad in zip(sentences[::2], sentences[1::2], strict=True)])
    signs = [
        np.sign(scores.log_likelihood[::2] - scores.log_likelihood[1::2]) for scores in (found, expected)
    ]
    np.testing.assert_array_equal(signs[0][differ], signs[1][differ])
    assert (signs[0][~differ] == 0).all()  # an identical pair ties exactly


def train_a_little(
    model: PreTrainedModel, texts: list[ScoredText], is_causal: bool, steps: int, mask: int = MASK
) -> None:
    """Train on the texts, so that attention has something to look at and tokens differ in probability."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    groups: dict[int, list[ScoredText]] = {}
    for text in texts:
        groups.setdefault(len(text.input_ids), []).append(text)
    sized = [group for group in groups.values() if len(group) > 4]
    for step in range(steps):
        ids = torch.tensor([text.input_ids for text in sized[step % len(sized)][:32]])
        hidden = torch.rand(ids.shape, generator=generator) < 0.3
        inputs = ids if is_causal else ids.masked_fill(hidden, mask)
        labels = ids if is_causal else ids.masked_fill(~hidden, -100)
        model(input_ids=inputs, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


@pytest.mark.parametrize("steps", [0, 12], ids=["random", "trained"])
@pytest.mark.parametrize(("family", "sizes"), [("gpt_neo", CAUSAL), ("llama", ROTARY)])
def test_causal_scores_are_those_of_lm_eval(tokenizer, sentences, family, sizes, steps):
    torch.manual_seed(0)
    model = build_model(family, "gelu", **TINY, **sizes).eval()
    texts = encode(tokenizer, sentences, [])
    train_a_little(model, texts, is_causal=True, steps=steps)
    found, expected = causal_log_likelihoods(model, texts), hflm(model, tokenizer, sentences)
    assert_same(found, expected)
    assert_same_decisions(found, expected, sentences)


@pytest.mark.parametrize("attention", ["eager", "sdpa", "stock"])
def test_every_attention_of_gpt_neo_sees_the_prefix_only(attention):
    torch.manual_seed(0)
    config = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 16, "initializer_range": 0.5, **IDS}
    if attention == "stock":
        types = [[["global", "local"], 1]]
        model: PreTrainedModel = GPTNeoForCausalLM(GPTNeoConfig(**config, **CAUSAL, attention_types=types))
    else:
        model = build_model("gpt_neo", "gelu", **config, **CAUSAL)
        model.set_attn_implementation(attention)
    model.eval()
    texts = random_texts(80, 60, 40)
    assert any(len(text.input_ids) > CAUSAL["window_size"] + 1 for text in texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = causal_log_likelihoods(model, texts)
    assert_same(found, causal_one_by_one(model, texts))


@pytest.mark.parametrize(("steps", "masking"), [(0, "original"), (12, "within_word_l2r")])
def test_pseudo_log_likelihoods_are_those_of_the_formula(tokenizer, sentences, steps, masking):
    torch.manual_seed(0)
    config = RobertaConfig(**{**TINY, "vocab_size": 601}, **MASKED, type_vocab_size=1)
    model = RobertaForMaskedLM(config).eval()
    # Tokens folded to a small vocabulary: whole logits of every copy are what takes long here.
    texts = [
        dataclasses.replace(text, input_ids=[token % 597 + 3 for token in text.input_ids])
        for text in encode(tokenizer, sentences, [2])
    ]
    train_a_little(model, texts, is_causal=False, steps=steps, mask=600)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pseudo_log_likelihoods(model, texts, 600, masking=masking)
    expected = masked_one_by_one(model, texts, 600, masking)
    assert_same(found, expected)
    assert_same_decisions(found, expected, sentences)


def test_what_follows_in_a_word_is_masked_too():
    torch.manual_seed(0)
    config = RobertaConfig(**{**TINY, "vocab_size": 60, "initializer_range": 0.5}, **MASKED)
    model = RobertaForMaskedLM(config).eval()
    text = ScoredText([1, 10, 11, 12, 2], 1, 4, words=[-1, 0, 0, 1, -1])
    apart = ScoredText([1, 10, 11, 12, 2], 1, 4, words=[-1, 0, 1, 2, -1])
    original, l2r = (pseudo_log_likelihoods(model, [text], 59, masking=m).log_likelihood[0]
                     for m in ("original", "within_word_l2r"))  # fmt: skip
    assert abs(original - l2r) > 1e-3
    assert pseudo_log_likelihoods(model, [apart], 59, masking="within_word_l2r").log_likelihood[0] == original
    with pytest.raises(ValueError, match="needs the word of every token"):
        pseudo_log_likelihoods(model, [ScoredText([1, 10, 2], 1, 2)], 59, masking="within_word_l2r")


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("family", ["gpt_neo", "roberta", "llama"])
def test_any_depth_long_texts_and_scored_parts(family, num_layers):
    torch.manual_seed(num_layers)
    sizes = {"vocab_size": 60, "hidden_size": 8, "intermediate_size": 8, "initializer_range": 0.5, **IDS}
    if family == "gpt_neo":
        depth = {"num_layers": num_layers, "num_heads": 4, "max_position_embeddings": 40, "window_size": 9}
    else:
        # Four heads of size 2: from 6 tokens on a text is too long for the first layer's shared values.
        depth = {"num_hidden_layers": num_layers, "num_attention_heads": 4, "max_position_embeddings": 40}
    model = build_model(family, "gelu", **sizes, **depth).eval()
    texts = random_texts(20, 60, 14)
    for batch_tokens in (7, 300):
        if family != "roberta":
            assert_same(causal_log_likelihoods(model, texts, batch_tokens), causal_one_by_one(model, texts))
            continue
        for masking in ("original", "within_word_l2r"):
            found = pseudo_log_likelihoods(model, texts, 59, batch_tokens, masking)
            assert_same(found, masked_one_by_one(model, texts, 59, masking))


@pytest.mark.parametrize("ffn", FFN_VARIANTS)
@pytest.mark.parametrize("family", ["gpt_neo", "roberta", "llama"])
@pytest.mark.ci
def test_scores_of_every_variant_are_those_of_single_texts(family, ffn):
    torch.manual_seed(1)
    layers, heads = (
        ("num_layers", "num_heads") if family == "gpt_neo" else ("num_hidden_layers", "num_attention_heads")
    )
    model = build_model(
        family, ffn, vocab_size=50, hidden_size=8, intermediate_size=16, max_position_embeddings=20,
        **{layers: 2, heads: 2}, **IDS,
    ).eval()  # fmt: skip
    texts = random_texts(12, 50, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if family != "roberta":
            assert_same(causal_log_likelihoods(model, texts, 30), causal_one_by_one(model, texts))
        else:
            assert_same(pseudo_log_likelihoods(model, texts, 49, 30), masked_one_by_one(model, texts, 49))


def test_batches_trees_and_company_change_no_score(tokenizer, sentences):
    torch.manual_seed(0)
    causal = build_model("gpt_neo", "gelu", **TINY, **CAUSAL).eval()
    masked = build_model("roberta", "gelu", **TINY, **MASKED).eval()
    texts = encode(tokenizer, sentences[:80], [])
    expected = causal_log_likelihoods(causal, texts, 1)
    together = causal_log_likelihoods(causal, texts[::-1], 4096)
    assert_same(Scores(together.log_likelihood[::-1], together.is_greedy[::-1]), expected)
    with torch.inference_mode():
        for tree_tokens in (1, 12, 24, 1000):
            assert_same(shared_causal_scores(causal, texts, Budget(512), tree_tokens), expected)
    alone, together = (pseudo_log_likelihoods(masked, texts, MASK, tokens) for tokens in (1, 4096))
    assert_same(alone, together)


def test_no_text_nothing_to_score_and_equal_texts():
    torch.manual_seed(0)
    causal = build_model("gpt_neo", "gelu", **{**TINY, "vocab_size": 60}, **CAUSAL).eval()
    masked = build_model("roberta", "gelu", **{**TINY, "vocab_size": 60}, **MASKED).eval()
    same, nothing = ScoredText([1, 5, 6, 7], 1, 4), ScoredText([1, 5, 6], 2, 2)
    for score in (
        lambda texts: causal_log_likelihoods(causal, texts),
        lambda texts: pseudo_log_likelihoods(masked, texts, 59),
    ):
        assert score([]).log_likelihood.shape == (0,)
        scores = score([same, nothing, ScoredText([1, 5, 6, 8], 1, 4), same])
        assert scores.log_likelihood[1] == 0
        assert scores.log_likelihood[0] == scores.log_likelihood[3] < 0


def test_greedy_marks_the_first_choice():
    torch.manual_seed(0)
    model = build_model("gpt_neo", "gelu", **TINY, **CAUSAL).eval()
    with torch.no_grad():
        best = model(input_ids=torch.tensor([[1]])).logits[0, -1].argmax().item()
    other = (best + 1) % 10_000
    scores = causal_log_likelihoods(model, [ScoredText([1, best], 1, 2), ScoredText([1, other], 1, 2)])
    assert scores.is_greedy.tolist() == [True, False]


def test_bert_and_gpt2_share_as_well():
    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 16, "initializer_range": 0.5}
    bert = BertForMaskedLM(BertConfig(**sizes, **{**MASKED, "pad_token_id": 0})).eval()
    gpt2 = GPT2LMHeadModel(
        GPT2Config(vocab_size=60, n_embd=16, n_layer=2, n_head=2, n_positions=64, initializer_range=0.5)
    ).eval()
    texts = random_texts(20, 60, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(pseudo_log_likelihoods(bert, texts, 59), masked_one_by_one(bert, texts, 59))
        assert_same(causal_log_likelihoods(gpt2, texts), causal_one_by_one(gpt2, texts))


class Halved(GPTNeoForCausalLM):
    """A model whose head is not all that follows its backbone."""

    def forward(self, **inputs):
        output = super().forward(**inputs)
        output.logits = output.logits / 2
        return output


def odd_models() -> list[tuple[PreTrainedModel, str]]:
    torch.manual_seed(0)
    neo = GPTNeoConfig(
        vocab_size=60, hidden_size=16, num_layers=1, num_heads=1, intermediate_size=16,
        max_position_embeddings=32, attention_types=[[["global"], 1]], initializer_range=0.5,
    )  # fmt: skip
    # Its positions are distances in the row, which a tree changes.
    bloom = BloomConfig(vocab_size=60, hidden_size=16, n_layer=2, n_head=2, initializer_range=0.5)
    distil = DistilBertConfig(
        vocab_size=60, dim=16, hidden_dim=16, n_layers=2, n_heads=2, initializer_range=0.5
    )
    return [
        (Halved(neo), "a score moves by"),
        (BloomForCausalLM(bloom), "Error"),
        (DistilBertForMaskedLM(distil), "AttributeError"),
    ]


@pytest.mark.parametrize("index", range(3), ids=["another head", "other positions", "other modules"])
def test_a_model_to_which_sharing_does_not_apply_is_refused(index):
    model, reason = odd_models()[index]
    model.eval()
    texts = random_texts(15, 60, 10)
    is_masked = isinstance(model, DistilBertForMaskedLM)
    score, mask = (pseudo_log_likelihoods, (59,)) if is_masked else (causal_log_likelihoods, ())
    with pytest.raises(UsageError, match=f"{type(model).__name__} cannot be scored with what.*{reason}"):
        score(model, texts, *mask)


def test_autocast_does_not_sneak_in():
    torch.manual_seed(0)
    model = build_model("gpt_neo", "gelu", **{**TINY, "vocab_size": 60}, **CAUSAL).eval()
    texts = random_texts(10, 60, 10)
    expected = causal_log_likelihoods(model, texts)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = causal_log_likelihoods(model, texts)
    np.testing.assert_array_equal(found.log_likelihood, expected.log_likelihood)


@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
def test_a_model_in_bf16_is_scored_in_bf16_with_its_softmax_in_fp32(family):
    torch.manual_seed(0)
    model = build_model(family, "gelu", **TINY, **(CAUSAL if family == "gpt_neo" else MASKED)).eval()
    texts = random_texts(10, 10_000, 10)

    def score() -> np.ndarray:
        if family == "gpt_neo":
            return causal_log_likelihoods(model, texts).log_likelihood
        return pseudo_log_likelihoods(model, texts, MASK).log_likelihood

    exact = score()
    model.to(torch.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rounded = score()
    assert 0 < np.abs(rounded - exact).max() < 1
    # In a softmax in bf16 all scores of one token would be multiples of 1/32.
    assert (np.abs(rounded * 32 - np.round(rounded * 32)) > 1e-3).any()


def test_padding_inside_a_text_is_refused():
    model = build_model("roberta", "gelu", **{**TINY, "vocab_size": 60}, **MASKED).eval()
    with pytest.raises(UsageError, match="holds the tokenizer's padding token"):
        pseudo_log_likelihoods(model, [ScoredText([1, 5, 0, 6, 7, 2], 1, 5)], 59)


def test_num_positions_counts_what_can_be_read():
    causal = build_model("gpt_neo", "gelu", **TINY, **CAUSAL)
    masked = build_model("roberta", "gelu", **TINY, **MASKED)
    assert num_positions(causal) == 64
    assert longest_tree(causal) == 24
    assert num_positions(masked) == 64
    masked(input_ids=torch.ones(1, 64, dtype=torch.long))
    with pytest.raises((IndexError, RuntimeError)):
        masked(input_ids=torch.ones(1, 65, dtype=torch.long))


@pytest.mark.slow
@pytest.mark.parametrize("steps", [0, 60], ids=["random", "trained"])
@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
def test_all_paradigms_at_the_sizes_of_the_source_study(shared_data, tokenizer, family, steps):
    """67 paradigms x 20 pairs: every decision, and scores within 1e-4."""
    paradigms = sorted(
        path.name.removesuffix(".jsonl.gz") for path in (shared_data / "blimp" / "full").glob("*.gz")
    )
    sentences = read_pairs(shared_data, paradigms, 20)
    assert len(sentences) == 67 * 20 * 2
    torch.manual_seed(0)
    model = build_model(family, "gelu").eval()
    texts = encode(tokenizer, sentences, [] if family == "gpt_neo" else [2])
    train_a_little(model, texts, family == "gpt_neo", steps)
    if family == "gpt_neo":
        found, expected = causal_log_likelihoods(model, texts), hflm(model, tokenizer, sentences)
        assert_same(found, causal_one_by_one(model, texts))
    else:
        found, expected = pseudo_log_likelihoods(model, texts, MASK), masked_one_by_one(model, texts, MASK)
    assert_same(found, expected)
    assert_same_decisions(found, expected, sentences)
