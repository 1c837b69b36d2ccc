"""What the counter counts, on tensors of torch's ``meta`` device, which needs no pretending."""

import gc

import torch
from torch.nn import functional as F

from benchmarks.gpu.trace import Trace


def test_it_counts_launches_bytes_and_flops_of_operations_and_none_of_views() -> None:
    left, right = torch.ones(4, 3, device="meta"), torch.ones(5, 3, device="meta")
    with Trace("meta") as trace:
        product = left @ right.t()
        product.view(-1)[3:].unsqueeze(0)
        torch.empty(7, device="meta")
    (launch,) = trace.launches
    assert launch.name == "aten::mm"
    assert launch.shapes == ((4, 3), (3, 5))
    assert launch.flops == 2 * 4 * 3 * 5
    assert launch.num_bytes == 4 * (12 + 15 + 20)
    assert launch.site.startswith("tests/pretend_cuda/test_trace.py:")
    assert trace.flops_in() == {"float32": 120}
    assert trace.launches_of() == {"aten::mm": 1}


def test_a_gradient_is_counted_with_its_dtype() -> None:
    x = torch.ones(4, 3, device="meta", dtype=torch.bfloat16, requires_grad=True)
    w = torch.ones(5, 3, device="meta", dtype=torch.bfloat16, requires_grad=True)
    with Trace("meta") as trace:
        F.linear(x, w).sum().backward()
    assert trace.flops_in() == {"bfloat16": 3 * 2 * 4 * 3 * 5}
    assert [launch.site for launch in trace.launches if launch.name == "aten::mm"][1:] == ["autograd"] * 2


def test_attention_of_two_routes_has_the_flops_of_its_products() -> None:
    q = torch.ones(2, 3, 8, 4, device="meta")
    pairs = 2 * 3 * 8 * 8
    with Trace("meta") as trace:
        torch.ops.aten._scaled_dot_product_efficient_attention(q, q, q, None, True)
    assert trace.flops_in() == {"float32": 2 * 2 * pairs * 4}


def test_peak_memory_is_that_of_tensors_alive_at_once() -> None:
    gc.collect()
    held = torch.ones(1024, device="meta")
    with Trace("meta") as trace:
        trace.hold([held])
        for _ in range(3):
            part = held + 1
            del part
        two = held * 2
        three = two * 3
    assert trace.peak_bytes == 3 * 4096
    assert trace.peak_site.startswith("tests/pretend_cuda/test_trace.py:")
    del two, three


def test_a_fused_function_is_one_launch_of_its_arguments() -> None:
    x, out = torch.ones(8, 4, device="meta"), torch.ones(8, 4, device="meta")
    with Trace("meta") as trace, trace.fused("features", x, out):
        out.copy_(torch.sin(x) * 2)
    (launch,) = trace.launches
    assert launch.name == "fused::features"
    assert launch.num_bytes == 2 * 4 * 32
    assert trace.peak_bytes == 0
    with trace:
        assert len(out + 1) == 8
    assert trace.peak_bytes == 2 * 512


def test_bytes_are_counted_once_if_read_or_written_and_twice_if_both() -> None:
    left, right, out = (torch.ones(*shape, device="meta") for shape in ((4, 3), (3, 5), (4, 5)))
    with Trace("meta") as trace:
        torch.mm(left, right, out=out)
        out.add_(1)
        out.zero_()
        left.new_zeros(100)
        torch._foreach_mul_([left, right], 2.0)
        with trace.fused("add", left, out):
            out.add_(left.sum())
        with trace.fused("fill", left, out):
            out.copy_(left.sum())
            out.mul_(2)  # of what stands in registers
    expected = [12 + 15 + 20, 2 * 20, 20, 100, 2 * (12 + 15), 12 + 2 * 20, 12 + 20]
    assert [launch.num_bytes / 4 for launch in trace.launches] == expected
