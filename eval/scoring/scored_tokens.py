"""From a text to the tokens that are scored, as a protocol says.

A study evaluates many runs with one tokenizer on the same texts. So their tokens are kept, by the content of
the tokenizer, the protocol and the texts themselves, for the next run that asks in the same process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from transformers import PreTrainedTokenizerBase

from base.errors import UsageError
from base.text.tokens import read_whole
from eval.protocol import Protocol, TooLongError
from eval.scoring.text_batches import ScoredText

Pairs = tuple[tuple[str, str], ...]

# The largest task takes about 20 MB.
CACHED_TASKS = 128


class TextTokenizer:
    """Makes scored texts under one protocol.

    Args:
        tokenizer: A fast tokenizer of transformers.
        protocol: How texts are scored.
        num_positions: How many tokens the model can read at once.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, protocol: Protocol, num_positions: int) -> None:
        self._backend = getattr(tokenizer, "backend_tokenizer", None)
        if self._backend is None:
            raise UsageError(
                f"{type(tokenizer).__name__} is no fast tokenizer; save it as one (tokenizer.json)"
            )
        self._tokenizer, self._protocol = tokenizer, protocol
        is_causal, is_scored = protocol.objective == "causal", protocol.end_token == "scored"
        # The last token that a causal model scores is never read, and what follows it changes nothing.
        self._limit = num_positions + int(is_causal)
        has_suffix = is_scored if is_causal else protocol.end_token != "none"
        prefix = {"bos": ("bos_token", "cls_token"), "eos": ("eos_token", "sep_token"), "none": ()}
        self._frame = _Frame(
            prefix=self._ids(*prefix[protocol.prefix]),
            suffix=self._ids("eos_token", "sep_token") if has_suffix else (),
            scores_suffix=is_scored,
            is_causal=is_causal,
            with_words=protocol.masking == "within_word_l2r" and not is_causal,
        )
        content = hashlib.sha256(self._backend.to_str().encode()).digest()
        self._key = (content, protocol, self._frame, self._limit)

    def __eq__(self, other: object) -> bool:
        """Whether it makes the same tokens of the same texts."""
        return isinstance(other, TextTokenizer) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @lru_cache(maxsize=CACHED_TASKS)  # noqa: B019  # tokenizers of one content share what is kept
    def encode(self, pairs: Pairs) -> tuple[ScoredText, ...]:
        """Tokenise (context, continuation) pairs, of which the continuation is scored.

        A context that ends in spaces gives them to the continuation, as in lm-eval, because byte-level
        tokens begin with their space.

        Raises:
            UsageError: For a continuation without a token that can be scored, or a text longer than the
                model's positions.
        """
        split = [_split(context, text, self._protocol.leading_space) for context, text in pairs]
        encoded = self._ids_and_words([context + text for context, text in split], self._frame.with_words)
        contexts = list({context for context, _ in split if context})
        lengths = {
            context: len(ids)
            for context, (ids, _) in zip(contexts, self._ids_and_words(contexts, False), strict=True)
        }
        texts = []
        for (context, continuation), (ids, words) in zip(split, encoded, strict=True):
            text = self._frame.around(ids, words, num_context=lengths.get(context, 0))
            if text.start >= text.end:
                raise UsageError(
                    f"nothing to score in {context + continuation!r}: it has no token, or only a first one "
                    "that no prefix stands before"
                )
            texts.append(text)
        self._refuse_too_long(texts, split)
        return tuple(_shortened(text, self._limit) for text in texts)

    def _refuse_too_long(self, texts: Sequence[ScoredText], split: Sequence[tuple[str, str]]) -> None:
        """Refuse texts without room, the longest by name; of a context the beginning may be left out."""
        scored = [len(text.input_ids) - text.start + 1 for text in texts]
        may_cut = self._protocol.overflow == "truncate"
        sizes = scored if may_cut else [len(text.input_ids) for text in texts]
        place = max(range(len(texts)), key=sizes.__getitem__, default=0)
        if not texts or sizes[place] <= self._limit:
            return
        unread = int(self._protocol.objective == "causal")
        needed, positions = sizes[place] - unread, self._limit - unread
        hint = ", or pass --protocol.overflow truncate" * (scored[place] <= self._limit)
        error = TooLongError(
            f"a text of {len(texts[place].input_ids)} tokens does not fit the model's {positions} positions: "
            f"{''.join(split[place])[:60]!r}...; leave it out or train with data.block_size {needed} or "
            f"more{hint}"
        )
        error.positions = needed
        raise error

    def _ids_and_words(
        self, texts: Sequence[str], with_words: bool
    ) -> list[tuple[list[int], list[int] | None]]:
        """Return each text's token ids, without special tokens, and to which word each token belongs."""
        encodings = read_whole(self._backend, texts, is_framed=False, with_words=with_words)
        # The same number is the same object everywhere, which makes what is kept a quarter as large.
        same: dict[int, int] = {}
        ids = [[same.setdefault(i, i) for i in encoding.ids] for encoding in encodings]
        if not with_words:
            return [(tokens, None) for tokens in ids]
        return [(tokens, encoding.word_ids) for tokens, encoding in zip(ids, encodings, strict=True)]

    def windows(self, document: str) -> list[ScoredText]:
        """Cut a document into texts that fit the model and score each of its tokens once, as lm-eval does.

        The last window is filled up with context. With room for 4 tokens, 10 tokens are scored as 0123,
        (3)4567 and (567)89, where those in brackets are context.
        """
        frame = self._frame
        ids, words = self._ids_and_words([document], frame.with_words)[0]
        room = self._limit - 1 - len(frame.suffix) - (0 if frame.is_causal else len(frame.prefix))
        assert room > 0
        texts, done = [], 0
        while done < len(ids):
            end = min(done + room, len(ids))
            begin = max(0, end - room - 1)
            text = frame.around(
                ids[begin:end],
                words[begin:end] if words else None,
                num_context=done - begin,
                is_first=not done,
                is_last=end == len(ids),
            )
            texts += [text] if text.start < text.end else []
            done = end
        return texts

    def required_id(self, *names: str) -> int:
        """Return the id of the first that the tokenizer has of these special tokens, or of its vocabulary.

        Raises:
            UsageError: If it has none of them.
        """
        for name in names:
            token_id = getattr(self._tokenizer, f"{name}_id", None)
            if token_id is None:
                token_id = self._tokenizer.get_vocab().get(name)
            if token_id is not None:
                return token_id
        raise UsageError(
            f"the tokenizer has no {names[0]}, which scoring needs; set it before saving the model"
        )

    def _ids(self, *names: str) -> tuple[int, ...]:
        return (self.required_id(*names),) if names else ()


@dataclass(frozen=True)
class _Frame:
    """What stands around the tokens of a text."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    scores_suffix: bool
    is_causal: bool
    with_words: bool

    def around(
        self,
        ids: list[int],
        words: list[int] | None,
        num_context: int,
        is_first: bool = True,
        is_last: bool = True,
    ) -> ScoredText:
        """Frame tokens of which all but the first ``num_context`` are scored.

        A masked model or an encoder sees the frame around every window of a document, a causal model the
        prefix before the first and the end token behind the last.
        """
        prefix = self.prefix if is_first or not self.is_causal else ()
        suffix = self.suffix if is_last or not self.is_causal else ()
        input_ids = [*prefix, *ids, *suffix]
        # A causal model does not predict its first token.
        start = max(len(prefix) + num_context, int(self.is_causal))
        end = len(input_ids) - (0 if self.scores_suffix and is_last else len(suffix))
        if words is None:
            return ScoredText(input_ids, start, end)
        return ScoredText(input_ids, start, end, words=[*[-1] * len(prefix), *words, *[-2] * len(suffix)])


def _split(context: str, continuation: str, leading_space: str) -> tuple[str, str]:
    stripped = context.rstrip()
    continuation = context[len(stripped) :] + continuation
    if stripped or leading_space == "task":
        return stripped, continuation
    return "", (" " if leading_space == "one" else "") + continuation.lstrip(" ")


def _shortened(text: ScoredText, limit: int) -> ScoredText:
    """Leave out the beginning of a context, the prefix included, as lm-eval does."""
    excess = len(text.input_ids) - limit
    if excess <= 0:
        return text
    words = None if text.words is None else text.words[excess:]
    return ScoredText(text.input_ids[excess:], text.start - excess, text.end - excess, words=words)
