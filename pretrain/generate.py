"""The command that continues prompts with a trained causal model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from base.command_line import Positional, parse_flags
from base.config_input import SEED_END
from base.errors import UsageError
from base.run.folder_names import RunFolder
from base.run.manifest import trained_model
from base.sections import Section


class GenerateArgs(Section):
    """Continue prompts with a trained causal model.

    ffn-ablations generate runs/default/gpt_neo/kan/seed3-1a2b3c4d --prompt "Once upon a time" "A cat"
    ffn-ablations generate path/to/model --prompt "The dog" --temperature 0 --max-new-tokens 50
    """

    run: Positional[Path]
    """A run folder, or its model/."""
    prompt: tuple[str, ...] = ("Once upon a time",)
    """How the texts begin, one or several."""
    max_new_tokens: int = Field(200, gt=0)
    """Tokens to add at most; the text ends earlier where the model ends it or its positions do."""
    temperature: float = Field(0.8, ge=0)
    """Divides the logits; 0 takes the likeliest token each time."""
    top_p: float = Field(0.95, gt=0, le=1)
    """Draw from the likeliest tokens that have this probability together; 1 draws from all."""
    seed: int = Field(0, ge=0, lt=SEED_END)
    """Of the draws; the same seed gives the same texts on the same machine."""
    num: int = Field(1, gt=0)
    """Texts to write for each prompt."""
    trust_remote_code: bool = False
    """Run the FFN variant that the model brings in a file of its own; read that file first."""


def main(args: Sequence[str] | None = None) -> None:
    """The command."""
    options = parse_flags(GenerateArgs, args, prog="ffn-ablations generate")
    folder = model_folder(options.run)

    from transformers.utils.logging import disable_progress_bar

    from pretrain.sampling import continue_texts, load_causal_model

    disable_progress_bar()
    model, tokenizer = load_causal_model(folder, options.trust_remote_code)
    how = options.model_dump(include={"max_new_tokens", "temperature", "top_p", "seed", "num"})
    texts = continue_texts(model, tokenizer, options.prompt, **how)
    print("\n\n".join(texts))


def model_folder(path: Path) -> Path:
    """The folder of a run's model, given either.

    Raises:
        UsageError: If there is none.
    """
    run = RunFolder(path)
    if (path / "config.json").is_file():
        return path
    if run.is_run or run.has_model:
        return trained_model(run)
    problem = "is no run folder" if path.is_dir() else "no such folder"
    raise UsageError(
        f"{path}: {problem}; give runs/<study>/<family>/<variant>/<run> or a folder with a model's "
        "config.json"
    )
