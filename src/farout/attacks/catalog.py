"""Registry of the attacks."""

from __future__ import annotations

from farout import aliases
from farout.attacks.attack import Attack
from farout.registry import Registry

ATTACKS: Registry[Attack] = Registry("attack", Attack, aliases.ATTACKS)
