"""The memory of training on one long document, measured by the operating system in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource, sys, time
import numpy as np, torch
from ffn_variants import build_model
from eval.encoding import Encoded
from eval.heads.chunks import embed_in_chunks
from eval.heads.swipe import SwipeHead

family, num_tokens, tokens_per_chunk = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(0)
sizes = {
    "gpt_neo": {"num_layers": 2, "num_heads": 4, "window_size": 256, "max_position_embeddings": 512},
    "roberta": {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 513},
}[family]
ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
model = build_model(family, "gelu", vocab_size=10_000, hidden_size=512, intermediate_size=1024, **ids, **sizes)
body, head = model.base_model.train(), SwipeHead(512, 2)


def encode(batch):
    input_ids = torch.zeros(len(batch), int(batch.lengths.max()), dtype=torch.long)
    mask = torch.arange(input_ids.shape[1]) < torch.from_numpy(batch.lengths)[:, None]
    input_ids[mask] = torch.from_numpy(batch.tokens).long()
    hidden = body(input_ids=input_ids, attention_mask=mask.long()).last_hidden_state
    return hidden[torch.arange(len(batch)), mask.sum(1) - 1]


def step(pieces):
    vectors = embed_in_chunks(encode, pieces, tokens_per_chunk)
    logits = head(vectors[None], torch.ones(1, len(pieces), dtype=torch.bool)).logits
    torch.nn.functional.cross_entropy(logits, torch.tensor([1])).backward()


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


tokens = np.random.default_rng(0).integers(3, 10_000, num_tokens)
pieces = [tokens[start : start + 128].tolist() for start in range(0, num_tokens, 96)]
step(Encoded.from_lists(pieces[:1], [0]))  # gradients, and what torch loads at first
before, begin = peak_mib(), time.monotonic()
step(Encoded.from_lists(pieces, [0] * len(pieces)))
print(json.dumps({"mib": peak_mib() - before, "seconds": time.monotonic() - begin, "pieces": len(pieces)}))
"""


def measure(family: str, num_tokens: int, tokens_per_chunk: int) -> dict[str, float]:
    command = [sys.executable, "-c", SCRIPT, family, str(num_tokens), str(tokens_per_chunk)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(family, num_tokens, tokens_per_chunk, found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
def test_a_document_of_50000_words_trains_in_bounded_memory(family: str) -> None:
    """A model of the source study's size, windows of 128 tokens, forward and backward."""
    tokens = 65_000  # of 50,000 words
    long, half = measure(family, tokens, 4_096), measure(family, tokens // 2, 4_096)
    at_once = measure(family, tokens // 8, 10**9)
    assert long["pieces"] == -(-tokens // 96)
    # An eighth of the document, all at once, takes more than the whole in chunks, which grows little by length.
    assert at_once["mib"] > 1.5 * long["mib"]
    assert long["mib"] < 1.25 * half["mib"] + 50
    assert long["mib"] < 1_000
