"""Show what segments contribute to predictions: ``python -m eval.explain RUN TASK``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from base.errors import UsageError, run_cli
from base.files import write_text
from eval.interpretation.commands import ClassifierArgs, find_task, parse_classifier_flags
from eval.interpretation.segment_classifiers import SEGMENT_HEAD
from eval.report.names import file_name
from pretrain.run.folders import RunFolder

EXAMPLES = """Show which segments of a text speak for the predicted label and which against it.

Examples:
  python -m eval.explain RUN boolq --glue-dir DATA/glue --head "swipe segments=sentences"
  python -m eval.explain RUN sst2 --head "swipe window=8 stride=4 pooling=sum" --examples 50 --out page.html

Writes one HTML file and a JSON file beside it. The classifier is the one that RUN keeps for this head and
these settings; where there is none, it is fine-tuned and kept."""


@dataclass(frozen=True, kw_only=True)
class ExplainArgs(ClassifierArgs):
    """What ``python -m eval.explain`` is asked to do."""

    examples: int = 20
    """Validation examples to show, half of them misclassified where there are enough."""
    out: Path | None = None
    """The page (null: RUN/eval/explanations/TASK-HEAD.html)."""


def explain(args: ExplainArgs) -> Path:
    """Write the page and the JSON file; return the page's path.

    Raises:
        UsageError: For a head without segments, or data or a run that cannot be used.
    """
    import numpy as np

    from eval.interpretation.explanations import choose_examples, to_json, to_page
    from eval.interpretation.segment_classifiers import (
        explain_examples,
        load_segment_classifier,
        note_few_segments,
    )

    if args.examples < 1:
        raise UsageError(f"--examples is {args.examples}; it must be 1 or more")
    task = find_task(args.task, args.config)
    found = load_segment_classifier(args.run, task, args.config)
    note_few_segments(found, 1)
    explained = explain_examples(found)
    is_right = np.array([example.is_right for example in explained])
    shown = [explained[number] for number in choose_examples(is_right, args.examples)]
    intro = (
        f"{len(shown)} of {len(explained)} validation examples of {task.name}. Of all {len(explained)}, "
        f"{args.run} classifies {is_right.sum()} correctly under the head {found.settings.head}. Each "
        "segment is shaded by what it contributes to the likeliest label; point at it for its score."
    )
    names = task.label_names
    out = (
        args.out
        or RunFolder(args.run).explanations_dir / f"{file_name(task.name, str(found.settings.head))}.html"
    )
    write_text(out, to_page(shown, names, f"What decides {task.name}", intro))
    write_text(out.with_suffix(".json"), json.dumps(to_json(shown, names), indent=1))
    return out


def main() -> int:
    """Read the flags, write the page, say where it is."""
    args = parse_classifier_flags(ExplainArgs, SEGMENT_HEAD, "python -m eval.explain", EXAMPLES)
    print(explain(args))
    return 0


if __name__ == "__main__":
    run_cli(main)
