"""The model families a study can name, and what each is trained to predict; known without loading a model."""

from __future__ import annotations

from typing import Literal

from base.errors import unknown_name

Objective = Literal["causal", "masked", "span_corruption"]

OBJECTIVES: dict[str, Objective] = {
    "gpt_neo": "causal",
    "roberta": "masked",
    "t5": "span_corruption",
}
FAMILIES: tuple[str, ...] = tuple(OBJECTIVES)


def objective(family: str) -> Objective:
    """Return what models of a family are trained to predict; ``UsageError`` for an unknown family."""
    check_family(family)
    return OBJECTIVES[family]


def has_ffn_biases(family: str) -> bool:
    """Return whether the stock feed-forward network of a family has biases; T5's has none."""
    return family != "t5"


def check_family(family: str) -> None:
    """Raise ``UsageError`` for an unknown family; it names all and the closest match."""
    if family not in OBJECTIVES:
        raise unknown_name("family", family, FAMILIES)
