"""What a classifier and a scorer read of a text does not depend on which tokenizer a causal model has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase, RobertaConfig, RobertaModel

from base.text.tokens import as_prompts
from eval.classification.classifier import load_backbone, load_classifier, load_classifier_tokenizer
from eval.classification.example_tokens import encode, tokenizer_key
from eval.classification.segments import Segmentation, encode_segments
from eval.scoring.scorers import SCORERS
from ffn_variants import build_model
from ffn_variants.models.loading import load_tokenizer
from pretrain.data.embedded import stories
from pretrain.data.tokenizer import train_tokenizer

STORIES = stories(60, 0)


@pytest.fixture(scope="module")
def wrapping() -> PreTrainedTokenizerBase:
    """Of a model of before: every text is wrapped."""
    return train_tokenizer(iter(STORIES), 300)


@pytest.fixture
def folders(wrapping, tmp_path) -> tuple[Path, Path]:
    """Where the tokenizers of a model of before and of one of now lie."""
    wrapping.save_pretrained(tmp_path / "before")
    as_prompts(wrapping).save_pretrained(tmp_path / "now")
    return tmp_path / "before", tmp_path / "now"


@pytest.mark.parametrize("is_pair", [False, True])
def test_classifiers_read_what_they_read_before(folders, is_pair):
    raw = AutoTokenizer.from_pretrained(folders[0])  # the route of before
    before, now = (load_classifier_tokenizer(folder) for folder in folders)
    # What is kept of one run serves the other.
    assert tokenizer_key(before) == tokenizer_key(now)
    texts = [(story, STORIES[-1][: 5 * n] if is_pair else None) for n, story in enumerate(STORIES)]
    labels = [0] * len(texts)
    for max_length in (512, 20):
        plain = [encode(each, texts, labels, max_length) for each in (raw, before, now)]
        assert plain[0].tokens[[0, -1]].tolist() == [raw.bos_token_id, raw.eos_token_id]
        for each in plain[1:]:
            np.testing.assert_equal(vars(each), vars(plain[0]))
    for segments in ("windows", "sentences"):
        cutting = Segmentation(segments=segments, window=40, stride=8)
        cuts = [encode_segments(each, texts, labels, cutting, 512) for each in (raw, before, now)]
        assert len(cuts[0].pieces) > len(texts)
        for each in cuts[1:]:
            np.testing.assert_equal(vars(each.pieces), vars(cuts[0].pieces))
            np.testing.assert_array_equal(each.spans, cuts[0].spans)


def test_scores_of_texts_are_those_of_before(wrapping, tmp_path):
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "max_position_embeddings": 64}
    model = build_model("gpt_neo", "gelu", vocab_size=len(wrapping), **sizes)
    as_prompts(wrapping).save_pretrained(tmp_path)
    pairs = [("", story[:40]) for story in STORIES] + [(story[:30], story[30:50]) for story in STORIES]
    for preset in ("native", "lm-eval", "babylm23", "babylm25"):
        scorers = [SCORERS["causal"](model, each, preset) for each in (wrapping, load_tokenizer(tmp_path))]
        before, now = (scorer.score_continuations(pairs) for scorer in scorers)
        np.testing.assert_array_equal(before.log_likelihood, now.log_likelihood)
        before, now = (scorer.score_documents(STORIES[:3]) for scorer in scorers)
        assert before == now


@pytest.mark.parametrize("own", [0, 1])
def test_a_roberta_keeps_the_positions_that_it_was_trained_with(wrapping, tmp_path, own):
    """A tokenizer beside it that pads with another token than its config names moves none of them."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = RobertaConfig(
        vocab_size=len(wrapping), max_position_embeddings=32, pad_token_id=own, initializer_range=0.5, **sizes
    )
    saved = RobertaModel(config).eval()
    saved.save_pretrained(tmp_path)
    wrapping.save_pretrained(tmp_path)
    tokenizer = load_classifier_tokenizer(tmp_path)
    assert tokenizer.pad_token_id == 0
    ids = torch.arange(5, 35 - 2 * own).view(2, -1)
    right = saved(ids).last_hidden_state
    for loaded in (load_backbone(tmp_path, tokenizer), load_classifier(tmp_path, 2, 0, tokenizer).base_model):
        torch.testing.assert_close(loaded.eval()(ids).last_hidden_state, right)
