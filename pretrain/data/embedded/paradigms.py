"""The paradigms: how a pair of a good and a bad sentence is drawn, and its mirror image.

Every paradigm but the lexically identical ones returns two pairs at a time. In the second the critical words
have changed sides, so over a group each word form is as often in a good sentence as in a bad one: a score
that adds up words, or counts letters, gets exactly half of the pairs right. In lexically identical pairs the
two sentences have the same words in another order, which such a score cannot tell apart at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pretrain.data.embedded import lexicon as lex
from pretrain.data.embedded.grammar import Grammar, form
from pretrain.data.embedded.lexicon import Noun

Pair = tuple[str, str]
"""A good and a bad sentence, in this order."""
Group = tuple[Pair, ...]
"""Pairs that together are balanced."""


class Paradigm(NamedTuple):
    """One kind of minimal pair, with the columns that BLiMP gives it."""

    uid: str
    linguistics_term: str
    field: str
    draw: Callable[[Grammar], Group]
    one_prefix_method: bool = False
    """The sentences are equal up to the one word that differs."""
    two_prefix_method: bool = False
    """They differ early, and the same later word is licensed in one only."""
    lexically_identical: bool = False


def _anaphor_gender(g: Grammar) -> Group:
    verb, place = g.pick(lex.REFLEXIVE).past, g.maybe_place()
    woman, man = (
        g.pick(names).text if g.chance(0.5) else f"the {g.pick(nouns).singular}"
        for names, nouns in ((lex.FEMALE_NAMES, lex.WOMEN), (lex.MALE_NAMES, lex.MEN))
    )
    her, him = f"{verb} herself{place}.", f"{verb} himself{place}."
    return (f"{woman} {her}", f"{woman} {him}"), (f"{man} {him}", f"{man} {her}")


def _anaphor_number(g: Grammar) -> Group:
    noun, verb, place = g.pick(lex.ANIMATE), g.pick(lex.REFLEXIVE).past, g.maybe_place()
    one, many = f"{verb} {noun.gender.reflexive}{place}.", f"{verb} themselves{place}."
    singular, plural = f"the {noun.singular}", f"the {noun.plural}"
    return (f"{singular} {one}", f"{singular} {many}"), (f"{plural} {many}", f"{plural} {one}")


def _agreement(singular: str, plural: str, one: str, many: str) -> Group:
    return (f"{singular} {one}", f"{singular} {many}"), (f"{plural} {many}", f"{plural} {one}")


def _predicate(g: Grammar) -> tuple[str, str]:
    """A present-tense predicate for a singular and for a plural subject."""
    habit = g.pick(lex.HABITS)
    if g.chance(0.6):
        verb, rest = g.pick(lex.INTRANSITIVE), f" {habit}."
    else:
        verb, rest = g.pick(lex.TRANSITIVE), f" {g.object()} {habit}."
    return verb.third + rest, verb.base + rest


def _verb_agreement(g: Grammar) -> Group:
    noun = g.pick(lex.ANIMATE)
    return _agreement(f"the {noun.singular}", f"the {noun.plural}", *_predicate(g))


def _verb_agreement_attractor(g: Grammar) -> Group:
    noun, place, preposition = g.pick(lex.ANIMATE), g.pick(lex.PLACES), g.pick(lex.PREPOSITIONS)
    # The attractor always has the other number: agreeing with the nearest noun is always wrong.
    singular = f"the {noun.singular} {preposition} the {place.plural}"
    plural = f"the {noun.plural} {preposition} the {place.singular}"
    return _agreement(singular, plural, *_predicate(g))


def _copula_agreement(g: Grammar) -> Group:
    noun, feeling = g.pick(lex.ANIMATE), g.pick(lex.FEELINGS)
    was, were = f"was {feeling}.", f"were {feeling}."
    if g.chance(0.5):
        place = g.place()
        was, were = f"{place} {was}", f"{place} {were}"
    return _agreement(f"the {noun.singular}", f"the {noun.plural}", was, were)


def _determiner_group(g: Grammar, noun: Noun, adjective: str, is_noun_critical: bool) -> Group:
    """Put ``this noun`` and ``these nouns`` in object position, against wrong nouns or wrong determiners."""
    start, end = f"{g.named().text} {g.pick(lex.TRANSITIVE).past}", f"{g.maybe_place()}."
    this, these = g.pick(lex.DEMONSTRATIVES)

    def sentence(determiner: str, is_plural: bool) -> str:
        return f"{start} {determiner} {adjective}{form(noun, is_plural)}{end}"

    one, many = sentence(this, False), sentence(these, True)
    wrong_this, wrong_these = sentence(this, True), sentence(these, False)
    if is_noun_critical:
        return (one, wrong_this), (many, wrong_these)
    return (one, wrong_these), (many, wrong_this)


def _determiner_noun(g: Grammar) -> Group:
    return _determiner_group(g, g.pick(lex.OBJECTS), "", is_noun_critical=True)


def _determiner_adjective_noun(g: Grammar) -> Group:
    return _determiner_group(g, g.pick(lex.OBJECTS), g.pick(lex.ADJECTIVES) + " ", is_noun_critical=False)


def _determiner_irregular_noun(g: Grammar) -> Group:
    return _determiner_group(g, g.pick(lex.IRREGULAR_NOUNS), "", is_noun_critical=True)


def _past_or_participle(g: Grammar) -> Group:
    name, verb, rest = g.named().text, g.pick(lex.IRREGULAR), f"{g.object()}{g.maybe_place()}."
    return (
        (f"{name} {verb.past} {rest}", f"{name} {verb.participle} {rest}"),
        (f"{name} had {verb.participle} {rest}", f"{name} had {verb.past} {rest}"),
    )


def _base_or_past(g: Grammar) -> Group:
    name, verb, rest = g.named().text, g.pick(lex.IRREGULAR), f"{g.object_definite()}{g.maybe_place()}."
    return (
        (f"{name} {verb.past} {rest}", f"{name} {verb.base} {rest}"),
        (f"{name} did not {verb.base} {rest}", f"{name} did not {verb.past} {rest}"),
    )


def _transitivity(g: Grammar) -> Group:
    subject, thing, place = g.subject().text, g.object(), g.place()
    takes_object, takes_none = g.pick(lex.TRANSITIVE).past, g.pick(lex.INTRANSITIVE).past
    return (
        (f"{subject} {takes_object} {thing}.", f"{subject} {takes_none} {thing}."),
        (f"{subject} {takes_none} {place}.", f"{subject} {takes_object} {place}."),
    )


def _animate_subject(g: Grammar) -> Group:
    verb, place = g.pick(lex.TRANSITIVE + lex.EATING).past, g.maybe_place()
    one, other = g.common().text, f"{g.pick(('the', 'this', 'that'))} {g.pick(lex.OBJECTS).singular}"
    return ((f"{one} {verb} {other}{place}.", f"{other} {verb} {one}{place}."),)


def _any_or_some(g: Grammar) -> Group:
    (one, other), (verb, second) = g.two(g.names), g.two(lex.TRANSITIVE)
    noun, thing = (noun.plural for noun in g.two(lex.OBJECTS))

    def sentence(after_never: str, after_always: str, is_negative_first: bool) -> str:
        never = f"{one.text} never {verb.past} {after_never} {noun}"
        always = f"{other.text} always {second.past} {after_always} {thing}"
        return f"{never}, but {always}." if is_negative_first else f"{always}, but {never}."

    order = g.chance(0.5)
    return ((sentence("any", "some", order), sentence("some", "any", order)),)


def _ever_or_often(g: Grammar) -> Group:
    (one, other), (verb, second) = g.two(lex.ANIMATE), g.two(lex.INTRANSITIVE)

    def sentence(after_no: str, after_every: str, is_negative_first: bool) -> str:
        none = f"no {one.singular} {after_no} {verb.past}"
        every = f"every {other.singular} {after_every} {second.past}"
        return f"{none}, but {every}." if is_negative_first else f"{every}, but {none}."

    order = g.chance(0.5)
    return ((sentence("ever", "often", order), sentence("often", "ever", order)),)


def _quantifier_number(g: Grammar) -> Group:
    noun, rest = g.pick(lex.ANIMATE), f"{g.pick(lex.INTRANSITIVE).past}{g.maybe_place()}."
    every, all_ = g.pick(lex.SINGULAR_QUANTIFIERS), g.pick(lex.PLURAL_QUANTIFIERS)
    return (
        (f"{every} {noun.singular} {rest}", f"{every} {noun.plural} {rest}"),
        (f"{all_} {noun.plural} {rest}", f"{all_} {noun.singular} {rest}"),
    )


def _quantifier_mass(g: Grammar) -> Group:
    start, end = (
        f"{g.named().text} {g.pick(lex.TRANSITIVE).past} {g.pick(('too', 'so'))}",
        f"{g.maybe_place()}.",
    )
    mass, count = g.pick(lex.MASS) + end, g.pick(lex.OBJECTS).plural + end
    return (
        (f"{start} much {mass}", f"{start} many {mass}"),
        (f"{start} many {count}", f"{start} much {count}"),
    )


def _wh_gap(g: Grammar) -> Group:
    subject, verb, thing, place = g.asked(), g.pick(lex.TRANSITIVE).base, g.object_definite(), g.maybe_place()
    gap, filled = f"did {subject} {verb}{place}?", f"did {subject} {verb} {thing}{place}?"
    return (f"what {gap}", f"where {gap}"), (f"where {filled}", f"what {filled}")


PARADIGMS: tuple[Paradigm, ...] = (
    Paradigm("anaphor_gender", "anaphor_agreement", "morphology", _anaphor_gender, one_prefix_method=True),
    Paradigm("anaphor_number", "anaphor_agreement", "morphology", _anaphor_number, one_prefix_method=True),
    Paradigm(
        "verb_agreement", "subject_verb_agreement", "morphology", _verb_agreement, one_prefix_method=True
    ),
    Paradigm(
        "verb_agreement_attractor",
        "subject_verb_agreement",
        "morphology",
        _verb_agreement_attractor,
        one_prefix_method=True,
    ),
    Paradigm(
        "copula_agreement", "subject_verb_agreement", "morphology", _copula_agreement, one_prefix_method=True
    ),
    Paradigm(
        "determiner_noun", "determiner_noun_agreement", "morphology", _determiner_noun, one_prefix_method=True
    ),
    Paradigm(
        "determiner_adjective_noun",
        "determiner_noun_agreement",
        "morphology",
        _determiner_adjective_noun,
        two_prefix_method=True,
    ),
    Paradigm(
        "determiner_irregular_noun",
        "determiner_noun_agreement",
        "morphology",
        _determiner_irregular_noun,
        one_prefix_method=True,
    ),
    Paradigm(
        "past_or_participle", "irregular_forms", "morphology", _past_or_participle, one_prefix_method=True
    ),
    Paradigm("base_or_past", "irregular_forms", "morphology", _base_or_past, one_prefix_method=True),
    Paradigm("transitivity", "argument_structure", "syntax", _transitivity),
    Paradigm("animate_subject", "s-selection", "syntax", _animate_subject, lexically_identical=True),
    Paradigm("any_or_some", "npi_licensing", "semantics", _any_or_some, lexically_identical=True),
    Paradigm("ever_or_often", "npi_licensing", "semantics", _ever_or_often, lexically_identical=True),
    Paradigm("quantifier_number", "quantifiers", "semantics", _quantifier_number, one_prefix_method=True),
    Paradigm("quantifier_mass", "quantifiers", "semantics", _quantifier_mass, two_prefix_method=True),
    Paradigm("wh_gap", "filler_gap_dependency", "syntax", _wh_gap, two_prefix_method=True),
)
