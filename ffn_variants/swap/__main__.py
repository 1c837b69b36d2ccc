"""``python -m ffn_variants.swap MODEL --ffn NAME --data TEXTS...``: another FFN in a pretrained model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from base.baseline import Budget
from base.command_line import Positional, parse_flags
from base.errors import UsageError
from base.sections import Section
from base.seeds import SEED_END
from base.text.files import TextSplit
from ffn_variants.files import load_variant, names_file
from ffn_variants.swap.run import Settings, swap

Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]

EXAMPLES = """Replace the feed-forward networks (FFNs) of a pretrained model by a variant, fit them to what
they replace on text, and save the model.

Examples:
  python -m ffn_variants.swap runs/default/gpt_neo/gelu/seed1-1a2b3c4d --ffn fourier-kan --data stories.jsonl
  python -m ffn_variants.swap FacebookAI/roberta-base --ffn kan --ffn-budget params --layers 11 --data a.txt
  python -m ffn_variants.swap RUN --ffn gr-kan --data stories.jsonl --finetune-steps 500 --out swapped/mine

Each layer is fitted by itself, to the inputs and outputs of its own FFN. Variants that keep the two linear
layers take their weights over: gelu for gelu changes nothing. A layer of a KAN has several times the
parameters at equal width; --ffn-budget params gives it as many. What comes out is a saved model with
swap.json, which has what is printed. from_pretrained loads it after `import ffn_variants`, and eval
takes it as a backbone."""


class SwapArgs(Section):
    """What ``python -m ffn_variants.swap`` is asked to do."""

    model: Positional[Path]
    """A run's folder, one with a saved GPT-Neo, RoBERTa or T5 (ours or stock), or its name on the hub."""
    ffn: str
    """Variant to put in: a name that `ffn-ablations list variants` lists, or path/to/mine.py:SPEC."""
    data: tuple[Path, ...] = ()
    """Texts to fit to, needed: .jsonl, .jsonl.gz, .parquet or .txt. Every tenth document is held out."""
    out: Path | None = None
    """Folder for the model; it must not exist (null: swapped/<model>-<ffn>)."""
    ffn_options: dict[str, int | float | bool | str] | None = None
    """Options of the variant, for example `grid_size 5`."""
    intermediate_size: Annotated[int, Field(ge=1)] | None = None
    """Inner width of the new FFNs (null: that of the model)."""
    ffn_budget: Budget = "width"
    """params, active-params or flops = the inner width at which a new FFN has as many as a gelu one of the
    model's width."""
    layers: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Which layers, from 0; a T5's encoder has the first numbers. None = all."""
    tokens: Annotated[int, Field(ge=1)] = 50_000
    """Tokens to fit to."""
    held_out_tokens: Annotated[int, Field(ge=1)] = 20_000
    """Tokens to measure losses and errors on."""
    block_size: Annotated[int, Field(ge=1)] | None = None
    """Tokens that a document is cut into pieces of (null: the model's positions, 512 at most)."""
    steps: Annotated[int, Field(ge=0)] = 1000
    """Steps of Adam for each layer; 0 = do not fit."""
    learning_rate: Rate = 3e-3
    """Of fitting, at its start; it falls to zero in a straight line."""
    batch_tokens: Annotated[int, Field(ge=1)] = 512
    """Tokens of a step of fitting."""
    finetune_steps: Annotated[int, Field(ge=0)] = 0
    """Steps that then train the whole model with its own objective."""
    finetune_learning_rate: Rate = 5e-4
    """Of fine-tuning, at its start; it falls to zero in a straight line."""
    batch_size: Annotated[int, Field(ge=1)] = 16
    """Pieces of text of a step of fine-tuning."""
    text_field: str = "text"
    """Field or column of the document in jsonl and parquet files."""
    txt_split: TextSplit = "endoftext"
    """What ends a document of a .txt file: <|endoftext|>, each line, blank lines, or the file alone."""
    seed: Annotated[int, Field(ge=0, lt=SEED_END)] = 1
    """Decides the new weights and the order of what they are fitted to."""
    trust_remote_code: bool = False
    """Run the FFN variant that the model brings in a file of its own; read that file first."""


def main(args: Sequence[str] | None = None) -> None:
    """Read the flags and swap."""
    asked = parse_flags(SwapArgs, args, prog="python -m ffn_variants.swap", description=EXAMPLES)
    if names_file(asked.ffn):
        asked = asked.model_copy(update={"ffn": load_variant(asked.ffn).name})
    out = asked.out or Path("swapped") / f"{asked.model.name}-{asked.ffn}"
    settings = Settings(**{name: value for name, value in vars(asked).items() if name != "out"})
    try:
        swap(settings, out)
    except UsageError as error:  # flags of a section `data` have the same names here
        raise UsageError(str(error).replace("--data.", "--")) from None
