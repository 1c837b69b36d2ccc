"""Packed losses and gradients are those of transformers' own passes; chunked ones those of whole logits."""

import copy

import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from transformers import RobertaConfig, RobertaForMaskedLM, RobertaTokenizer

from base.text.corruption import IGNORE
from eval.scoring.log_likelihood import num_positions
from ffn_variants import build_model
from ffn_variants.kernels.compilation import use_compiled_kernels
from pretrain.data.packing import pack
from pretrain.model import linear_cross_entropy as chunks
from pretrain.model import linear_cross_entropy as module
from pretrain.model.build import build
from pretrain.model.linear_cross_entropy import linear_cross_entropy
from pretrain.model.objective import PackedLoss, build_loss
from pretrain.resolution import load_config

# Packed losses and gradients are those of transformers' own forward pass on each document.
# Packed rows, chunks of the loss and attention backends change neither the loss nor any gradient.
SIZES = {"hidden_size": 32, "intermediate_size": 24, "num_attention_heads": 4, "vocab_size": 60}
LENGTHS = np.array([17, 1, 12, 9, 23, 3, 30])
ROW, MASK = 40, 3


def build_to_train(family, ffn):
    """A model in training mode, whose loss is that of a step, without dropout."""
    own = {
        "gpt_neo": {"window_size": 5},  # shorter than the documents
        "roberta": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        "llama": {},
    }[family]
    torch.manual_seed(0)
    return build_model(
        family, ffn, num_hidden_layers=2, max_position_embeddings=41, initializer_range=0.2, **SIZES, **own
    ).train()


def tokens_and_chosen(family):
    """Tokens of all documents, and which of them are predicted."""
    rng = np.random.default_rng(1)
    tokens = rng.integers(4, 60, LENGTHS.sum()).astype(np.uint16)
    starts = np.cumsum(LENGTHS) - LENGTHS
    chosen = np.ones(len(tokens), bool)
    chosen[starts] = False  # nothing comes before the first token of a document
    return tokens, chosen if family != "roberta" else rng.random(len(tokens)) < 0.3


def padded_loss(model, family):
    """Summed by transformers over right-padded documents, and the number of targets."""
    tokens, chosen = tokens_and_chosen(family)
    ids = torch.zeros(len(LENGTHS), LENGTHS.max(), dtype=torch.long)
    labels = torch.full_like(ids, -100)
    ends = np.cumsum(LENGTHS)
    for row, (start, end) in enumerate(zip(ends - LENGTHS, ends, strict=True)):
        document, predicted = tokens[start:end].astype(int), chosen[start:end]
        visible = document if family != "roberta" else np.where(predicted, MASK, document)
        ids[row, : end - start] = torch.from_numpy(visible)
        labels[row, : end - start] = torch.from_numpy(np.where(predicted, document, -100))
    loss = model(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss
    return loss * chosen.sum()


def packed_loss(model, family):
    """Summed by this project over packed rows."""
    tokens, chosen = tokens_and_chosen(family)
    rows, positions = pack(tokens, LENGTHS, ROW, 0)
    assert len(rows) < len(LENGTHS)
    predicted = pack(np.where(chosen, 2, 1).astype(np.uint16), LENGTHS, ROW, 0)[0] == 2
    targets = torch.from_numpy(rows[predicted].astype(np.int64))
    index = torch.from_numpy(np.flatnonzero(predicted))
    if family != "roberta":
        index = index - 1  # a token is predicted where the one before it stands
    else:
        rows = np.where(predicted, MASK, rows)
    ids, positions = (torch.from_numpy(array.astype(np.int64)) for array in (rows, positions))
    batch = {"input_ids": ids, "position_ids": positions, "target_index": index, "target_ids": targets}
    return PackedLoss(model, family)(**batch)


@pytest.mark.parametrize(("ffn", "rows_per_chunk"), [("gelu", None), ("kan", 7)], ids=["whole", "chunked"])
@pytest.mark.parametrize("family", ["gpt_neo", "roberta", "llama"])
def test_loss_and_gradients_of_packed_rows_are_those_of_padded_documents(
    monkeypatch, family, ffn, rows_per_chunk
):
    """The loss within 1e-6 of itself, each gradient within 1e-6 of the norm of all."""
    reference = build_to_train(family, ffn)
    model = copy.deepcopy(reference)
    reference.set_attn_implementation("eager")
    if rows_per_chunk:
        monkeypatch.setitem(chunks.CHUNK_NUMBERS, "cpu", rows_per_chunk * SIZES["vocab_size"])
    wanted, found = padded_loss(reference, family), packed_loss(model, family)
    assert found.item() == pytest.approx(wanted.item(), rel=1e-6)
    wanted.backward()
    found.backward()
    gradients = {name: parameter.grad for name, parameter in reference.named_parameters()}
    norm = torch.nn.utils.get_total_norm(gradients.values())
    assert norm > 10
    for name, parameter in model.named_parameters():
        assert (parameter.grad - gradients[name]).norm() <= 1e-6 * norm, name


# RoBERTa's positions begin behind the id of its padding: one rule in training, saving and reading.
BLOCK, VOCABULARY = 12, 40
ROBERTA = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
FLAGS = [
    *("--data.block-size", f"{BLOCK}", "--model.hidden-size", "16", "--model.intermediate-size", "32"),
    *("--model.num-attention-heads", "2", "--model.hidden-dropout", "0", "--model.attention-dropout", "0"),
]


def ids_of(pad: int) -> dict[str, int]:
    return {"pad_token_id": pad, "bos_token_id": pad + 1, "eos_token_id": pad + 2}


@pytest.mark.parametrize("pad", [0, 1, 5])
def test_a_packed_loss_is_that_of_stock_roberta_on_each_document(pad, error):
    """The stock model is given ids and a mask alone, and finds positions by transformers' own rule."""
    config = load_config(None, ["--family", "roberta", *FLAGS])
    assert (
        config.model.max_position_embeddings == BLOCK + 1
    )  # no config knows what is in a tokenizer's folder
    torch.manual_seed(0)
    model = build(config, VOCABULARY, ids_of(pad)).eval()
    stock = RobertaForMaskedLM(
        RobertaConfig(
            **ROBERTA, **ids_of(pad), vocab_size=VOCABULARY, max_position_embeddings=BLOCK + pad + 1,
            layer_norm_eps=model.config.layer_norm_eps,
        )
    ).eval()  # fmt: skip
    stock.load_state_dict(model.state_dict())

    rng = np.random.default_rng(0)
    lengths = np.array([BLOCK, 7, 4])
    tokens, targets = rng.integers(pad + 3, VOCABULARY, 23), rng.integers(1, VOCABULARY, 23)
    ids, positions = pack(tokens, lengths, BLOCK, pad)
    of_targets = pack(targets, lengths, BLOCK, 0)[0].flatten()
    batch = {"input_ids": ids, "position_ids": positions, "target_index": np.flatnonzero(of_targets)}
    batch["target_ids"] = of_targets[of_targets > 0]
    with torch.no_grad():
        documents = torch.from_numpy(tokens).split(lengths.tolist())
        logits = torch.cat([stock(document[None]).logits[0] for document in documents])
        wanted = F.cross_entropy(logits, torch.from_numpy(targets), reduction="sum")
        named = {name: torch.from_numpy(array.astype(np.int64)) for name, array in batch.items()}
        loss = build_loss(model, "roberta")(**named)
    assert error(loss, wanted) < 1e-6
    assert num_positions(model) == num_positions(stock) == BLOCK


def test_a_dry_run_builds_what_a_training_builds(tmp_path):
    """Neither knows the ids of a tokenizer in a folder but by loading it."""
    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {word: number for number, word in enumerate(words)}
    RobertaTokenizer(vocab=vocabulary, merges=[]).save_pretrained(tmp_path)
    config = load_config(None, ["--family", "roberta", *FLAGS, "--data.tokenizer", str(tmp_path)])
    assert build(config, len(words)).config.max_position_embeddings == BLOCK + 2


# The chunked loss against torch's own on whole logits, and what it keeps.
ROWS, WIDTH, CLASSES = 23, 3, 17


def problem(dtype, bias):
    torch.manual_seed(0)
    tensors = [torch.randn(ROWS, WIDTH), torch.randn(CLASSES, WIDTH), torch.randn(CLASSES)]
    leaves = [tensor.to(dtype).requires_grad_() for tensor in tensors[: 3 if bias else 2]]
    return leaves, torch.randint(0, CLASSES, (ROWS,))


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 200])
def test_rows_that_fill_no_chunk_add_nothing(monkeypatch, rows):
    monkeypatch.setitem(module.CHUNK_NUMBERS, "cpu", 64 * CLASSES)
    torch.manual_seed(rows)
    sizes = (rows, WIDTH), (CLASSES, WIDTH), (CLASSES,)
    leaves = [torch.randn(size, requires_grad=True) for size in sizes]
    targets = torch.randint(0, CLASSES, (rows,))
    ours = linear_cross_entropy(*leaves, targets)
    whole = F.cross_entropy(F.linear(*leaves), targets, reduction="sum")
    torch.testing.assert_close(ours, whole)
    for a, b in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(whole, leaves), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_only_the_bias_may_be_learned():
    (hidden, weight, bias), targets = problem(torch.float32, bias=True)
    loss = linear_cross_entropy(hidden.detach(), weight.detach(), bias, targets)
    shares = F.linear(hidden, weight, bias).softmax(1)
    torch.testing.assert_close(
        *torch.autograd.grad(loss, bias), (shares - F.one_hot(targets, CLASSES)).sum(0)
    )


def test_logits_of_any_size_give_finite_losses():
    hidden = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0], [0.0]], requires_grad=True)
    loss = linear_cross_entropy(hidden, weight, None, torch.tensor([1, 1]))
    loss.backward()
    assert loss.item() == pytest.approx(2e4)
    assert torch.isfinite(hidden.grad).all()


def test_under_autocast_it_is_as_near_as_whole_bf16_logits():
    (hidden, weight, bias), targets = problem(torch.float32, True)
    exact = F.cross_entropy(F.linear(hidden, weight, bias), targets, reduction="sum")
    exact_grads = torch.autograd.grad(exact, (hidden, weight, bias))
    with torch.autocast("cpu", torch.bfloat16):
        ours = linear_cross_entropy(hidden, weight, bias, targets)
    grads = torch.autograd.grad(ours, (hidden, weight, bias))
    assert ours.dtype == torch.float32
    assert ours.item() == pytest.approx(exact.item(), rel=1e-2)
    for a, b in zip(grads, exact_grads, strict=True):
        assert a.dtype == torch.float32
        assert (a - b).norm() < 2e-2 * b.norm()


def test_no_tensor_has_all_logits(monkeypatch):
    monkeypatch.setitem(module.CHUNK_NUMBERS, "cpu", CLASSES)
    monkeypatch.setattr(module, "ROWS", 1)
    (hidden, weight, bias), targets = problem(torch.float32, True)
    largest = 0

    class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor) and result.ndim == 2 and result.shape[1] == CLASSES:
                largest = max(largest, result.shape[0])
            return result

    with Recorder():
        linear_cross_entropy(hidden, weight, bias, targets).backward()
    assert largest == module.CHUNKS_PER_PRODUCT["cpu"] < ROWS


@pytest.mark.parametrize("evaluating", [torch.no_grad, torch.inference_mode])
def test_evaluation_makes_the_logits_and_no_gradient(monkeypatch, evaluating):
    monkeypatch.setattr(module, "ROWS", 1)
    (hidden, weight, bias), targets = problem(torch.float32, True)
    with evaluating(), FlopCounterMode(display=False) as counter:
        linear_cross_entropy(hidden, weight, bias, targets)
    assert counter.get_total_flops() == 2 * ROWS * WIDTH * CLASSES


COMPILED = [pytest.param(5, ignoring, True, marks=pytest.mark.ci) for ignoring in (True, False)]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("rows_per_chunk", "ignoring", "compiled"),
    [*((rows, ignoring, False) for rows in (1, 5, 100) for ignoring in (True, False)), *COMPILED],
)
def test_loss_and_gradients_are_those_of_whole_logits_of_the_rows_that_are_not_ignored(
    monkeypatch, bias, rows_per_chunk, ignoring, compiled
):
    """Even where ignored rows are no numbers."""
    monkeypatch.setitem(module.CHUNK_NUMBERS, "cpu", rows_per_chunk * CLASSES)
    monkeypatch.setattr(module, "ROWS", 1)
    use_compiled_kernels(compiled)
    leaves, targets = problem(torch.float64, bias)
    hidden, *output = leaves
    kept = (torch.arange(ROWS) % 3 != 1) | (not ignoring)
    padded = torch.where(kept[:, None], hidden.detach(), torch.nan).requires_grad_()
    given = padded, output[0], output[1] if bias else None, torch.where(kept, targets, IGNORE)
    ours = linear_cross_entropy(*given)
    whole = F.cross_entropy(F.linear(hidden[kept], *output), targets[kept], reduction="sum")
    assert ours.item() == pytest.approx(whole.item(), rel=1e-12)
    gradients = torch.autograd.grad(ours / ROWS, (padded, *output))
    assert (gradients[0][~kept] == 0).all()
    for a, b in zip(gradients, torch.autograd.grad(whole / ROWS, leaves), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)
    with torch.no_grad():
        assert linear_cross_entropy(*given).item() == pytest.approx(whole.item(), rel=1e-12)
