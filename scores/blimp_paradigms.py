"""The tasks of BLiMP and of what BabyLM 2023 made of it."""

from __future__ import annotations

import re
from functools import lru_cache

# The 67 paradigms of BLiMP by phenomenon (Warstadt et al. 2020, https://aclanthology.org/2020.tacl-1.25).
# The files have 13 labels for 12 phenomena: as in the paper and in BabyLM, the two paradigms that they label
# ``s-selection`` belong to argument structure. ``filler_gap_dependency`` is BabyLM's ``filler_gap``.
# fmt: off
BLIMP_PARADIGMS: dict[str, tuple[str, ...]] = {
    "anaphor_agreement": ("anaphor_gender_agreement", "anaphor_number_agreement"),
    "argument_structure": (
        "animate_subject_passive", "animate_subject_trans", "causative", "drop_argument", "inchoative",
        "intransitive", "passive_1", "passive_2", "transitive",
    ),
    "binding": (
        "principle_A_c_command", "principle_A_case_1", "principle_A_case_2", "principle_A_domain_1",
        "principle_A_domain_2", "principle_A_domain_3", "principle_A_reconstruction",
    ),
    "control_raising": (
        "existential_there_object_raising", "existential_there_subject_raising",
        "expletive_it_object_raising", "tough_vs_raising_1", "tough_vs_raising_2",
    ),
    "determiner_noun_agreement": (
        "determiner_noun_agreement_1", "determiner_noun_agreement_2", "determiner_noun_agreement_irregular_1",
        "determiner_noun_agreement_irregular_2", "determiner_noun_agreement_with_adj_2",
        "determiner_noun_agreement_with_adj_irregular_1", "determiner_noun_agreement_with_adj_irregular_2",
        "determiner_noun_agreement_with_adjective_1",
    ),
    "ellipsis": ("ellipsis_n_bar_1", "ellipsis_n_bar_2"),
    "filler_gap": (
        "wh_questions_object_gap", "wh_questions_subject_gap", "wh_questions_subject_gap_long_distance",
        "wh_vs_that_no_gap", "wh_vs_that_no_gap_long_distance", "wh_vs_that_with_gap",
        "wh_vs_that_with_gap_long_distance",
    ),
    "irregular_forms": ("irregular_past_participle_adjectives", "irregular_past_participle_verbs"),
    "island_effects": (
        "adjunct_island", "complex_NP_island", "coordinate_structure_constraint_complex_left_branch",
        "coordinate_structure_constraint_object_extraction", "left_branch_island_echo_question",
        "left_branch_island_simple_question", "sentential_subject_island", "wh_island",
    ),
    "npi_licensing": (
        "matrix_question_npi_licensor_present", "npi_present_1", "npi_present_2", "only_npi_licensor_present",
        "only_npi_scope", "sentential_negation_npi_licensor_present", "sentential_negation_npi_scope",
    ),
    "quantifiers": (
        "existential_there_quantifiers_1", "existential_there_quantifiers_2", "superlative_quantifiers_1",
        "superlative_quantifiers_2",
    ),
    "subject_verb_agreement": (
        "distractor_agreement_relational_noun", "distractor_agreement_relative_clause",
        "irregular_plural_subject_verb_agreement_1", "irregular_plural_subject_verb_agreement_2",
        "regular_plural_subject_verb_agreement_1", "regular_plural_subject_verb_agreement_2",
    ),
}
# fmt: on
PARADIGMS = tuple(sorted(uid for uids in BLIMP_PARADIGMS.values() for uid in uids))
FILTERED_TASKS = tuple(sorted(BLIMP_PARADIGMS))
# What the BabyLM 2023 evaluation adds to BLiMP.
SUPPLEMENT_TASKS = (
    "hypernym",
    "qa_congruence_easy",
    "qa_congruence_tricky",
    "subject_aux_inversion",
    "turn_taking",
)
_PHENOMENA = {"s_selection": "argument_structure", "filler_gap_dependency": "filler_gap"}


@lru_cache(maxsize=4096)
def phenomenon_name(label: str) -> str:
    """Return a label of BLiMP's files under this project's one name for it, any other as it is."""
    return _PHENOMENA.get("_".join(re.split(r"[-_\s]+", label.strip().lower())), label)
