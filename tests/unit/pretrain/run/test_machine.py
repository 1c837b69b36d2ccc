"""Which machine this is."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from pretrain.run.machine import is_here, is_same_boot, this_machine

HOST = socket.gethostname()
BOOT, _, TABLE = this_machine().partition(" ")


@pytest.mark.parametrize(
    ("machine", "host", "here", "boot"),
    [
        (this_machine(), "renamed", True, True),
        ("another boot", HOST, False, False),
        (f"{BOOT} pid:[1]", HOST, False, True),  # another container
        (f"00000000-0000-0000-0000-000000000000 {TABLE}", HOST, False, False),
        ("", HOST, True, True),  # of a version that knew only names
        ("", "elsewhere", False, False),
    ],
)
def test_a_machine_is_told_by_more_than_its_name(machine: str, host: str, here: bool, boot: bool) -> None:
    assert is_here(machine, host) is here
    assert is_same_boot(machine, host) is boot


def test_all_processes_of_a_machine_agree() -> None:
    code = "from pretrain.run.machine import this_machine; print(this_machine())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == this_machine()
