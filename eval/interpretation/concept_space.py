"""``python -m eval.concept_space RUN TASK``: a plot of the spaces that the head ``space`` has learned.

Shapes: n examples, C classes, m dimensions of a space.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from base.errors import UsageError, run_cli
from eval.config import EvalConfig
from eval.interpretation.commands import (
    ClassifierArgs,
    find_task,
    parse_classifier_flags,
    say_rarely,
)
from pretrain.run.folders import RunFolder

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from eval.classification.classifier import Batch, Classifier
    from eval.classification.heads.choice import HeadChoice

HEAD = "space"
BATCH_SIZE = 64

EXAMPLES = """Draw where the examples of a task lie in the spaces of the head space, one space for each class.

Examples:
  python -m eval.concept_space RUN sst2 --glue-dir DATA/glue                   # three dimensions
  python -m eval.concept_space RUN sst2 --head "space num_dimensions=2"        # two
  python -m eval.concept_space RUN rte --head "space num_dimensions=16 frozen" # their principal components

The classifier is the one that RUN keeps for this head and these settings; where there is none, it is
fine-tuned and kept. Drawn are examples of the validation file, each the centroid of its tokens. Writes an
SVG, a PNG and their alt text."""


@dataclass(frozen=True, kw_only=True)
class ConceptSpaceArgs(ClassifierArgs):
    """What ``python -m eval.concept_space`` is asked to draw."""

    out: Path | None = None
    """File to write, with or without .svg or .png (default: RUN/eval/concept_space/TASK-HEAD)."""
    max_examples: int = 1000
    """Draw only so many examples, evenly spaced over the file."""


def concept_vectors(classifier: Classifier, data: Batch) -> np.ndarray:
    """Return (n, C, m), where each example lies in each class's space; the head is a ``SpaceHead``."""
    import numpy as np
    import torch

    from eval.classification.classifier import HeadClassifier
    from eval.classification.heads.space import SpaceHead

    assert isinstance(classifier, HeadClassifier)
    head = classifier.head
    assert isinstance(head, SpaceHead)
    parts = []
    with torch.no_grad():
        for start in range(0, len(data), BATCH_SIZE):
            vectors, mask = classifier.embed(data.take(range(start, min(start + BATCH_SIZE, len(data)))))
            assert mask is not None
            parts.append(head.concept_vectors(vectors, mask).float().cpu().numpy())
    return np.concatenate(parts)


def write_figure(figure: Figure, alt: str, out: Path) -> list[Path]:
    """Write ``out.svg``, ``out.png`` and ``out.txt``, the alt text; a suffix of one of them is left off."""
    from base.files import write_atomically, write_text
    from eval.report.figures.style import to_png, to_svg

    name = out.name.removesuffix(".svg").removesuffix(".png")
    svg, png, txt = (out.with_name(name + suffix) for suffix in (".svg", ".png", ".txt"))
    image = to_png(figure)
    write_text(svg, to_svg(figure))
    write_atomically(png, lambda temporary: temporary.write_bytes(image))
    write_text(txt, f"{alt}\n")
    return [svg, png, txt]


def choose_head(config: EvalConfig) -> HeadChoice:
    """Return the head to draw.

    Raises:
        UsageError: For none or several, or another than ``space``.
    """
    heads = config.finetune.heads
    if len(heads) != 1 or heads[0].name != HEAD:
        names = ", ".join(map(str, heads))
        raise UsageError(
            f"--head {names}: one head is drawn, and only {HEAD} has concept spaces; give --head {HEAD} or "
            f'--head "{HEAD} num_dimensions=2"'
        )
    return heads[0]


def draw(args: ConceptSpaceArgs) -> list[Path]:
    """Fine-tune if need be, draw, and return the files.

    Raises:
        UsageError: For a run, task, head or number of examples that cannot be drawn.
    """
    if args.max_examples < 2:
        raise UsageError(f"--max-examples is {args.max_examples}; it must be 2 or more")
    head = choose_head(args.config)
    task = find_task(args.task, args.config)
    from eval.interpretation.concept_space_figure import draw_concept_space
    from eval.interpretation.kept_classifiers import fine_tuned
    from eval.report.names import file_name
    from eval.zero_shot.task import evenly_spaced

    found = fine_tuned(args.run, task, args.config, say_rarely())
    data = found.validation.take(evenly_spaced(list(range(len(found.validation))), args.max_examples))
    run = RunFolder(args.run.resolve())
    figure, alt = draw_concept_space(
        concept_vectors(found.classifier, data),
        data.labels,
        task.label_names,
        f"{task.name}, head {head}, {run.run_id}",
    )
    out = args.out or RunFolder(args.run).concept_space_dir / file_name(task.name, str(head))
    return write_figure(figure, alt, out)


def main() -> int:
    """Read the flags, draw, and say where the files are; the study's settings stand for what no flag says."""
    args = parse_classifier_flags(ConceptSpaceArgs, HEAD, "python -m eval.concept_space", EXAMPLES)
    print("\n".join(map(str, draw(args))))
    return 0


if __name__ == "__main__":
    run_cli(main)
