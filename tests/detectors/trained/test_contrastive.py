"""Contrastive learning: losses and views against loops, k-means against the best partition, SSD and CSI by hand."""

import colorsys
import itertools
import math

import numpy as np
import pytest
import sklearn.covariance
import torch

import farout
from farout.detectors.math.clusters import kmeans
from farout.detectors.math.gaussian import ledoit_wolf
from farout.detectors.trained.contrastive.losses import contrastive_loss
from farout.detectors.trained.contrastive.views import Views, crops, factors, resized_crop
from farout.detectors.trained.csi import CSI, TEST_VIEWS, TRAIN_VIEWS, ShiftContrast, turned
from farout.detectors.trained.detector import Inputs
from farout.detectors.trained.regret import LikelihoodRegret
from farout.detectors.trained.ssd import SSD, VIEWS, ContrastiveTask, select_known
from farout.rng import generator
from farout.shifts.kernels.recolored import recolor_in_hsv
from farout.training import Batch, Context, Position, Recipe


def unit(count, size, seed=0):
    rows = torch.randn(count, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return rows / rows.norm(dim=1, keepdim=True)


def test_the_contrastive_loss_is_the_sum_of_its_definition():
    vectors, groups, tau = unit(7, 3), torch.tensor([0, 1, 0, 2, 1, 2, 0]), 0.3
    total = 0.0
    for i in range(7):
        others = [j for j in range(7) if j != i]
        normalizer = sum(math.exp(float(vectors[i] @ vectors[j]) / tau) for j in others)
        positives = [j for j in others if groups[j] == groups[i]]
        total += sum(-math.log(math.exp(float(vectors[i] @ vectors[j]) / tau) / normalizer) for j in positives) / len(
            positives
        )
    assert float(contrastive_loss(vectors, groups, tau)) == pytest.approx(total / 7, rel=1e-6)


def test_a_row_without_a_positive_is_refused():
    with pytest.raises(ValueError, match="at least one positive"):
        contrastive_loss(unit(3, 2), torch.tensor([0, 0, 1]), 0.5)


def test_kmeans_finds_the_partition_with_the_smallest_sum_of_squares():
    rows = torch.cat([torch.randn(2, 2, generator=torch.Generator().manual_seed(s)) * 0.2 + 3 * s for s in range(3)])
    members = kmeans(rows.double(), 3)

    def cost(labels):
        parts = [rows[torch.tensor(labels) == one] for one in set(labels)]
        return sum(float((part - part.mean(0)).square().sum()) for part in parts)

    best = min(itertools.product(range(3), repeat=6), key=cost)
    assert cost(members.tolist()) == pytest.approx(cost(best))


def test_kmeans_gives_equal_rows_clusters_all_the_same():
    assert kmeans(torch.zeros(4, 2), 3).max() < 3
    with pytest.raises(ValueError, match="from 1 to 4 clusters"):
        kmeans(torch.zeros(4, 2), 5)


def test_a_crop_of_the_whole_image_is_the_image_and_a_quarter_is_resized():
    image = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(resized_crop(image, torch.tensor([[0.5, 0.5, 1.0, 1.0]])), image)
    quarter = resized_crop(image, torch.tensor([[0.25, 0.25, 0.5, 0.5]]))
    inner = torch.nn.functional.interpolate(image[:, :, :4, :4], (8, 8), mode="bilinear")
    torch.testing.assert_close(quarter[:, :, :-1, :-1], inner[:, :, :-1, :-1])  # beyond the image it is mirrored


def test_crops_lie_in_the_image_and_have_the_area_and_ratio_asked_for():
    uniform = torch.rand(2000, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x, y, width, height = crops(uniform, (0.2, 0.7)).unbind(1)
    for center, size in ((x, width), (y, height)):
        assert (center - size / 2).min() >= -1e-9
        assert (center + size / 2).max() <= 1 + 1e-9
    area = width * height
    assert area.min() == pytest.approx(0.2, abs=0.01)
    assert area.max() == pytest.approx(0.7, abs=0.01)
    assert (width / height).min() == pytest.approx(0.75, abs=0.01)
    assert (width / height).max() == pytest.approx(4 / 3, abs=0.01)
    assert crops(torch.full((1, 4), 0.5), (0.36, 0.36)).tolist()[0] == pytest.approx([0.5, 0.5, 0.6, 0.6])
    for ratio, sides in ((1.0, [1, 0.75**0.5]), (0.0, [0.75**0.5, 1])):
        assert crops(torch.tensor([[1.0, ratio, 1.0, 1.0]]), (0.2, 1.0))[0, 2:].tolist() == pytest.approx(sides)


@pytest.mark.parametrize(("views", "most"), [(VIEWS, 36.0), (TRAIN_VIEWS, 25.5), (TEST_VIEWS, 25.5)])
def test_the_hue_turns_by_at_most_a_tenth_and_in_csi_by_255_hundredths_of_degrees(views: Views, most: float):
    """CSI's code divides by 360 a turn that it multiplies by 255: 0.1 · 255° instead of 0.1 · 360°."""
    image = torch.tensor([0.8, 0.2, 0.2]).view(1, 3, 1, 1).expand(2, 3, 8, 8)
    uniform = torch.full((2, 11), 0.5)
    uniform[:, 1:3] = torch.tensor([0.0, 1.0])  # jittered, not gray
    uniform[:, 6] = torch.tensor([0.0, 1.0])
    found = (views.apply(image, uniform)[:, :, 4, 4] * 255).round().to(torch.uint8)
    hues = [math.degrees(2 * math.pi * colorsys.rgb_to_hsv(*(pixel.double() / 255).tolist())[0]) for pixel in found]
    assert hues == pytest.approx([360 - most, most], abs=0.5)


def test_the_settings_of_the_views_are_those_of_the_authors():
    hue = 25.5 / 360
    assert Views(area=(0.2, 1.0), flip=True, hue=0.1, hsv=False) == VIEWS
    assert Views(area=(0.08, 1.0), flip=False, hue=hue, hsv=True) == TRAIN_VIEWS
    assert Views(area=(0.54, 0.54), flip=False, hue=hue, hsv=True) == TEST_VIEWS


def test_every_change_of_a_view_has_its_probability():
    """Half of the views are mirrored, 4 of 5 jittered, 1 of 5 gray; each number alone is below its limit."""
    image = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    plain = torch.full((1, 11), 0.5)
    plain[:, :3], plain[:, 3:7] = 1.0, 0.9
    whole = Views(area=(1.0, 1.0))
    kept = whole.apply(image, plain)
    torch.testing.assert_close(kept, image)
    for place, limit in enumerate((0.5, 0.8, 0.2)):
        for offset, changes in ((-0.01, True), (0.01, False)):
            uniform = plain.clone()
            uniform[:, place] = limit + offset
            assert torch.allclose(whole.apply(image, uniform), kept, atol=1e-5) != changes, (place, offset)


@torch.no_grad()
def test_csi_averages_projections_and_the_logits_of_the_right_turn_over_views():
    """A view has its own random numbers for every turn, the same for all images, and is mirrored or not."""
    detector, images = network(CSI, views=6), few_images().images
    mirrored = [bool(torch.rand(1, generator=generator(0, "csi", "mirror", view)) < 0.5) for view in range(6)]
    assert len(set(mirrored)) == 2
    means, logits = torch.zeros(4, 3, 128), torch.zeros(4, 3)
    for view, flip in enumerate(mirrored):
        numbers = torch.rand(4, 11, generator=generator(0, "csi", view))
        for turn in range(4):
            turned_ = (images.flip(3) if flip else images).rot90(turn, (2, 3))
            features = detector.network(TEST_VIEWS.apply(turned_, numbers[turn].expand(3, -1)))
            means[turn] += detector.network.project(features) / 6
            logits[turn] += detector.network.name_shift(features)[:, turn] / 6
    found = detector.outputs(images)
    torch.testing.assert_close(found[0], means, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[1], logits, rtol=1e-4, atol=1e-5)


def test_csi_changes_value_and_saturation_in_hsv_as_colorsys_does():
    """The contrast's factor is 1; value and saturation are cut at 1."""
    draws = torch.Generator().manual_seed(0)
    colors = torch.cat([torch.rand(200, 3, generator=draws), torch.tensor([[0.0, 0, 0], [1, 1, 1], [0.3, 0.3, 0.3]])])
    uniform = torch.rand(len(colors), 4, generator=draws)
    uniform[:, 1] = 0.5
    changes = factors(uniform, 25.5 / 360)
    found = recolor_in_hsv(colors[:, :, None, None], changes).flatten(1).tolist()
    for color, (value, _, saturation, turn), got in zip(colors.tolist(), changes.tolist(), found, strict=True):
        h, s, v = colorsys.rgb_to_hsv(*color)
        assert got == pytest.approx(
            colorsys.hsv_to_rgb((h + turn) % 1, min(s * saturation, 1), min(v * value, 1)), abs=1e-5
        )


def test_a_view_of_an_image_does_not_depend_on_its_batch_and_has_a_gradient():
    images = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    uniform = torch.rand(3, 11, generator=torch.Generator().manual_seed(1))
    views = Views(area=(0.2, 1.0))
    torch.testing.assert_close(views.apply(images, uniform)[1:2], views.apply(images[1:2], uniform[1:2]))
    views.apply(images, uniform).sum().backward()
    assert images.grad.abs().flatten(1).sum(1).min() > 0


def context(seed: int = 3) -> Context:
    return Context(Position("", 0, 0, 1, 1), Recipe(epochs=1), {}, torch.device("cpu"), seed)


def few_images(count: int = 3) -> Batch:
    images = torch.rand(count, 3, 32, 32, generator=generator(8))
    return Batch(images, torch.tensor([0, 1, 0])[:count], torch.arange(count))


def network(kind: type[SSD | CSI], **settings: object) -> SSD | CSI:
    torch.manual_seed(0)
    detector = kind(width=4, **settings)  # type: ignore[arg-type]
    detector.modules = {name: one.eval() for name, one in detector.build(Inputs(3, 32, 2)).items()}
    return detector


@pytest.mark.parametrize("supervised", [False, True])
@torch.no_grad()
def test_a_step_of_ssd_contrasts_two_views_of_every_image(supervised: bool):
    """The loss at τ = 0.5, times τ/0.07; with labels all views of a class are positives."""
    detector, batch, draws = network(SSD, supervised=supervised), few_images(), generator(3, "task")
    task = ContrastiveTask(detector.network, supervised)
    views = [VIEWS(batch.images, draws) for _ in range(2)]
    rows = torch.nn.functional.normalize(detector.network.project(detector.network(torch.cat(views))), dim=1)
    groups = [0, 1, 0, 0, 1, 0] if supervised else [0, 1, 2, 0, 1, 2]
    total = 0.0
    for i in range(6):
        others = [j for j in range(6) if j != i]
        scaled = {j: float(rows[i] @ rows[j]) / 0.5 for j in others}
        positives = [j for j in others if groups[j] == groups[i]]
        normalizer = math.log(sum(map(math.exp, scaled.values())))
        total += sum(normalizer - scaled[j] for j in positives) / len(positives) / 6
    assert float(task.loss("model", batch, context())) == pytest.approx(total * 0.5 / 0.07, rel=1e-4)


@torch.no_grad()
def test_a_step_of_csi_contrasts_turned_images_and_names_their_turns():
    """A view's only positive is the other view of the same image in the same turn; plus cross entropy of the turns."""
    detector, batch, draws = network(CSI), few_images(2), generator(3, "task")
    views = []
    for _ in range(2):
        mirrored = torch.rand(2, generator=draws) < 0.5
        images = torch.stack([one.flip(2) if flip else one for one, flip in zip(batch.images, mirrored, strict=True)])
        views.append(TRAIN_VIEWS(torch.cat([images.rot90(turn, (2, 3)) for turn in range(4)]), draws))
    features = detector.network(torch.cat(views))
    rows = torch.nn.functional.normalize(detector.network.project(features), dim=1)
    names = detector.network.name_shift(features).log_softmax(1)
    total = 0.0
    for i in range(16):
        others = {j: float(rows[i] @ rows[j]) / 0.5 for j in range(16) if j != i}
        total += math.log(sum(map(math.exp, others.values()))) - others[(i + 8) % 16]
        total -= float(names[i, i % 8 // 2])
    assert float(ShiftContrast(detector.network).loss("model", batch, context())) == pytest.approx(total / 16, rel=1e-4)


def test_ssd_scores_are_mahalanobis_distances_of_standardized_features():
    train = farout.load("toy", "train").limit(96)
    detector = SSD(width=4, training={"epochs": 1, "batch": 32}).fit(train, val=train, seed=1)
    images = train.batch(range(6))
    with torch.no_grad():
        features = detector.features(train.batch(range(len(train)))).numpy()
        mean, std = features.mean(0), features.std(0).clip(1e-10)
        rows = torch.from_numpy((features - mean) / std)
        inverse = torch.linalg.pinv(rows.T.cov(correction=0), hermitian=True, rtol=32 * torch.finfo(torch.float64).eps)
        test = torch.from_numpy((detector.features(images).numpy() - mean) / std)
        expected = torch.einsum("nd,de,ne->n", test, inverse, test)
    torch.testing.assert_close(detector.score(images).detach(), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(detector.statistics["std"], std, rtol=1e-4)
    again = SSD(width=4, training={"epochs": 1, "batch": 32}).fit(train, val=train, seed=1)
    assert torch.equal(again.score(images), detector.score(images))


def test_the_authors_slip_of_ssd_is_a_switch_that_changes_scores():
    train = farout.load("toy", "train").limit(64)
    settings = {"width": 4, "training": {"epochs": 1, "batch": 32}}
    right, slip = SSD(**settings).fit(train), SSD(mean_twice=True, **settings).fit(train)
    images = train.batch(range(4))
    raw = right.statistics["mean"]
    rows = (right.features(images) - raw) / right.statistics["std"] - raw
    expected = (rows @ right.statistics["whiteners"][0]).square().sum(1)
    torch.testing.assert_close(slip.score(images), expected)
    assert not torch.allclose(slip.score(images), right.score(images))


def test_the_shrunk_covariance_is_that_of_scikit_learn():
    for count, size in ((40, 3), (5, 12)):
        rows = unit(count, size, seed=count)
        expected = torch.from_numpy(sklearn.covariance.ledoit_wolf(rows.numpy())[0])
        torch.testing.assert_close(ledoit_wolf(rows, rows.mean(0)), expected)


def test_ssd_k_subtracts_the_distance_to_views_of_known_outliers():
    train, outliers = farout.load("toy", "train").limit(64), farout.load("noise").limit(30)
    settings = {"width": 4, "known": 3, "training": {"epochs": 1, "batch": 32}}
    detector = SSD(**settings).fit(train, auxiliary_outliers=outliers, val=train, seed=5)
    draws = generator(5, "known outliers")
    chosen = outliers.batch(torch.randperm(30, generator=draws)[:3].numpy())
    with torch.no_grad():
        views = torch.cat([VIEWS(chosen, draws) for _ in range(10)])
        raw = [detector.features(images).numpy() for images in (train.batch(range(64)), views, train.batch(range(4)))]
        inside, outside, test = ((rows - raw[0].mean(0)) / raw[0].std(0).clip(1e-10) for rows in raw)
        scores = detector.score(train.batch(range(4)))
    for row, score in zip(test, scores, strict=True):
        distances = []
        for known in (inside, outside):
            inverse = np.linalg.pinv(sklearn.covariance.ledoit_wolf(known)[0], hermitian=True)
            distances.append((row - known.mean(0)) @ inverse @ (row - known.mean(0)))
        assert float(score) == pytest.approx(distances[0] - distances[1], rel=1e-4)


def test_known_outliers_are_drawn_from_every_class():
    labels = [0, 0, 0, 1, 1, 2]
    images = farout.ImageSet.from_arrays(np.zeros((6, 8, 8, 3), np.uint8), labels)
    chosen = select_known(images, 2, generator(0, "test"))
    assert sorted(labels[one] for one in chosen) == [0, 0, 1, 1, 2]
    assert len(set(chosen)) == 5


def test_ssd_k_needs_outliers_also_with_weights_that_lack_their_statistics(tmp_path):
    train, outliers = farout.load("toy", "train").limit(40), farout.load("noise").limit(10)
    settings = {"width": 4, "training": {"epochs": 1, "batch": 32}}
    with pytest.raises(ValueError, match="ssd learns from outliers and got none"):
        SSD(known=2, **settings).fit(train)
    SSD(**settings).fit(train).save(tmp_path / "ssd.safetensors")
    detector = SSD(known=2, weights=tmp_path / "ssd.safetensors")
    assert not detector.complete
    with pytest.raises(ValueError, match="ssd learns from outliers and got none"):
        detector.fit(train)
    detector.fit(train, auxiliary_outliers=outliers).save(tmp_path / "known.safetensors")
    images = train.batch(range(3))
    assert torch.equal(farout.detectors.load(tmp_path / "known.safetensors").score(images), detector.score(images))
    with pytest.raises(ValueError, match="one cluster, got clusters=2"):
        SSD(known=1, clusters=2)


def test_settings_of_the_score_are_checked_before_training():
    for create, message in [
        (lambda: SSD(clusters=0), "clusters must be a whole number of at least 1, got 0"),
        (lambda: CSI(views=0), "views must be a whole number of at least 1, got 0"),
        (lambda: LikelihoodRegret(draws=0), "draws must be a whole number of at least 1, got 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            create()


def test_a_cluster_of_one_image_is_refused():
    """It has no covariance: every distance to it would be 0, and with it every score."""
    pixels = np.zeros((6, 32, 32, 3), np.uint8)
    pixels[5, ::2] = 255
    train = farout.ImageSet.from_arrays(pixels)
    with pytest.raises(ValueError, match="one of the 2 clusters has a single training image"):
        SSD(width=4, clusters=2, training={"steps": 1, "batch": 2}).fit(train, val=train)


def test_turns_are_quarter_turns():
    image = torch.arange(4.0).view(1, 1, 2, 2)
    assert turned(image).flatten(1).tolist() == [[0, 1, 2, 3], [1, 3, 0, 2], [3, 2, 1, 0], [2, 0, 3, 1]]


def test_csi_scores_are_the_weighted_sum_over_turns():
    train = farout.load("toy", "train").limit(40)
    settings = {"width": 4, "views": 2, "training": {"epochs": 1, "batch": 16}}
    detector = CSI(**settings).fit(train, val=train, seed=2)
    images = train.batch(range(5))
    with torch.no_grad():
        all_z, all_l = detector.outputs(train.batch(range(40)))
        z, logits = detector.outputs(images)
        expected = []
        for b in range(5):
            total = 0.0
            for k in range(4):
                near = max(float(z[k, b] @ (all_z[k, m] / all_z[k, m].norm())) for m in range(40))
                total += near / float(all_z[k].norm(dim=1).mean()) + float(logits[k, b]) / float(all_l[k].mean())
            expected.append(-total / 4)
        scores = detector.score(images)
    torch.testing.assert_close(scores, torch.tensor(expected, dtype=torch.float64), rtol=1e-4, atol=1e-4)
    assert torch.equal(CSI(**settings).fit(train, val=train, seed=2).score(images), scores)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SSD, CSI])
def test_the_full_preset_trains_a_step_and_scores(kind):
    train = farout.load("toy", "train").limit(8)
    detector = kind(preset="full", training={"steps": 1, "batch": 4, "warmup_epochs": 0}).fit(train, val=train)
    assert detector.score(train.batch(range(2))).isfinite().all()
