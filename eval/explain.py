"""Show what segments contribute to predictions: ``python -m eval.explain RUN TASK``."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from eval.config import EvalConfig
from eval.interpretation.commands import config_with_head, find_task, label_names
from eval.interpretation.segment_classifiers import SEGMENT_HEAD
from ffn_variants.cli import parse_flags
from ffn_variants.errors import UsageError, run_cli
from ffn_variants.files import write_text

EXAMPLES = """Show which segments of a text speak for the predicted label and which against it.

Examples:
  python -m eval.explain RUN sst2 --glue-dir DATA/glue
  python -m eval.explain RUN sst2 --head "swipe segments=sentences pooling=sum" --examples 50 --out page.html

Writes one HTML file and a JSON file beside it. The classifier is the one that RUN keeps for this head and
these settings; where there is none, it is fine-tuned and kept."""


@dataclass(frozen=True, kw_only=True)
class ExplainArgs:
    """What ``python -m eval.explain`` is asked to do."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run, runs/<study>/<family>/<variant>/<run>."""
    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A classification task: a name of python -m eval.tasks, or a YAML file."""
    examples: int = 20
    """Validation examples to show, half of them misclassified where there are enough."""
    out: Path | None = None
    """The page (null: RUN/eval/explanations/TASK.html)."""
    config: Annotated[EvalConfig, tyro.conf.arg(name="")] = field(default_factory=EvalConfig)
    """Where examples come from, how the classifier is fine-tuned, and under which head; what no flag says is
    as in the run's study, and the head is swipe."""


def explain(args: ExplainArgs) -> Path:
    """Write the page and the JSON file; return the page's path.

    Raises:
        UsageError: For a head without segments, or data or a run that cannot be used.
    """
    import numpy as np

    from eval.interpretation.explanations import choose_examples, to_json, to_page
    from eval.interpretation.segment_classifiers import explain_examples, load_segment_classifier

    if args.examples < 1:
        raise UsageError(f"--examples is {args.examples}; it must be 1 or more")
    task = find_task(args.task, args.config)
    found = load_segment_classifier(args.run, task, args.config)
    explained = explain_examples(found)
    is_right = np.array([example.is_right for example in explained])
    shown = [explained[number] for number in choose_examples(is_right, args.examples)]
    intro = (
        f"{len(shown)} of {len(explained)} validation examples of {task.name}, {is_right.sum()} of which "
        f"{args.run} classifies correctly under the head {found.settings.head}. Each segment is shaded by "
        "what it contributes to the likeliest label; point at it for its score."
    )
    names = label_names(task.labels)
    out = args.out or args.run / "eval" / "explanations" / f"{task.name}.html"
    write_text(out, to_page(shown, names, f"What decides {task.name}", intro))
    write_text(out.with_suffix(".json"), json.dumps(to_json(shown, names), indent=1))
    return out


def main() -> int:
    """Read the flags, write the page, say where it is."""
    paths = [Path(argument) for argument in sys.argv[1:2] if not argument.startswith("-")]
    config = config_with_head(paths, SEGMENT_HEAD)
    args = parse_flags(
        ExplainArgs,
        default=ExplainArgs(run=tyro.MISSING, task=tyro.MISSING, config=config),
        prog="python -m eval.explain",
        description=EXAMPLES,
    )
    print(explain(args))
    return 0


if __name__ == "__main__":
    run_cli(main)
