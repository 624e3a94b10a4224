"""Recipes: all settings that determine the weights of a training, and their validation."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, Self, get_args

from farout.identity import Json
from farout.registry import unknown
from farout.training.augment import CROP_FLIP, augmentation_names, augmentations
from farout.training.presets import apply_preset
from farout.training.schedules import learning_rate

Optimizer = Literal["sgd", "adam", "adamw", "lars"]
Schedule = Literal["constant", "cosine", "step", "milestones"]
Autocast = Literal["none", "bf16", "fp16"]
Buffers = Literal["copy", "average"]
NO_AUGMENTATION = "none"
MOST_THREADS = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of a training; the defaults are the usual ones of a classifier. All of them are part of its identity.

    One step is one turn of all players: of a classifier, one step of its optimizer.
    """

    epochs: int | None = None
    """Passes over the training images; set this or `steps`."""
    steps: int | None = None
    """Turns of all players, in place of `epochs`."""
    batch: int = 128
    """Largest number of images in one forward pass: an epoch's images are divided into near-equal batches."""
    drop_last: bool = False
    """Make every batch exactly `batch` images, and leave out the rest of an epoch's images."""
    accumulate: int = 1
    """Forward passes whose gradients are added up for one step of the optimizer."""
    optimizer: Optimizer = "sgd"
    """Optimizer of the weights."""
    lr: float = 0.1
    """Learning rate at the start."""
    momentum: float = 0.9
    """Momentum of sgd and lars."""
    nesterov: bool = True
    """Nesterov momentum; of sgd with momentum."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Betas of adam and adamw."""
    eps: float = 1e-8
    """Epsilon of adam and adamw."""
    trust: float = 0.001
    """Trust coefficient of lars."""
    exclude_1d: bool = True
    """Exclude biases and norms from scaling and weight decay; of lars."""
    weight_decay: float = 5e-4
    """Weight decay of the optimizer."""
    schedule: Schedule = "cosine"
    """Course of the learning rate; "step" divides it by 10 after 1/2 and 3/4 of the training."""
    milestones: tuple[float, ...] = ()
    """Epochs (or steps, if the recipe counts steps) after which the schedule "milestones" multiplies the learning rate
    by `factor`."""
    factor: float = 0.1
    """Factor of the schedule "milestones"."""
    final_lr: float = 0.0
    """Final learning rate of the schedule "cosine"."""
    warmup_steps: int = 0
    """Steps in which the learning rate rises linearly from `warmup_from` · lr; or set `warmup_epochs`."""
    warmup_epochs: float = 0.0
    """Epochs of the same rise, in place of `warmup_steps`."""
    warmup_from: float = 0.0
    """Fraction of the learning rate from which it rises."""
    decay: float = 1.0
    """Factor of the learning rate per step, on top of the schedule."""
    clip: float | None = None
    """Largest norm of a player's gradient."""
    ema: float | None = None
    """Decay of the exponential moving average of the weights; the average is then validated and kept."""
    ema_start: int = 0
    """Step from which on weights are averaged; before it the average is a copy."""
    ema_ramp: float = 0.0
    """If above 0, the half-life of the average is at most this fraction of the steps so far (StyleGAN2: 0.05)."""
    ema_buffers: Buffers = "copy"
    """Buffers such as batch statistics: copied, or averaged like the weights."""
    autocast: Autocast = "none"
    """Reduced precision of the forward passes."""
    label_smoothing: float = 0.0
    """Label smoothing of a classifier's cross entropy."""
    augment: str | tuple[str, ...] = CROP_FLIP
    """Names of shifts, applied in this order, "crop_flip" among them; "none" for no augmentation. A shift without
    random parameters (flip, rot90) changes a random half of the images."""
    threads: int = 1
    """Threads of torch; floating-point sums depend on their number."""
    seed: int = 0
    """Seed of the first weights, the order of the images and their augmentation."""

    def __post_init__(self) -> None:
        self._check_kinds()
        names = (self.augment,) if isinstance(self.augment, str) else tuple(self.augment)
        object.__setattr__(self, "augment", () if names == (NO_AUGMENTATION,) else names)
        object.__setattr__(self, "milestones", tuple(self.milestones))
        object.__setattr__(self, "betas", tuple(self.betas))
        for kind, known in _CHOICES.items():
            if getattr(self, kind) not in known:
                raise unknown(kind, getattr(self, kind), known)
        for name in self.augment:
            if name not in augmentation_names():
                raise unknown("augment", name, [*augmentation_names(), NO_AUGMENTATION])
        for expected, fulfilled, fields in self._conditions():
            if not fulfilled:
                got = " and ".join(f"{field}={getattr(self, field)}" for field in fields)
                raise ValueError(f"expected {expected}, got {got}")

    def _check_kinds(self) -> None:
        """Raise for a setting that is no number, no sequence or neither true nor false where it should be."""
        for field in dataclasses.fields(self):
            kind, value = str(field.type), getattr(self, field.name)
            expected = _KINDS.get(kind.removesuffix(" | None"))
            if expected is None or (value is None and kind.endswith(" | None")):
                continue
            if not expected.fits(value):
                raise ValueError(f"expected {expected.text} for {field.name}, got {field.name}={value!r}")

    def _conditions(self) -> Iterator[tuple[str, bool, tuple[str, ...]]]:
        """Yield conditions: the expectation as text, True if it holds, and the fields that it is about."""
        yield "epochs or steps, one of them", (self.epochs is None) != (self.steps is None), ("epochs", "steps")
        yield "batch >= 2", self.batch >= 2, ("batch",)
        for field in ("epochs", "steps", "accumulate"):
            yield f"{field} >= 1", getattr(self, field) is None or getattr(self, field) >= 1, (field,)
        yield f"threads from 1 to {MOST_THREADS}", 1 <= self.threads <= MOST_THREADS, ("threads",)
        for field in ("lr", "eps", "trust", "factor"):
            yield f"{field} > 0", 0 < getattr(self, field) < math.inf, (field,)
        for field in ("weight_decay", "final_lr", "warmup_steps", "warmup_epochs", "ema_start", "ema_ramp"):
            yield f"{field} >= 0", 0 <= getattr(self, field) < math.inf, (field,)
        for field in ("momentum", "label_smoothing"):
            yield f"0 <= {field} < 1", 0 <= getattr(self, field) < 1, (field,)
        yield "two betas from 0 up to, not including, 1", _are_betas(self.betas), ("betas",)
        yield "0 < decay <= 1", 0 < self.decay <= 1, ("decay",)
        yield "0 <= warmup_from <= 1", 0 <= self.warmup_from <= 1, ("warmup_from",)
        yield "clip > 0", self.clip is None or 0 < self.clip < math.inf, ("clip",)
        yield "0 < ema < 1", self.ema is None or 0 < self.ema < 1, ("ema",)
        both = bool(self.warmup_steps and self.warmup_epochs)
        yield "warmup_steps or warmup_epochs, not both", not both, ("warmup_steps", "warmup_epochs")
        yield "milestones in ascending order above 0", _are_milestones(self.milestones), ("milestones",)
        fits = bool(self.milestones) == (self.schedule == "milestones")
        yield 'milestones with the schedule "milestones", and with no other', fits, ("schedule", "milestones")

    @classmethod
    def of(cls, **settings: Any) -> Recipe:
        """Return the recipe with these settings; raise if one is unknown, naming the most similar one.

        preset: name of a recipe of `farout.training.presets`; other settings replace its own.
        """
        settings = apply_preset(settings)
        cls._check_names(settings)
        return cls(**settings)

    def changed(self, **changes: Any) -> Recipe:
        """Return the recipe with changed settings; epochs replace steps, and vice versa."""
        self._check_names(changes)
        if "epochs" in changes:
            changes.setdefault("steps", None)
        elif "steps" in changes:
            changes["epochs"] = None
        return dataclasses.replace(self, **changes)

    @classmethod
    def _check_names(cls, settings: Iterable[str]) -> None:
        known = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                raise unknown("setting of a training:", name, known)

    def shortened(self, epochs: int, per_epoch: int) -> Self:
        """Return the recipe with at most `epochs` epochs of `per_epoch` steps each.

        Milestones and the warm-up are shortened in proportion.
        """
        now, most = (self.epochs, epochs) if self.steps is None else (self.steps, epochs * per_epoch)
        assert now is not None
        if now <= most:
            return self
        fraction = most / now
        return dataclasses.replace(
            self,
            epochs=most if self.steps is None else None,
            steps=None if self.steps is None else most,
            milestones=tuple(milestone * fraction for milestone in self.milestones),
            warmup_steps=round(self.warmup_steps * fraction),
            warmup_epochs=self.warmup_epochs * fraction,
        )

    def identity(self) -> dict[str, Json]:
        """Return all settings, with the versions and parameters of augmentations."""
        return {**dataclasses.asdict(self), "augment": [one.identity() for one in augmentations(self.augment)]}

    def steps_per_epoch(self, images: int, batches: int = 1) -> int:
        """Return the number of turns, each of `batches` steps with new images, that use every image once."""
        per_turn = self.batch * self.accumulate * batches
        return images // per_turn if self.drop_last else math.ceil(images / per_turn)

    def total_steps(self, per_epoch: int) -> int:
        """Return the number of steps of the whole training."""
        return self.steps if self.epochs is None else self.epochs * per_epoch  # type: ignore[return-value]

    def lr_at(self, step: int, per_epoch: int) -> float:
        """Return the learning rate of step 0, 1, …"""
        return learning_rate(
            step,
            self.total_steps(per_epoch),
            lr=self.lr,
            schedule=self.schedule,
            milestones=[milestone * (per_epoch if self.steps is None else 1) for milestone in self.milestones],
            factor=self.factor,
            final=self.final_lr,
            warmup=self.warmup_steps or self.warmup_epochs * per_epoch,
            warmup_from=self.warmup_from,
            decay=self.decay,
        )


class _Kind(NamedTuple):
    """Expected kind of a setting."""

    text: str
    fits: Callable[[Any], bool]


def _is_number(value: Any, kind: type = numbers.Real) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


_KINDS = {
    "int": _Kind("a whole number", lambda value: _is_number(value, numbers.Integral)),
    "float": _Kind("a number", _is_number),
    "bool": _Kind("true or false", lambda value: isinstance(value, bool)),
    "tuple[float, ...]": _Kind(
        "a list of numbers", lambda value: isinstance(value, list | tuple) and all(map(_is_number, value))
    ),
    "tuple[float, float]": _Kind(
        "two numbers", lambda value: isinstance(value, list | tuple) and all(map(_is_number, value))
    ),
    "str | tuple[str, ...]": _Kind("a name or a list of names", lambda value: isinstance(value, str | list | tuple)),
}
"""Kinds of the settings by their annotation."""
_CHOICES: dict[str, tuple[str, ...]] = {
    "optimizer": get_args(Optimizer),
    "schedule": get_args(Schedule),
    "ema_buffers": get_args(Buffers),
    "autocast": get_args(Autocast),
}


def _are_betas(betas: tuple[float, ...]) -> bool:
    return len(betas) == 2 and all(0 <= beta < 1 for beta in betas)


def _are_milestones(milestones: tuple[float, ...]) -> bool:
    return all(0 < milestone < math.inf for milestone in milestones) and list(milestones) == sorted(milestones)
