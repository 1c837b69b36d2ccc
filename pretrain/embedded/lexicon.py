"""The words of the embedded corpus and the classes that the grammar combines.

A few hundred lemmas: small enough for a vocabulary of 1,000 to 2,000 tokens, large enough that most
combinations of words in an evaluation sentence are new. Words that are ambiguous between the classes (a
transitive verb that also stands alone, a noun without a plural form) are left out on purpose: a "bad"
sentence must be bad.
"""

from __future__ import annotations

from typing import NamedTuple


class Noun(NamedTuple):
    """A count noun. ``reflexive`` is the singular anaphor that agrees with it."""

    singular: str
    plural: str
    reflexive: str = "itself"


class Verb(NamedTuple):
    """The four forms of a verb: sleep, sleeps, slept, slept."""

    base: str
    third: str
    past: str
    participle: str


class Name(NamedTuple):
    """A proper name with the pronoun and the reflexive that agree with it."""

    text: str
    pronoun: str
    reflexive: str


def _plural(singular: str) -> str:
    if singular.endswith(("x", "sh", "ch", "s")):
        return singular + "es"
    if singular.endswith("y") and singular[-2] not in "aeiou":
        return singular[:-1] + "ies"
    return singular + "s"


def _nouns(words: str, reflexive: str = "itself") -> tuple[Noun, ...]:
    """Read nouns from text; ``mouse/mice`` gives an irregular plural."""
    pairs = (word.partition("/") for word in words.split())
    return tuple(Noun(one, many or _plural(one), reflexive) for one, _, many in pairs)


def _verbs(words: str) -> tuple[Verb, ...]:
    """Read verbs from text; ``take/took/taken`` gives irregular forms, a bare word the regular ones."""
    verbs = []
    for word in words.split():
        base, *irregular = word.split("/")
        third = _plural(base)
        if irregular:
            past, participle = irregular[0], irregular[-1]
        else:
            stem = base[:-1] + "i" if base.endswith("y") and base[-2] not in "aeiou" else base
            past = participle = stem + ("d" if stem.endswith("e") else "ed")
        verbs.append(Verb(base, third, past, participle))
    return tuple(verbs)


FEMALE_NAMES = tuple(
    Name(text, "She", "herself")
    for text in "Mia Anna Rosa Emma Nora Ella Ruby Zoe Clara Jane Lucy Helen".split()
)
MALE_NAMES = tuple(
    Name(text, "He", "himself") for text in "Tom Ben Sam Leo Finn Jack Paul Otto Hugo Noah Carl Peter".split()
)
NAMES = FEMALE_NAMES + MALE_NAMES

WOMEN = _nouns("girl woman/women queen princess aunt mother grandmother", "herself")
MEN = _nouns("boy man/men king prince uncle father grandfather", "himself")
PEOPLE = WOMEN + MEN
ANIMALS = _nouns(
    "dog cat bird rabbit horse cow pig duck frog bear fox owl monkey turtle mouse/mice goose/geese wolf/wolves"
)
ANIMATE = PEOPLE + ANIMALS

THINGS = _nouns(
    "ball box cup hat book kite shell stone key bell drum coat lamp basket doll flower brush ring "
    "leaf/leaves knife/knives scarf/scarves"
)
FOOD = _nouns("apple cake pear carrot cookie berry egg plum bun loaf/loaves")
OBJECTS = THINGS + FOOD
LIQUIDS = "water milk juice soup tea".split()
MASS = LIQUIDS + "sand snow mud hay bread honey rice butter".split()
PLACES = _nouns("river tree house barn hill lake gate bridge fence wall pond garden tower road rock")
IRREGULAR_NOUNS = tuple(
    noun for noun in ANIMATE + OBJECTS if noun.plural != _plural(noun.singular) and noun.singular != "loaf"
)

INTRANSITIVE = _verbs(
    "sleep/slept smile laugh arrive wait cry rest sneeze yawn shiver giggle wander snore "
    "fall/fell/fallen swim/swam/swum jump dance"
)
# No object may be dropped: "the girl found near the river" is bad.
TRANSITIVE = _verbs(
    "find/found bring/brought want need carry fix like love use touch take/took/taken grab/grabbed/grabbed "
    "enjoy bury"
)
# Past and participle differ, which is what the irregular-form paradigms test.
IRREGULAR = _verbs(
    "take/took/taken break/broke/broken steal/stole/stolen throw/threw/thrown choose/chose/chosen "
    "draw/drew/drawn hide/hid/hidden shake/shook/shaken forget/forgot/forgotten see/saw/seen"
)
EATING = _verbs("eat/ate/eaten taste bake share")
SOCIAL = _verbs(
    "see/saw/seen hug/hugged/hugged follow help visit chase watch thank meet/met scare greet call"
)
REFLEXIVE = _verbs(
    "wash see/saw/seen hurt/hurt help like dry hide/hid/hidden cover warm watch love scratch clean calm praise"
)

ADJECTIVES = "big small red blue green old new shiny round little".split()
FEELINGS = "happy sad tired angry hungry brave proud quiet cold lucky".split()
PREPOSITIONS = "near behind beside by".split()
HABITS = ("every day", "in summer", "in winter", "at night", "all day")

ADVERBS_OF_TIME = ("yesterday", "today", "that night", "one morning", "after lunch")


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

SINGULAR_QUANTIFIERS = ("every", "each", "one", "another")
PLURAL_QUANTIFIERS = ("all", "many", "several", "two", "three")
