"""Import of authors' checkpoints: names, wrappers, shapes, and files that hold more than tensors."""

import pickle
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import farout
from farout.detectors import AE, import_weights
from farout.detectors.trained.detector import Inputs
from farout.networks.base import seeded

INPUTS = Inputs(3, 32, 0)


def published(**params: int) -> tuple[AE, dict[str, Tensor]]:
    """An autoencoder and its tensors as the authors' code names them: by name and by place."""
    detector = AE(preset="full", **params)
    with seeded(1):
        detector.modules = detector.build(INPUTS)
    detector.inputs = INPUTS
    encoder, decoder = (detector.modules[part] for part in ("encoder", "decoder"))
    assert isinstance(encoder, nn.Sequential)
    assert isinstance(decoder, nn.Sequential)
    encoder[1].running_mean.fill_(0.25)  # type: ignore[union-attr, operator]
    named = {
        "encoder": ["conv1", "conv2", "conv3", "conv4", "fc1", "fc2"],
        "decoder": ["fc1", "conv1", "conv2", "conv3"],
    }
    tensors: dict[str, Tensor] = {}
    for part, module in (("encoder", encoder), ("decoder", decoder)):
        layers = iter(named[part])
        for place, layer in enumerate(module):
            state = layer.state_dict()
            tensors |= {f"{part}.net.{place}.{key}": value for key, value in state.items()}
            if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
                name = next(layers)
                tensors |= {f"{part}.{name}.{key}": value for key, value in state.items()}
    for module in detector.modules.values():
        module.eval()
    return detector, tensors


@pytest.mark.parametrize("wrapper", ["state_dict", "model", ""])
@pytest.mark.parametrize("prefix", ["module.", ""])
def test_the_autoencoder_of_the_authors_gives_its_scores(tmp_path: Path, wrapper: str, prefix: str) -> None:
    detector, tensors = published(width=4, latent=3)
    content = {f"{prefix}{name}": value for name, value in tensors.items()}
    file, out = tmp_path / "theirs.pth", tmp_path / "ours.safetensors"
    torch.save({wrapper: content, "epoch": 7} if wrapper else content, file)
    imported = import_weights("ae", file, out, width=4, latent=3)
    images = farout.load("toy", limit=5).batch(range(5))
    assert torch.equal(farout.detectors.load(out).score(images), detector.score(images))
    assert len(imported.mapped) == 10 * 2 + 5 * 4
    assert imported.left_out == []


def test_tensors_that_are_not_used_are_named(tmp_path: Path) -> None:
    _, tensors = published(width=4, latent=3)
    torch.save({**tensors, "discriminator.weight": torch.ones(2)}, tmp_path / "theirs.pt")
    imported = import_weights("ae", tmp_path / "theirs.pt", width=4, latent=3)
    assert imported.left_out == ["discriminator.weight"]


def test_a_file_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    _, tensors = published(width=4, latent=3)
    file = tmp_path / "theirs.pt"
    torch.save(tensors, file)
    with pytest.raises(
        ValueError, match=r"has other shapes than the network: .*expected.*Expected ae with .*latent.*32×32"
    ):
        import_weights("ae", file, width=4, latent=5)
    torch.save({name: value for name, value in tensors.items() if "fc2" not in name and ".15." not in name}, file)
    with pytest.raises(
        ValueError, match=r"has no tensor 'encoder.net.15.weight', which the published checkpoint of ae"
    ):
        import_weights("ae", file, width=4, latent=3)
    with pytest.raises(ValueError, match="unknown trained detector 'knn'"):
        import_weights("knn", file)


class Trap:
    """Writes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_a_pickled_object_is_refused_and_not_executed(tmp_path: Path) -> None:
    file = tmp_path / "theirs.pt"
    for content in (nn.Linear(2, 2), Trap(tmp_path / "trapped")):
        torch.save(content, file)
        with pytest.raises(ValueError, match=r"cannot be read as weights .*a whole pickled module is not read"):
            import_weights("ae", file)
    file.write_bytes(pickle.dumps(Trap(tmp_path / "trapped")))
    with pytest.raises(ValueError, match="cannot be read as weights"):
        import_weights("ae", file)
    assert not (tmp_path / "trapped").exists()
