"""The registry of optimizers: one spec each. To add one, see docs/adding-an-optimizer.md.

Their classes are named by text, so that a configuration is checked without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from base.errors import UsageError, look_up
from base.options import Option, resolve_options
from pretrain.config import OptimConfig

if TYPE_CHECKING:
    from torch.optim import Optimizer

ADAM_FIELDS = ("adam_beta1", "adam_beta2", "adam_epsilon", "width_scaling")
"""Fields of ``optim:`` that not every optimizer reads; muP's rule is of steps that know no weight's size."""


@dataclass(frozen=True, kw_only=True)
class OptimizerSpec:
    """One entry of the registry."""

    name: str
    """As typed after ``--optim.optimizer``."""
    build: Callable[..., Optimizer]
    """``build(groups, optim, **options)``: torch's groups of parameters, each with its ``lr`` and its
    ``weight_decay``; the ``OptimConfig``; every one of the options; with ``only_matrices`` the ``views`` too,
    which take each parameter to its matrices (stack, out, ...in)."""
    reference: str
    """Paper or page."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """What ``optim.optimizer_options`` may hold."""
    reads_adam_fields: bool = False
    """Whether ``ADAM_FIELDS`` are for it; else they are refused."""
    only_matrices: bool = False
    """Whether it is for weights that multiply inputs inside the network alone; AdamW has all else then, and
    the Adam fields are AdamW's."""

    def resolve(self, optim: OptimConfig) -> dict[str, int | float | str]:
        """Return a value for every option.

        Raises:
            UsageError: For an option that does not exist or does not fit, or a field that has no effect.
        """
        if not (self.reads_adam_fields or self.only_matrices):
            for name in ADAM_FIELDS:
                if getattr(optim, name) != OptimConfig.model_fields[name].default:
                    raise UsageError(
                        f"optim.{name} has no effect with optim.optimizer {self.name!r}; leave it out"
                    )
        return resolve_options(self.name, self.options, optim.optimizer_options, kind="optimizer")


def build_adamw(groups: list[dict[str, Any]], optim: OptimConfig) -> Optimizer:
    """AdamW, which also has whatever an optimizer for matrices alone leaves over."""
    return resolve_name("torch.optim:AdamW")(
        groups,
        lr=optim.learning_rate,
        betas=(optim.adam_beta1, optim.adam_beta2),
        eps=optim.adam_epsilon,
        fused=True,
    )


OPTIMIZERS: dict[str, OptimizerSpec] = {
    spec.name: spec
    for spec in (
        OptimizerSpec(
            name="adamw",
            build=build_adamw,
            reference="Loshchilov and Hutter 2019, arXiv:1711.05101",
            reads_adam_fields=True,
        ),
        OptimizerSpec(
            name="muon",
            build=lambda groups, optim, **options: resolve_name("pretrain.muon:Muon")(groups, **options),
            reference="Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/",
            options={
                "momentum": Option(
                    default=0.95, help="decay of the running mean of gradients", minimum=0, maximum=0.999
                ),
                "ns_steps": Option(default=5, help="Newton-Schulz iterations", minimum=1, maximum=99),
            },
            only_matrices=True,
        ),
        OptimizerSpec(
            name="adafactor",
            build=lambda groups, optim, **options: resolve_name("torch.optim:Adafactor")(
                groups, lr=optim.learning_rate, **options
            ),
            reference="Shazeer and Stern 2018, arXiv:1804.04235, with T5's settings",
            options={
                "beta2_decay": Option(default=-0.8, help="exponent of the second moment's decay", maximum=0),
                "d": Option(default=1.0, help="root mean square that updates are clipped to", minimum=1),
            },
        ),
    )
}
"""Every optimizer; each is tested by being here (tests/unit/pretrain/training/test_optimizers.py)."""


def get_optimizer(name: str) -> OptimizerSpec:
    """Look an optimizer up.

    Raises:
        UsageError: If there is none of that name; lists all and the closest match.
    """
    return look_up("optim.optimizer", name, OPTIMIZERS)
