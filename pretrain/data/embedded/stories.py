"""Short stories: an opening, sentences of weighted kinds over a small cast, an ending."""

from __future__ import annotations

import random
from collections.abc import Callable

from base.errors import UsageError
from pretrain.data.embedded import lexicon as lex
from pretrain.data.embedded.grammar import Grammar, Subject, article, capitalize
from pretrain.data.embedded.holdout import is_held_out


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
            return Subject.singular(self.hero.gender.pronoun, self.hero.gender)
        return super().named()

    def name(self) -> str:
        return self.pick(self.names).text

    # Each method below writes one sentence, or several divided by line breaks, without the first capital.

    def opening(self) -> str:
        kind = self.pick(lex.WOMEN if self.hero.gender == lex.FEMALE else lex.MEN).singular
        described = article(f"{self.pick(lex.FEELINGS)} {kind}")
        if self.chance(0.5):
            return f"there was once {described} named {self.hero.text}."
        return f"{self.hero.text} was {described} and lived {self.place()}."

    def intransitive(self) -> str:
        return f"{self.subject().text} {self.pick(lex.INTRANSITIVE).past}{self.maybe_place(0.6)}."

    def transitive(self) -> str:
        subject, place = self.subject(), self.maybe_place(0.3)
        if self.chance(0.3):
            return f"{subject.text} {self.pick(lex.SOCIAL).past} {self.common().text}{place}."
        verb = self.pick(lex.TRANSITIVE if self.chance(0.7) else lex.IRREGULAR)
        return f"{subject.text} {verb.past} {self.object(subject)}{place}."

    def eating(self) -> str:
        food = self.noun_phrase(self.pick(lex.FOOD), self.chance(0.5))
        return f"{self.subject().text} {self.pick(lex.EATING).past} {food}{self.maybe_place(0.2)}."

    def irregular(self) -> str:
        """The participle after `had` or `has`, the base after `did not`, the past alone."""
        subject, verb, place = self.subject(), self.pick(lex.IRREGULAR), self.maybe_place(0.3)
        if self.chance(0.5):
            had = "had" if self.chance(0.5) else "have" if subject.is_plural else "has"
            return f"{subject.text} {had} {verb.participle} {self.object(subject)}{place}."
        if self.chance(0.5):
            return f"{subject.text} did not {verb.base} {self.object_definite()}{place}."
        return f"{subject.text} {verb.past} {self.object(subject)}{place}."

    def reflexive(self) -> str:
        subject = self.subject()
        return f"{subject.text} {self.pick(lex.REFLEXIVE).past} {subject.reflexive}{self.maybe_place(0.4)}."

    def agreement(self) -> str:
        """A finite verb, half of the time across a prepositional phrase of either number."""
        subject = self.common()
        start = subject.text + self.maybe_place(0.5)
        if self.chance(0.3):
            was = ("were" if subject.is_plural else "was") + (" not" if self.chance(0.25) else "")
            return f"{start} {was} {self.pick(lex.FEELINGS)}."
        if self.chance(0.7):
            return f"{start} {self.finite(self.pick(lex.INTRANSITIVE), subject)} {self.pick(lex.HABITS)}."
        verb = self.finite(self.pick(lex.TRANSITIVE), subject)
        return f"{start} {verb} {self.object()} {self.pick(lex.HABITS)}."

    def quantified(self) -> str:
        noun = self.pick(self.animate)
        words = f"{self.pick(lex.SINGULAR_QUANTIFIERS)} {noun.singular}"
        if self.chance(0.5):
            words = f"{self.pick(lex.PLURAL_QUANTIFIERS)} {noun.plural}"
        return f"{words} {self.pick(lex.INTRANSITIVE).past}{self.maybe_place(0.6)}."

    def amount(self) -> str:
        """`Much` with a mass noun and `many` with a count noun."""
        degree, was = self.pick(("too", "so")), "was"
        amount = f"{degree} much {self.pick(lex.MASS)}"
        if self.chance(0.5):
            amount, was = f"{degree} many {self.pick(self.objects).plural}", "were"
        if self.chance(0.5):
            return f"{self.name()} {self.pick(lex.TRANSITIVE).past} {amount}{self.maybe_place(0.3)}."
        return f"there {was} {amount} {self.place()}."

    def polarity(self) -> str:
        """`Any` and `ever` under negation; `some` and `often` without it."""
        if self.chance(0.5):
            (one, other), (verb, second) = self.two(self.names), self.two(lex.TRANSITIVE)
            noun, thing = self.two(self.objects)
            negative = f"{one.text} never {verb.past} any {noun.plural}"
            positive = f"{other.text} always {second.past} some {thing.plural}"
        else:
            (animal, being), (verb, second) = self.two(self.animate), self.two(lex.INTRANSITIVE)
            negative = f"no {animal.singular} ever {verb.past}{self.maybe_place(0.3)}"
            positive = f"every {being.singular} often {second.past}{self.maybe_place(0.3)}"
        both = f"{negative}, but {positive}.", f"{positive}, but {negative}."
        return self.pick((*both, f"{negative}.", f"{positive}."))

    def question(self) -> str:
        """A question and its answer."""
        subject, verb, thing = self.asked(), self.pick(lex.TRANSITIVE), self.object_definite()
        answer = f"{capitalize(subject)} {verb.past} {thing}"
        if self.chance(0.5):
            return f"what did {subject} {verb.base}{self.maybe_place(0.4)}?\n{answer}."
        return f"where did {subject} {verb.base} {thing}{self.maybe_place(0.2)}?\n{answer} {self.place()}."

    def speech(self) -> str:
        feeling, noun = self.pick(lex.FEELINGS), self.pick(self.animate)
        words = f"{self.pick(('I', 'we'))} {self.pick(lex.TRANSITIVE).base} {self.object()}"
        if self.chance(0.5):
            subject = ("I am", "we are", f"the {noun.singular} is", f"the {noun.plural} are")
            words = f"{self.pick(subject)} {feeling}"
        return f'"{capitalize(words)}," said {self.name()}.'

    def ending(self) -> str:
        if self.chance(0.5):
            return f"in the end {self.hero.text} was {self.pick(lex.FEELINGS)}."
        return f"then {self.hero.text} and {self.names[1].text} were {self.pick(lex.FEELINGS)}."


_KINDS: dict[Callable[[Storyteller], str], int] = {
    Storyteller.intransitive: 2,
    Storyteller.transitive: 3,
    Storyteller.irregular: 5,
    Storyteller.reflexive: 6,
    Storyteller.agreement: 10,
    Storyteller.quantified: 3,
    Storyteller.amount: 2,
    Storyteller.polarity: 4,
    Storyteller.question: 3,
    Storyteller.speech: 1,
    Storyteller.eating: 1,
}
_WEIGHTED = tuple(kind for kind, weight in _KINDS.items() for _ in range(weight))


def tell(rng: random.Random) -> str:
    """Write one story of four to eleven sentences, more often a short one."""
    teller = Storyteller(rng)
    length = 4 + int(rng.random() * rng.random() * 6)
    # Half of the stories start in the middle of things: evaluation sentences open a text, too.
    wants_opening = teller.chance(0.5)
    sentences: list[str] = []
    while len(sentences) < length:
        if len(sentences) == length - 1:
            kind = Storyteller.ending
        elif wants_opening and not sentences:
            kind = Storyteller.opening
        else:
            kind = teller.pick(_WEIGHTED)
        drawn = [capitalize(sentence) for sentence in kind(teller).split("\n")]
        if any(map(is_held_out, drawn)):
            continue
        sentences += drawn
        teller.hero_is_known = teller.hero_is_known or any(teller.hero.text in sentence for sentence in drawn)
    return " ".join(sentences)


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
