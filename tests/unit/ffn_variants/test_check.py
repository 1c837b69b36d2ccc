"""The checks of a variant: each fails for a variant that is wrong in its way, and in one sentence."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

from ffn_variants import FFN_VARIANTS, FFNSpec, register
from ffn_variants.check import CHECKS, main, problems
from ffn_variants.variant_files import load_variant
from tests.cases import KINDS, listed, own_spec

pytestmark = pytest.mark.usefixtures("own_variants")


class Scaled(nn.Module):
    """x s, with a learned s; right in every way."""

    def __init__(self, start: float | None = None):
        super().__init__()
        self.scale = nn.Parameter(torch.full((), 0.5) if start is None else torch.tensor(float(start)))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale.to(x.dtype)


class Lost(Scaled):
    def __init__(self):
        super().__init__()
        self.register_buffer("offset", torch.ones(()), persistent=False)


class Hidden(Scaled):
    def __init__(self):
        super().__init__()
        self.offset = torch.rand(())

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.offset.to(x.dtype)


class OnTheCpu(Scaled):
    def __init__(self):
        super().__init__()
        self.register_buffer("knots", torch.zeros(3, device="cpu"))


class Bent(Scaled):
    """A function of x and s that is wrong in some way."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.scale.to(x.dtype))


def of_the_batch(x: Tensor, s: Tensor) -> Tensor:
    return x * s - 0.1 * x.flatten(0, -2).mean(0) if x.dim() > 1 else x * s


def of_the_row(x: Tensor, s: Tensor) -> Tensor:
    return x * s - 0.1 * x.mean(1, keepdim=True) if x.dim() == 3 else x * s


def halves(x: Tensor, s: Tensor) -> Tensor:
    first, second = x.split(x.shape[-1] // 2, dim=-1)
    return torch.cat([first, second * s], -1)


SECONDS = ("compile", "infinite")


def spec(module: Callable[[], nn.Module], **changes: object) -> FFNSpec:
    return own_spec("wrong", lambda intermediate_size: module(), **changes)


def bent(function: Callable[[Tensor, Tensor], Tensor]) -> FFNSpec:
    return spec(lambda: Bent(function))


NAN = bent(lambda x, s: x * s / torch.relu(x - 1e9))
WRONG = {
    "shape": (
        bent(lambda x, s: (x * s).reshape(-1, x.shape[-1])),
        "shapes and dtype",
        "forward must keep shape and dtype",
    ),
    "odd sizes": (bent(halves), "shapes and dtype", "to unpack"),
    "batch": (bent(of_the_batch), "each token by itself", "changes with the tokens beside it"),
    "row": (bent(of_the_row), "each token by itself", "changes with the tokens beside it"),
    "zero": (
        bent(lambda x, s: s * x * x / x.abs()),
        "zero and large inputs",
        "the output or a gradient is NaN",
    ),
    "backward": (bent(lambda x, s: s * x.square().sqrt()), "zero and large inputs", "or a gradient is NaN"),
    "large": (
        bent(lambda x, s: (s * x).masked_fill(x > 20, torch.nan)),
        "zero and large inputs",
        "at inputs of 100",
    ),
    "loud": (bent(lambda x, s: 1e4 * x * s), "shapes and dtype", "or more than 1,000"),
    "width": (bent(lambda x, s: x[..., ::2] * s), "shapes and dtype", "forward must keep shape"),
    "gradient": (bent(lambda x, s: x.detach() * s + 0.1 * x), "gradients", "differ from finite differences"),
    "no gradient": (bent(lambda x, s: x * s.item()), "gradients", "scale gets no gradient, or zeros"),
    "float32": (
        bent(lambda x, s: x.float() * s.float()),
        "float64 and bf16 are kept",
        "gives torch.float32; end forward with .to(x.dtype)",
    ),
    "bf16": (bent(lambda x, s: (x * s + 300) - 300), "bf16", "off that of float32; compute what cancels"),
    "meta": (spec(OnTheCpu), "meta device", "knots is on the CPU where the meta device was asked for"),
    "numbers": (
        spec(lambda: Scaled(float(torch.ones(2).sum()))),
        "meta device",
        "cannot be built on the meta device",
    ),
    "buffer": (spec(Lost), "state dict", "buffer act.offset is not in the state dict"),
    "hidden": (spec(Hidden), "state dict", "two networks with the same state dict give different outputs"),
    "no grad": (
        bent(lambda x, s: torch.from_numpy(np.tanh(x.detach().numpy()))),
        "shapes and dtype",
        "no gradient goes from the output to the input; use torch's functions",
    ),
    "written over": (bent(lambda x, s: x.data.mul_(2) * s), "shapes and dtype", "changes its input in place"),
    "numpy": (
        spec(lambda: Scaled(float(np.random.default_rng().random()))),
        "initial weights",
        "differ from call to call; draw them with torch's global generator",
    ),
    "counts": (
        spec(Scaled, multiply_adds=lambda d, f: f),
        "multiply_adds",
        "gives 20, and the matrix products of one token take 480",
    ),
    "no count": (spec(Scaled, multiply_adds=lambda d, f: 0.5 * d * f), "multiply_adds", "a whole number"),
    "compile": (bent(lambda x, s: x * s * (1 + is_compiling())), "torch.compile", "gives another output"),
    "nan": (NAN, "shapes and dtype", "an input of normal numbers gives NaN"),
    "infinite": (NAN, "a step of training in every family", "the loss of gpt_neo is nan at step 1"),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.ci if case in SECONDS else ()) for case in WRONG]
)
def test_a_wrong_variant_fails_its_check(case):
    wrong, check, words = WRONG[case]
    register(wrong)
    with pytest.raises((AssertionError, RuntimeError, ValueError)) as error:
        CHECKS[check]("wrong", {})
    assert str(words) in str(error.value)
    assert isinstance(error.value, AssertionError) or case == "odd sizes"
    if isinstance(error.value, AssertionError):
        assert "\n" not in str(error.value)


def test_a_block_that_sets_the_seed_fails():
    class Reseeding(nn.Module):
        def __init__(self, d: int):
            super().__init__()
            torch.manual_seed(7)
            self.linear = nn.Linear(d, d)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x)

    register(own_spec("wrong", lambda d, f: Reseeding(d), kind="block", multiply_adds=lambda d, f: d * d))
    with pytest.raises(AssertionError, match="the initial weights are the same at every seed"):
        CHECKS["initial weights"]("wrong", {})


def marks(name: str, check: str) -> pytest.MarkDecorator | tuple[()]:
    """What takes seconds and is much the same for every variant is not in the fast set for all of them."""
    if check == "torch.compile":
        return pytest.mark.ci if name in KINDS else pytest.mark.slow
    return pytest.mark.ci if check == "a step of training in every family" and name not in KINDS else ()


@pytest.mark.parametrize(
    ("name", "check"),
    [pytest.param(*case, marks=marks(*case)) for case in itertools.product(FFN_VARIANTS, CHECKS)],
)
def test_every_variant_passes_what_the_command_checks(name, check):
    CHECKS[check](name, {})


class Dropped(Scaled):
    """With what looks wrong and is right: dropout, a list of registered layers, the last output, an index.

    What its second dropout draws for a token depends on the tokens before, as that of an expert does.
    """

    def __init__(self):
        super().__init__()
        self.normed = nn.utils.weight_norm(nn.Linear(1, 1))
        self.layers, self.last, self.dropout = [self.normed], torch.empty(0), nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        self.last = nn.functional.dropout(x, 0.1, self.training)
        if self.training:
            self.last = self.last.masked_scatter(x > 0, self.dropout(self.last[x > 0]))
        index = torch.arange(x.shape[-1])
        return self.layers[0](super().forward(self.last[..., index])[..., None])[..., 0] * torch.tensor(0.5)


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("module", [Scaled, Dropped])
@pytest.mark.parametrize("check", CHECKS)
def test_a_right_variant_passes_every_check(check, module):
    register(spec(module, multiply_adds=lambda d, f: 2 * d * f + f))
    CHECKS[check]("wrong", {})


FILE = """import numpy as np
import torch
from torch import nn
class Own(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.up = nn.Linear(hidden_size, hidden_size); {init}
    def forward(self, x):
        {forward}
"""


@pytest.mark.parametrize(("init", "forward", "check", "line", "words"), listed(__file__, "one cause"))
def test_a_mistake_is_named_once_with_its_cure(tmp_path, init, forward, check, line, words):
    """By torch's own messages it would fail many checks, and some of those name another cure."""
    file = tmp_path / "own.py"
    file.write_text(FILE.format(init=init, forward=forward), encoding="utf-8")
    found = [(label, problem) for label, problem in problems(load_variant(f"{file}:Own"), {}) if problem]
    ((label, problem),) = found
    assert (label, problem.startswith(f"own.py, line {line}: ")) == (check, bool(line))
    assert words in problem


def test_the_command_says_what_failed_and_exits_with_1(tmp_path, monkeypatch, capsys, repository):
    example = (repository / "examples/channel_elu.py").read_text()
    path = tmp_path / "own.py"
    path.write_text(example.replace("torch.where(", "self.beta * torch.where("))
    monkeypatch.setattr("sys.argv", ["check", f"{path}:CHANNEL_ELU", "--ffn-options", "init", "2"])
    assert main() == 1
    said = capsys.readouterr().out
    assert "FAILED  shapes and dtype: own.py, line 20: AttributeError: 'ChannelELU' object has no" in said
    assert said.count("FAILED") == 1
    assert "left out" in said.splitlines()[-1]
