"""Files that others may read as the user's umask says."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

from farout.files import atomic_file, atomic_folder
from farout.networks.weights import write_tensors


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_weights_and_states_have_the_mode_of_other_new_files(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    expected = mode(tmp_path / "other")
    write_tensors(tmp_path / "weights.safetensors", {"a": torch.zeros(1)}, {})
    with atomic_folder(tmp_path / "record") as folder:
        save_file({"a": np.zeros(1)}, folder / "state.safetensors")
    assert mode(tmp_path / "weights.safetensors") == mode(tmp_path / "record" / "state.safetensors") == expected


def test_other_modes_are_kept(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "script") as temporary:
        temporary.touch()
        temporary.chmod(0o640)
    assert mode(tmp_path / "script") == 0o640
