"""Text from a trained model: continuations of a prompt, or the words that a model puts into a gap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel

from base.errors import UsageError
from base.families import FAMILIES, family_of
from base.records import peek_record
from base.text.tokens import as_prompts, read
from ffn_variants.models.loading import load_language_model
from pretrain.data.tokenizer import sentinel

STORY_PROMPTS = ("Once upon a time", "One day, a little girl", "There was a big dog")

GAPPED_SENTENCES = (
    "Once upon a time, there was a little {mask}.",
    "The girl was very {mask}.",
    "They went to the {mask} to play.",
)

CARD_TOKENS = 60
"""New tokens of a sample in a model card."""

MOST_NEW_TOKENS = 256
"""Of a ``generate`` that is told no number, as in transformers' text-generation pipeline."""


def generation_config(config: Any) -> GenerationConfig:
    """How a causal model writes where it is not told otherwise: until eos, within its positions.

    Args:
        config: The model's; has the ids of its special tokens.
    """
    room = min(MOST_NEW_TOKENS, config.max_position_embeddings // 2)
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    return GenerationConfig(max_new_tokens=room, **{name: getattr(config, name) for name in names})


def load_causal_model(folder: Path, trust_remote_code: bool = False) -> tuple[PreTrainedModel, Any]:
    """Load a saved model that continues text, and its tokenizer.

    Args:
        folder: What ``save_pretrained`` wrote.
        trust_remote_code: Whether to run an FFN variant that the folder brings, which is refused otherwise.

    Raises:
        UsageError: If it is of another kind, or cannot be loaded.
    """
    family = family_of(str(peek_record(folder / "config.json").get("model_type")))
    if family and family.objective != "causal":
        causal = " or ".join(name for name, spec in FAMILIES.items() if spec.objective == "causal")
        raise UsageError(
            f"{folder}: {family.name} fills gaps and continues no text; its README.md shows some, or name a "
            f"{causal} run"
        )
    return load_language_model(folder, "causal", None, trust_remote_code)


def continue_texts(
    model: PreTrainedModel,
    tokenizer: Any,
    prompts: Sequence[str],
    max_new_tokens: int,
    temperature: float = 0.8,
    top_p: float = 0.95,
    seed: int = 0,
    num: int = 1,
) -> list[str]:
    """Continue prompts with a causal model, as in training: from ``<s>`` on, until ``</s>``.

    Args:
        model: In evaluation mode afterwards.
        tokenizer: The model's.
        prompts: How texts begin; may be empty with a tokenizer that has a bos.
        max_new_tokens: At most so many tokens are added, fewer where the model's positions end.
        temperature: Divides the logits; 0 takes the likeliest token each time.
        top_p: Draw from the likeliest tokens that have this probability together (Holtzman et al. 2020).
        seed: Of the draws; the random state of the process is left alone.
        num: Texts to return for each prompt.

    Raises:
        UsageError: If a prompt leaves no room.
    """
    reader = as_prompts(tokenizer)
    ids = [read(reader, prompt)["input_ids"] or [tokenizer.bos_token_id] for prompt in prompts]
    positions = model.config.max_position_embeddings
    longest = max(range(len(ids)), key=lambda place: len(ids[place]))
    room = positions - len(ids[longest])
    if room < 1:
        num_tokens = len(read(tokenizer, prompts[longest], add_special_tokens=False)["input_ids"])
        raise UsageError(
            f"the prompt has {num_tokens} tokens, and the model sees {positions} with {tokenizer.bos_token} "
            f"and what it adds; shorten the prompt to {num_tokens + room - 1} tokens or fewer"
        )
    sampling: dict[str, Any] = {"temperature": temperature, "top_p": top_p, "top_k": 0} if temperature else {}
    batch = tokenizer.pad({"input_ids": ids}, padding_side="left", return_tensors="pt").to(model.device)
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.no_grad():
        torch.manual_seed(seed)
        generating: Any = model.eval()
        texts = generating.generate(
            batch["input_ids"],
            attention_mask=batch["attention_mask"],
            max_new_tokens=min(max_new_tokens, room),
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            num_return_sequences=num,
            do_sample=bool(temperature),
            **sampling,
        )
    return [tokenizer.decode(text, skip_special_tokens=True) for text in texts]


def fill_gap(model: PreTrainedModel, tokenizer: Any, sentence: str, num: int = 3) -> list[tuple[str, float]]:
    """The likeliest tokens for the ``{mask}`` of a sentence, with their probabilities.

    A masked model reads a mask there. A T5 reads a sentinel, and the tokens are those with which its decoder
    begins to fill the gap.

    Args:
        model: A masked model or a T5; in evaluation mode afterwards.
        tokenizer: The model's.
        sentence: A text with one ``{mask}``.
        num: Tokens to return.

    Raises:
        UsageError: If the sentence is longer than the model's positions.
    """
    # The space before a word belongs to its token.
    is_t5 = model.config.is_encoder_decoder
    text = sentence.replace(" {mask}", sentinel(0) if is_t5 else str(tokenizer.mask_token))
    ids = torch.tensor([tokenizer(text)["input_ids"]], device=model.device)
    family = family_of(model.config.model_type)
    unused = family.first_position(model.config.pad_token_id) if family else 0
    positions = model.config.max_position_embeddings - unused
    if ids.shape[1] > positions:
        raise UsageError(
            f"the sentence has {ids.shape[1]} tokens, and the model sees {positions}; shorten it"
        )
    with torch.no_grad():
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if is_t5:
            (gap,) = tokenizer.convert_tokens_to_ids([sentinel(0)])
            inputs["decoder_input_ids"] = ids.new_tensor([[model.config.decoder_start_token_id, gap]])
            place = 1
        else:
            (place,) = (ids[0] == tokenizer.mask_token_id).nonzero()[0].tolist()
        logits = model.eval()(**inputs).logits[0, place]
    best = logits.float().softmax(0).topk(num)
    return [
        (tokenizer.decode([token]).strip(), probability)
        for token, probability in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def sample_section(model: PreTrainedModel, tokenizer: Any, objective: str) -> str:
    """What the model writes, as Markdown for its card: three stories, or three gaps filled."""
    try:
        return _stories(model, tokenizer) if objective == "causal" else _gaps(model, tokenizer)
    except UsageError as error:  # positions for a few tokens only; no reason to lose a trained model
        return f"None: {error}."


def _stories(model: PreTrainedModel, tokenizer: Any) -> str:
    intro = f"Sampled at temperature 0.8 and top-p 0.95, at most {CARD_TOKENS} tokens after the bold prompt."
    stories = [
        continue_texts(model, tokenizer, [prompt], CARD_TOKENS, seed=seed)[0]
        for seed, prompt in enumerate(STORY_PROMPTS)
    ]
    quoted = [
        f"> **{prompt}**{' '.join(story.removeprefix(prompt).splitlines())}"
        for prompt, story in zip(STORY_PROMPTS, stories, strict=True)
    ]
    return "\n\n".join([intro, *quoted])


def _gaps(model: PreTrainedModel, tokenizer: Any) -> str:
    rows = [
        f"| {sentence.format(mask='___')} | {_words(fill_gap(model, tokenizer, sentence))} |"
        for sentence in GAPPED_SENTENCES
    ]
    return "\n".join(["| sentence | likeliest words |", "| --- | --- |", *rows])


def _words(candidates: list[tuple[str, float]]) -> str:
    return ", ".join(
        f"{word.replace('|', '/') or '(space)'} {probability:.0%}" for word, probability in candidates
    )
