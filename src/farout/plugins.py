"""The user's own code, run only when the user names it: `--plugin file.py`, or `file.py:Name`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from farout.identity import digest
from farout.registry import unknown


def load_plugin(path: Path) -> ModuleType:
    """Import a Python file; what it registers is known from then on. The same file is imported once."""
    path = path.resolve()
    if not path.is_file() or path.suffix != ".py":
        raise ValueError(f"no such plugin: {path}; expected a Python file")
    name = f"farout_plugin_{path.stem}_{digest(str(path))[:8]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        if str(path.parent) not in sys.path:  # a plugin may import files beside it
            sys.path.append(str(path.parent))
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def named_object(reference: str) -> Any:
    """What `file.py:Name` stands for."""
    file, colon, name = reference.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise ValueError(f"expected file.py:Name, got {reference!r}")
    module = load_plugin(Path(file))
    if not hasattr(module, name):
        raise unknown(f"name in {file}:", name, [key for key in vars(module) if not key.startswith("_")])
    return getattr(module, name)
