"""Short stories: an opening, sentences of weighted kinds over a small cast, an ending."""

from __future__ import annotations

import random
from collections.abc import Callable

from ffn_variants.errors import UsageError
from pretrain.embedded import lexicon as lex
from pretrain.embedded.grammar import Grammar, Subject, article, capitalize
from pretrain.embedded.holdout import is_held_out


class Storyteller(Grammar):
    """Writes one story about a hero, a friend, a few animals, things and places."""

    def __init__(self, rng: random.Random) -> None:
        draw = Grammar(rng)
        super().__init__(
            rng,
            names=draw.two(lex.NAMES),
            animate=(*draw.two(lex.ANIMALS), *draw.two(lex.ANIMATE)),
            objects=(*draw.two(lex.THINGS), draw.pick(lex.FOOD)),
            places=draw.two(lex.PLACES),
        )
        self.hero = self.names[0]
        self.hero_is_known = False

    def named(self) -> Subject:
        if self.hero_is_known and self.chance(0.25):
            return Subject(self.hero.pronoun, False, self.hero.reflexive)
        return super().named()

    def name(self) -> str:
        return self.pick(self.names).text

    # Each kind returns one or more sentences without their capital; `None` marks nothing: every kind succeeds.

    def opening(self) -> str:
        kind = self.pick(lex.WOMEN if self.hero.pronoun == "She" else lex.MEN).singular
        adjective = self.pick(lex.FEELINGS)
        if self.chance(0.5):
            return f"there was once {article(f'{adjective} {kind}')} named {self.hero.text}."
        return f"{self.hero.text} was {article(f'{adjective} {kind}')} and lived {self.place()}."

    def intransitive(self) -> str:
        return f"{self.subject().text} {self.pick(lex.INTRANSITIVE).past}{self.maybe_place(0.6)}."

    def transitive(self) -> str:
        if self.chance(0.3):
            return f"{self.subject().text} {self.pick(lex.SOCIAL).past} {self.common().text}{self.maybe_place(0.2)}."
        verb = self.pick(lex.TRANSITIVE if self.chance(0.7) else lex.IRREGULAR)
        return f"{self.subject().text} {verb.past} {self.object()}{self.maybe_place(0.3)}."

    def irregular(self) -> str:
        subject, verb = self.subject().text, self.pick(lex.IRREGULAR)
        if self.chance(0.6):
            return f"{subject} had {verb.participle} {self.object()}{self.maybe_place(0.3)}."
        if self.chance(0.5):
            return f"{subject} did not {verb.base} {self.object_definite()}{self.maybe_place(0.3)}."
        return f"{subject} {verb.past} {self.object()}{self.maybe_place(0.3)}."

    def reflexive(self) -> str:
        subject = self.subject()
        return f"{subject.text} {self.pick(lex.REFLEXIVE).past} {subject.reflexive}{self.maybe_place(0.4)}."

    def present(self) -> str:
        """Agreement in the present tense, half of it across a prepositional phrase."""
        subject = self.common()
        phrase = " " + self.place(self.chance(0.5)) if self.chance(0.5) else ""
        if self.chance(0.3):
            verb = "were" if subject.is_plural else "was"
            return f"{subject.text}{phrase} {verb} {self.pick(lex.FEELINGS)}."
        if self.chance(0.7):
            return f"{subject.text}{phrase} {self.finite(self.pick(lex.INTRANSITIVE), subject)} {self.pick(lex.HABITS)}."
        verb = self.finite(self.pick(lex.TRANSITIVE), subject)
        return f"{subject.text}{phrase} {verb} {self.object()} {self.pick(lex.HABITS)}."

    def quantified(self) -> str:
        noun = self.pick(self.animate)
        if self.chance(0.5):
            words = f"{self.pick(lex.SINGULAR_QUANTIFIERS)} {noun.singular}"
        else:
            words = f"{self.pick(lex.PLURAL_QUANTIFIERS)} {noun.plural}"
        return f"{words} {self.pick(lex.INTRANSITIVE).past}{self.maybe_place(0.6)}."

    def amount(self) -> str:
        degree = self.pick(("too", "so"))
        if self.chance(0.5):
            amount, was = f"{degree} much {self.pick(lex.MASS)}", "was"
        else:
            amount, was = f"{degree} many {self.pick(self.objects).plural}", "were"
        if self.chance(0.5):
            return f"{self.name()} {self.pick(lex.TRANSITIVE).past} {amount}{self.maybe_place(0.3)}."
        return f"there {was} {amount} {self.place()}."

    def polarity(self) -> str:
        """`Any` and `ever` under negation; `some` and `often` without it."""
        one, other = self.two(self.names)
        verb, second = self.two(lex.TRANSITIVE)
        noun, thing = self.two(self.objects)
        negative = f"{one.text} never {verb.past} any {noun.plural}"
        positive = f"{other.text} always {second.past} some {thing.plural}"
        if self.chance(0.5):
            animal, being = self.two(self.animate)
            verb, second = self.two(lex.INTRANSITIVE)
            negative = f"no {animal.singular} ever {verb.past}{self.maybe_place(0.3)}"
            positive = f"every {being.singular} often {second.past}{self.maybe_place(0.3)}"
        return self.pick(
            (f"{negative}, but {positive}.", f"{positive}, but {negative}.", negative + ".", positive + ".")
        )

    def question(self) -> str:
        """A question and its answer."""
        subject, verb, thing = self.asked(), self.pick(lex.TRANSITIVE), self.object_definite()
        answer = f"{capitalize(subject)} {verb.past} {thing}"
        if self.chance(0.5):
            return f"what did {subject} {verb.base}{self.maybe_place(0.4)}?\n{answer}."
        return f"where did {subject} {verb.base} {thing}{self.maybe_place(0.2)}?\n{answer} {self.place()}."

    def speech(self) -> str:
        words = self.pick(
            (
                f"I {self.pick(lex.TRANSITIVE).base} {self.object()}",
                f"we {self.pick(lex.TRANSITIVE).base} {self.object()}",
                f"I am {self.pick(lex.FEELINGS)}",
                f"the {self.pick(self.animate).singular} is {self.pick(lex.FEELINGS)}",
                f"the {self.pick(self.animate).plural} are {self.pick(lex.FEELINGS)}",
            )
        )
        return f'"{capitalize(words)}," said {self.name()}.'

    def eating(self) -> str:
        noun = self.pick(lex.FOOD)
        plural = self.chance(0.5)
        return f"{self.subject().text} {self.pick(lex.EATING).past} {self.noun_phrase(noun, plural)}{self.maybe_place(0.2)}."

    def ending(self) -> str:
        if self.chance(0.5):
            return f"in the end {self.hero.text} was {self.pick(lex.FEELINGS)}."
        return f"then {self.hero.text} and {self.names[1].text} were {self.pick(lex.FEELINGS)}."


_KINDS: dict[Callable[[Storyteller], str], int] = {
    Storyteller.intransitive: 4,
    Storyteller.transitive: 4,
    Storyteller.irregular: 5,
    Storyteller.reflexive: 5,
    Storyteller.present: 7,
    Storyteller.quantified: 3,
    Storyteller.amount: 3,
    Storyteller.polarity: 4,
    Storyteller.question: 4,
    Storyteller.speech: 2,
    Storyteller.eating: 2,
}
_WEIGHTED = tuple(kind for kind, weight in _KINDS.items() for _ in range(weight))


def _seen(teller: Storyteller, kind: Callable[[Storyteller], str]) -> str | None:
    """Draw sentences of one kind; None when one of them is kept for evaluation."""
    sentences = [capitalize(sentence) for sentence in kind(teller).split("\n")]
    return None if any(map(is_held_out, sentences)) else " ".join(sentences)


def tell(rng: random.Random) -> str:
    """Write one story of four to twelve sentences."""
    teller = Storyteller(rng)
    length = 3 + int(rng.random() * 7)
    parts: list[str] = []
    # Half of the stories start in the middle of things: evaluation sentences stand at the start of a text too.
    wants_opening = teller.chance(0.5)
    while len(parts) < length:
        kind = Storyteller.opening if wants_opening and not parts else teller.pick(_WEIGHTED)
        part = _seen(teller, kind)
        if part is not None:
            parts.append(part)
            teller.hero_is_known = teller.hero_is_known or teller.hero.text in part
    ending = _seen(teller, Storyteller.ending)
    return " ".join(parts if ending is None else [*parts, ending])


def stories(num_stories: int, seed: int) -> list[str]:
    """Write stories of four to twelve short sentences, one string each.

    The first ``n`` stories of a seed are the same whatever ``num_stories`` is.

    Args:
        num_stories: How many, at least 1.
        seed: Decides every word.

    Raises:
        UsageError: If ``num_stories`` is below 1.
    """
    if num_stories < 1:
        raise UsageError(f"num_stories is {num_stories}; give at least 1")
    rng = random.Random(f"stories {seed}")
    return [tell(rng) for _ in range(num_stories)]
