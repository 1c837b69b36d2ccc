"""From a run's classifier with the head ``space`` to the plot of its spaces.

Shapes: n examples, C classes, m dimensions of a space.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from base.errors import UsageError
from base.files import write_atomically, write_text
from eval.classification.classifier import Batch, Classifier, HeadClassifier
from eval.classification.heads.choice import HeadChoice
from eval.classification.heads.space import SpaceHead
from eval.config import EvalConfig
from eval.interpretation.arguments import SPACE_HEAD, ConceptSpaceArgs, say_rarely
from eval.interpretation.concept_space_figure import draw_concept_space
from eval.interpretation.kept_classifiers import find_task, finetuned
from eval.models.identity import admit_run
from eval.report.document.names import file_name
from eval.report.figures.style import to_png, to_svg
from eval.zero_shot.task import evenly_spaced
from pretrain.run.folders import RunFolder

BATCH_SIZE = 64


def concept_vectors(classifier: Classifier, data: Batch) -> np.ndarray:
    """Return (n, C, m), where each example lies in each class's space; the head is a ``SpaceHead``."""
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
    if len(heads) != 1 or heads[0].name != SPACE_HEAD:
        names = ", ".join(map(str, heads))
        raise UsageError(
            f"--head {names}: one head is drawn, and only {SPACE_HEAD} has concept spaces; give "
            f'--head {SPACE_HEAD} or --head "{SPACE_HEAD} num_dimensions=2"'
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
    admit_run(args.run, args.trust_remote_code)
    found = finetuned(args.run, task, args.config, say_rarely())
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
