"""The words of the embedded corpus and the classes that the grammar combines.

A few hundred lemmas: small enough for a vocabulary of 1,000 to 2,000 tokens, large enough that most
combinations of words in an evaluation sentence are new. Words that are ambiguous between the classes (a
transitive verb that also stands alone, a noun without a plural form) are left out on purpose: a "bad"
sentence must be bad.
"""

from __future__ import annotations

from typing import NamedTuple


class Gender(NamedTuple):
    """The singular pronouns that agree with a noun or a name."""

    pronoun: str
    possessive: str
    reflexive: str


FEMALE = Gender("She", "her", "herself")
MALE = Gender("He", "his", "himself")
NEUTER = Gender("It", "its", "itself")


class Noun(NamedTuple):
    """A count noun."""

    singular: str
    plural: str
    gender: Gender


class Verb(NamedTuple):
    """The four forms of a verb: sleep, sleeps, slept, slept."""

    base: str
    third: str
    past: str
    participle: str


class Name(NamedTuple):
    """A proper name."""

    text: str
    gender: Gender


def _with_s(singular: str) -> str:
    """Spell the plural of a regular noun, or the third person of a verb."""
    if singular.endswith(("x", "sh", "ch", "s")):
        return singular + "es"
    if singular.endswith("y") and singular[-2] not in "aeiou":
        return singular[:-1] + "ies"
    return singular + "s"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _nouns(words: str, gender: Gender = NEUTER) -> tuple[Noun, ...]:
    """Read nouns from text; ``mouse/mice`` gives an irregular plural."""
    pairs = (word.partition("/") for word in words.split())
    return tuple(Noun(one, many or _with_s(one), gender) for one, _, many in pairs)


def _verbs(words: str) -> tuple[Verb, ...]:
    """Read verbs from text; ``take/took/taken`` gives irregular forms, a bare word the regular ones."""
    verbs = []
    for word in words.split():
        base, *irregular = word.split("/")
        third = _with_s(base)
        if irregular:
            past, participle = irregular[0], irregular[-1]
        else:
            stem = base[:-1] + "i" if base.endswith("y") and base[-2] not in "aeiou" else base
            past = participle = stem + ("d" if stem.endswith("e") else "ed")
        verbs.append(Verb(base, third, past, participle))
    return tuple(verbs)


FEMALE_NAMES = tuple(Name(text, FEMALE) for text in _words("Mia Anna Rosa Emma Nora Zoe Clara Lucy"))
MALE_NAMES = tuple(Name(text, MALE) for text in _words("Tom Ben Sam Leo Jack Otto Noah Peter"))
NAMES = FEMALE_NAMES + MALE_NAMES

WOMEN = _nouns("girl woman/women queen aunt mother", FEMALE)
MEN = _nouns("boy man/men king uncle father", MALE)
ANIMALS = _nouns("dog cat bird rabbit horse cow pig duck frog bear fox mouse/mice goose/geese wolf/wolves")
ANIMATE = WOMEN + MEN + ANIMALS

THINGS = _nouns(
    "ball box cup hat book kite shell stone key drum coat lamp doll ring leaf/leaves knife/knives "
    "scarf/scarves"
)
FOOD = _nouns("apple cake pear carrot berry egg loaf/loaves")
OBJECTS = THINGS + FOOD
MASS = _words("water milk juice soup sand snow mud hay bread honey")
PLACES = _nouns("river tree house barn hill lake gate bridge wall pond")
IRREGULAR_NOUNS = tuple(noun for noun in ANIMATE + OBJECTS if noun.plural != _with_s(noun.singular))

INTRANSITIVE = _verbs(
    "sleep/slept smile laugh arrive wait cry rest yawn wander jump dance fall/fell/fallen swim/swam/swum"
)
# None may drop its object: "the girl found near the river" is bad.
TRANSITIVE = _verbs(
    "find/found bring/brought want need carry like love use touch bury take/took/taken grab/grabbed"
)
# Past and participle differ, which is what the irregular-form paradigms test.
IRREGULAR = _verbs(
    "take/took/taken break/broke/broken steal/stole/stolen throw/threw/thrown choose/chose/chosen "
    "draw/drew/drawn hide/hid/hidden shake/shook/shaken forget/forgot/forgotten see/saw/seen"
)
EATING = _verbs("eat/ate/eaten taste share")
SOCIAL = _verbs("see/saw/seen hug/hugged follow help visit chase watch meet/met greet")
REFLEXIVE = _verbs("wash see/saw/seen hurt/hurt help dry hide/hid/hidden cover watch love scratch clean")

ADJECTIVES = _words("big small red blue green old new shiny round little")
FEELINGS = _words("happy sad tired angry hungry brave proud quiet cold lucky")

PREPOSITIONS = ("near", "behind", "beside", "by")
HABITS = ("every day", "in summer", "in winter", "at night", "all day")
DEMONSTRATIVES = (("this", "these"), ("that", "those"))
SINGULAR_QUANTIFIERS = ("every", "each", "one", "another")
PLURAL_QUANTIFIERS = ("all", "many", "several", "two", "three")


def _lemmas() -> dict[str, str]:
    """Map every content word form to its lemma; function words are absent."""
    lemmas: dict[str, str] = {}
    for noun in ANIMATE + OBJECTS + PLACES:
        lemmas |= {noun.singular: noun.singular, noun.plural: noun.singular}
    for verb in INTRANSITIVE + TRANSITIVE + IRREGULAR + EATING + SOCIAL + REFLEXIVE:
        lemmas |= dict.fromkeys(verb, verb.base)
    for name in NAMES:
        lemmas[name.text] = name.text
    for word in MASS + ADJECTIVES + FEELINGS:
        lemmas[word] = word
    return lemmas


LEMMAS = _lemmas()
