"""Two small classification tasks in the GLUE schema, each split balanced against word and overlap cues."""

from __future__ import annotations

import random
from collections.abc import Iterator

from pretrain.data.embedded import lexicon as lex
from pretrain.data.embedded.grammar import Grammar, capitalize
from pretrain.data.embedded.pairs import draw_groups
from pretrain.data.embedded.paradigms import PARADIGMS

NUM_TRAIN, NUM_VALIDATION = 600, 200
_ACCEPTABILITY_PARADIGMS = (
    "anaphor_gender",
    "anaphor_number",
    "verb_agreement",
    "copula_agreement",
    "determiner_noun",
)


def classification_tasks(seed: int) -> dict[str, dict[str, list[dict]]]:
    """Draw the tasks ``acceptability`` and ``entailment``.

    Args:
        seed: Decides the examples, their order and the split.

    Returns:
        For each task the splits ``train`` (600) and ``validation`` (200) as GLUE rows: acceptability like
        CoLA (``sentence``, ``label`` with 1 for acceptable, ``idx``), entailment like RTE (``sentence1``,
        ``sentence2``, ``label`` with 0 for entailment, ``idx``). Half of each split has each label, and no
        example is in both.
    """
    return {
        "acceptability": _split(_acceptability(random.Random(f"acceptability {seed}")), seed),
        "entailment": _split(_entailment(random.Random(f"entailment {seed}")), seed),
    }


def _split(groups: Iterator[list[dict]], seed: int) -> dict[str, list[dict]]:
    """Fill the splits with whole groups, which are what is balanced, then shuffle and number them."""
    splits: dict[str, list[dict]] = {}
    for name, size in (("train", NUM_TRAIN), ("validation", NUM_VALIDATION)):
        rows: list[dict] = []
        while len(rows) < size:
            rows += next(groups)
        random.Random(f"{name} {seed}").shuffle(rows)
        splits[name] = [row | {"idx": index} for index, row in enumerate(rows)]
    return splits


def _acceptability(rng: random.Random) -> Iterator[list[dict]]:
    """Groups of four sentences: two pairs whose critical words have changed sides."""
    seen = set[str]()
    sources = [
        draw_groups(paradigm, rng) for paradigm in PARADIGMS if paradigm.uid in _ACCEPTABILITY_PARADIGMS
    ]
    while True:
        for source in sources:
            group = next(source)
            sentences = {sentence for pair in group for sentence in pair}
            if seen & sentences:  # two paradigms may share a good sentence
                continue
            seen |= sentences
            yield [
                {"sentence": sentence, "label": label}
                for good, bad in group
                for sentence, label in ((good, 1), (bad, 0))
            ]


def _entailment(rng: random.Random) -> Iterator[list[dict]]:
    """Draw groups of an affirmative and a negative premise, each with both hypotheses.

    A hypothesis follows when its polarity is that of the premise, so neither a premise nor a hypothesis alone
    says anything about the label. The markers differ (``never`` and ``no`` against ``did not``): the
    affirmative hypothesis repeats the words of both premises and the negative one of neither, so overlap does
    not either.
    """
    grammar, seen = Grammar(rng), set[str]()
    while True:
        premises, hypotheses = _polarity_square(grammar)
        if seen & set(hypotheses):
            continue
        seen |= set(hypotheses)
        yield [
            {"sentence1": capitalize(premise), "sentence2": capitalize(hypothesis), "label": int(i != j)}
            for i, premise in enumerate(premises)
            for j, hypothesis in enumerate(hypotheses)
        ]


def _polarity_square(g: Grammar) -> tuple[tuple[str, str], tuple[str, str]]:
    """Draw the affirmative and the negative premise, and the same of hypotheses."""
    one, other = (name.text for name in g.two(g.names))
    # An aside of either polarity: counting negations does not give the label.
    aside = f"{other} {g.pick(('was', 'was not'))} {g.pick(lex.FEELINGS)}"
    if g.chance(0.5):
        verb, thing = g.pick(lex.TRANSITIVE), g.object_definite()
        claims = f"{one} always {verb.past} {thing}", f"{one} never {verb.past} {thing}"
        hypotheses = f"{one} {verb.past} {thing}.", f"{one} did not {verb.base} {thing}."
    else:
        verb, noun, place = g.pick(lex.INTRANSITIVE), g.pick(lex.ANIMATE).singular, g.place()
        claims = f"every {noun} {verb.past} {place}", f"no {noun} {verb.past} {place}"
        hypotheses = f"the {noun} {verb.past} {place}.", f"the {noun} did not {verb.base} {place}."
    first, second = (
        (f"{aside}, and {claim}." for claim in claims)
        if g.chance(0.5)
        else (f"{claim}, and {aside}." for claim in claims)
    )
    return (first, second), hypotheses
