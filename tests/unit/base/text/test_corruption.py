"""Masking and span corruption, each against its definition."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.text.corruption import (
    IGNORE,
    Masker,
    SpanCorruptor,
    corrupted_lengths,
    draw_spans,
    num_noise_spans,
    num_noise_tokens,
)
from pretrain.data.packing import pack
from pretrain.data.prepare import prepare_data
from pretrain.data.tokenizer import NUM_SENTINELS, add_sentinels, load_tokenizer
from pretrain.model.build import build, build_masker
from pretrain.resolution import load_config, resolve
from tests.references import packed_documents

# Span corruption against a plain re-statement of Raffel et al. 2020, sec. 3.1.4, and its statistics.
PAD, BOS, EOS, FIRST = 0, 1, 2, 2000
SENTINELS = range(FIRST, FIRST + 100)


def make(lengths: list[int], block_size: int = 64, seed: int = 0, **settings):
    """Documents ``<s> ... </s>`` of ordinary tokens, packed; and their corruption."""
    rng = np.random.default_rng(seed)
    documents = [np.r_[BOS, rng.integers(5, 1000, length), EOS] for length in lengths]
    tokens = np.concatenate(documents).astype(np.uint16)
    ids, positions = pack(tokens, np.array([len(d) for d in documents]), block_size, PAD)
    return ids, positions, SpanCorruptor(SENTINELS, BOS, EOS, PAD, **settings)


def by_document(rows: dict[str, np.ndarray], name: str, numbers: str) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for token, number in zip(rows[name].ravel().tolist(), rows[numbers].ravel().tolist(), strict=True):
        if number:
            found.setdefault(number, []).append(token)
    return found


def spans_of(targets: list[int]) -> dict[int, list[int]]:
    """What a target says of each sentinel, in the order of the target."""
    spans: dict[int, list[int]] = {}
    for token in targets:
        if token >= FIRST:
            spans[token] = []
        else:
            spans[next(reversed(spans))].append(token)
    return spans


@given(st.lists(st.integers(0, 60), min_size=1, max_size=25), st.integers(0, 1000))
def test_inputs_and_targets_give_the_text_back(lengths, seed):
    ids, positions, corrupt = make(lengths, seed=seed)
    rows = corrupt(ids, positions, np.random.default_rng(seed))
    read = by_document(rows, "input_ids", "document_ids")
    targets = by_document(rows, "targets", "decoder_document_ids")
    written = by_document(rows, "decoder_input_ids", "decoder_document_ids")
    for number, piece in enumerate(packed_documents(ids, positions, PAD), start=1):
        ordinary = [token for token in piece if token not in (BOS, EOS)]
        if len(ordinary) < 2:
            assert read[number] == piece
            assert number not in targets
            continue
        spans = spans_of(targets[number])
        *marked, end = spans  # one more sentinel than spans, each number once and in order
        assert list(spans) == list(SENTINELS)[: len(spans)]
        assert spans[end] == []
        assert [token for token in read[number] if token >= FIRST] == marked
        filled = [spans[token] if token >= FIRST else [token] for token in read[number]]
        assert list(itertools.chain(*filled)) == piece
        assert all(spans[sentinel] for sentinel in marked)
        is_gap = [token >= FIRST for token in read[number]]
        assert not any(a and b for a, b in itertools.pairwise(is_gap))  # a token between any two spans
        assert written[number] == [PAD, *targets[number][:-1]]
        # The paper's numbers: 15% of the tokens, in spans of 3 on average.
        noise = sum(map(len, spans.values()))
        assert noise == min(max(round(0.15 * len(ordinary)), 1), len(ordinary) - 1)
        assert len(marked) == min(max(round(noise / 3), 1), noise)
        assert len(read[number]) == len(piece) - noise + len(marked)
        assert len(targets[number]) == noise + len(marked) + 1
    # Every document stays in its row, and padding holds nothing.
    assert (rows["targets"][rows["decoder_document_ids"] == 0] == IGNORE).all()
    assert (rows["input_ids"][rows["document_ids"] == 0] == PAD).all()
    starts = positions == 0
    owners = np.cumsum((starts & (ids != PAD)).ravel()).reshape(ids.shape)
    for row, numbers in enumerate(rows["document_ids"]):
        assert set(numbers.tolist()) - {0} == set(owners[row][ids[row] != PAD].tolist())


def test_every_way_to_place_the_spans_is_equally_likely():
    """Two spans of three tokens among six: 2 splits x 6 places, listed one by one."""
    ways = {
        (start, length, other, 3 - length)
        for length in (1, 2)
        for start in range(6)
        for other in range(start + length + 1, 6 - (3 - length) + 1)
    }
    assert len(ways) == 12
    draws = 24_000
    lengths = np.full(draws, 6)
    first, rng = np.cumsum(lengths) - lengths, np.random.default_rng(5)
    starts, spans = draw_spans(lengths, np.full(draws, 3), np.full(draws, 2), rng, first)
    starts = (starts.reshape(draws, 2) - 6 * np.arange(draws)[:, None]).tolist()
    seen = Counter(
        (a, x, b, y) for (a, b), (x, y) in zip(starts, spans.reshape(draws, 2).tolist(), strict=True)
    )
    assert set(seen) == ways
    # 2,000 of each; their standard deviation is 43.
    assert all(abs(count - draws / 12) < 5 * 43 for count in seen.values())


def test_numbers_of_short_documents_and_of_the_paper():
    assert corrupted_lengths(500, 0.15, 3.0) == (500 - 75 + 25, 75 + 25 + 1)
    assert num_noise_tokens(np.arange(8), 0.15).tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
    assert num_noise_spans(np.arange(4), 0.9, 1.0).tolist() == [0, 0, 1, 2]
    assert num_noise_spans(10, 0.9, 1.0) == 2  # nine tokens go, and one is left to stand between two spans


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    return load_config(
        None,
        ["--family", "t5", "--runs-dir", str(tmp_path_factory.mktemp("runs"))],
        {"data": {"num_stories": 100, "vocab_size": 300, "block_size": 64}},
    )


def test_sentinels_come_after_the_vocabulary_which_stays(t5, tmp_path):
    ours = prepare_data(t5)
    plain = prepare_data(t5.model_copy(update={"family": "gpt_neo"}))
    assert ours.fingerprint == plain.fingerprint
    assert np.array_equal(ours.train.input_ids, plain.train.input_ids)
    words = plain.tokenizer.get_vocab()
    assert words.items() <= ours.tokenizer.get_vocab().items()
    sentinels = add_sentinels(ours.tokenizer)
    assert sentinels == list(range(len(words), len(words) + NUM_SENTINELS))
    ours.tokenizer.save_pretrained(tmp_path)
    again = load_tokenizer(tmp_path)
    assert again.convert_tokens_to_ids("<extra_id_7>") == sentinels[7]
    assert add_sentinels(again) == sentinels
    assert again("a<extra_id_3>b")["input_ids"].count(sentinels[3]) == 1
    assert again.decode([*again("a")["input_ids"], sentinels[0]], skip_special_tokens=True) == "a"
    model = build(t5, len(ours.tokenizer))
    assert model.get_input_embeddings().num_embeddings == len(words) + NUM_SENTINELS
    assert isinstance(build_masker(t5, ours.tokenizer), SpanCorruptor)


def test_configuration_of_t5():
    def read(*flags: str):
        return load_config(None, ["--family", "t5", *flags])

    config = read()
    assert config.train.mean_noise_span_length == 3.0
    assert (config.model.hidden_dropout, config.model.attention_dropout) == (0.1, 0.1)
    assert config.model.initializer_range is None
    assert resolve(config) == config
    assert read("--model.attention-dropout", "0").model.hidden_dropout == 0
    assert load_config(None, ["--family", "roberta"]).train.mean_noise_span_length is None
    assert read("--data.block-size", "2048", "--train.mean-noise-span-length", "4")


# Masked-language-model corruption against its definition.
SPECIAL = [0, 1, 2, 3, 999]


def test_masks_are_those_of_the_definition_applied_token_by_token():
    """Which tokens are drawn is part of a run's result: another way to draw them is another result."""
    ids = np.random.default_rng(2).integers(0, 1000, (6, 50)).astype(np.uint16)
    rng = np.random.default_rng([1, 2, 3])
    corrupted, targets = Masker(1000, SPECIAL, 999, 0.3)(ids, np.random.default_rng([1, 2, 3]))
    wanted, labels, replaced = ids.astype(int).tolist(), np.full(ids.shape, IGNORE).tolist(), []
    draws = rng.random((6, 50), dtype=np.float32)
    for row in range(6):
        for column in range(50):
            share = draws[row, column] / np.float32(0.3)
            if share >= 1 or ids[row, column] in SPECIAL:
                continue
            labels[row][column] = int(ids[row, column])
            if share < 0.8:
                wanted[row][column] = 999
            elif share < 0.9:
                replaced.append((row, column))
    others = rng.choice([token for token in range(1000) if token not in SPECIAL], len(replaced))
    for (row, column), other in zip(replaced, others.tolist(), strict=True):
        wanted[row][column] = other
    assert len(replaced) > 5
    assert corrupted.tolist() == wanted
    assert targets.tolist() == labels
    assert corrupted.dtype == targets.dtype == np.int64
