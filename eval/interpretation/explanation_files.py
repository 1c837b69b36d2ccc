"""The page and the JSON file that show what segments contribute to predictions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from base.errors import UsageError
from base.files import write_text
from eval.interpretation.arguments import ExplainArgs
from eval.interpretation.explanations import choose_examples, to_json, to_page
from eval.interpretation.kept_classifiers import find_task
from eval.interpretation.segment_classifiers import (
    check_segment_head,
    explain_examples,
    load_segment_classifier,
    note_few_segments,
)
from eval.models.identity import admit_run
from eval.report.document.names import file_name
from pretrain.run.folders import RunFolder


def explain(args: ExplainArgs) -> Path:
    """Write the page and the JSON file; return the page's path.

    Raises:
        UsageError: For a head without segments, or data or a run that cannot be used.
    """
    if args.examples < 1:
        raise UsageError(f"--examples is {args.examples}; it must be 1 or more")
    task = find_task(args.task, args.config)
    check_segment_head(task, args.config)
    admit_run(args.run, args.trust_remote_code)
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
