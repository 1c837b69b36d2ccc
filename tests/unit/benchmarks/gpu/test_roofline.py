"""The roofline model against times worked out by hand."""

from types import SimpleNamespace

import pytest

from benchmarks.gpu.roofline import (
    ATTENTION,
    BODY,
    COPIES,
    DEVICES,
    FFN,
    OPTIMIZER,
    OTHER,
    PARTS,
    SOFTMAX,
    VOCABULARY,
    Counted,
    device_time,
    host_time,
    part_of,
    step_time,
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


def launch(name: str, num_bytes: int, flops: int, *shapes: tuple[int, ...]) -> SimpleNamespace:
    return SimpleNamespace(name=name, shapes=shapes, num_bytes=num_bytes, flops=flops)


def test_times_are_those_of_the_longer_of_both_roofs():
    h100 = next(device for device in DEVICES if device.name == "H100")
    product = launch("aten::mm", 1000, 2 * 989 * 10**9, (8, 8), (8, 8))  # bound by its FLOPs
    cast = launch("aten::_to_copy", 335 * 10**7, 0, (8, 8))  # by its bytes
    attention = launch("aten::_flash_attention_forward", 0, 989 * 10**9, (8, 4, 8))
    counted = Counted([product, cast, attention], [4 * 10**6], 100, 50, 0)
    times = device_time(counted, h100)
    assert list(times) == list(PARTS)
    assert times[BODY].seconds == pytest.approx(2e-6 + 2e-3 / 0.48)
    assert times[OTHER].seconds == pytest.approx(2e-6 + 1e-3 / 0.8)
    assert times[ATTENTION].seconds == pytest.approx(2e-6 + 1e-3 / 0.2)
    assert times[COPIES].seconds == pytest.approx(2e-6 + 1e-4)
    assert times[SOFTMAX].launches == 0
    on_device = 8e-6 + 2e-3 / 0.48 + 1e-3 / 0.8 + 1e-3 / 0.2 + 1e-4
    assert step_time(times, in_graph=True) == pytest.approx(on_device)
    assert host_time(times) == pytest.approx(4e-5)


def test_a_step_of_small_launches_takes_the_hosts_time_without_a_graph():
    counted = Counted([launch("aten::add", 1, 0, (1,))] * 1000, [], 100, 50, 0)
    times = device_time(counted, DEVICES[0])
    assert step_time(times, in_graph=False) == pytest.approx(1e-2)
    assert step_time(times, in_graph=True) == pytest.approx(2e-3, rel=1e-3)
