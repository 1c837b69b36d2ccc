"""What a report says of where its runs are from."""

from __future__ import annotations

import pytest

from report.inputs.run_facts import _origin


@pytest.mark.parametrize(
    ("git", "told"),
    [
        ({"commit": "abcdef0123", "clean": True}, "torch 2.13.0, commit abcdef0, on cpu"),
        (
            {"commit": "abcdef0123", "clean": False},
            "torch 2.13.0, commit abcdef0 with uncommitted changes, on cpu",
        ),
        ({"commit": None, "clean": None}, "torch 2.13.0, ffn-ablations 0.1.0, on cpu"),
    ],
)
def test_code_is_named_by_its_commit_and_without_one_by_its_version(git: dict, told: str) -> None:
    versions = {"torch": "2.13.0", "ffn-ablations": "0.1.0"}
    assert _origin({"sessions": [{"versions": versions, "git": git}], "device": "cpu"}) == told
