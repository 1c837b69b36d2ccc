"""What killed processes left behind."""

from __future__ import annotations

import os
import time

from base.files import ABANDONED_S, remove_leftovers


def test_what_killed_processes_left_goes(tmp_path):
    (tmp_path / "model.tmp-12").mkdir()
    (tmp_path / "model.tmp-12" / "config.json").touch()
    kept = [tmp_path / name for name in ("a.json", "a.json.broken", "inside/b.json.tmp-12")]
    for path in [*kept, tmp_path / "a.json.tmp-12"]:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    remove_leftovers(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    assert not (tmp_path / "model.tmp-12").exists()


def test_where_others_may_write_only_what_is_old_goes(tmp_path):
    old, new = tmp_path / "a.tmp-1", tmp_path / "b.tmp-2"
    for path in (old, new):
        path.touch()
    long_ago = time.time() - ABANDONED_S - 60
    os.utime(old, (long_ago, long_ago))
    remove_leftovers(tmp_path, ABANDONED_S)
    assert (old.exists(), new.exists()) == (False, True)
