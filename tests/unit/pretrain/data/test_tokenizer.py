"""The trained tokenizer and a loaded one."""

import hashlib
import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import AutoTokenizer, GPT2Tokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from base.errors import UsageError
from base.text.tokens import as_prompts, read_tokenizer
from pretrain.data.embedded import stories
from pretrain.data.prepare import prepare_data, tokens_fingerprint
from pretrain.data.tokenizer import encode_batch, load_tokenizer, train_tokenizer
from pretrain.resolution import load_config
from pretrain.training.dry_run import check_usable

LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(stories(300, 0)), 400)


def test_special_tokens_have_the_source_studys_ids(tokenizer):
    specials = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    assert tokenizer.convert_tokens_to_ids(specials) == [0, 1, 2, 3, len(tokenizer) - 1]
    assert len(tokenizer) == 400
    assert set(tokenizer.all_special_ids) == {0, 1, 2, 3, 399}


def test_texts_and_pairs_are_wrapped(tokenizer):
    words = tokenizer.convert_ids_to_tokens(tokenizer("a", "b")["input_ids"])
    assert words == ["<s>", "a", "</s>", "</s>", "b", "</s>"]
    assert tokenizer("")["input_ids"] == [1, 2]


def test_text_that_spells_a_special_token_is_text_and_all_else_is_encoded_as_transformers_does(tokenizer):
    spelled, *others = encode_batch(tokenizer, ["a <mask> </s> b", *stories(20, 1)])
    assert (spelled[0], spelled[-1]) == (1, 2)
    assert not set(spelled[1:-1]) & set(tokenizer.all_special_ids)
    assert tokenizer.decode(spelled[1:-1]) == "a <mask> </s> b"
    assert others == [tokenizer(text)["input_ids"] for text in stories(20, 1)]


def test_saved_tokenizer_loads_the_same(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    text = "  two  spaces\n\nand lines, naïve 猫 🐈 \x07"
    for loaded in (load_tokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path)):
        ids = loaded(text)["input_ids"]
        assert ids == tokenizer(text)["input_ids"]
        assert loaded.decode(ids, skip_special_tokens=True) == text
        assert (loaded.mask_token_id, loaded.pad_token_id) == (tokenizer.mask_token_id, 0)


def test_the_source_studys_tokenizer_loads(shared_data):
    tokenizer = load_tokenizer(shared_data / "tokenizer-10k")
    assert len(tokenizer) == 10_000
    assert (tokenizer.pad_token_id, tokenizer.mask_token_id) == (0, 9999)


def test_unusable_folders(tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        load_tokenizer(tmp_path / "no")
    with pytest.raises(UsageError, match="holds no tokenizer"):
        load_tokenizer(tmp_path)


def saved(tokenizer: PreTrainedTokenizerBase, folder: Path) -> Path:
    tokenizer.save_pretrained(folder)
    return folder


def gpt2(folder: Path, **special: str) -> Path:
    """GPT-2's tokenizer as transformers has it, of letters: one special token, and nothing around a text."""
    vocabulary = {name: number for number, name in enumerate([*LETTERS, "<|endoftext|>"])}
    return saved(GPT2Tokenizer(vocab=vocabulary, merges=[], **special), folder)


def tokens_of(tokenizer: PreTrainedTokenizerBase, *texts: str) -> list[str]:
    return list(tokenizer.convert_ids_to_tokens(tokenizer(*texts)["input_ids"]))


@pytest.mark.parametrize("load", [load_tokenizer, read_tokenizer])
def test_a_folder_without_its_vocabulary_is_refused(tmp_path, load):
    """transformers loads it without a word, and every text is ``<s></s>``."""
    settings = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<s>", "pad_token": "<pad>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UsageError, match="reads every text as nothing it knows; give a folder"):
        load(tmp_path)


@pytest.mark.parametrize("unknown", [None, "<unk>"])
def test_a_tokenizer_that_reads_none_of_the_words_is_refused(tmp_path, unknown):
    """Whether transformers is told which token is of unknown words or not."""
    backend = Tokenizer(WordLevel({"<unk>": 0, "</s>": 1, "chat": 2, "chien": 3}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    words = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", unk_token=unknown)
    saved(words, tmp_path / "t")
    with pytest.raises(UsageError, match=r"t: the tokenizer reads every text as (nothing it knows|<unk>)"):
        prepare_data(config_of(tmp_path, "t"))


def test_a_stock_gpt2_tokenizer_gets_what_a_causal_model_needs(tmp_path):
    stock = AutoTokenizer.from_pretrained(gpt2(tmp_path / "gpt2"))
    assert (tokens_of(stock, "ab"), stock.pad_token) == (["a", "b"], None)
    loaded = load_tokenizer(tmp_path / "gpt2")
    assert tokens_of(loaded, "ab") == ["<|endoftext|>", "a", "b", "<|endoftext|>"]
    assert (loaded.pad_token, loaded.pad_token_id, len(loaded)) == ("<pad>", 257, 258)
    assert encode_batch(loaded, ["a<pad>"])[0] == [256, *stock("a<pad>")["input_ids"], 256]
    again = load_tokenizer(saved(loaded, tmp_path / "cached"))
    assert again.backend_tokenizer.to_str() == loaded.backend_tokenizer.to_str()


def test_one_end_serves_as_the_other_and_none_as_padding(tmp_path):
    folder = gpt2(tmp_path, pad_token="<|endoftext|>")
    assert load_tokenizer(folder).pad_token == "<pad>"
    stock = AutoTokenizer.from_pretrained(folder)
    stock.bos_token = None
    assert tokens_of(load_tokenizer(saved(stock, tmp_path / "no-bos")), "a")[0] == "<|endoftext|>"
    stock.eos_token = None
    with pytest.raises(UsageError, match="has no eos_token, which ends a document; set one and save"):
        load_tokenizer(saved(stock, tmp_path / "no-ends"))


def test_a_tokenizer_that_has_everything_keeps_its_place_in_the_cache(tokenizer, tmp_path):
    """Recomputed: the cache's name holds the digest of the tokenizer as it lies in its folder."""
    saved(tokenizer, tmp_path / "whole")
    saved(as_prompts(tokenizer), tmp_path / "prompts")
    written = AutoTokenizer.from_pretrained(tmp_path / "whole").backend_tokenizer.to_str()
    digests = [
        hashlib.sha256(load_tokenizer(folder, kind).backend_tokenizer.to_str().encode()).hexdigest()
        for folder in (tmp_path / "whole", tmp_path / "prompts")
        for kind in ("causal", "masked")
    ]
    assert set(digests) == {hashlib.sha256(written.encode()).hexdigest()}
    names = [config_of(tmp_path, folder).data for folder in ("whole", "prompts")]
    assert len({tokens_fingerprint(data) for data in names}) == 1


def config_of(tmp_path: Path, folder: str, *flags: str):
    small = ["--data.num-stories", "40", "--data.block-size", "64", "--runs-dir", str(tmp_path / "runs")]
    return load_config(None, [*small, "--data.tokenizer", str(tmp_path / folder), *flags])


def test_documents_packed_with_a_gpt2_tokenizer(tmp_path, capsys):
    gpt2(tmp_path / "gpt2")
    data = prepare_data(config_of(tmp_path, "gpt2"))
    assert "258 tokens; a document is <|endoftext|> ... <|endoftext|>, rows are filled with <pad>" in (
        capsys.readouterr().out
    )
    ids = data.train.input_ids
    assert data.train.num_tokens == (ids != 257).sum()
    assert (ids == 256).sum() == 2 * data.train.num_documents


@pytest.mark.parametrize("family", ["roberta", "t5"])
def test_other_families_need_all_of_it(family, tmp_path, tokenizer):
    gpt2(tmp_path / "gpt2")
    with pytest.raises(UsageError, match="gpt2: the tokenizer has no pad_token; add it and save"):
        check_usable(config_of(tmp_path, "gpt2", "--family", family))
    same = gpt2(tmp_path / "same", pad_token="<|endoftext|>", mask_token="<mask>")
    with pytest.raises(UsageError, match="pads with its bos or eos; give it a pad_token of its own"):
        load_tokenizer(same, "masked")
    bare = gpt2(tmp_path / "bare", pad_token="<pad>", mask_token="<mask>")
    with pytest.raises(UsageError, match=r"does not wrap a text in <\|endoftext\|> \.\.\. <\|endoftext\|>"):
        load_tokenizer(bare, "span_corruption")
    saved(tokenizer, tmp_path / "whole")
    check_usable(config_of(tmp_path, "whole", "--family", family))
