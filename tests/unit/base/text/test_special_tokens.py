"""Special tokens around a text: of prompts and of documents, for tokenizers of all kinds."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast, RobertaTokenizer

from base.text.tokens import as_documents, as_prompts, with_ends

LETTERS = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()), 10)}
NAMES = ["<pad>", "<s>", "</s>", "<unk>", "<mask>", "<|endoftext|>"]
VOCABULARY = {**LETTERS, **{name: number for number, name in enumerate(NAMES)}}
TEXTS = ["", "a", "Once upon a time", " a <mask> b</s> c", "naïve"]


def make(post_processor=None, **special: str) -> PreTrainedTokenizerFast:
    """Letters as tokens."""
    backend = Tokenizer(models.BPE(VOCABULARY, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if post_processor is not None:
        backend.post_processor = post_processor
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def template(single: str, pair: str | None = None):
    named = [("<s>", 1), ("</s>", 2)]
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=named)


ENDS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
WRAPPING = {
    "ours": lambda: make(template("<s> $A </s>", "<s> $A </s> </s> $B </s>"), **ENDS),
    "of two": lambda: make(
        processors.Sequence([processors.ByteLevel(), template("<s> $A </s>", "<s> $A </s> $B:1 </s>:1")]),
        **ENDS,
    ),
    "roberta": lambda: RobertaTokenizer(vocab=VOCABULARY, merges=[]),
}
OTHER = {
    "gpt2": lambda: make(bos_token="<|endoftext|>", eos_token="<|endoftext|>"),
    "llama": lambda: make(template("<s> $A", "<s> $A <s> $B:1"), bos_token="<s>", eos_token="</s>"),
    "bert": lambda: make(
        template("<s> $A </s>", "<s> $A </s> $B:1 </s>:1"), cls_token="<s>", sep_token="</s>"
    ),
}


@pytest.mark.parametrize("kind", WRAPPING)
def test_a_saved_prompt_has_no_end_and_a_pair_and_a_text_are_as_before(kind, tmp_path):
    tokenizer = WRAPPING[kind]()
    before = tokenizer.backend_tokenizer.to_str()
    as_prompts(tokenizer).save_pretrained(tmp_path)
    assert tokenizer.backend_tokenizer.to_str() == before
    prompts = AutoTokenizer.from_pretrained(tmp_path)
    ended = with_ends(prompts)
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        assert prompts(text)["input_ids"] == ids[:-1]
        assert ended(text)["input_ids"] == ids
        assert prompts.decode(ids) == tokenizer.decode(ids)
    pairs = (["a b", "", "a"], ["c", "a", ""])
    cut = {"truncation": "longest_first", "max_length": 6, "return_token_type_ids": True}
    wanted = [tokenizer(*pairs, return_token_type_ids=True).data, tokenizer(TEXTS, **cut).data]
    assert [ended(*pairs, return_token_type_ids=True).data, ended(TEXTS, **cut).data] == wanted
    assert prompts(*pairs, return_token_type_ids=True).data == wanted[0]
    assert (prompts.padding_side, prompts.special_tokens_map) == ("left", tokenizer.special_tokens_map)
    assert as_prompts(prompts) is prompts
    assert with_ends(tokenizer) is tokenizer


@pytest.mark.parametrize("kind", OTHER)
def test_a_tokenizer_that_ends_no_text_in_eos_stays_as_it_is(kind):
    tokenizer = OTHER[kind]()
    assert as_prompts(tokenizer) is tokenizer
    assert with_ends(tokenizer) is tokenizer


def test_a_pair_gets_an_end_where_its_tokenizer_gave_none():
    tokenizer = make(template("<s> $A </s>"), **ENDS)
    prompts = as_prompts(tokenizer)
    assert prompts("ab")["input_ids"] == tokenizer("ab")["input_ids"][:-1]
    assert with_ends(prompts)("ab")["input_ids"] == tokenizer("ab")["input_ids"]
    assert prompts.convert_ids_to_tokens(prompts("a", "b")["input_ids"]) == [
        *("<s>", "a", "</s>", "</s>", "b", "</s>")
    ]


def test_documents_of_gpt2_stand_between_its_one_special_token(tmp_path: Path):
    documents = as_documents(OTHER["gpt2"]())
    as_prompts(documents).save_pretrained(tmp_path)
    prompts = AutoTokenizer.from_pretrained(tmp_path)
    a, b = VOCABULARY["a"], VOCABULARY["b"]
    assert documents("a")["input_ids"] == [5, a, 5]
    assert documents("a", "b")["input_ids"] == [5, a, 5, 5, b, 5]
    assert prompts("ab")["input_ids"] == [5, a, b]
    assert with_ends(prompts)("ab")["input_ids"] == [5, a, b, 5]


def test_ends_that_come_back_are_the_same_processor():
    """So tokens that are kept by a tokenizer's content serve runs of both kinds."""
    tokenizer = WRAPPING["ours"]()
    contents = [
        json.loads(t.backend_tokenizer.to_str()) for t in (tokenizer, with_ends(as_prompts(tokenizer)))
    ]
    assert contents[0]["post_processor"] == contents[1]["post_processor"]
