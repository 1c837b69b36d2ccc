"""Numbers of tokens as texts and back."""

from __future__ import annotations

import pytest

from base.errors import UsageError
from slurm.study.ffn_levels import num_steps, read_tokens, write_tokens


@pytest.mark.parametrize(
    ("written", "number", "text"),
    [
        ("1M", 1_000_000, "1M"),
        ("1.5M", 1_500_000, "1.5M"),
        ("2B", 2_000_000_000, "2B"),
        (300_000, 300_000, "300k"),
        (0.7e6, 700_000, "700k"),
        ("4e6", 4_000_000, "4M"),
        ("10M", 10_000_000, "10M"),
        (999, 999, "999"),
        (2048, 2048, "2.048k"),
        (1_234_567, 1_234_567, "1234567"),
        (123_456_789, 123_456_789, "123456789"),
    ],
)
def test_tokens_are_read_and_written_exactly(written: object, number: int, text: str) -> None:
    assert read_tokens(written) == number
    assert write_tokens(number) == text
    assert read_tokens(text) == number


@pytest.mark.parametrize("written", ["", "M", "1.5", "1T", "-1M", 0, True, None, [1], "1e99M", float("inf")])
def test_what_is_no_number_of_tokens_is_refused(written: object) -> None:
    with pytest.raises(UsageError, match="is no number of training tokens"):
        read_tokens(written)


def test_steps_are_whole_and_never_more_than_the_tokens() -> None:
    assert num_steps(1_000_000, 8, 128) == 976  # 976 x 1,024 = 999,424
    with pytest.raises(UsageError, match=r"fewer than the 1,024 of one step"):
        num_steps(1023, 8, 128)
