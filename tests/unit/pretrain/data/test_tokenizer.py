"""The trained tokenizer and a loaded one."""

from __future__ import annotations

import pytest
from transformers import AutoTokenizer

from base.errors import UsageError
from pretrain.data.embedded import stories
from pretrain.data.tokenizer import encode_batch, load_tokenizer, train_tokenizer


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


@pytest.mark.parametrize("text", ["Once upon a time.", "  two  spaces\n\nand lines", "naïve 猫 🐈 \x07"])
def test_every_text_survives(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokenizer.unk_token_id not in ids


def test_training_is_deterministic(tokenizer):
    again = train_tokenizer(iter(stories(300, 0)), 400)
    assert again.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()


def test_text_that_spells_a_special_token_is_text(tokenizer):
    (ids,) = encode_batch(tokenizer, ["a <mask> </s> b"])
    assert ids[0] == 1
    assert ids[-1] == 2
    assert not set(ids[1:-1]) & set(tokenizer.all_special_ids)
    assert tokenizer.decode(ids[1:-1]) == "a <mask> </s> b"


def test_documents_are_encoded_as_transformers_does(tokenizer):
    texts = stories(20, 1)
    assert encode_batch(tokenizer, texts) == [tokenizer(text)["input_ids"] for text in texts]


def test_saved_tokenizer_loads_the_same(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    for loaded in (load_tokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path)):
        assert loaded("Once upon")["input_ids"] == tokenizer("Once upon")["input_ids"]
        assert loaded.mask_token_id == tokenizer.mask_token_id
        assert loaded.pad_token_id == 0


def test_the_source_studys_tokenizer_loads(shared_data):
    tokenizer = load_tokenizer(shared_data / "tokenizer-10k")
    assert len(tokenizer) == 10_000
    assert (tokenizer.pad_token_id, tokenizer.mask_token_id) == (0, 9999)


def test_unusable_folders(tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        load_tokenizer(tmp_path / "no")
    with pytest.raises(UsageError, match="holds no tokenizer") as error:
        load_tokenizer(tmp_path)
    assert "\n" not in str(error.value)
