"""Any module as a `Network`: the head it finds, the activations it keeps, its normalizer, its digest, its errors."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from farout import Network
from farout.networks import create
from farout.registry import UnknownName


def drawn(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """A module with random weights, the global generator left alone; batch norms have statistics of their own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = make()
        for part in module.modules():
            if isinstance(part, nn.BatchNorm2d) and part.running_mean is not None and part.running_var is not None:
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2)
    return module


def images(total: int = 3, channels: int = 3, side: int = 32) -> Tensor:
    return torch.rand(total, channels, side, side, generator=torch.Generator().manual_seed(total))


def wrapped(make: Callable[[], nn.Module], **options: Any) -> Network:
    return Network(drawn(make), **{"mean": 0.5, "std": 0.25} | options)


class Convolutional(nn.Module):
    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(channels, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.body = nn.Conv2d(8, 8, 3, padding=1)
        self.classifier = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = F.relu(x + self.body(x))
        logits: Tensor = self.classifier(F.dropout(x.mean((2, 3)), training=self.training))
        return logits


class HeadFirst(nn.Module):
    """The head is registered before the layers that run before it, and has a twin of the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(5, 5)
        self.hidden = nn.Linear(12, 5)
        self.also = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden(F.adaptive_avg_pool2d(x, 2).flatten(1)).relu()
        logits: Tensor = self.out(self.also(hidden).relu())
        return logits


class Reused(HeadFirst):
    """The head runs twice."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden(F.adaptive_avg_pool2d(x, 2).flatten(1)).relu()
        logits: Tensor = self.out(self.out(hidden).relu())
        return logits


class Transformer(nn.Module):
    """Patches, a class token, one layer of attention; its parts are named as timm names them."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 5)
        self.patch_embed = nn.Conv2d(3, 16, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patch_embed(x).flatten(2).transpose(1, 2)
        tokens = self.block(torch.cat([self.token.expand(len(x), -1, -1), tokens], 1))
        logits: Tensor = self.head(tokens[:, 0])
        return logits


def nested() -> nn.Module:
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 4, 3), pool), nn.Sequential(nn.Sequential(nn.Linear(16, 5)), nn.Dropout())
    )


MODULES = {
    "convolutional": (Convolutional, "classifier"),
    "nested": (nested, "1.0.0"),
    "head first": (HeadFirst, "out"),
    "head reused": (Reused, "out"),
    "transformer": (Transformer, "head"),
    "dense": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 8), nn.ReLU(), nn.Linear(8, 5)), "3"),
}


@pytest.mark.parametrize(("make", "head"), MODULES.values(), ids=MODULES)
def test_the_head_is_found_and_the_logits_are_the_modules(make: Callable[[], nn.Module], head: str) -> None:
    network = wrapped(make)
    with torch.no_grad():
        found = network(images())
        expected = drawn(make).eval()((images() - 0.5) / 0.25)
    assert network.head_name == head
    assert network.classes == 5
    torch.testing.assert_close(found.logits, expected)
    torch.testing.assert_close(found.logits, found.features @ network.head.weight.T + network.head.bias)


@pytest.mark.parametrize("side", [28, 224])
def test_a_module_for_one_side_is_run_at_that_side(side: int) -> None:
    network = wrapped(lambda: nn.Sequential(nn.Flatten(), nn.Linear(side * side, 5)), mean=[0.5], std=[0.5])
    assert network.head_name == "1"
    assert network(images(2, 1, side)).logits.shape == (2, 5)


def test_a_head_without_bias_has_a_bias_of_zero() -> None:
    network = wrapped(lambda: nn.Sequential(nn.Flatten(), nn.Linear(3072, 5, bias=False)))
    assert network.head.bias.tolist() == [0.0] * 5
    found = network(images())
    torch.testing.assert_close(found.logits, found.features @ network.head.weight.T)


def test_a_named_head_is_taken_and_gives_the_logits_before_the_softmax() -> None:
    network = wrapped(lambda: nn.Sequential(Convolutional(), nn.Softmax(1)), head="0.classifier")
    found = network(images())
    with torch.no_grad():
        shares = network.module(network.normalize(images()))
    torch.testing.assert_close(found.logits.softmax(1), shares)
    assert (found.logits < 0).any()


class Ending(nn.Module):
    def __init__(self, end: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.body, self.end = Convolutional(), end

    def forward(self, x: Tensor) -> Any:
        return self.end(self.body(x))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ending(lambda x: x.softmax(1)), r"no head found in Ending: .*body\.classifier.*pass the layer.*head="),
        (lambda: Ending(lambda x: x.mul_(2)), r"no head found in Ending: .*body\.classifier"),
        (
            lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
            r"no head.*it has none.*ends in a Linear",
        ),
        (
            lambda: nn.Sequential(nn.Conv2d(3, 4, 3)),
            r"must return logits \[B, C\], got shape \[2, 4, 30, 30\] for two images",
        ),
        (lambda: Ending(lambda x: (x, x)), r"must return logits \[B, C\], got tuple"),
        (lambda: Ending(lambda x: x * torch.nan), "returns NaN for a gray image"),
        (
            lambda: nn.Sequential(nn.Flatten(), nn.Linear(7, 2)),
            r"could not be run on 3-channel images \(32 px: RuntimeError.*side=",
        ),
    ],
)
def test_a_module_without_a_head_is_refused(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrapped(make)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"head": "clasifier"},
            UnknownName,
            "unknown submodule of Convolutional: 'clasifier'. Did you mean 'classifier'",
        ),
        ({"head": "body"}, ValueError, "head 'body' is a Conv2d, not a Linear"),
        ({"blocks": ["steam"]}, UnknownName, "'steam'. Did you mean 'stem'"),
        ({"blocks": [""]}, UnknownName, "unknown submodule of Convolutional: ''"),
        ({"std": 0.0}, ValueError, r"std must be positive, got \[0.0, 0.0, 0.0\]"),
        ({"std": (0.1, 0.2, -0.1)}, ValueError, "std must be positive"),
        ({"mean": (0.1, 0.2)}, ValueError, r"mean must be one finite number per channel \(1 or 3\), got \(0.1, 0.2\)"),
        ({"mean": float("nan")}, ValueError, "mean must be one finite number"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wrapped(Convolutional, **options)


def test_mean_and_std_must_agree() -> None:
    with pytest.raises(ValueError, match=r"same number of values, got mean=\[0.5\] and std=\(1, 1, 1\)"):
        wrapped(lambda: nn.Sequential(nn.Flatten(), nn.Linear(1024, 5)), mean=[0.5], std=(1, 1, 1))


def test_a_head_that_does_not_run_or_gives_no_logits_is_said_so() -> None:
    class Unused(Convolutional):
        def __init__(self) -> None:
            super().__init__()
            self.spare, self.idle = nn.Linear(8, 5), nn.Identity()

    with pytest.raises(RuntimeError, match="the head 'spare' did not run in this forward pass"):
        wrapped(Unused, head="spare")(images())
    with pytest.raises(RuntimeError, match="the blocks idle did not run in this forward pass"):
        wrapped(Unused, blocks=["stem", "idle"])(images())

    class PerToken(Transformer):
        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.head(self.patch_embed(x).flatten(2).transpose(1, 2))
            return logits.mean(1)

    with pytest.raises(
        RuntimeError, match=r"the head 'head' returned shape \[3, 16, 5\] for 3 images, expected logits"
    ):
        wrapped(PerToken, head="head")(images())


def test_a_block_that_gives_no_tensor_is_said_so() -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, x

    class Paired(Convolutional):
        def __init__(self) -> None:
            super().__init__()
            self.pair = Pair()

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(self.pair(x)[0])

    with pytest.raises(TypeError, match="block 'pair' returns a tuple, expected a tensor"):
        wrapped(Paired, blocks=["pair"])(images())


def test_blocks_are_what_the_parts_gave_before_anything_changed_it_in_place() -> None:
    names = ["stem.0", "stem.1", "stem", "body"]
    network, copies = wrapped(Convolutional, blocks=names), {}
    module = drawn(Convolutional).eval()
    for name in names:
        module.get_submodule(name).register_forward_hook(
            lambda _m, _i, output, name=name: copies.__setitem__(name, output.clone())
        )
    with torch.no_grad():
        module((images() - 0.5) / 0.25)
        found = network(images()).blocks
    assert list(found) == names
    for name in names:
        torch.testing.assert_close(found[name], copies[name], msg=name)
    assert (found["stem.1"] < 0).any(), "the ReLU in place comes after"


def test_no_hook_stays_behind() -> None:
    network = wrapped(Convolutional, blocks=["stem"])
    network(images())
    assert not [name for name, part in network.named_modules() if part._forward_hooks]


def test_images_are_normalized_per_channel() -> None:
    network = wrapped(Convolutional, mean=(0.1, 0.2, 0.3), std=(1.0, 2.0, 4.0))
    found = network.normalize(torch.full((1, 3, 4, 4), 0.7))
    assert found[0, :, 0, 0].tolist() == pytest.approx([0.6, 0.25, 0.1], rel=1e-6)
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_gray_images_become_colors_and_one_number_serves_all_channels() -> None:
    network, gray = wrapped(Convolutional), images(3, 1)
    torch.testing.assert_close(network(gray).logits, network(gray.repeat(1, 3, 1, 1)).logits)
    assert wrapped(lambda: Convolutional(1)).mean.shape == (1, 1, 1, 1)
    with pytest.raises(ValueError, match="needs 1-channel images, got 3 channels"):
        wrapped(lambda: Convolutional(1))(images())


def test_the_channels_are_those_of_a_layer_that_can_see_images() -> None:
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.late, self.early, self.head = nn.Conv2d(8, 8, 3), nn.Conv2d(1, 8, 3), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.head(self.late(self.early(x)).mean((2, 3)))
            return logits

    assert wrapped(Backwards).mean.flatten().tolist() == [0.5]


@pytest.mark.parametrize(("given", "side"), [(20, 32), (64, 32), (40, 24)])
def test_images_are_resized_as_pillow_does(given: int, side: int) -> None:
    network = wrapped(Convolutional, mean=0.0, std=1.0, side=side)
    found = network.normalize(images(1, 3, given))[0]
    for ours, channel in zip(found, images(1, 3, given)[0], strict=True):
        theirs = Image.fromarray(channel.numpy()).resize((side, side), Image.Resampling.BILINEAR)
        np.testing.assert_allclose(ours.numpy(), np.asarray(theirs), atol=1e-5)
    direct = wrapped(Convolutional, mean=0.0, std=1.0)
    torch.testing.assert_close(network(images(1, 3, given)).logits, direct(found[None]).logits)


def test_images_of_the_right_side_pass_as_they_are() -> None:
    network = wrapped(Convolutional, mean=0.0, std=1.0, side=32)
    assert torch.equal(network.normalize(images()), images())
    assert torch.equal(wrapped(Convolutional, mean=0.0, std=1.0).normalize(images(2, 3, 50)), images(2, 3, 50))


def test_the_side_is_what_the_module_says() -> None:
    class Sided(Convolutional):
        side = 48

    class Patched(Transformer):
        def __init__(self) -> None:
            super().__init__()
            self.patch_embed.img_size = (40, 40)

    assert wrapped(Sided).side == 48
    assert wrapped(Patched).side == 40
    assert wrapped(Sided, side=24).side == 24
    assert wrapped(Convolutional).side is None


def test_images_must_have_four_dimensions() -> None:
    with pytest.raises(ValueError, match=r"expected images \[B, C, H, W\], got shape \[3, 32, 32\]"):
        wrapped(Convolutional)(images()[0])


def test_gradients_reach_the_images() -> None:
    network, given = wrapped(Convolutional), images().requires_grad_()
    (ours,) = torch.autograd.grad(network(given).logits.sum(), given)
    (theirs,) = torch.autograd.grad(drawn(Convolutional).eval()((given - 0.5) / 0.25).sum(), given)
    torch.testing.assert_close(ours, theirs)
    assert ours.abs().max() > 0


def test_everything_that_decides_activations_is_in_the_digest() -> None:
    shifted = drawn(Convolutional)
    shifted.get_buffer("stem.1.running_mean").add_(1)

    def strided() -> nn.Module:
        module = Convolutional()
        module.body.dilation, module.body.padding = (2, 2), (2, 2)
        return module

    def slack() -> nn.Module:
        module = Convolutional()
        module.stem[1].eps = 1e-3  # type: ignore[union-attr]
        return module

    class Sequel(Convolutional):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 1

    variants = [
        wrapped(Convolutional),
        Network(drawn(Convolutional, seed=1), mean=0.5, std=0.25),
        Network(shifted, mean=0.5, std=0.25),
        wrapped(strided),
        wrapped(slack),
        wrapped(Sequel, head="classifier"),
        wrapped(Convolutional, mean=0.4),
        wrapped(Convolutional, std=(0.25, 0.25, 0.26)),
        wrapped(Convolutional, side=32),
        wrapped(Convolutional, blocks=["stem"]),
        wrapped(lambda: nn.Sequential(Convolutional())),
    ]
    assert len({network.digest for network in variants}) == len(variants)


def test_nothing_else_is_in_the_digest() -> None:
    network = wrapped(Convolutional)
    before = network.digest
    network(images())
    assert network.digest == before
    assert network.train().digest == before
    assert copy.deepcopy(network).digest == before
    assert network.to(memory_format=torch.contiguous_format).digest == before  # type: ignore[call-overload]
    assert wrapped(Convolutional, mean=[0.5] * 3, head="classifier").digest == before
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    assert network.digest == before


def test_wrapping_and_running_change_neither_weights_nor_statistics() -> None:
    module = drawn(Convolutional).train()
    before = copy.deepcopy(module.state_dict())
    network = Network(module, mean=0.5, std=0.25)
    assert not network.training, "a network is made to be evaluated"
    network(images())
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())


def test_evaluating_gives_every_part_its_mode_back() -> None:
    network = wrapped(Convolutional).train()
    network.module.stem.eval()
    modes = [part.training for part in network.modules()]
    with contextlib.suppress(RuntimeError), network.evaluating():
        assert not any(part.training for part in network.modules())
        raise RuntimeError("even after an error")
    assert [part.training for part in network.modules()] == modes
    assert True in modes
    assert False in modes


def test_a_wrapped_network_lends_its_module() -> None:
    inner = wrapped(Convolutional)
    outer = Network(inner, mean=0.0, std=1.0)
    assert outer.module is inner.module
    torch.testing.assert_close(outer((images() - 0.5) / 0.25).logits, inner(images()).logits)


def test_states_have_the_modules_own_names() -> None:
    network, other = wrapped(Convolutional), Network(drawn(Convolutional, seed=1), mean=0.5, std=0.25)
    assert list(network.state_dict()) == list(Convolutional().state_dict())
    other.load_state_dict(network.state_dict())
    assert other.digest == network.digest
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({})


def test_batches_do_not_mix() -> None:
    network = create("resnet20", 4, 16)
    with torch.inference_mode():
        whole = network(images(6, 3, 16)).logits
        single = torch.cat([network(image[None]).logits for image in images(6, 3, 16)])
    torch.testing.assert_close(whole, single, rtol=1e-4, atol=1e-5)
