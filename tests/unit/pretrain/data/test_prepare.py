"""Preparing a corpus: what is stored, what a mistake leaves behind, and the command's one line about it."""

from __future__ import annotations

import gzip
import itertools
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from base.errors import UsageError, run_cli
from pretrain.data import prepare as preparing
from pretrain.data import tokenizer as tokenizing
from pretrain.data.corpus import documents
from pretrain.data.embedded import stories
from pretrain.data.prepare import find, prepare_data
from pretrain.data.tokenizer import encode_batch, tokenise
from pretrain.resolution import load_config
from pretrain.train import main
from pretrain.training.training_run import train


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
    assert [*itertools.chain(*(tokens for tokens, _ in shards))] == [
        *itertools.chain(*tokenizer(texts)["input_ids"])
    ]
    assert [*itertools.chain(*(lengths for _, lengths in shards))] == [
        len(tokenizer(text)["input_ids"]) for text in texts
    ]
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


def test_windows_fill_rows_as_packing_all_at_once_does(tmp_path, monkeypatch):
    whole = prepare_data(config_of(tmp_path / "whole", "--data.num-stories", "800")).train
    monkeypatch.setattr(tokenizing, "SHARD_CHARACTERS", 2000)
    monkeypatch.setattr(preparing, "WINDOW_TOKENS", 10_000)
    windows = prepare_data(config_of(tmp_path / "windows", "--data.num-stories", "800")).train
    assert windows.num_tokens == whole.num_tokens
    fill, whole_fill = (split.num_tokens / split.input_ids.size for split in (windows, whole))
    assert fill > whole_fill - 0.01 > 0.97


def test_another_block_size_shares_the_tokenizer(tmp_path, capsys):
    first = prepare_data(config_of(tmp_path))
    capsys.readouterr()
    second = prepare_data(config_of(tmp_path, "--data.block-size", "32"))
    out = capsys.readouterr().out
    assert "packed 118 train documents" in out
    assert "reading" not in out
    assert second.tokenizer.get_vocab() == first.tokenizer.get_vocab()
    assert second.train.input_ids.shape[1] == second.tokenizer.model_max_length == 32
    assert second.train.num_tokens == first.train.num_tokens
    assert second.fingerprint != first.fingerprint


def test_the_summary_line_is_right(tmp_path, capsys):
    train = prepare_data(config_of(tmp_path)).train
    line = next(line for line in capsys.readouterr().out.splitlines() if "train documents," in line)
    assert line.startswith(
        f"packed 118 train documents, {train.num_tokens:,} tokens, into {len(train.input_ids):,} rows of 64 "
        f"({(train.input_ids != 0).mean():.1%} filled, "
    )


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


def test_one_text_in_every_format_gives_the_same_tokens(tmp_path):
    texts = [text.strip() for text in stories(40, 0)]
    rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "a.jsonl").write_text(rows)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    pd.DataFrame({"text": texts}).to_parquet(tmp_path / "c.parquet")
    marked = "\n<|endoftext|>\n".join(texts)
    (tmp_path / "d.txt").write_text(marked)
    (tmp_path / "e.txt.gz").write_bytes(gzip.compress(marked.replace("\n", "\r\n").encode("utf-8-sig")))
    (tmp_path / "folder").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "folder" / f"{number:03}.txt").write_text(text)
    found = []
    for name in ("a.jsonl", "b.jsonl.gz", "c.parquet", "d.txt", "e.txt.gz", "folder"):
        flags = ["--data.source", "files", "--data.train-files", str(tmp_path / name)]
        data = prepare_data(config_of(tmp_path / "runs", *flags))
        found.append([split.input_ids.tobytes() for split in (data.train, data.validation)])
    assert found == [found[0]] * 6


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


def test_one_document_longer_than_everything(tmp_path):
    long = tmp_path / "long.txt"
    long.write_text(" ".join(stories(60, 0)))
    flags = ["--data.source", "files", "--data.train-files", str(long), "--data.validation-files", str(long)]
    data = prepare_data(config_of(tmp_path / "runs", *flags))
    train = data.train
    assert train.num_documents == 1
    assert len(train.input_ids) == -(-train.num_tokens // 64) > 50
    flat = train.input_ids.reshape(-1)[: train.num_tokens]
    assert flat.tolist() == data.tokenizer(long.read_text())["input_ids"]


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


LINE = b'{"text": "Once upon a time."}\n'


def run_command(monkeypatch, runs: Path, *flags: str) -> None:
    """Call the training command as a shell would, and see it exit with status 2."""
    args = ["train.py", "--data.source", "files", "--runs-dir", str(runs), *flags]
    monkeypatch.setattr(sys, "argv", args)
    with pytest.raises(SystemExit) as exit_:
        run_cli(main)
    assert exit_.value.code == 2


def test_a_tokenizer_whose_ids_have_a_gap(tmp_path, monkeypatch, capsys):
    folder = Path(save_tokenizer(tmp_path / "tokenizer", list(range(4, 260))))
    saved = json.loads((folder / "tokenizer.json").read_text())
    saved["model"]["vocab"]["z"] = 5000
    (folder / "tokenizer.json").write_text(json.dumps(saved))
    file = tmp_path / "a.jsonl"
    file.write_bytes(LINE * 9)
    run_command(
        monkeypatch, tmp_path / "runs", "--data.train-files", str(file), "--data.tokenizer", str(folder)
    )
    assert "the tokenizer has 260 tokens but ids up to 5,000; number them" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_model_has_as_many_embeddings_as_its_tokenizer_has_tokens(tmp_path, monkeypatch, capsys):
    """There is no second number that could be smaller: vocab_size is for a tokenizer to be trained."""
    folder = save_tokenizer(tmp_path / "tokenizer", list(range(700, 956)))
    file = tmp_path / "a.jsonl"
    file.write_bytes(LINE * 40)
    flags = ["--data.train-files", str(file), "--data.tokenizer", folder]
    small = ["--model.hidden-size", "16", "--optim.max-steps", "1", "--data.vocab-size", "300"]
    quick = ["--data.block-size", "16", "--run-name", "r", "--train.no-torch-compile"]
    config = load_config(
        None, ["--data.source", "files", "--runs-dir", str(tmp_path / "runs"), *flags, *small, *quick]
    )
    saved = json.loads((train(config) / "model" / "config.json").read_text())
    assert saved["vocab_size"] == 956
    capsys.readouterr()
    run_command(monkeypatch, tmp_path / "none", *flags, "--model.vocab-size", "300")
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "unknown flag --model.vocab-size, did you mean --data.vocab-size?" in error


def test_a_bad_corpus_spares_the_cache_of_others(tmp_path, monkeypatch, capsys):
    prepare_data(config_of(tmp_path / "runs"))
    before = sorted((tmp_path / "runs").rglob("*"))
    (tmp_path / "a.jsonl").write_bytes(LINE * 500 + b"{\n")
    run_command(monkeypatch, tmp_path / "runs", "--data.train-files", str(tmp_path / "a.jsonl"))
    assert "line 501: is not JSON" in capsys.readouterr().err
    assert sorted((tmp_path / "runs").rglob("*")) == before
