"""Preparing a corpus: what is stored, what a mistake leaves behind, and the command's one line about it."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from base.errors import UsageError
from pretrain.data import prepare as preparing
from pretrain.data import tokenizer as tokenizing
from pretrain.data.corpus import documents
from pretrain.data.embedded import stories
from pretrain.data.prepare import find, prepare_data
from pretrain.data.tokenizer import encode_batch, tokenise
from pretrain.resolution import load_config


@pytest.fixture
def small_pieces(monkeypatch):
    """Shards of 2,000 characters and windows of 2,000 tokens, so that a small corpus has several of each."""
    monkeypatch.setattr(tokenizing, "SHARD_CHARACTERS", 2000)
    monkeypatch.setattr(preparing, "WINDOW_TOKENS", 2000)


def config_of(runs_dir: Path, *flags: str):
    small = ["--data.num-stories", "120", "--data.vocab-size", "300", "--data.block-size", "64"]
    return load_config(None, [*small, "--runs-dir", str(runs_dir), *flags])


def cache_of(runs_dir: Path) -> Path:
    (folder,) = (path for path in (runs_dir / ".cache").iterdir() if path.is_dir())
    return folder


def test_shards_hold_every_document_in_order(tmp_path, small_pieces):
    config = config_of(tmp_path)
    tokenizer, texts = prepare_data(config).tokenizer, list(documents(config.data, "train"))
    shards = list(tokenise(texts, tokenizer))
    assert len(shards) > 5
    documents_ids = tokenizer(texts)["input_ids"]
    assert np.concatenate([tokens for tokens, _ in shards]).tolist() == [*itertools.chain(*documents_ids)]
    assert np.concatenate([lengths for _, lengths in shards]).tolist() == [*map(len, documents_ids)]
    assert {tokens.dtype for tokens, _ in shards} == {np.dtype(np.uint16)}


def test_the_parts_of_the_held_out_text_are_every_second_document_and_share_one_cache(tmp_path, small_pieces):
    share = ("--data.validation-fraction", "0.5")
    whole = prepare_data(config_of(tmp_path, *share))
    texts = encode_batch(whole.tokenizer, list(documents(config_of(tmp_path, *share).data, "validation")))
    assert len(texts) == 60
    for first, part in enumerate(("even", "odd")):
        of_part = prepare_data(config_of(tmp_path, *share, "--data.validation-part", part))
        wanted = texts[first::2]
        ids, held_out = of_part.validation.input_ids, of_part.validation
        assert held_out.num_documents == len(wanted) == 30
        assert held_out.num_tokens == sum(map(len, wanted))
        found = Counter(ids[ids != whole.tokenizer.pad_token_id].tolist())
        assert found == Counter(itertools.chain(*wanted))
        assert np.array_equal(of_part.train.input_ids, whole.train.input_ids)
        assert of_part.fingerprint == whole.fingerprint
    assert cache_of(tmp_path)  # there is one


def test_a_part_without_a_document_is_refused(tmp_path):
    config = config_of(tmp_path, "--data.validation-part", "odd", "--data.max-validation-documents", "1")
    with pytest.raises(UsageError, match=r"validation_part odd: the held-out text has one document"):
        prepare_data(config)


def test_rows_of_all_windows_hold_every_token(tmp_path, small_pieces):
    config = config_of(tmp_path)
    data = prepare_data(config)
    tokens = [
        token for text in documents(config.data, "train") for token in data.tokenizer(text)["input_ids"]
    ]
    rows = data.train.input_ids
    assert Counter(rows[rows != 0].tolist()) == Counter(tokens)
    assert data.train.num_tokens == len(tokens) > 2 * preparing.WINDOW_TOKENS
    assert data.train.num_documents == 118
    assert (rows.shape, rows.dtype, data.train.position_ids.dtype) == ((len(rows), 64), np.uint16, np.uint16)
    assert rows.flags.c_contiguous


def test_another_block_size_shares_the_tokenizer(tmp_path, capsys):
    first = prepare_data(config_of(tmp_path))
    capsys.readouterr()
    second = prepare_data(config_of(tmp_path, "--data.block-size", "32"))
    train, out = second.train, capsys.readouterr().out
    assert out.startswith(
        f"packed 118 train documents, {train.num_tokens:,} tokens, into {len(train.input_ids):,} rows of 32 "
        f"({(train.input_ids != 0).mean():.1%} filled, "
    )
    assert second.tokenizer.get_vocab() == first.tokenizer.get_vocab()
    assert train.input_ids.shape[1] == second.tokenizer.model_max_length == 32
    assert train.num_tokens == first.train.num_tokens
    assert second.fingerprint != first.fingerprint


def test_how_files_are_shared_between_splits_is_part_of_the_cache(tmp_path):
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for name, texts in zip(files, (stories(60, 0), stories(30, 1)), strict=True):
        name.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    names = list(map(str, files))
    shares = [
        ["--data.train-files", *names],
        ["--data.train-files", names[0], "--data.validation-files", names[1]],
    ]
    sizes = []
    for flags in shares:
        data = prepare_data(config_of(tmp_path / "runs", "--data.source", "files", *flags))
        sizes.append((data.train.num_documents, data.validation.num_documents))
    assert sizes == [(89, 1), (60, 30)]


def test_the_summary_of_a_text_is_printed_once_read_and_stays_in_the_cache(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("\n".join(" ".join(text.split()) for text in stories(60, 0)))
    flags = ["--data.source", "files", "--data.train-files", str(tmp_path / "a.txt")]
    config = config_of(tmp_path / "runs", *flags, "--data.txt-split", "lines")
    before = find(config)
    data = prepare_data(config)
    assert "59 documents (one a line)" in before[0]
    assert f"found {before[0]}\n{before[1][0]}\n" in capsys.readouterr().out
    assert data.text.train == 59
    (tmp_path / "runs" / ".cache").rename(tmp_path / "runs" / "aside")
    assert find(config) == before
    (tmp_path / "runs" / "aside").rename(tmp_path / "runs" / ".cache")
    assert find(config) == before


def save_tokenizer(folder: Path, ids: list[int]) -> str:
    """A byte-level tokenizer without merges, whose 256 bytes have these ids, after four special tokens."""
    specials = {"<pad>": 0, "<s>": 1, "</s>": 2, "<mask>": 3}
    letters = dict(zip(sorted(pre_tokenizers.ByteLevel.alphabet()), ids, strict=True))
    unused = {f"unused{i}": i for i in range(4, min(ids))}
    backend = Tokenizer(models.BPE({**specials, **unused, **letters}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"}
    PreTrainedTokenizerFast(tokenizer_object=backend, **names).save_pretrained(folder)
    return str(folder)


def test_more_tokens_than_two_bytes_can_number(tmp_path):
    folder = save_tokenizer(tmp_path / "tokenizer", list(range(70_000, 70_256)))
    config = config_of(tmp_path / "runs", "--data.tokenizer", folder, "--data.num-stories", "4")
    data = prepare_data(config)
    assert data.train.input_ids.dtype == np.uint32
    assert data.train.input_ids.max() > 70_000
    start = next(documents(config.data, "train"))[:10]
    assert start in data.tokenizer.decode(data.train.input_ids.reshape(-1).tolist())


def test_a_tokenizer_whose_ids_have_a_gap(tmp_path):
    folder = Path(save_tokenizer(tmp_path / "tokenizer", list(range(4, 260))))
    saved = json.loads((folder / "tokenizer.json").read_text())
    saved["model"]["vocab"]["z"] = 5000
    (folder / "tokenizer.json").write_text(json.dumps(saved))
    config = config_of(tmp_path / "runs", "--data.tokenizer", str(folder))
    with pytest.raises(UsageError, match="the tokenizer has 260 tokens but ids up to 5,000; number them"):
        prepare_data(config)
    assert not (tmp_path / "runs").exists()


def test_a_bad_corpus_spares_the_cache_of_others(tmp_path):
    prepare_data(config_of(tmp_path / "runs"))
    before = sorted((tmp_path / "runs").rglob("*"))
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "Once upon a time."}\n' * 500 + b"{\n")
    flags = ["--data.source", "files", "--data.train-files", str(tmp_path / "a.jsonl")]
    with pytest.raises(UsageError, match="line 501: is not JSON"):
        prepare_data(config_of(tmp_path / "runs", *flags))
    assert sorted((tmp_path / "runs").rglob("*")) == before
