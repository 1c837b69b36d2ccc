"""``python -m eval.concept_space RUN TASK``: a plot of the spaces that the head ``space`` has learned."""

from __future__ import annotations

from collections.abc import Sequence

from eval.interpretation.arguments import SPACE_HEAD, ConceptSpaceArgs, parse_classifier_flags

EXAMPLES = """Draw where the examples of a task lie in the spaces of the head space, one space for each class.

Examples:
  python -m eval.concept_space RUN sst2 --glue-dir DATA/glue                   # three dimensions
  python -m eval.concept_space RUN sst2 --head "space num_dimensions=2"        # two
  python -m eval.concept_space RUN rte --head "space num_dimensions=16 frozen" # their principal components

The classifier is the one that RUN keeps for this head and these settings; where there is none, it is
fine-tuned and kept. Drawn are examples of the validation file, each the centroid of its tokens. Writes an
SVG, a PNG and their alt text."""


def main(args: Sequence[str] | None = None) -> int:
    """Read the flags, draw, and say where the files are; the study's settings stand for what no flag says."""
    asked = parse_classifier_flags(
        ConceptSpaceArgs, args, SPACE_HEAD, "python -m eval.concept_space", EXAMPLES
    )
    from eval.interpretation.concept_space_plot import draw

    print("\n".join(map(str, draw(asked))))
    return 0
