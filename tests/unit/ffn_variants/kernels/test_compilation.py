"""Compiled kernels: the same numbers, compiled once, and all as before where there is no compiler."""

import errno
import re

import pytest
import torch
from torch._inductor.exc import InductorError

from base.errors import UsageError
from ffn_variants import build_ffn
from ffn_variants.kernels import basis_linear, compilation
from ffn_variants.kernels.compilation import (
    compile_failure,
    compile_seconds,
    compiled,
    compiled_kernels_in_use,
    eager_kernels,
    use_compiled_kernels,
)
from tests.cases import first_is_fast
from tests.references import outputs_and_gradients


def scaled(x, factor):
    return x * factor


@pytest.mark.parametrize(
    "name", first_is_fast(["spline-kan", "cheby-kan", "wav-kan", "rational", "relu-kan"])
)
@pytest.mark.ci
def test_compiled_variants_are_the_eager_ones_and_are_not_compiled_again(
    name, compiled_kernels, monkeypatch, error
):
    torch.manual_seed(0)
    ffn, x = build_ffn(name, 12, 20), torch.randn(50, 12)
    use_compiled_kernels(False)
    expected = outputs_and_gradients(ffn, x)
    use_compiled_kernels(True)
    found = outputs_and_gradients(ffn, x)
    first = compile_seconds()
    for a, b in zip(found, expected, strict=True):
        assert error(a, b) < 5e-6
    # None of these is compiled anew: other rows, rows in several blocks, x without a gradient, no gradient.
    with torch.compiler.set_stance("fail_on_recompile"):
        outputs_and_gradients(ffn, x[:17])
        outputs_and_gradients(ffn, x.repeat(3, 1).unflatten(0, (3, 50)))
        ffn(x).sum().backward()
        with torch.no_grad():
            ffn(x)
        monkeypatch.setattr(basis_linear, "BLOCK_NUMBERS", {"cpu": 500})
        outputs_and_gradients(ffn, x)
    assert compile_seconds() == first


@pytest.mark.ci
def test_seconds_are_those_of_the_first_call_for_each_dtype(compiled_kernels):
    kernel, x = compiled(lambda x: x.sin() + 1), torch.ones(5)
    before, seconds = compile_seconds(), []
    for values in (x, x, x[:3], x.double(), x.double()):
        torch.testing.assert_close(kernel(values), values.sin() + 1)
        seconds.append(compile_seconds())
    assert before < seconds[0] == seconds[1] == seconds[2] < seconds[3] == seconds[4]


@pytest.mark.ci
def test_an_error_of_the_function_itself_is_raised_and_compiling_goes_on(compiled_kernels):
    kernel = compiled(scaled)
    with pytest.raises(RuntimeError, match="must match the size"):
        kernel(torch.ones(2), torch.ones(3))
    assert compiled_kernels_in_use()
    with eager_kernels():
        assert not compiled_kernels_in_use()
        assert kernel(torch.ones(2), 3.0).tolist() == [3.0, 3.0]
    assert compiled_kernels_in_use()


@pytest.fixture
def kernels_asked_for():
    use_compiled_kernels(True)
    yield
    compilation._State.failure = ""


def test_where_gradients_would_be_lost_is_an_error(kernels_asked_for):
    with pytest.raises(AssertionError, match="without gradients"):
        compiled(scaled)(torch.ones(2, requires_grad=True), 3.0)


def with_compiler(monkeypatch, compiler, **options):
    """Have torch.compile call something else; returns a compiled function that doubles in place, uncalled."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: compiler(function))

    def double(x):
        x.mul_(2)

    return compiled(double, **options)


def compiling_fails(error):
    def compiler(function):
        def fused(*args):
            raise InductorError(error, None) from error

        return fused

    return compiler


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 256.00 MiB."),
        MemoryError(),
        RuntimeError("the second kernel of this function"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("good_calls", [0, 2])
def test_an_error_while_a_kernel_runs_is_raised_and_nothing_runs_twice(
    error, good_calls, kernels_asked_for, monkeypatch
):
    def compiler(function):
        def fused(x):
            function(x)
            if x.item() > 2**good_calls:
                raise error

        return fused

    double, x = with_compiler(monkeypatch, compiler), torch.ones(1)
    for _ in range(good_calls):
        double(x)
    with pytest.raises(type(error)) as raised:
        double(x)
    assert raised.value is error
    assert x.item() == 2 ** (good_calls + 1)
    assert compiled_kernels_in_use()
    assert not compile_failure()


def no_torch_compile(function):
    raise RuntimeError("torch.compile is not supported on Python 3.99+")


def loading_fails(error):
    def compiler(function):
        def fused(x):
            raise error

        return fused

    return compiler


# Meta tensors stand in for those of a GPU: they are not on a CPU either.
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("compiler", "reason"),
    [
        (compiling_fails(OSError("disk full")), "disk full"),
        (no_torch_compile, "not supported on Python 3.99"),
        (loading_fails(OSError(errno.ENOSPC, "No space left on device")), "No space left"),
        (
            loading_fails(RuntimeError("Triton Error [CUDA]: device kernel image is invalid")),
            "image is invalid",
        ),
    ],
    ids=["inductor", "no torch.compile", "a full disk", "an old driver"],
)
def test_where_compiling_fails_one_line_is_told_and_the_function_runs_once(
    compiler, reason, device, kernels_asked_for, monkeypatch, capsys
):
    double, x = with_compiler(monkeypatch, compiler), torch.ones(1, device=device)
    double(x)
    assert x._version == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(rf"note: torch.compile failed .*{reason}.* run eagerly", line)
    assert not compiled_kernels_in_use()
    assert reason in compile_failure()
    double(x)
    assert x._version == 2
    assert capsys.readouterr().err == ""
    use_compiled_kernels(False)
    assert not compile_failure()  # not asked for, so nothing has failed
    use_compiled_kernels(True)  # the next run compiles
    assert compiled_kernels_in_use()


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("while tuning"), MemoryError("of the host")])
def test_a_lack_of_memory_while_compiling_is_one_of_memory(error, kernels_asked_for, monkeypatch):
    double, x = with_compiler(monkeypatch, compiling_fails(error)), torch.ones(1)
    with pytest.raises(type(error)) as raised:
        double(x)
    assert raised.value is error
    assert x.item() == 1
    assert compiled_kernels_in_use()


@pytest.mark.parametrize("failed_before", [False, True])
def test_on_a_gpu_what_is_slow_eagerly_is_an_error_unless_asked_for(
    failed_before, kernels_asked_for, monkeypatch
):
    failing, x = compiling_fails(RuntimeError("no Triton\nand more")), torch.ones(1, device="meta")
    double = with_compiler(monkeypatch, failing, slow_eagerly=True)
    if failed_before:
        with_compiler(monkeypatch, failing)(x)
    before = x._version
    with pytest.raises(UsageError, match=r"failed on a GPU .*no Triton.*--train.torch-compile-fallback"):
        double(x)
    assert x._version == before
    use_compiled_kernels(True, fallback=True)
    double(x)
    assert x._version == before + 1
    assert "no Triton" in compile_failure()
