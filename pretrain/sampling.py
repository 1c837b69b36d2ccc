"""Text from a trained model: continuations of a prompt, and the samples of a model card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel, pipeline
from transformers.pipelines import PipelineException

from base.errors import UsageError
from base.families import FAMILIES, family_of
from base.records import peek_record
from base.text.tokens import as_prompts, read
from ffn_variants.models.loading import load_language_model

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
        raise UsageError(f"{folder}: {family.name} fills gaps and continues no text; name a {causal} run")
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
    longest = max(map(len, ids))
    room = positions - longest
    if room < 1:
        raise UsageError(
            f"the prompt has {longest} tokens, and the model sees {positions} with what it adds; shorten the "
            f"prompt by {1 - room} tokens or more"
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


def sample_section(model: PreTrainedModel, tokenizer: Any, objective: str) -> str:
    """What the model writes, as Markdown for its card: three stories, or the words of three gaps."""
    if objective == "span_corruption":
        return "None: transformers has no pipeline for an encoder-decoder that fills spans."
    try:
        return _stories(model, tokenizer) if objective == "causal" else _gaps(model, tokenizer)
    except (UsageError, PipelineException) as error:  # positions for a few tokens only; no reason to fail
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
    # Cut to the model's positions, where a row may lose its mask, which the pipeline then says.
    options: Any = {"top_k": 3, "tokenizer_kwargs": {"truncation": True}}
    fill = pipeline("fill-mask", model=model.eval(), tokenizer=tokenizer, device=model.device, **options)
    rows = ["| sentence | likeliest words |", "| --- | --- |"]
    for sentence in GAPPED_SENTENCES:
        # The space before a word belongs to its token.
        words = fill(sentence.replace(" {mask}", str(tokenizer.mask_token)))
        shown = [f"{word['token_str'].strip().replace('|', '/')} {word['score']:.0%}" for word in words]
        rows.append(f"| {sentence.format(mask='___')} | {', '.join(shown)} |")
    return "\n".join(rows)
