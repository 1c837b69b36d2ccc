"""Judge explanations by the labels of turns: ``python -m eval.explainable_segments RUN TASK``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from base.files import write_text
from eval.interpretation.arguments import (
    SEGMENT_HEAD,
    ExplainableSegmentsArgs,
    parse_classifier_flags,
    say_rarely,
)
from eval.report.document.names import file_name
from pretrain.run.folders import RunFolder

EXAMPLES = """Train on the labels of documents, and see which labels of their turns are found: F1 of pairs of
turn and label, for the segments by which a head explains a label, for LIME's keywords of a random forest, and
for a classifier that is trained on the turns' own labels.

Examples:
  python -m eval.explainable_segments RUN multiwoz --head "swipe segments=turns"
  python -m eval.explainable_segments RUN mine.yaml --head "swipe segments=turns pooling=sum"

The task's file names the field with the labels of turns, segment_labels. What RUN does not keep yet is
fine-tuned. Intervals are of a bootstrap over documents; they say nothing of other runs."""


def main(args: Sequence[str] | None = None) -> int:
    """Read the flags, judge, write the JSON file and print the table."""
    asked = parse_classifier_flags(
        ExplainableSegmentsArgs,
        args,
        f"{SEGMENT_HEAD} segments=turns",
        "python -m eval.explainable_segments",
        EXAMPLES,
    )
    from eval.interpretation.explained_turns import measure
    from eval.interpretation.kept_classifiers import find_task
    from eval.interpretation.segment_f1 import table

    results = measure(asked, say_rarely())
    task = find_task(asked.task, asked.config).name
    heads = [str(head) for head in asked.config.finetune.heads]
    name = f"{file_name(task, heads[0])}-segments.json"
    out = asked.out or RunFolder(asked.run).explanations_dir / name
    content = {
        "run": str(asked.run),
        "task": task,
        "heads": heads,
        "seed": asked.seed,
        "results": [asdict(result) for result in results],
    }
    write_text(out, json.dumps(content, indent=1))
    print(f"{table(results)}\n{out}")
    return 0
