"""Protocols against plain re-statements of the original pipelines, and against lm-eval's own model."""

import copy
import subprocess
import sys
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch
from lm_eval.models.huggingface import HFLM
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from base.command_line import parse_flags
from base.sections import check
from eval.config import EvalConfig
from eval.data_files import read_rows
from eval.protocol import Preset, ProtocolConfig, preset_protocol
from eval.scoring.scorers import SCORERS, CausalScorer
from eval.zero_shot.lm_eval_tasks import LMEvalModel
from ffn_variants import UsageError
from pretrain.data.tokenizer import add_sentinels


# Protocols against plain re-statements of the original pipelines, and against lm-eval's own model.
@pytest.fixture(scope="module")
def tokenizer(shared_data):
    tokenizer = AutoTokenizer.from_pretrained(shared_data / "tokenizer-10k")
    add_sentinels(tokenizer)
    return tokenizer


@pytest.fixture(scope="module")
def sentences(shared_data) -> list[str]:
    """Fifteen pairs of two paradigms, good and bad in turn, and a pair of which both are the same."""
    files = sorted((shared_data / "blimp" / "full").glob("wh_vs_that_*_gap.jsonl.gz"))
    rows = [row for file in files for row in read_rows(file, ("sentence_good",))[:15]]
    return [row[side] for row in rows for side in ("sentence_good", "sentence_bad")] + ["Anna is here."] * 2


@pytest.fixture(scope="module")
def models(stock_model) -> dict[str, torch.nn.Module]:
    return {objective: stock_model(objective, 10_100) for objective in SCORERS}


def scores_of(scorer, texts: list[str]) -> np.ndarray:
    return scorer.score_continuations([("", text) for text in texts]).log_likelihood


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    """Scores, and decisions of pairs that differ; the last, of two equal texts, ties exactly."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    np.testing.assert_array_equal((found[::2] > found[1::2])[:-1], (expected[::2] > expected[1::2])[:-1])
    assert found[-1] == found[-2]


def babylm23(tokenizer, sentence: str, objective: str) -> tuple[list[int], list[int]]:
    """Tokens of the spaced sentence, behind the end token or between cls and sep; all but those count."""
    if objective == "masked":
        ids = tokenizer(f" {sentence}")["input_ids"]
        return ids, list(range(1, len(ids) - 1))
    ids = tokenizer(f" {sentence}", add_special_tokens=False)["input_ids"]
    return [tokenizer.eos_token_id, *ids], list(range(1, 1 + len(ids)))


def babylm25(tokenizer, sentence: str, objective: str) -> tuple[list[int], list[int]]:
    """All tokens that the tokenizer gives; those count that stand for a character of the sentence."""
    encoded = tokenizer(sentence, return_offsets_mapping=True)
    ends = [end for _, end in encoded["offset_mapping"]]
    return encoded["input_ids"], [place for place, end in enumerate(ends) if end > 0]


@pytest.mark.parametrize("objective", ["causal", "masked"])
@pytest.mark.parametrize("restated", [babylm23, babylm25])
def test_presets_decide_as_the_pipelines(models, tokenizer, sentences, whole_passes, objective, restated):
    model, mask = models[objective], tokenizer.mask_token_id if objective == "masked" else None
    expected = [whole_passes(model, *restated(tokenizer, text, objective), mask) for text in sentences]
    found = scores_of(SCORERS[objective](model, tokenizer, restated.__name__), sentences)
    assert_same(found, np.array(expected))


def test_the_lm_eval_preset_decides_as_lm_eval_on_its_own_kind_of_task(models, tokenizer, sentences):
    reference = HFLM(pretrained=models["causal"], tokenizer=tokenizer, batch_size=16, device="cpu")
    as_tasks_give_them = [SimpleNamespace(args=("", f" {sentence}")) for sentence in sentences]
    expected = reference.loglikelihood(as_tasks_give_them, disable_tqdm=True)
    scorer = CausalScorer(models["causal"], tokenizer, "lm-eval")
    found = LMEvalModel(scorer).loglikelihood(as_tasks_give_them)
    assert_same(np.array([s for s, _ in found]), np.array([s for s, _ in expected]))
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]


def test_contexts_and_documents_score_as_in_lm_eval_where_its_tokenizer_adds_no_end(
    models, tokenizer, sentences
):
    # With an end token behind every context, lm-eval scores continuations behind it, less their first token.
    begins = copy.deepcopy(tokenizer)
    begins.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    reference = HFLM(pretrained=models["causal"], tokenizer=begins, batch_size=1, device="cpu", max_length=64)
    scorer = LMEvalModel(CausalScorer(models["causal"], begins, "lm-eval"))
    halves = [(" ".join(s.split()[:3]), " " + " ".join(s.split()[3:])) for s in sentences[:20]]
    # A context that ends in a space, and one that has to lose its beginning.
    halves += [("Anna ", "is here."), (" cat" * 80, " dog")]
    asked = [SimpleNamespace(args=pair) for pair in halves]
    expected = [score for score, _ in reference.loglikelihood(asked, disable_tqdm=True)]
    np.testing.assert_allclose([s for s, _ in scorer.loglikelihood(asked)], expected, rtol=0, atol=1e-4)

    # lm-eval reads a document's own <s> as a token to predict; without it both score the same windows.
    begins.backend_tokenizer.post_processor = TemplateProcessing(single="$A")
    documents = [SimpleNamespace(args=(text,)) for text in (sentences[0], " ".join(sentences[:40]))]
    expected = reference.loglikelihood_rolling(documents, disable_tqdm=True)
    np.testing.assert_allclose(scorer.loglikelihood_rolling(documents), expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("objective", ["causal", "masked", "span_corruption"])
def test_each_choice_does_what_it_says(models, tokenizer, objective):
    def encoded(**changes):
        scorer = SCORERS[objective](models[objective], tokenizer, "native", **changes)
        (text,) = scorer.encode([("", "Anna is here.")])
        return list(text.input_ids), text.start, text.end

    s = tokenizer("Anna is here.", add_special_tokens=False)["input_ids"]
    spaced = tokenizer(" Anna is here.", add_special_tokens=False)["input_ids"]
    end = [] if objective == "causal" else [2]
    n = len(s)
    assert encoded() == ([1, *s, *end], 1, 1 + n)
    assert encoded(prefix="eos") == ([2, *s, *end], 1, 1 + n)
    assert encoded(prefix="none") == ([*s, *end], int(objective == "causal"), n)
    assert encoded(leading_space="one") == ([1, *spaced, *end], 1, 1 + len(spaced))
    assert encoded(end_token="scored") == ([1, *s, 2], 1, 2 + n)
    # An unscored end token tells a causal model nothing, so it is not computed.
    assert encoded(end_token="unscored") == ([1, *s, *end], 1, 1 + n)
    assert encoded(end_token="none") == ([1, *s], 1, 1 + n)


def test_a_protocol_has_a_name_and_a_record():
    assert preset_protocol("babylm23", "causal").name == "babylm23"
    changed = ProtocolConfig(preset="native", prefix="eos", masking="within_word_l2r").resolve("masked")
    assert changed.name == "native,prefix=eos,masking=within_word_l2r"
    assert changed.record() == {
        "name": "native,prefix=eos,masking=within_word_l2r", "score": "pseudo-log-likelihood",
        "objective": "masked",
        "prefix": "eos", "leading_space": "none", "end_token": "unscored", "reduction": "sum",
        "masking": "within_word_l2r", "dtype": "float32", "overflow": "error", "softmax": "float32",
        "tie": 0.5,
    }  # fmt: skip
    assert "masking" not in ProtocolConfig().resolve("causal").record()
    t5 = ProtocolConfig().resolve("span_corruption").record()
    assert (t5["score"], t5["formulation"], t5["end_token"]) == ("log-likelihood", "span", "unscored")
    assert "masking" not in t5
    assert "formulation" not in ProtocolConfig().resolve("masked").record()
    assert len({str(preset_protocol(preset, "causal").record()) for preset in get_args(Preset)}) == 4


def test_a_study_names_a_preset_or_changes_one():
    assert EvalConfig.model_validate({"protocol": "lm-eval"}).protocol.preset == "lm-eval"
    config = EvalConfig.model_validate({"protocol": {"preset": "babylm23", "prefix": "none"}})
    assert config.protocol.resolve("causal").prefix == "none"
    assert EvalConfig.model_validate(config.model_dump(mode="json")) == config


def test_flags_name_a_preset_and_single_choices():
    config = parse_flags(EvalConfig, ["--protocol", "babylm23", "--protocol.end-token", "scored"])
    protocol = config.protocol.resolve("causal")
    assert (protocol.preset, protocol.prefix, protocol.end_token) == ("babylm23", "eos", "scored")
    # The value none, which is not what stands for "the preset's".
    assert parse_flags(EvalConfig, ["--protocol.prefix", "none"]).protocol.prefix == "none"
    with pytest.raises(UsageError, match="babylm23"):
        parse_flags(EvalConfig, ["--protocol", "babylm24"])
    with pytest.raises(UsageError, match="prefix"):
        parse_flags(EvalConfig, ["--protocol.prefix", "cls"])


def test_unknown_presets_and_values_are_named(models, tokenizer):
    with pytest.raises(UsageError, match="did you mean 'babylm25'"):
        check(EvalConfig, {"protocol": "babylm2"})
    with pytest.raises(UsageError, match="did you mean 'lm-eval'"):
        CausalScorer(models["causal"], tokenizer, "lmeval")
    with pytest.raises(UsageError, match="prefix"):
        CausalScorer(models["causal"], tokenizer, prefix="start")
    with pytest.raises(UsageError, match="prefixes: unknown key, did you mean prefix"):
        CausalScorer(models["causal"], tokenizer, prefixes="eos")


# The project's models for lm-eval: what they make of requests, and how they are found.
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


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_lm_eval_is_answered_in_the_order_of_its_requests(models, tokenizer, objective):
    scorer = SCORERS[objective](models[objective], tokenizer)
    pairs = [("", "Anna is here."), ("Anna ", "are here."), ("", "Anna is here.")]
    scores = scorer.score_continuations(pairs)
    found = LMEvalModel(scorer).loglikelihood([SimpleNamespace(args=pair) for pair in pairs])
    assert found == list(zip(scores.log_likelihood, scores.is_greedy, strict=True))
    assert found[0] == found[2]  # what is the same ties exactly
    with pytest.raises(UsageError, match="do not write any"):
        LMEvalModel(scorer).generate_until([])
