"""Templates, styles and scripts of the package, and text that can safely stand in a page."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def fill(template: str, values: Mapping[str, Any]) -> str:
    """Return a template with these values; all text is escaped."""
    return _environment().get_template(template).render(values).lstrip()


@cache
def _environment() -> Environment:
    loader = PackageLoader("farout", "report")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)


def resource(name: str) -> str:
    """Return the text of a file beside this module."""
    return files("farout.report").joinpath(name).read_text(encoding="utf-8")


def script_text(source: str) -> str:
    """Return a script that can stand in a page: nothing in it ends the element."""
    return source.replace("\r\n", "\n").replace("</script", "<\\/script").replace("<!--", "<\\!--")


def json_text(content: object) -> str:
    """Return JSON for a script element: names in it can neither end the element nor start a comment."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def policy(scripts: Sequence[str]) -> str:
    """Return a content security policy that runs these scripts and no others, and loads nothing."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes}"
