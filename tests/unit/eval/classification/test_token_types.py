"""Token types of pairs, against transformers' own models on the tokenizer's own padded output."""

from dataclasses import replace

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoModel, BertConfig, BertModel, PreTrainedModel, PreTrainedTokenizerFast, T5Config

from eval.classification.classifier import HeadClassifier, PaddedClassifier, load_for_task
from eval.classification.data import read_task_data
from eval.classification.encoders import PaddedEncoder, make_encoder
from eval.classification.example_tokens import Encoded, encode, tokenizer_key
from eval.classification.examples import read_examples
from eval.classification.find_tasks import embedded_tasks
from eval.classification.heads import build_head
from eval.classification.prediction import features, predict
from eval.classification.segments import Segmentation, encode_segments
from eval.config import EvalConfig
from ffn_variants import build_model
from scores.head_descriptions import parse_head

PAIRS = [
    ("the film is good .", "it is bad"),
    ("good", "a film , which the other film is not . it is bad ."),
    ("the film . a good one . it is long , and the end is bad", "no . it is good ."),
]
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def make_tokenizer(**options) -> PreTrainedTokenizerFast:
    """Pieces of one letter and a few words, between BERT's special tokens, with BERT's types."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = [*SPECIAL.values(), *letters, *(f"##{letter}" for letter in letters), *".,?!'", "film", "good"]
    vocab = {piece: number for number, piece in enumerate(pieces)}
    backend = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(name, vocab[name]) for name in ("[CLS]", "[SEP]")],
    )
    options = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]} | options
    return PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL, **options)


@pytest.fixture(scope="module")
def bert_tokenizer() -> PreTrainedTokenizerFast:
    return make_tokenizer()


def bert_config(tokenizer: PreTrainedTokenizerFast, **options) -> BertConfig:
    torch.manual_seed(0)
    return BertConfig(vocab_size=len(tokenizer), initializer_range=0.5, **(SIZES | options))


def padded(tokenizer: PreTrainedTokenizerFast, pairs: list, **options):
    firsts, seconds = (list(texts) for texts in zip(*pairs, strict=True))
    return tokenizer(firsts, seconds, padding=True, return_tensors="pt", **options)


@pytest.mark.parametrize("max_length", [128, 12])
@torch.no_grad()
def test_a_backbone_gets_the_types_that_the_tokenizer_gives(bert_tokenizer, max_length, error):
    model = BertModel(bert_config(bert_tokenizer)).eval()
    inputs = padded(bert_tokenizer, PAIRS, truncation="longest_first", max_length=max_length)
    wanted = model(**inputs).last_hidden_state
    blind = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).last_hidden_state
    assert error(blind, wanted) > 0.1
    encoder = make_encoder(model)
    assert isinstance(encoder, PaddedEncoder)
    data = encode(bert_tokenizer, PAIRS, [0, 1, 0], max_length)
    hidden, mask = encoder.tokens(data)
    assert error(hidden[mask.bool()], wanted[inputs["attention_mask"].bool()]) < 1e-5
    assert error(encoder.pooled(data.take([2, 0, 2])), wanted[[2, 0, 2], 0]) < 1e-5


def windows(whole: dict, window: int, stride: int) -> list[tuple[int, int]]:
    """Between the outer special tokens: the definition, one window after another."""
    last, start, found = len(whole["input_ids"]) - 1, 1, []
    while not found or found[-1][1] < last:
        found.append((start, min(start + window - 2, last)))
        start += window - 2 - stride
    return found


@torch.no_grad()
def test_segments_keep_the_types_of_the_whole_pair(bert_tokenizer, error):
    cut = Segmentation(segments="windows", window=10, stride=3)
    data = encode_segments(bert_tokenizer, PAIRS, [0, 1, 0], cut, 128).take([2, 0, 1])
    model = BertModel(bert_config(bert_tokenizer)).eval()
    wanted = []
    for number in (2, 0, 1):
        whole = bert_tokenizer(*PAIRS[number])
        for start, stop in windows(whole, 10, 3):
            inputs = {
                name: torch.tensor([[own[0], *own[start:stop], own[-1]]]) for name, own in whole.items()
            }
            wanted.append(model(**inputs).last_hidden_state[0])
    assert len(wanted) == len(data.pieces) > 5
    hidden, mask = make_encoder(model).tokens(data.pieces)
    assert error(hidden[mask.bool()], torch.cat(wanted)) < 1e-5


def test_where_all_types_are_0_there_are_none(bert_tokenizer):
    silent = make_tokenizer(model_input_names=["input_ids", "attention_mask"])
    single = [(first, None) for first, _ in PAIRS]
    labels, cut = [0, 1, 0], Segmentation()
    for tokenizer, texts in ((bert_tokenizer, single), (silent, PAIRS)):
        assert encode(tokenizer, texts, labels, 128).token_type_ids is None
        assert encode_segments(tokenizer, texts, labels, cut, 128).pieces.token_type_ids is None
    assert tokenizer_key(silent) != tokenizer_key(bert_tokenizer)
    assert encode(bert_tokenizer, PAIRS, labels, 128).take([0]).token_type_ids is not None
    assert encode_segments(bert_tokenizer, PAIRS, labels, cut, 128).pieces.token_type_ids is not None


def other_model(name: str, size: int) -> PreTrainedModel:
    torch.manual_seed(0)
    if name == "roberta":
        config = build_model(name, "gelu", vocab_size=size, max_position_embeddings=91, **SIZES).config
    elif name == "t5":
        sizes = {"d_model": 16, "num_layers": 1, "num_heads": 2, "d_ff": 32, "d_kv": 8}
        config = T5Config.from_dict({"vocab_size": size, "type_vocab_size": 2, **sizes})
    else:
        config = BertConfig(vocab_size=size, type_vocab_size=1, **SIZES)
    return AutoModel.from_config(config)


@pytest.mark.parametrize("name", ["roberta", "t5", "one type"])
@torch.no_grad()
def test_a_model_without_types_of_its_own_does_not_get_them(bert_tokenizer, name):
    data = encode(bert_tokenizer, PAIRS, [0, 1, 0], 128)
    encoder = make_encoder(other_model(name, len(bert_tokenizer)).eval())
    given: list[dict] = []
    encoder.body.register_forward_pre_hook(lambda _, args, named: given.append(named), with_kwargs=True)
    assert data.token_type_ids is not None
    assert torch.equal(encoder.pooled(data), encoder.pooled(replace(data, token_type_ids=None)))
    assert not any("token_type_ids" in named for named in given)
    assert len(given) == (0 if name == "roberta" else 2)  # these are computed layer by layer


def test_kept_features_are_those_of_the_types(bert_tokenizer):
    model = BertModel(bert_config(bert_tokenizer)).eval()
    head = build_head(parse_head("linear"), 16, 2)
    classifier = HeadClassifier(make_encoder(model), head, is_frozen=True)
    ids = [[2, 5, 6, 3, 7, 8, 3]]
    told = Encoded.from_lists(ids, [0], token_type_ids=[[0, 0, 0, 0, 1, 1, 1]])
    kept = [features(classifier, data, "one").vectors for data in (told, Encoded.from_lists(ids, [0]))]
    assert (kept[0] - kept[1]).abs().max() > 0.1


def test_the_pairs_of_a_task_are_read_from_files_to_logits(bert_tokenizer, tmp_path, error):
    BertModel(bert_config(bert_tokenizer)).save_pretrained(tmp_path)
    bert_tokenizer.save_pretrained(tmp_path)
    config = EvalConfig()
    task = next(task for task in embedded_tasks(config).values() if len(task.definition.text) == 2)
    settings = task.finetuning(config.finetune)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    classifier = load_for_task(tmp_path, task, settings, 0, tokenizer, "cpu").eval()
    assert isinstance(classifier, PaddedClassifier)
    data = read_task_data([task], tokenizer, 128, config, settings).validation[task.name]
    chosen = list(range(0, len(data), 9))
    inputs = padded(
        tokenizer, [task.make_input(read_examples(task, "validation", config)[n]) for n in chosen]
    )
    with torch.no_grad():
        wanted = classifier.model(**inputs).logits
    assert error(predict(classifier, data.take(chosen), 4).logits, wanted.numpy()) < 1e-5
