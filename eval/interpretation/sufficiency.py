"""Test whether the segments that explain a label suffice for it: ``python -m eval.sufficiency RUN TASK``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from base.files import write_text
from eval.interpretation.arguments import SEGMENT_HEAD, SufficiencyArgs, parse_classifier_flags, say_rarely
from eval.report.document.names import file_name
from pretrain.run.folders import RunFolder

EXAMPLES = """Train a bag of words on a few segments of each document, and see which choice serves best: those
with the highest score for the predicted label, those with most attention, those with most of LIME's keywords,
or those drawn at random.

Examples:
  python -m eval.sufficiency RUN sst2 --glue-dir DATA/glue --head "swipe window=16 stride=4"
  python -m eval.sufficiency RUN boolq --head "swipe segments=sentences" --segments-kept 3 --draws 10
  python -m eval.sufficiency RUN imdb-long --head swipe --lengths 64 128 256 512 --finetune.max-length 512

Attention is the weights of the head segment-attention on the same segments. LIME explains a random forest on
words by 6 keywords. With --lengths all of it is done for segments of each length, and a figure shows accuracy
and seconds against length. What RUN does not keep yet is fine-tuned."""


def main(args: Sequence[str] | None = None) -> int:
    """Read the flags, test, write the JSON file (and the figure) and print the table."""
    asked = parse_classifier_flags(
        SufficiencyArgs, args, SEGMENT_HEAD, "python -m eval.sufficiency", EXAMPLES
    )
    from eval.interpretation.kept_classifiers import find_task
    from eval.interpretation.lengths_figure import draw_lengths
    from eval.interpretation.selections import table
    from eval.interpretation.sufficiency_measures import length_table, measure, sweet_spot
    from eval.report.figures.style import to_svg

    found = measure(asked, say_rarely())
    task, head = find_task(asked.task, asked.config).name, str(asked.config.finetune.heads[0])
    out = asked.out or RunFolder(asked.run).sufficiency_dir / f"{file_name(task, head)}.json"
    content = {
        "run": str(asked.run),
        "task": task,
        "head": head,
        "segments_kept": asked.segments_kept,
        "draws": asked.draws,
        "seed": asked.seed,
        "train_documents": asked.train_documents,
        "results": [asdict(result) for result in found[0].results],
    }
    if asked.lengths:
        content |= {"lengths": [asdict(one) for one in found], "enough_from": sweet_spot(found).window}
        figure, alt = draw_lengths(found, f"{task}, {head}")
        write_text(out.with_suffix(".svg"), to_svg(figure))
        print(f"{length_table(found)}\n{alt}\n{out.with_suffix('.svg')}")
    else:
        print(table(found[0].results))
    write_text(out, json.dumps(content, indent=1))
    print(out)
    return 0
