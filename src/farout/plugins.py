"""Plugins: Python files of the user's, imported only when named by `--plugin file.py` or `file.py:Name`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from farout.identity import digest
from farout.registry import unknown

_loaded: dict[Path, ModuleType] = {}
"""Imported plugins by path."""


def load_plugin(path: Path) -> ModuleType:
    """Import a Python file, which may register components.

    A file is imported only once, also if another plugin imports it by its name: `import mine`.
    """
    path = path.resolve()
    if not path.is_file() or path.suffix != ".py":
        raise ValueError(f"no such plugin: {path}; expected a Python file")
    if path not in _loaded:
        _loaded[path] = _find_imported(path) or _import(path)
    return _loaded[path]


def is_named(path: Path) -> bool:
    """Return True if the user has named this file as a plugin, so that its code may run."""
    return path.resolve() in _loaded


def _find_imported(path: Path) -> ModuleType | None:
    """Return the module of this file if another plugin has imported it; else None."""
    for name, module in list(sys.modules.items()):
        file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
        if file and name != "__main__" and Path(file).name == path.name and Path(file).resolve() == path:
            return module
    return None


def _import(path: Path) -> ModuleType:
    name = f"farout_plugin_{path.stem}_{digest(str(path))[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    if str(path.parent) not in sys.path:  # a plugin may import files next to it
        sys.path.append(str(path.parent))
    module = importlib.util.module_from_spec(spec)
    names = [name, path.stem] if _is_importable(path) else [name]
    sys.modules.update(dict.fromkeys(names, module))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        for module_name in names:
            sys.modules.pop(module_name, None)
        raise
    return module


def _is_importable(path: Path) -> bool:
    """Return True if `import stem` would import exactly this file."""
    if path.stem in sys.modules or not path.stem.isidentifier():
        return False
    found = importlib.util.find_spec(path.stem)
    return bool(found and found.origin and Path(found.origin).resolve() == path)


def named_object(reference: str) -> Any:
    """Return the object that `file.py:Name` refers to."""
    file, colon, name = reference.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise ValueError(f"expected file.py:Name, got {reference!r}")
    module = load_plugin(Path(file))
    if not hasattr(module, name):
        raise unknown(f"name in {file}:", name, [key for key in vars(module) if not key.startswith("_")])
    return getattr(module, name)
