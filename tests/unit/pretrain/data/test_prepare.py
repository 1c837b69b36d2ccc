"""Preparing a corpus: what is stored, damage to it, and the loss of word frequencies."""

import itertools
import json
import math
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tokenizers import pre_tokenizers
from transformers import RobertaTokenizer

from base.errors import UsageError
from pretrain.data import prepare as preparing
from pretrain.data import tokenizer as tokenizing
from pretrain.data.corpus import documents
from pretrain.data.embedded import stories
from pretrain.data.packing import PackedSplit
from pretrain.data.prepare import PreparedData, cached_summary, find, prepare_data, word_frequency_loss
from pretrain.data.step_batches import BatchSource
from pretrain.data.tokenizer import encode_batch, tokenise
from pretrain.model.build import build_masker
from pretrain.resolution import load_config
from tests.cases import diagonal_is_fast


# Preparing a corpus: what is stored, what a mistake leaves behind, and the command's one line about it.
@pytest.fixture
def small_pieces(monkeypatch):
    """Shards of 2,000 characters and windows of 2,000 tokens, so that a small corpus has several of each."""
    monkeypatch.setattr(tokenizing, "SHARD_CHARACTERS", 2000)
    monkeypatch.setattr(preparing, "WINDOW_TOKENS", 2000)


def config_of(runs_dir: Path, *flags: str, num_stories: int = 120):
    small = ["--data.num-stories", f"{num_stories}", "--data.vocab-size", "300", "--data.block-size", "64"]
    return load_config(None, [*small, "--runs-dir", str(runs_dir), *flags])


def cache_of(runs_dir: Path) -> Path:
    (folder,) = (path for path in (runs_dir / ".cache").iterdir() if path.is_dir())
    return folder


def test_shards_and_rows_hold_every_document(tmp_path, small_pieces):
    config = config_of(tmp_path)
    data = prepare_data(config)
    tokenizer, texts = data.tokenizer, list(documents(config.data, "train"))
    shards = list(tokenise(texts, tokenizer))
    assert len(shards) > 5
    documents_ids = tokenizer(texts)["input_ids"]
    assert np.concatenate([tokens for tokens, _ in shards]).tolist() == [*itertools.chain(*documents_ids)]
    assert np.concatenate([lengths for _, lengths in shards]).tolist() == [*map(len, documents_ids)]
    assert {tokens.dtype for tokens, _ in shards} == {np.dtype(np.uint16)}
    rows, tokens = data.train.input_ids, [*itertools.chain(*documents_ids)]
    assert Counter(rows[rows != 0].tolist()) == Counter(tokens)
    assert data.train.num_tokens == len(tokens) > 2 * preparing.WINDOW_TOKENS
    assert data.train.num_documents == 118
    assert (rows.shape, rows.dtype, data.train.position_ids.dtype) == ((len(rows), 64), np.uint16, np.uint16)
    assert rows.flags.c_contiguous


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


def test_another_block_size_shares_the_tokenizer(tmp_path, capsys):
    first = prepare_data(config_of(tmp_path))
    capsys.readouterr()
    second = prepare_data(config_of(tmp_path, "--data.block-size", "32"))
    train, out = second.train, capsys.readouterr().out
    assert out.startswith(
        f"packed 118 train documents, {train.num_tokens:,} tokens, into {len(train.input_ids):,} rows of 32 "
        f"({(train.input_ids != 0).mean():.1%} filled)"
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
    sizes = []
    for flags in (names, [names[0], "--data.validation-files", names[1]]):
        flags = ["--data.source", "files", "--data.train-files", *flags]
        data = prepare_data(config_of(tmp_path / "runs", *flags))
        sizes.append((data.train.num_documents, data.validation.num_documents))
    assert sizes == [(89, 1), (60, 30)]


def test_the_summary_of_a_text_is_printed_once_read_and_stays_in_the_cache(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("\n".join(" ".join(text.split()) for text in stories(60, 0)))
    flags = ["--data.source", "files", "--data.train-files", str(tmp_path / "a.txt")]
    config = config_of(tmp_path / "runs", *flags, "--data.txt-split", "lines")
    before = find(config)
    data = prepare_data(config)
    assert "59 documents (one a line; otherwise: --data.txt-split)" in before[0]
    assert f"found {before[0]}\n{before[1][0]}\n" in capsys.readouterr().out
    assert data.text.train == 59
    (tmp_path / "runs" / ".cache").rename(tmp_path / "runs" / "aside")
    assert find(config) == before
    (tmp_path / "runs" / "aside").rename(tmp_path / "runs" / ".cache")
    assert find(config) == before


def test_held_out_documents_that_are_trained_on_are_told_of_a_cache_too(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text('{"text": "a short story of a dog"}\n' * 40)
    config = config_of(tmp_path, "--data.source", "files", "--data.train-files", str(tmp_path / "a.jsonl"))
    for _ in range(2):
        prepare_data(config)
        assert capsys.readouterr().out.count("note: 1 of 1 held-out documents are also trained on") == 1


def save_tokenizer(folder: Path, first: int) -> str:
    """A byte-level tokenizer without merges, whose 256 bytes have ids from this on, after special tokens."""
    names = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    names += [f"unused{number}" for number in range(len(names), first)]
    words = [*names, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {word: number for number, word in enumerate(words)}
    RobertaTokenizer(vocab=vocabulary, merges=[]).save_pretrained(folder)
    return str(folder)


def test_more_tokens_than_two_bytes_can_number(tmp_path):
    folder = save_tokenizer(tmp_path / "tokenizer", 70_000)
    config = config_of(tmp_path / "runs", "--data.tokenizer", folder, "--data.num-stories", "4")
    data = prepare_data(config)
    assert data.train.input_ids.dtype == np.uint32
    assert data.train.input_ids.max() > 70_000
    start = next(documents(config.data, "train"))[:10]
    assert start in data.tokenizer.decode(data.train.input_ids.reshape(-1).tolist())


def test_a_tokenizer_whose_ids_have_a_gap(tmp_path):
    folder = Path(save_tokenizer(tmp_path / "tokenizer", 5))
    saved = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    saved["model"]["vocab"]["z"] = 5000
    (folder / "tokenizer.json").write_text(json.dumps(saved))
    config = config_of(tmp_path / "runs", "--data.tokenizer", str(folder))
    with pytest.raises(UsageError, match="the tokenizer has 261 tokens but ids up to 5,000; number them"):
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


# Files of the cache are there whole or not at all: what is cut, gone or unfinished is made again.
ODD = ("--data.validation-part", "odd", "--data.validation-fraction", "0.1")


def odd_config(runs_dir: Path, *flags: str):
    return config_of(runs_dir, *ODD, *flags, num_stories=60)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The cache of a small corpus."""
    runs_dir = tmp_path_factory.mktemp("runs")
    prepare_data(odd_config(runs_dir))
    return runs_dir / ".cache"


@pytest.fixture
def cache(whole, tmp_path) -> Path:
    """The corpus's folder in a copy, which a test may damage."""
    shutil.copytree(whole, tmp_path / ".cache")
    (folder,) = (path for path in (tmp_path / ".cache").iterdir() if path.is_dir())
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "deleted": lambda path: path.unlink(),
}
ROWS = ["train.input_ids", "train.position_ids", "validation.input_ids", "validation.lengths"]
FILES = [
    f"rows-64/{name}" for name in (*(f"{row}.bin" for row in ROWS), "validation.tokens.bin", "summary.json")
]
FILES += ["documents.json"]


@pytest.mark.parametrize(("name", "how"), diagonal_is_fast(FILES, DAMAGES))
def test_what_a_run_reads_is_made_again(cache, tmp_path, capsys, name, how):
    before = contents(tmp_path)
    DAMAGES[how](cache / name)
    data = prepare_data(odd_config(tmp_path))
    assert "packed" in capsys.readouterr().out
    assert contents(tmp_path) == before
    assert data.train.num_tokens == int((data.train.input_ids != 0).sum())
    prepare_data(odd_config(tmp_path))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_tokenizer_is_named_with_a_cure(cache, tmp_path, how):
    DAMAGES[how](cache / "tokenizer" / "tokenizer.json")
    with pytest.raises(UsageError, match=f"remove {cache}, and the same command makes it again"):
        prepare_data(odd_config(tmp_path))


def test_nothing_is_left_of_rows_that_were_interrupted(cache, tmp_path, monkeypatch):
    before = contents(tmp_path)
    wider = odd_config(tmp_path, "--data.block-size", "128")

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(preparing, "pack", die)
        with pytest.raises(KeyboardInterrupt):
            prepare_data(wider)
    assert contents(tmp_path) == before
    killed = cache / "rows-128.partial"
    killed.mkdir()
    (killed / "train.input_ids.bin").write_bytes(b"half")
    data = prepare_data(wider)
    assert data.train.num_tokens == int((data.train.input_ids != 0).sum())
    assert not killed.exists()


def test_several_that_meet_damage_at_once_name_it_and_make_it_once(cache, tmp_path, capsys):
    DAMAGES["cut"](cache / "rows-64" / "train.input_ids.bin")
    threads = [threading.Thread(target=prepare_data, args=[odd_config(tmp_path)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    out, err = capsys.readouterr()
    assert out.count("train documents,") == 1
    assert err == f"note: {cache / 'rows-64'} is damaged; made again\n"


def test_a_disk_that_cuts_all_it_is_given_ends_in_one_line(cache, tmp_path, monkeypatch):
    DAMAGES["cut"](cache / "rows-64" / "train.input_ids.bin")
    replace = os.replace

    def damage(aside: Path, path: Path) -> None:
        if (aside / "train.input_ids.bin").is_file():
            DAMAGES["cut"](aside / "train.input_ids.bin")
        replace(aside, path)

    monkeypatch.setattr("pretrain.data.prepare.os.replace", damage)
    with pytest.raises(UsageError, match="was written and cannot be read; check the disk"):
        prepare_data(odd_config(tmp_path))


def test_reading_the_sizes_changes_nothing(cache, tmp_path):
    config = odd_config(tmp_path)
    num_rows = len(np.fromfile(cache / "rows-64/train.input_ids.bin", np.uint16)) / 64
    summary = cached_summary(config)
    assert summary is not None
    assert summary["train"]["num_rows"] == num_rows
    (cache / "rows-64" / "summary.json").write_text("{")
    before = contents(tmp_path)
    assert cached_summary(config) is None
    assert contents(tmp_path) == before


# The loss of a model that knows only how frequent tokens are, against plain counting of real targets.
def targets(config, data: PreparedData, split: PackedSplit) -> list[int]:
    """The targets of a split as the training cuts them."""
    source = BatchSource(config, build_masker(config, data.tokenizer), int(data.tokenizer.pad_token_id))
    return [token for batch in source.held_out(split) for token in batch["target_ids"].tolist()]


def counted_loss(seen: list[int], asked: list[int], vocab_size: int) -> float:
    """The loss of add-one frequencies, one token at a time."""
    counts = Counter(seen)
    return -math.fsum(math.log((counts[t] + 1) / (len(seen) + vocab_size)) for t in asked) / len(asked)


def test_a_causal_models_targets_are_counted_exactly(tmp_path, monkeypatch):
    config = config_of(tmp_path, num_stories=300)
    data = prepare_data(config)
    expected = counted_loss(
        targets(config, data, data.train), targets(config, data, data.validation), len(data.tokenizer)
    )
    assert word_frequency_loss(data, is_causal=True) == pytest.approx(expected, rel=1e-12)
    monkeypatch.setattr(preparing, "TOKENS_TO_COUNT", 500)
    assert word_frequency_loss(data, is_causal=True) == pytest.approx(expected, rel=1e-12)
    assert 3 < expected < math.log(len(data.tokenizer))


def test_a_masked_models_targets_are_a_random_part(tmp_path):
    config = config_of(tmp_path, "--family", "roberta", "--train.mlm-probability", "0.6", num_stories=300)
    data = prepare_data(config)
    seen, asked = (targets(config, data, split) for split in (data.train, data.validation))
    expected = counted_loss(seen, asked, len(data.tokenizer))
    counts = Counter(seen)
    surprise = [-math.log((counts[t] + 1) / (len(seen) + len(data.tokenizer))) for t in asked]
    standard_error = np.std(surprise) / math.sqrt(len(asked))
    found = word_frequency_loss(data, is_causal=False)
    assert found == pytest.approx(expected, abs=3 * standard_error)
    special = Counter(seen + asked).keys() & set(data.tokenizer.all_special_ids)
    assert not special
