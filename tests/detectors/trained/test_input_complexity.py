"""Input complexity: sizes of compressed images, and bits minus bits."""

import io
import math

import pytest
import torch
from PIL import Image

import farout
from farout.detectors.trained.input_complexity import OPTIONS, InputComplexity, complexity, compressed_bytes
from farout.rng import generator


def images(channels: int = 3, side: int = 32) -> torch.Tensor:
    """Return a constant image, a gradient, and noise, in 8-bit values."""
    flat = torch.full((channels, side, side), 0.2)
    ramp = torch.linspace(0, 1, side).expand(channels, side, side)
    noise = torch.rand(channels, side, side, generator=generator(0))
    return (torch.stack([flat, ramp, noise]) * 255).round() / 255


@pytest.mark.parametrize("codec", ["png", "jpeg2000"])
@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32), (3, 64)])
def test_noise_costs_about_eight_bits_per_value_and_a_constant_image_little(codec, channels, side):
    flat, ramp, noise = complexity(images(channels, side), codec).tolist()
    assert flat < 2.5 * 784 / side**2
    assert flat < ramp < noise
    assert 7.9 < noise < 12


@pytest.mark.parametrize("codec", ["png", "jpeg2000"])
def test_the_files_are_lossless(codec):
    pixels = (images()[2] * 255).byte().permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, **OPTIONS[codec])
    assert (torch.as_tensor(bytearray(Image.open(file).tobytes())) == torch.as_tensor(pixels).flatten()).all()
    assert compressed_bytes(Image.fromarray(pixels), codec) == len(file.getvalue())


@pytest.mark.parametrize("channels", [1, 3])
def test_the_size_is_that_of_the_png_with_the_strongest_compression(channels):
    pixels = torch.randint(0, 6, (2, channels, 32, 32), generator=generator(1)) * 50 + torch.arange(32) // 8
    sizes = []
    for one in pixels.byte().permute(0, 2, 3, 1).numpy():
        file = io.BytesIO()
        Image.fromarray(one.squeeze()).save(file, "PNG", compress_level=9)
        sizes.append(8 * len(file.getvalue()) / (channels * 32 * 32))
    assert complexity(pixels / 255, "png").tolist() == pytest.approx(sizes)


def test_the_score_is_bits_minus_bits_per_value():
    detector = InputComplexity(
        density="glow", density_params={"depth": 1, "width": 4}, codec="jpeg2000", training={"steps": 1, "batch": 4}
    )
    train = farout.load("toy", "train").limit(4)
    detector.fit(train, val=train.limit(1))
    batch = train.batch(range(3))
    nats = detector.modules["density"].log_likelihood(batch)
    files = complexity(batch, "jpeg2000") * 3072
    expected = ((-nats / math.log(2) - files) / 3072).double()
    torch.testing.assert_close(detector.score(batch), expected, rtol=1e-5, atol=1e-5)


def test_an_unknown_codec_or_density_is_refused():
    with pytest.raises(ValueError, match="png"):
        InputComplexity(codec="gif")
    with pytest.raises(ValueError, match="pixelcnn"):
        InputComplexity(density="flow")
