"""Schema of study files: pydantic models that refuse unknown keys, read with a safe YAML loader."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationError,
    ValidationInfo,
    WrapSerializer,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from farout import networks
from farout.component import Named
from farout.data.arrays import MOST_CLASSES, list_npz_arrays
from farout.data.catalog import DATASETS, builders, split_folders
from farout.files import open_file
from farout.registry import UnknownName, registry_of, unknown
from farout.study.paths import find_factories, resolve_paths
from farout.study.yaml_files import LARGEST, load
from farout.training.presets import apply_preset
from farout.training.recipe import Recipe

Budget = Literal["quick", "standard", "full"]
BUDGETS: tuple[Budget, ...] = ("quick", "standard", "full")

T = TypeVar("T")
MOST = 1000
"""Largest number of outlier sets, networks, detectors or seeds of a study; more are probably a mistake."""
MOST_MEMBERS = 100
"""Largest number of networks in an ensemble."""
MOST_PIXELS = 4096
"""Largest side of the images that a network takes."""
Label = Annotated[str, Field(min_length=1)]
"""Name that tables use."""
SPLIT = "give both splits: inliers: {train: …, test: …}, each a name, a file or a folder"
"""Advice in errors about inliers without a train split."""


@contextmanager
def suggest_plugin() -> Iterator[None]:
    """Add the advice to use --plugin to errors about unknown names."""
    try:
        yield
    except UnknownName as error:
        raise UnknownName(f"{error} If it is one of your own, name its file with --plugin.") from None


class Spec(BaseModel):
    """Base of all specs: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if isinstance(value, dict):
            _check_keys(cls, value, cls.model_fields)
        return value


def _check_keys(cls: type[Any], keys: Iterable[Any], known: Iterable[str]) -> None:
    known = list(known)
    for key in keys:
        if key not in known:
            raise ValueError(str(unknown(f"key in {cls.__name__.removesuffix('Spec').lower()}:", key, known)))


def _named(value: Any) -> Any:
    """Expand a bare string to {name: string}."""
    return {"name": value} if isinstance(value, str) else value


class DataSpec(Spec):
    """Image set: a named set, an .npz file or a folder."""

    name: str = Field(min_length=1)
    split: str = "test"
    limit: PositiveInt | None = None
    label: Label | None = None
    options: dict[str, Any] = Field(default_factory=dict)


def _data(value: Any, info: ValidationInfo) -> Any:
    """Expand "toy:test/ood_cls" to {name: toy, split: test/ood_cls}, and resolve paths against the study's folder."""
    if isinstance(value, str) and value.find(":") > 1 and not _path(value, info).exists():  # C: is a drive letter
        name, _, split = value.rpartition(":")
        value = {"name": name, "split": split}
    value = _named(value)
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        value = {**value, "name": _resolve_name(value["name"], info)}
        if isinstance(value.get("options"), dict):
            value["options"] = resolve_paths(value["options"], list(builders(value["name"])), _folder(info))
    return value


def _resolve_name(name: str, info: ValidationInfo) -> str:
    """Return the name of a registered set unchanged, and a path as absolute, resolved against the study's folder."""
    path = _path(name, info)
    if not name or name in DATASETS:
        return name
    if path.exists() or Path(name).suffix or "/" in name:
        return str(path.resolve())
    if info.context:  # in a study file, every other name must be registered
        with suggest_plugin():
            DATASETS[name]
    return name


def _path(name: str, info: ValidationInfo) -> Path:
    return _folder(info) / Path(name).expanduser()


def _folder(info: ValidationInfo) -> Path:
    return Path((info.context or {}).get("folder", "."))


Data = Annotated[DataSpec, BeforeValidator(_data)]


class InliersSpec(Spec):
    """Inlier distribution in three splits; without `val`, a tenth of `train` serves as validation split."""

    train: Data | None = None
    val: Data | None = None
    test: Data


def _inliers(value: Any, info: ValidationInfo) -> Any:
    """Expand a single name to its train, val and test splits, and a file or folder to the splits that it has."""
    if isinstance(value, dict) and "name" not in value:
        return value
    value = _data(value, info)
    if not isinstance(value, dict) or "split" in value:
        return {"test": value}
    path, splits = Path(str(value["name"])), ["train", "val", "test"]
    if path.is_absolute() and path.exists():
        available = (
            split_folders(path) if path.is_dir() else [name.removesuffix("_images") for name in list_npz_arrays(path)]
        )
        splits = [split for split in splits if split in available] or ["test"]
    return {split: {**value, "split": split} for split in splits}


InlierSplits = Annotated[InliersSpec, BeforeValidator(_inliers)]


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
    _check_keys(TrainSpec, value, [*known, "preset"])
    return apply_preset(value)


def _without_seed(recipe: Any, dump: SerializerFunctionWrapHandler) -> Any:
    return {key: value for key, value in dump(recipe).items() if key != "seed"}


Training = Annotated[TrainSpec, BeforeValidator(_recipe), WrapSerializer(_without_seed)]
WeightsFile = Annotated[str, AfterValidator(_resolve_name)]


class NamedSpec(Spec):
    """Component by name with its parameters beside it: {name: knn, k: 10}."""

    kinds: ClassVar[tuple[str, ...]]
    """Registries in which the name is looked up."""
    name: str = Field(min_length=1)
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "params" in value:
            return value
        params = {key: item for key, item in value.items() if key not in cls.model_fields}
        cls._check_params(str(value.get("name")), params)
        return {key: item for key, item in value.items() if key not in params} | {"params": params}

    @classmethod
    def _check_params(cls, name: str, params: dict[str, Any]) -> None:
        """Raise for unknown parameters; by default, creating the component does."""

    @field_validator("params")
    @classmethod
    def _resolve_params(cls, params: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Resolve paths against the study's folder, and let the component refuse parameters not allowed in a study."""
        factories = find_factories(info.data.get("name", ""), map(registry_of, cls.kinds)) if params else []
        for factory in factories:
            if isinstance(factory, type) and issubclass(factory, Named):
                factory.check_study(params)
        return resolve_paths(params, factories, _folder(info))


class NetworkSpec(NamedSpec):
    """Classifier by architecture, with weights from a file, from timm (`pretrained`) or trained in the study.

    `train` beside `weights` or `pretrained` fine-tunes these, with a new head if they have other classes. Several
    weights files, or `members` to be trained, make an ensemble; a budget counts it as one network.
    """

    kinds = ("network",)
    label: Label | None = None
    weights: WeightsFile | Annotated[tuple[WeightsFile, ...], Field(min_length=2, max_length=MOST_MEMBERS)] | None = (
        None
    )
    members: Annotated[int, Field(ge=2, le=MOST_MEMBERS)] | None = None
    pretrained: bool = False
    train: Training | None = None
    seed: NonNegativeInt | None = None
    """Seed of the first weights and the training, in place of the study's seeds."""
    mean: FiniteFloat | tuple[FiniteFloat, ...] | None = None
    """Mean of the normalizer, a number per channel or one for all; None = 0.5, or timm's own for a network of timm."""
    std: FiniteFloat | tuple[FiniteFloat, ...] | None = None
    side: Annotated[PositiveInt, Field(le=MOST_PIXELS)] | None = None
    classes: Annotated[NonNegativeInt, Field(le=MOST_CLASSES)] | None = None
    """Number of classes. None = those of the inliers; 0 = a network of timm without head, which gives features only."""

    @property
    def title(self) -> str:
        """Name that tables use."""
        return self.label or self.name

    @property
    def parts(self) -> tuple[NetworkSpec, ...]:
        """The network itself; of a mixed ensemble, its members."""
        return (self,)

    @classmethod
    def _check_params(cls, name: str, params: dict[str, Any]) -> None:
        known = networks.parameters(name)
        if known is not None and name in networks.NETWORKS:
            _check_keys(cls, params, [*(field for field in cls.model_fields if field != "params"), *known])

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
        if self.seed is not None and not self.train:
            raise ValueError(f"network {self.name!r}: seed: {self.seed} needs train:, only a training depends on it")
        return self


class EnsembleSpec(Spec):
    """Ensemble of different networks: {ensemble: [lenet, {name: resnet18, width: 16}], train: {…}, label: mixed}.

    Every other key of a network beside `ensemble` (train, seed, side, …) holds for all members that do not set it
    themselves. A member is the same network as without the ensemble; a budget counts the ensemble as one network.
    """

    label: Label | None = None
    ensemble: Annotated[
        tuple[Annotated[NetworkSpec, BeforeValidator(_named)], ...], Field(min_length=2, max_length=MOST_MEMBERS)
    ]

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
        _check_keys(cls, shared, [*cls.model_fields, *_SHARED])
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
    member = _named(member)
    return {**shared, **member} if isinstance(member, dict) else member


def _network_kind(value: Any) -> str:
    """Return the tag of the model of a network's entry; tags in brackets do not occur in the paths of errors."""
    mixed = "ensemble" in value if isinstance(value, dict) else isinstance(value, EnsembleSpec)
    return "[ensemble]" if mixed else "[network]"


AnyNetwork = Annotated[
    Annotated[NetworkSpec, BeforeValidator(_named), Tag("[network]")] | Annotated[EnsembleSpec, Tag("[ensemble]")],
    Discriminator(_network_kind),
]


class DetectorSpec(NamedSpec):
    """Detector or adapter by name with its parameters: {name: knn, k: 10}, {name: onnx, path: mine.onnx}."""

    kinds = ("detector", "adapter")
    label: Label | None = None


class ProtocolSpec(NamedSpec):
    """Protocol by name with its parameters: {name: attributes, shift: [hue, size]}."""

    kinds = ("protocol",)


def _check_name(name: str) -> str:
    """Raise if a study's name cannot be the name of its results folder."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(
            f"a study's name must start with a letter or digit and hold only letters, digits, '_', '.' and '-', got "
            f"{name!r}; set it with name: (by default it is the file's name)"
        )
    return name


def _check_distinct(items: list[T]) -> list[T]:
    repeated = [item for item, times in Counter(items).items() if times > 1]
    if repeated:
        raise ValueError(f"{', '.join(map(str, repeated))} is listed more than once; list each only once")
    return items


def _check_distinct_names(protocols: list[ProtocolSpec]) -> list[ProtocolSpec]:
    _check_distinct([protocol.name for protocol in protocols])
    return protocols


class StudySpec(Spec):
    """Content of a study file: the detectors, networks, images, protocols, seeds and budget."""

    name: Annotated[str, AfterValidator(_check_name)]
    inliers: InlierSplits
    outliers: list[Data] = Field(default_factory=list, max_length=MOST)
    networks: list[AnyNetwork] = Field(default_factory=list, max_length=MOST)
    detectors: list[Annotated[DetectorSpec, BeforeValidator(_named)]] = Field(min_length=1, max_length=MOST)
    protocols: Annotated[
        list[Annotated[ProtocolSpec, BeforeValidator(_named)]], AfterValidator(_check_distinct_names)
    ] = Field(default=[ProtocolSpec(name="clean")], min_length=1)
    seeds: Annotated[list[NonNegativeInt], AfterValidator(_check_distinct)] = Field(
        default=[0], min_length=1, max_length=MOST
    )
    budget: Budget = "standard"
    validation_outliers: Data | None = None
    """Outliers that supervised detectors (mds_layers) are fitted on, at most as many as the budget has validation
    images; never among the outliers tested."""

    @classmethod
    def read(cls, path: str | Path) -> StudySpec:
        """Read a study from a YAML file; paths in it are relative to the file."""
        path = Path(path)
        try:
            with open_file(path.resolve()) as file:
                value = load(file.read(4 * LARGEST).decode("utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot read the study {path}: {error}") from error
        if not isinstance(value, dict):
            raise ValueError(f"the study {path} must be a mapping (name:, inliers:, …), got {type(value).__name__}")
        try:
            return cls.model_validate({"name": path.stem, **value}, context={"folder": path.resolve().parent})
        except ValidationError as error:
            raise ValueError(f"the study {path} is not valid:\n{_format_problems(error)}") from None

    def without(self, names: Iterable[str]) -> StudySpec:
        """Return the study without the detectors of these names or labels."""
        remaining = list(self.detectors)
        for name in names:
            kept = [item for item in remaining if name not in (item.name, item.label)]
            if len(kept) == len(remaining):
                raise unknown("detector of the study:", name, {item.label or item.name for item in remaining})
            remaining = kept
        if not remaining:
            raise ValueError("without these detectors the study has none left; keep at least one")
        return self.model_copy(update={"detectors": remaining})


def _format_problems(error: ValidationError) -> str:
    return "\n".join(f"  {_key_path(e) or 'study'}: {_message(e)}" for e in error.errors())


def _key_path(error: ErrorDetails) -> str:
    """Return the keys that lead to the problem, joined by dots, without pydantic's names of types."""
    return ".".join(part for part in map(str, error["loc"]) if "[" not in part)


def _message(error: ErrorDetails) -> str:
    if error["type"] == "model_type":
        return f"expected a name or a mapping, got {error['input']!r}"
    return error["msg"].removeprefix("Value error, ")
