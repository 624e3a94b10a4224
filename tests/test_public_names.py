"""What `import farout` offers, and what it costs."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.metadata import version

import pytest

import farout

HOMES = {
    "Activations": "farout.core",
    "Attack": "farout.attacks.attack",
    "Attacked": "farout.attacks.judging",
    "Detector": "farout.core",
    "Found": "farout.api.worst_case",
    "ImageSet": "farout.core",
    "Network": "farout.networks.network",
    "NonFiniteScores": "farout.scores",
    "NotFitted": "farout.core",
    "Panel": "farout.detectors.panel.panel",
    "PostHoc": "farout.core",
    "Reduction": "farout.core",
    "Result": "farout.api.run",
    "Shift": "farout.core",
    "Variation": "farout.variations.variation",
    "attack": "farout.api.attack",
    "check": "farout.api.check",
    "generate": "farout.api.generate",
    "load": "farout.data",
    "register": "farout.registry",
    "run": "farout.api.run",
    "shift": "farout.shifts",
    "stress": "farout.api.stress",
    "train": "farout.api.train",
    "worst_case": "farout.api.worst_case",
}
FOLDERS = (
    "adapters",
    "attacks",
    "attention",
    "data",
    "detectors",
    "generators",
    "metrics",
    "networks",
    "protocols",
    "search",
    "shifts",
    "training",
    "variations",
)


@pytest.mark.parametrize(("name", "home"), HOMES.items())
def test_a_public_name_is_the_thing_itself(name: str, home: str) -> None:
    assert getattr(farout, name) is getattr(importlib.import_module(home), name)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_public_folder_is_the_module(folder: str) -> None:
    assert getattr(farout, folder) is importlib.import_module(f"farout.{folder}")


def test_the_list_of_names_is_complete() -> None:
    assert sorted(farout.__all__) == sorted([*HOMES, *FOLDERS])
    assert dir(farout) == sorted([*HOMES, *FOLDERS, "__version__"])


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'farout' has no attribute 'strss'"):
        farout.strss  # noqa: B018
    assert not hasattr(farout, "_private")


def test_the_version_is_the_packages() -> None:
    assert farout.__version__ == version("farout")


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("detectors", {"msp", "entropy", "mls", "ebo", "gen", "react", "ash", "scale", "vim", "knn", "nnguide", "she"}),
        ("detectors", {"mds", "odin", "gradnorm"}),
        ("networks", {"lenet", "resnet18", "resnet20", "densenet121", "wrn40_2"}),
        (
            "data",
            {
                "shapes",
                "chars",
                "toy",
                "noise",
                "cifar10",
                "cifar100",
                "svhn",
                "mnist",
                "fashion_mnist",
                "celeba",
                "mvtec",
            },
        ),
        ("protocols", {"attributes", "clean"}),
        ("shifts", {"gaussian_noise", "glass_blur", "spatter", "saturate"}),
        ("variations", {"attributes"}),
        ("adapters", {"estimator", "function", "http", "onnx"}),
    ],
)
def test_every_family_names_its_members(family: str, names: set[str]) -> None:
    listed = getattr(farout, family).names()
    assert names <= set(listed)
    assert listed == sorted(set(listed))


def test_importing_costs_no_torch_and_changes_no_warnings() -> None:
    """Nor does asking for what there is."""
    code = "import sys, farout; dir(farout); print(sorted({'torch', 'numpy', 'pandas', 'pydantic'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (answer.stdout.strip(), answer.stderr) == ("[]", "")
