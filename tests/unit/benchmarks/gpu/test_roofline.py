"""Operations belong to the parts of a step that they compute."""

import pytest

from benchmarks.gpu.roofline import (
    ATTENTION,
    BODY,
    COPIES,
    FFN,
    OPTIMIZER,
    OTHER,
    SOFTMAX,
    VOCABULARY,
    part_of,
)


@pytest.mark.parametrize(
    ("name", "shapes", "part"),
    [
        ("aten::mm", ((57344, 512), (512, 1024)), BODY),
        ("aten::mm", ((2816, 512), (512, 10000)), VOCABULARY),
        ("fused::losses_and_probabilities", ((2816, 10000), (2816,)), SOFTMAX),
        ("aten::index_put_", ((2816, 10000), (2816,), (2816,)), SOFTMAX),
        ("aten::_to_copy", ((10000, 512),), OTHER),
        ("aten::_flash_attention_backward", ((57344, 4, 128),), ATTENTION),
        ("torch_attn::_varlen_attn", ((57344, 4, 128),), ATTENTION),
        ("ffn_variants::basis_features", ((57344, 512), (57344, 9, 512)), FFN),
        ("aten::_fused_adamw_", ((10000, 512), (512, 512)), OPTIMIZER),
        ("aten::native_layer_norm", ((112, 512, 512), (512,), (512,)), OTHER),
        ("Memcpy HtoD (Pinned -> Device)", (), COPIES),
    ],
)
def test_every_operation_has_its_part(name, shapes, part):
    assert part_of(name, shapes, 10_000) == part
