"""Specs of networks and of their training."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    Tag,
    WrapSerializer,
    field_validator,
    model_validator,
)

from farout import networks
from farout.data.arrays import MOST_CLASSES
from farout.networks.mode import Mode, Precision
from farout.study.spec.data import resolve_name
from farout.study.spec.parts import Label, NamedSpec, Spec, check_keys, named, resolve_path
from farout.training.presets import apply_preset
from farout.training.recipe import Recipe

MOST_MEMBERS = 100
"""Largest number of networks in an ensemble."""
MOST_PIXELS = 4096
"""Largest side of the images that a network takes."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainSpec(Recipe):
    """Training recipe of a network; its seed is the study's. All fields are part of the network's identity."""

    __pydantic_config__ = ConfigDict(allow_inf_nan=False)
    epochs: int | None = None
    """None = 100, unless `steps` is set."""

    def __post_init__(self) -> None:
        if self.epochs is None and self.steps is None:
            object.__setattr__(self, "epochs", 100)
        super().__post_init__()


def _recipe(value: Any) -> Any:
    """Check the keys of a recipe, and fill in the settings of its `preset`."""
    if not isinstance(value, dict):
        return value
    known = [field.name for field in dataclasses.fields(TrainSpec) if field.name != "seed"]
    check_keys(TrainSpec, value, [*known, "preset"])
    return apply_preset(value)


def _without_seed(recipe: Any, dump: SerializerFunctionWrapHandler) -> Any:
    return {key: value for key, value in dump(recipe).items() if key != "seed"}


Training = Annotated[TrainSpec, BeforeValidator(_recipe), WrapSerializer(_without_seed)]
WeightsFile = Annotated[str, AfterValidator(resolve_name)]


class NetworkSpec(NamedSpec):
    """Classifier by architecture, with weights from a file, from timm (`pretrained`) or trained in the study.

    `train` beside `weights` or `pretrained` fine-tunes these, with a new head if they have other classes. Several
    weights files, or `members` to be trained, make an ensemble; a budget counts it as one network.
    """

    kinds = ("network",)
    label: Label | None = None
    """Name that tables use."""
    weights: WeightsFile | Annotated[tuple[WeightsFile, ...], Field(min_length=2, max_length=MOST_MEMBERS)] | None = (
        None
    )
    """File with the weights; several files make an ensemble."""
    members: Annotated[int, Field(ge=2, le=MOST_MEMBERS)] | None = None
    """Number of networks to train with seeds of their own, as an ensemble."""
    pretrained: bool = False
    """Use the weights that timm has for this network."""
    train: Training | None = None
    """Recipe of the training; see `train` below."""
    seed: NonNegativeInt | None = None
    """Seed of the first weights and the training, in place of the study's seeds."""
    mean: FiniteFloat | tuple[FiniteFloat, ...] | None = None
    """Mean of the normalizer, a number per channel or one for all; None = 0.5, or timm's own for a network of timm."""
    std: FiniteFloat | tuple[FiniteFloat, ...] | None = None
    """Standard deviation of the normalizer, likewise."""
    side: Annotated[PositiveInt, Field(le=MOST_PIXELS)] | None = None
    """Side in pixels to which images are resized for this network; None = the images' own."""
    classes: Annotated[NonNegativeInt, Field(le=MOST_CLASSES)] | None = None
    """Number of classes. None = those of the inliers; 0 = a network of timm without head, which gives features only."""
    classes_from: Annotated[str, Field(min_length=1), AfterValidator(resolve_path)] | None = None
    """Folder whose sub-folders, or text file whose lines, name the classes of all logits in order; the logits of the
    inliers' classes are kept (a network of ImageNet's 1,000 classes on 200 of them)."""

    precision: Precision = "fp32"
    """Precision of the forward passes of scoring, searches and attacks: fp32, or bf16 or fp16 by autocast."""
    compile: bool = False
    """Compile the network's blocks by torch.compile."""

    @property
    def mode(self) -> Mode:
        """Precision and compilation of forward passes."""
        return Mode(self.precision, self.compile)

    @property
    def title(self) -> str:
        """Name that tables use."""
        return f"{self.label or self.name}{self.mode.suffix}"

    @property
    def parts(self) -> tuple[NetworkSpec, ...]:
        """The network itself; of a mixed ensemble, its members."""
        return (self,)

    @classmethod
    def _check_params(cls, name: str, params: dict[str, Any]) -> None:
        known = networks.parameters(name)
        if known is not None and name in networks.NETWORKS:
            check_keys(cls, params, [*(field for field in cls.model_fields if field != "params"), *known])

    @model_validator(mode="after")
    def _check_weights(self) -> NetworkSpec:
        if self.weights is None and not self.pretrained and self.train is None:
            raise ValueError(
                f"network {self.name!r} has no weights: give weights: file, pretrained: true or train: {{…}}; train "
                "beside one of the others fine-tunes it"
            )
        if self.weights is not None and self.pretrained:
            raise ValueError(
                f"network {self.name!r} has both weights: (a file) and pretrained: true (timm); leave out one of them"
            )
        if self.train and isinstance(self.weights, tuple):
            raise ValueError(
                f"network {self.name!r}: training starts from one file, got {len(self.weights)}; for an ensemble give "
                "one file and members: 3"
            )
        if self.train and self.classes == 0:
            raise ValueError(f"network {self.name!r}: without classes (classes: 0) there is nothing to train")
        if isinstance(self.weights, tuple) and len(set(self.weights)) < len(self.weights):
            raise ValueError(
                f"network {self.name!r}: weights: names a file twice; the members of an ensemble must differ"
            )
        if self.members and not self.train:
            raise ValueError(
                f"network {self.name!r}: members: {self.members} needs train:, which trains them; for an ensemble of "
                "trained networks list their files, weights: [a.safetensors, b.safetensors, …]"
            )
        if self.classes_from and (self.train or self.classes is not None):
            raise ValueError(
                f"network {self.name!r}: classes_from: selects logits of existing weights; leave out train: and "
                "classes:"
            )
        if self.seed is not None and not self.train:
            raise ValueError(f"network {self.name!r}: seed: {self.seed} needs train:, only a training depends on it")
        return self


class EnsembleSpec(Spec):
    """Ensemble of different networks: {ensemble: [lenet, {name: resnet18, width: 16}], train: {…}, label: mixed}.

    Every other key of a network beside `ensemble` (train, seed, side, …) holds for all members that do not set it
    themselves. A member is the same network as without the ensemble; a budget counts the ensemble as one network.
    """

    label: Label | None = None
    """Name that tables use."""
    ensemble: Annotated[
        tuple[Annotated[NetworkSpec, BeforeValidator(named)], ...], Field(min_length=2, max_length=MOST_MEMBERS)
    ]
    """Members."""

    @property
    def title(self) -> str:
        """Name that tables use."""
        return self.label or " + ".join(member.title for member in self.ensemble)

    @property
    def parts(self) -> tuple[NetworkSpec, ...]:
        """Members."""
        return self.ensemble

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        shared = {key: item for key, item in value.items() if key not in cls.model_fields}
        check_keys(cls, shared, [*cls.model_fields, *_SHARED])
        own = {key: item for key, item in value.items() if key not in shared}
        if isinstance(own.get("ensemble"), list | tuple) and shared:
            own["ensemble"] = [_with_defaults(member, shared) for member in own["ensemble"]]
        return own

    @field_validator("ensemble")
    @classmethod
    def _check_members(cls, members: tuple[NetworkSpec, ...]) -> tuple[NetworkSpec, ...]:
        unlabeled = [member.model_copy(update={"label": None}) for member in members]
        for index, member in enumerate(members):
            if member.members or isinstance(member.weights, tuple):
                raise ValueError(f"network {member.title!r} is itself an ensemble; list its members one by one")
            if unlabeled[index] in unlabeled[:index]:
                raise ValueError(f"network {member.title!r} is listed twice; give one of them another seed:")
        return members


_SHARED = tuple(key for key in NetworkSpec.model_fields if key not in ("name", "params", "label", "weights", "members"))
"""Keys of a network that an ensemble may set for all of its members."""


def _with_defaults(member: Any, shared: dict[str, Any]) -> Any:
    """Return a member of an ensemble with the keys that the ensemble sets for all members."""
    member = named(member)
    return {**shared, **member} if isinstance(member, dict) else member


def _network_kind(value: Any) -> str:
    """Return the tag of the model of a network's entry; tags in brackets do not occur in the paths of errors."""
    mixed = "ensemble" in value if isinstance(value, dict) else isinstance(value, EnsembleSpec)
    return "[ensemble]" if mixed else "[network]"


AnyNetwork = Annotated[
    Annotated[NetworkSpec, BeforeValidator(named), Tag("[network]")] | Annotated[EnsembleSpec, Tag("[ensemble]")],
    Discriminator(_network_kind),
]
