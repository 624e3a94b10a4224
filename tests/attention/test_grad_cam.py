"""Grad-CAM of convolutional networks: against one image and one logit at a time, and against CAM in closed form."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import farout
from farout.attention import grad_cam
from farout.networks.network import Network


def draw(count: int, side: int = 32, seed: int = 0) -> Tensor:
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(seed))


def scaled(raw: Tensor) -> Tensor:
    return (raw - raw.min()) / (raw.max() - raw.min()) if raw.max() > 0 else torch.zeros_like(raw)


def loop(network: Network, layer: str, images: Tensor, classes: list[int] | None = None) -> Tensor:
    """Eq. 1 and 2 of Selvaraju et al. 2017, image by image and channel by channel."""
    maps = []
    for index, image in enumerate(images):
        kept: list[Tensor] = []
        hook = network.module.get_submodule(layer).register_forward_hook(
            lambda _m, _i, out, kept=kept: kept.append(out)
        )
        logits = network.module(network.normalize(image[None]))[0]
        hook.remove()
        (slopes,) = torch.autograd.grad(logits[logits.argmax() if classes is None else classes[index]], kept[0])
        raw = torch.zeros(kept[0].shape[2:])
        for channel in range(slopes.shape[1]):
            raw = raw + slopes[0, channel].mean() * kept[0][0, channel].detach()
        raw = raw.clamp(min=0)
        maps.append(scaled(F.interpolate(raw[None, None], image.shape[1:], mode="bilinear"))[0, 0])
    return torch.stack(maps)


class Pooled(nn.Module):
    """A convolution, the mean over the map, a linear layer: here Grad-CAM is CAM."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.Linear(4, 5)
        generator = torch.Generator().manual_seed(1)
        for parameter in self.parameters():
            nn.init.normal_(parameter, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.conv(x).relu_().mean((2, 3)))  # in place: the convolution's output is overwritten


@pytest.fixture(scope="module")
def pooled() -> Network:
    return Network(Pooled(), mean=0.5, std=0.5, blocks=["conv"])


@pytest.mark.parametrize(
    ("name", "layer"), [("resnet20", "layer3"), ("wrn40_2", "layer3"), ("lenet", "stage2"), ("vgg11", "stage4")]
)
def test_maps_of_the_last_block_are_those_of_a_slow_loop(name: str, layer: str) -> None:
    """At 32 px the last block of a VGG leaves one pixel, so the one before is read.

    Image by image, since a batch rounds otherwise, and a ReLU behind the block may turn on that.
    """
    network = farout.networks.create(name, classes=7, side=32)
    maps = torch.cat([grad_cam(network, image[None]) for image in draw(3)])
    torch.testing.assert_close(maps, loop(network, layer, draw(3)), atol=1e-5, rtol=0)


def test_chosen_classes_and_layers() -> None:
    network = farout.networks.create("resnet20", classes=7, side=32)
    images, classes = draw(4), [6, 0, 3, 3]
    for layer in ("layer2", "layer3.1.conv2"):
        expected = loop(network, layer, images, classes)
        torch.testing.assert_close(grad_cam(network, images, classes, layer), expected, atol=2e-4, rtol=0)
    one = grad_cam(network, images, 3)
    assert torch.equal(one, grad_cam(network, images, torch.tensor([3, 3, 3, 3], dtype=torch.int32)))
    torch.testing.assert_close(one, loop(network, "layer3", images, [3] * 4), atol=2e-4, rtol=0)


@pytest.mark.parametrize("classes", [None, 2])
def test_class_activation_maps_in_closed_form(classes: int | None) -> None:
    """With the mean over a map before the last layer, α_k = w_k / (H W): the map is ReLU(Σ_k w_k A_k), scaled."""
    module = Pooled()
    module.forward = lambda x: module.linear(module.conv(x).mean((2, 3)))  # type: ignore[method-assign]
    network = Network(module, mean=0.25, std=0.5, blocks=["conv"])
    images = draw(6, side=8)
    with torch.no_grad():
        maps = F.conv2d((images - 0.25) / 0.5, module.conv.weight, module.conv.bias, stride=2, padding=1)
        chosen = (maps.mean((2, 3)) @ module.linear.weight.T + module.linear.bias).argmax(1)
        weights = module.linear.weight[chosen if classes is None else [classes] * 6]
        cams = torch.einsum("bk,bkhw->bhw", weights, maps).relu()
        expected = torch.stack([scaled(F.interpolate(cam[None, None], (8, 8), mode="bilinear"))[0, 0] for cam in cams])
    torch.testing.assert_close(grad_cam(network, images, classes), expected, atol=1e-5, rtol=0)


def test_a_layer_that_follows_may_work_in_place(pooled: Network) -> None:
    """The maps are those before the ReLU, and their gradient is that before it."""
    images = draw(5, side=8)
    with torch.no_grad():
        maps = pooled.module.conv(pooled.normalize(images))
        chosen = pooled.module(pooled.normalize(images)).argmax(1)
    share = (maps > 0).float().mean((2, 3))
    weights = pooled.module.linear.weight.detach()[chosen] * share
    cams = torch.einsum("bk,bkhw->bhw", weights, maps).relu()
    expected = torch.stack([scaled(F.interpolate(cam[None, None], (8, 8), mode="bilinear"))[0, 0] for cam in cams])
    torch.testing.assert_close(grad_cam(pooled, images), expected, atol=1e-5, rtol=0)


def test_one_pass_for_the_batch_and_the_same_as_single_images() -> None:
    network = farout.networks.create("resnet20", classes=7, side=32)
    images, passes = draw(5), []
    hook = network.module.register_forward_hook(lambda *_: passes.append(1))
    together = grad_cam(network, images)
    hook.remove()
    assert len(passes) == 1
    alone = torch.cat([grad_cam(network, image[None]) for image in images])
    torch.testing.assert_close(together, alone, atol=2e-4, rtol=0)


def test_the_network_is_left_as_it_was() -> None:
    network = farout.networks.create("resnet20", classes=7, side=32)
    expected = grad_cam(network, draw(2))
    network.train()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    images = draw(2).requires_grad_()
    assert torch.equal(grad_cam(network, images), expected)  # in evaluation mode, whatever mode it was in
    assert all(part.training for part in network.modules())
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert images.grad is None
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in network.modules())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", ["resnet20", "vit_tiny"])
def test_gradients_are_taken_where_the_caller_has_none(name: str, mode: type[torch.no_grad]) -> None:
    network = farout.networks.create(name, classes=7, side=32)
    expected = grad_cam(network, draw(2))
    with mode():
        assert torch.equal(grad_cam(network, draw(2)), expected)
    network.requires_grad_(False)
    assert torch.equal(grad_cam(network, draw(2)), expected)


def test_maps_take_the_size_of_the_images_given() -> None:
    """The network resizes 20 px to 32; its 8×8 map is resized to 20."""
    network = farout.networks.create("resnet20", classes=7, side=32)
    small = draw(2, side=20)
    torch.testing.assert_close(grad_cam(network, small), loop(network, "layer3", small), atol=2e-4, rtol=0)


def test_constant_maps_are_zero() -> None:
    """Where every place is alike, or nothing speaks for the class, there is nothing to scale."""
    module = Pooled()
    with torch.no_grad():
        module.conv.weight.zero_()
        module.conv.bias.fill_(0.3)
        module.linear.weight.copy_(torch.tensor([1.0, 1, 1, -1, -2])[:, None].expand(5, 4))
    network = Network(module, mean=0.5, std=0.5, blocks=["conv"])
    assert torch.equal(grad_cam(network, draw(2, side=9), 0), torch.zeros(2, 9, 9))  # Σ w A = 1.2 everywhere
    assert torch.equal(grad_cam(network, draw(2, side=9), 4), torch.zeros(2, 9, 9))  # −2.4 everywhere


def test_no_images_no_maps(pooled: Network) -> None:
    assert grad_cam(pooled, torch.zeros(0, 3, 8, 8)).shape == (0, 8, 8)


def test_errors_say_what_to_do(pooled: Network) -> None:
    networks = farout.networks
    members = [networks.create("resnet20", classes=7, side=32, seed=seed) for seed in (0, 1)]
    with pytest.raises(ValueError, match="each of its members"):
        grad_cam(networks.Ensemble(members), draw(1))
    with pytest.raises(ValueError, match="needs a classifier"):
        grad_cam(Network(nn.Sequential(nn.Flatten()), mean=0.5, std=0.5, head=False), draw(1))
    with pytest.raises(TypeError, match="wrap it first"):
        grad_cam(members[0].module, draw(1))  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="Did you mean 'conv'"):
        grad_cam(pooled, draw(1), layer="conf")
    with pytest.raises(ValueError, match=r"got shape \[1, 5\]"):
        grad_cam(pooled, draw(1), layer="linear")
    with pytest.raises(ValueError, match="classes are 0 to 4, got 2 to 5"):
        grad_cam(pooled, draw(2), [2, 5])
    with pytest.raises(ValueError, match=r"each of 2 images, as integers, got torch.float32 of shape \[2\]"):
        grad_cam(pooled, draw(2), torch.zeros(2))
    with pytest.raises(ValueError, match="names no blocks"):
        grad_cam(Network(Pooled(), mean=0.5, std=0.5, blocks=[]), draw(1))
    with pytest.raises(ValueError, match="expected images in"):
        grad_cam(pooled, draw(1) + 1)
