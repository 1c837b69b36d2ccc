"""Phrases and clauses: everything that agrees, agrees here."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from pretrain.data.embedded import lexicon as lex
from pretrain.data.embedded.lexicon import Gender, Name, Noun, Verb

T = TypeVar("T")


class Subject(NamedTuple):
    """A noun phrase with what the rest of the clause must agree with."""

    text: str
    is_plural: bool
    possessive: str
    reflexive: str

    @classmethod
    def singular(cls, text: str, gender: Gender) -> Subject:
        return cls(text, False, gender.possessive, gender.reflexive)

    @classmethod
    def plural(cls, text: str) -> Subject:
        return cls(text, True, "their", "themselves")


def capitalize(text: str) -> str:
    """Raise the first letter and leave the rest, unlike ``str.capitalize``, which lowers names."""
    return text[0].upper() + text[1:]


def article(noun_phrase: str) -> str:
    """Put ``a`` or ``an`` before a singular noun phrase."""
    return ("an " if noun_phrase[0] in "aeiou" else "a ") + noun_phrase


def form(noun: Noun, is_plural: bool) -> str:
    """Give the noun in the asked number."""
    return noun.plural if is_plural else noun.singular


class Draw:
    """Random choices from one generator; about three times faster than ``Random.choice``."""

    def __init__(self, rng: random.Random) -> None:
        self._random: Callable[[], float] = rng.random

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self._random() * len(items))]

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def two(self, items: Sequence[T]) -> tuple[T, T]:
        """Two different items."""
        first = int(self._random() * len(items))
        second = (first + 1 + int(self._random() * (len(items) - 1))) % len(items)
        return items[first], items[second]


class Grammar(Draw):
    """Phrases over a cast of names and nouns: a story's own few, or the whole lexicon.

    Args:
        rng: The only source of randomness.
        names: Names that may occur.
        animate: People and animals that may occur.
        objects: Things and food that may occur.
        places: Nouns for prepositional phrases.
    """

    def __init__(
        self,
        rng: random.Random,
        names: Sequence[Name] = lex.NAMES,
        animate: Sequence[Noun] = lex.ANIMATE,
        objects: Sequence[Noun] = lex.OBJECTS,
        places: Sequence[Noun] = lex.PLACES,
    ) -> None:
        super().__init__(rng)
        self.names, self.animate, self.objects, self.places = names, animate, objects, places

    def place(self, is_plural: bool | None = None) -> str:
        """Draw a prepositional phrase: ``near the river``."""
        if is_plural is None:
            is_plural = self.chance(0.3)
        return f"{self.pick(lex.PREPOSITIONS)} the {form(self.pick(self.places), is_plural)}"

    def maybe_place(self, probability: float = 0.4) -> str:
        """Draw a prepositional phrase with a leading space, or nothing."""
        return " " + self.place() if self.chance(probability) else ""

    def maybe_adjective(self, probability: float = 0.25) -> str:
        """Draw an adjective with a trailing space, or nothing."""
        return self.pick(lex.ADJECTIVES) + " " if self.chance(probability) else ""

    def noun_phrase(self, noun: Noun, is_plural: bool) -> str:
        """Draw a determiner that agrees with ``noun`` in its number, perhaps with an adjective."""
        words = self.maybe_adjective() + form(noun, is_plural)
        if self.chance(0.35):
            return "the " + words
        if self.chance(0.65):
            return f"{self.pick(lex.DEMONSTRATIVES)[is_plural]} {words}"
        return "some " + words if is_plural else article(words)

    def object(self, owner: Subject | None = None) -> str:
        """Draw an inanimate noun phrase, which may belong to ``owner``."""
        if owner and self.chance(0.25):
            noun = form(self.pick(self.objects), self.chance(0.5))
            return f"{owner.possessive} {self.maybe_adjective()}{noun}"
        return self.noun_phrase(self.pick(self.objects), self.chance(0.5))

    def object_definite(self) -> str:
        """Draw an inanimate noun phrase with ``the``."""
        return f"the {self.maybe_adjective()}{form(self.pick(self.objects), self.chance(0.5))}"

    def named(self) -> Subject:
        """Draw a name, or two names joined."""
        if self.chance(0.12):
            one, other = self.two(self.names)
            return Subject.plural(f"{one.text} and {other.text}")
        return Subject.singular(*self.pick(self.names))

    def common(self, is_plural: bool | None = None) -> Subject:
        """Draw an animate noun phrase."""
        noun = self.pick(self.animate)
        if is_plural is None:
            is_plural = self.chance(0.5)
        text = self.noun_phrase(noun, is_plural)
        return Subject.plural(text) if is_plural else Subject.singular(text, noun.gender)

    def subject(self) -> Subject:
        """Draw a subject of any kind."""
        return self.named() if self.chance(0.5) else self.common()

    def asked(self) -> str:
        """Draw a subject that a question can be about: a name or a definite noun phrase."""
        if self.chance(0.5):
            return self.pick(self.names).text
        return f"the {form(self.pick(self.animate), self.chance(0.5))}"

    def finite(self, verb: Verb, subject: Subject) -> str:
        """Give the present-tense form that agrees with ``subject``."""
        return verb.base if subject.is_plural else verb.third
