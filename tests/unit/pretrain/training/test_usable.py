"""What is told of a run before anything is built."""

from __future__ import annotations

import pytest

from base.errors import UsageError
from ffn_variants import count_parameters
from pretrain.model.build import build
from pretrain.resolution import load_config
from pretrain.training.usable import check_usable, count_roughly

SIZES = ["--model.hidden-size", "256", "--model.intermediate-size", "512", "--data.vocab-size", "2000"]


@pytest.mark.parametrize("family", ["gpt_neo", "roberta", "t5", "llama"])
@pytest.mark.parametrize("ffn", ["gelu", "kan", "swiglu", "gr-kan"])
def test_parameters_are_estimated_within_a_fifth(family, ffn):
    """Against the model itself; what is refused is a factor of four away."""
    config = load_config(None, ["--family", family, "--ffn", ffn, *SIZES])
    exact = count_parameters(build(config, config.data.vocab_size))["total"]
    assert count_roughly(config) == pytest.approx(exact, rel=0.2)


@pytest.mark.parametrize(
    "sizes",
    [{"model": {"hidden_size": 10**6}}, {"data": {"vocab_size": 10**12}}, {"data": {"block_size": 10**12}}],
)
def test_a_model_far_beyond_memory_is_refused(sizes):
    with pytest.raises(
        UsageError, match=r"parameters need [\d,]+ GiB of memory to train, and this machine has"
    ):
        check_usable(load_config(None, overrides=sizes))


def test_usual_models_are_not_refused():
    check_usable(load_config(None))
    check_usable(load_config(None, ["--model.hidden-size", "1024", "--data.vocab-size", "50000"]))
