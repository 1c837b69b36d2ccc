"""The memory of training on one long document, measured by the operating system in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource, sys, time
import numpy as np, torch
from transformers import AutoModel
from ffn_variants import build_model
from eval.classification import classifier as classifiers
from eval.classification.encoders import make_encoder
from eval.classification.example_tokens import Encoded
from eval.classification.heads import SwipeHead
from eval.classification.segments import Segmented

family, num_tokens, is_chunked = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "chunks"
if not is_chunked:
    classifiers.embed_in_chunks = lambda encode, pieces, device: encode(pieces)
torch.manual_seed(0)
sizes = {
    "gpt_neo": {"num_layers": 2, "num_heads": 4, "window_size": 256, "max_position_embeddings": 512},
    "roberta": {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 513},
}[family]
ids = {"vocab_size": 10_000, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
model = build_model(family, "gelu", hidden_size=512, intermediate_size=1024, **ids, **sizes)
encoder = make_encoder(AutoModel.from_config(model.config))
classifier = classifiers.HeadClassifier(encoder, SwipeHead(512, 2), "segments").train()


def step(lists):
    pieces, one = Encoded.from_lists(lists, [0] * len(lists)), np.zeros(1, dtype=np.int64)
    document = Segmented(pieces, one + len(lists), one, one > 0, one, np.zeros((len(lists), 2)))
    torch.nn.functional.cross_entropy(classifier(document).logits, torch.tensor([1])).backward()


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


tokens = np.random.default_rng(0).integers(3, 10_000, num_tokens)
lists = [tokens[start : start + 128].tolist() for start in range(0, num_tokens, 96)]
step(lists[:1])  # gradients, and what torch loads at first
before, begin = peak_mib(), time.monotonic()
step(lists)
print(json.dumps({"mib": peak_mib() - before, "seconds": time.monotonic() - begin, "pieces": len(lists)}))
"""


def measure(family: str, num_tokens: int, how: str) -> dict[str, float]:
    command = [sys.executable, "-c", SCRIPT, family, str(num_tokens), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    print(family, num_tokens, how, found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
def test_a_document_of_50000_words_trains_in_bounded_memory(family: str) -> None:
    """A model of the source study's size, windows of 128 tokens, forward and backward."""
    tokens = 65_000  # of 50,000 words
    whole, half = measure(family, tokens, "chunks"), measure(family, tokens // 2, "at once")
    assert whole["pieces"] == -(-tokens // 96)
    # Without chunks even half of the document takes much more.
    assert whole["mib"] < 0.7 * half["mib"]
