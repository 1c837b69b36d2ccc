"""Scores against stock transformers one text at a time, and the trees that share prefixes."""

import copy
import random
import warnings

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
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
)

from eval.memory import Budget
from eval.scoring.causal import PrefixTrees, build_prefix_trees, longest_tree, shared_causal_scores
from eval.scoring.log_likelihood import (
    causal_log_likelihoods,
    num_positions,
    pseudo_log_likelihoods,
    span_log_likelihoods,
)
from eval.scoring.scorers import SpanScorer
from eval.scoring.text_batches import ScoredText, Scores
from ffn_variants import FFN_VARIANTS, UsageError, build_model
from pretrain.data.embedded.stories import stories
from pretrain.data.tokenizer import add_sentinels, train_tokenizer
from tests.cases import diagonal_is_fast
from tests.references import assert_same_scores

# Scores against lm-eval's own model, and against stock transformers one text at a time.
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
MASK = 9999
# Of activations, which see one number at a time, the usual one.
BLOCKS = ["gelu", *(name for name, spec in FFN_VARIANTS.items() if spec.kind == "block")]
TINY = {"vocab_size": 10_000, "hidden_size": 64, "intermediate_size": 128, "initializer_range": 0.2, **IDS}
CAUSAL = {"num_layers": 2, "num_heads": 2, "max_position_embeddings": 64, "window_size": 24}
MASKED = {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 65}


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


@pytest.mark.parametrize("attention", ["eager", "sdpa", "stock"])
def test_every_attention_of_gpt_neo_sees_the_prefix_only(stock_model, attention):
    torch.manual_seed(0)
    if attention == "stock":
        model = stock_model("causal", 60, 48)
    else:
        sizes = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 16, "initializer_range": 0.5}
        model = build_model("gpt_neo", "gelu", **sizes, **IDS, **CAUSAL).eval()
        model.set_attn_implementation(attention)
    texts = random_texts(50, 60, 40)
    assert any(len(text.input_ids) > CAUSAL["window_size"] + 1 for text in texts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = causal_log_likelihoods(model, texts)
    assert_same_scores(found, causal_one_by_one(model, texts))


def test_texts_that_cannot_be_scored_are_refused():
    model = build_model("roberta", "gelu", **{**TINY, "vocab_size": 60}, **MASKED).eval()
    with pytest.raises(ValueError, match="needs the word of every token"):
        pseudo_log_likelihoods(model, [ScoredText([1, 10, 2], 1, 2)], 59, masking="within_word_l2r")
    with pytest.raises(UsageError, match="holds the tokenizer's padding token"):
        pseudo_log_likelihoods(model, [ScoredText([1, 5, 0, 6, 7, 2], 1, 5)], 59)


@pytest.mark.parametrize("num_layers", [1, 3])
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
    if family == "roberta":
        for masking in ("original", "within_word_l2r"):
            expected = masked_one_by_one(model, texts, 59, masking)
            for batch in (7, 300, Budget(300, head_rows=3)):
                assert_same_scores(pseudo_log_likelihoods(model, texts, 59, batch, masking), expected)
        return
    expected = causal_one_by_one(model, texts)
    for batch in (7, 300, Budget(300, head_rows=3)):
        assert_same_scores(causal_log_likelihoods(model, texts, batch), expected)
    with torch.inference_mode():
        for tree_tokens in (1, 12, 1000):
            assert_same_scores(shared_causal_scores(model, texts, Budget(512), tree_tokens), expected)


@pytest.mark.parametrize(("family", "ffn"), diagonal_is_fast(["gpt_neo", "roberta", "llama"], BLOCKS))
@pytest.mark.ci
def test_scores_of_every_variant_are_those_of_single_texts(family, ffn):
    torch.manual_seed(1)
    sizes = {"vocab_size": 50, "hidden_size": 8, "intermediate_size": 16, "max_position_embeddings": 20}
    depth = {"num_hidden_layers": 2, "num_attention_heads": 2}
    model = build_model(family, ffn, **sizes, **depth, **IDS).eval()
    texts = random_texts(12, 50, 8)
    if family == "roberta":
        assert_same_scores(pseudo_log_likelihoods(model, texts, 49, 30), masked_one_by_one(model, texts, 49))
    else:
        assert_same_scores(causal_log_likelihoods(model, texts, 30), causal_one_by_one(model, texts))


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
    of_gpt2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=60, initializer_range=0.5, **of_gpt2)).eval()
    texts = random_texts(20, 60, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same_scores(pseudo_log_likelihoods(bert, texts, 59), masked_one_by_one(bert, texts, 59))
        assert_same_scores(causal_log_likelihoods(gpt2, texts), causal_one_by_one(gpt2, texts))


class Halved(GPTNeoForCausalLM):
    """A model whose head is not all that follows its backbone."""

    def forward(self, *args, **inputs):
        output = super().forward(*args, **inputs)
        output.logits = output.logits / 2
        return output


SMALL = {"vocab_size": 60, "initializer_range": 0.5}
ODD_MODELS = {
    "another head": (Halved, GPTNeoConfig, {"num_layers": 1, "attention_types": [[["global"], 1]]}),
    # Its positions are distances in the row, which a tree changes.
    "other positions": (BloomForCausalLM, BloomConfig, {"n_layer": 2, "n_head": 2}),
    "other modules": (DistilBertForMaskedLM, DistilBertConfig, {"n_layers": 2, "n_heads": 2}),
}


@pytest.mark.parametrize(
    ("name", "reason"),
    [("another head", "a score moves by"), ("other positions", "Error"), ("other modules", "AttributeError")],
)
def test_a_model_to_which_sharing_does_not_apply_is_refused(name, reason):
    torch.manual_seed(0)
    kind, configure, depth = ODD_MODELS[name]
    model = kind(configure.from_dict({"hidden_size": 16, "num_heads": 2, **SMALL, **depth})).eval()
    is_masked = name == "other modules"
    score, mask = (pseudo_log_likelihoods, (59,)) if is_masked else (causal_log_likelihoods, ())
    with pytest.raises(UsageError, match=f"{kind.__name__} cannot be scored with what.*{reason}"):
        score(model, random_texts(15, 60, 10), *mask)


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
    is_causal = family == "gpt_neo"
    model = build_model(family, "gelu", **TINY, **(CAUSAL if is_causal else MASKED)).eval()
    texts = random_texts(10, 10_000, 10)
    exact, rounded = (
        (causal_log_likelihoods(each, texts) if is_causal else pseudo_log_likelihoods(each, texts, MASK))
        for each in (model, copy.deepcopy(model).to(torch.bfloat16))
    )
    assert 0 < np.abs(rounded.log_likelihood - exact.log_likelihood).max() < 1
    # In a softmax in bf16 all scores of one token would be multiples of 1/32.
    parts = rounded.log_likelihood * 32
    assert (np.abs(parts - np.round(parts)) > 1e-3).any()


def test_num_positions_counts_what_can_be_read():
    causal = build_model("gpt_neo", "gelu", **TINY, **CAUSAL)
    assert (num_positions(causal), longest_tree(causal)) == (64, 24)
    masked = build_model("roberta", "gelu", **TINY, **MASKED)
    assert num_positions(masked) == 64
    masked(input_ids=torch.ones(1, 64, dtype=torch.long))
    with pytest.raises((IndexError, RuntimeError)):
        masked(input_ids=torch.ones(1, 65, dtype=torch.long))


# Scores of encoder-decoders against transformers' own forward pass with labels, one text at a time.
SENTINEL = 58
SIZES = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, **IDS}


def span_texts(num_texts: int, longest: int = 12) -> list[ScoredText]:
    """``<s>``, a context for some, the scored part, and ``</s>``; some texts stand there twice."""
    rng = random.Random(0)
    texts = []
    for _ in range(num_texts):
        ids = [1, *(rng.randrange(3, 58) for _ in range(rng.randint(1, longest))), 2]
        start = rng.choice([1, 1, rng.randint(1, len(ids) - 2)])
        texts.append(ScoredText(ids, start, len(ids) - 1))
    return [*texts, *texts[:5]]


def one_by_one(model: PreTrainedModel, texts: list[ScoredText]) -> Scores:
    """The formula, in float64, the decoder's input made by transformers.

    The sentinel is a label too, and its probability is no part of the score.
    """
    totals, greedy = [], []
    for text in texts:
        ids = list(text.input_ids)
        read = torch.tensor([[*ids[: text.start], SENTINEL, *ids[text.end :]]])
        labels = torch.tensor([[SENTINEL, *ids[text.start : text.end]]])
        with torch.no_grad():
            logits = model(input_ids=read, labels=labels).logits[0, 1:].double()
        scored = labels[0, 1:]
        totals.append(-cross_entropy(logits, scored, reduction="sum").item())
        greedy.append(bool((logits.argmax(-1) == scored).all()))
    return Scores(np.array(totals), np.array(greedy))


# Of the variants those that are formed differently; the others differ in their FFN alone.
@pytest.mark.parametrize("ffn", ["kan", "none", "stock"])
def test_scores_are_those_of_the_formula(stock_model, ffn):
    torch.manual_seed(1)
    model = stock_model("span_corruption", 60) if ffn == "stock" else build_model("t5", ffn, **SIZES).eval()
    texts = span_texts(12)
    expected = one_by_one(model, texts)
    assert np.std(expected.log_likelihood) > 1
    for batch in (1, 300, Budget(300, head_rows=3)):
        assert_same_scores(span_log_likelihoods(model, texts, SENTINEL, batch), expected)


def test_texts_are_scored_by_the_first_sentinel():
    tokenizer = train_tokenizer(iter(stories(100, 0)), 300)
    sizes = {**SIZES, "vocab_size": len(tokenizer) + 100, "max_position_embeddings": 24}
    model = build_model("t5", "gelu", **sizes).eval()
    with pytest.raises(UsageError, match=r"the tokenizer has no <extra_id_0>, which scoring needs"):
        SpanScorer(model, tokenizer).score_continuations([("", "A dog.")])
    sentinels = add_sentinels(tokenizer)
    scorer = SpanScorer(model, tokenizer)
    found = scorer.score_continuations([("", "Tim has a dog."), ("Tim has", " a dog.")]).log_likelihood
    whole = tokenizer("Tim has a dog.")["input_ids"]
    starts = [1, 1 + len(tokenizer("Tim has", add_special_tokens=False)["input_ids"])]
    texts = [ScoredText(whole, start, len(whole) - 1) for start in starts]
    expected = span_log_likelihoods(model, texts, sentinels[0])
    np.testing.assert_allclose(found, expected.log_likelihood, rtol=1e-6)
    document = "Tim has a dog. " * 8
    (scored,) = scorer.score_documents([document])
    assert scored.num_tokens == len(tokenizer(document, add_special_tokens=False)["input_ids"]) > 24
    assert scored.log_likelihood < 0


# Trees of tokens against a plain trie of tuples.
def make_texts(seed: int, num_texts: int, longest: int) -> tuple[list[list[int]], list[int]]:
    rng = random.Random(seed)
    texts = [[0] + [rng.randrange(3) for _ in range(rng.randint(1, longest))] for _ in range(num_texts)]
    return texts, [rng.randint(1, len(text) - 1) for text in texts]


def prefixes(trees: PrefixTrees) -> list[tuple[int, ...]]:
    """For each node the tokens from its root to itself, by who encloses whom."""
    roots = np.repeat(trees.tree_start[:-1], np.diff(trees.tree_start))
    nodes = range(len(trees.token))
    ancestors = [[a for a in range(roots[n], n + 1) if trees.subtree_end[a] > n] for n in nodes]
    return [tuple(map(int, trees.token[above])) for above in ancestors]


@pytest.mark.parametrize("tree_tokens", [1, 7, 1000])
@pytest.mark.parametrize("seed", range(2))
def test_every_scored_token_hangs_below_its_own_prefix(seed, tree_tokens):
    texts, starts = make_texts(seed, 60, 8)
    trees = build_prefix_trees(texts, starts, tree_tokens, longest=40)
    found = prefixes(trees)
    np.testing.assert_array_equal(trees.depth, [len(prefix) - 1 for prefix in found])
    node_of_edge = np.repeat(trees.parent, np.diff(trees.edge_start))
    edges = zip(trees.text_of_token.tolist(), trees.edge_of_token, strict=True)
    scored = [(text, found[node_of_edge[edge]], trees.target[edge]) for text, edge in edges]
    expected = [
        (index, tuple(text[:place]), text[place])
        for index, (text, start) in enumerate(zip(texts, starts, strict=True))
        for place in range(start, len(text))
    ]
    assert sorted(scored) == sorted(expected)
    assert set(trees.edge_of_token) == set(range(len(trees.target)))


@pytest.mark.parametrize("tree_tokens", [5, 16, 50])
def test_trees_keep_their_limits_and_come_largest_first(tree_tokens):
    texts, starts = make_texts(0, 200, 12)
    trees = build_prefix_trees(texts, starts, tree_tokens, longest=20)
    sizes = np.diff(trees.tree_start)
    longest_text = max(map(len, texts)) - 1
    assert sizes.max() <= min(20, max(tree_tokens, 2 * longest_text))
    assert (np.diff(sizes) <= 0).all()
    assert sizes.sum() == len(trees.token)
