"""Aliases: other common names of components. The error for an unknown name suggests the name used in farout."""

from __future__ import annotations


def _aliases(**names: str) -> dict[str, str]:
    """Return alias -> name, from name -> its aliases separated by spaces."""
    return {alias: name for name, aliases in names.items() for alias in aliases.split()}


DETECTORS = _aliases(
    ash="activation_shaping",
    dice="directed_sparsification",
    ebo="energy energy_based energy_score",
    ensemble="deep_ensemble ensembles",
    entropy="softmax_entropy",
    gen="generalized_entropy",
    gradnorm="grad_norm",
    gram="gram_matrix gram_matrices",
    klm="kl_matching klmatching",
    knn="deep_knn nearest_neighbors k_nearest_neighbors",
    mds="mahalanobis maha",
    mds_layers="mahalanobis_layers multi_mahalanobis",
    mls="maxlogit max_logit maximum_logit",
    msp="max_softmax baseline softmax maximum_softmax_probability",
    nnguide="nn_guide nearest_neighbor_guidance",
    react="rectified_activations",
    rmds="relative_mahalanobis rel_mahalanobis",
    she="simplified_hopfield_energy hopfield",
    temp_scaling="temperature_scaling temperature",
    vim="virtual_logit_matching",
)
ADAPTERS = _aliases(
    estimator="sklearn scikit_learn pyod isolation_forest", function="callable", http="rest api", onnx="onnxruntime"
)
NETWORKS = _aliases(
    allconv="all_conv all_convolutional",
    densenet121="densenet",
    densenet_bc100="densenet_bc densenet100",
    efficientnet_b0="efficientnet",
    inception_v3="inceptionv3 inception",
    lenet="lenet5 lenet_5",
    mobilenet_v3_large="mobilenetv3_large mobilenetv3_large_100",
    resnet18="resnet",
    swin_t="swin_tiny swin",
    vgg11="vgg11_bn",
    vgg16="vgg16_bn vgg",
    vit_b16="vit_b_16 vit_base_patch16_224",
    vit_b32="vit_b_32 vit_base_patch32_224",
    vit_l16="vit_l_16 vit_large_patch16_224",
    vit_l32="vit_l_32 vit_large_patch32_224",
    vit_tiny="vit vit_tiny_patch16_224",
    wrn28_10="wide_resnet wideresnet wrn wrn_28_10 wideresnet28_10",
    wrn40_2="wrn_40_2 wideresnet40_2",
)
DATASETS = _aliases(
    cifar10="cifar cifar_10",
    cifar100="cifar_100",
    fashion_mnist="fashionmnist fmnist",
    imagenet="imagenet1k imagenet_1k ilsvrc2012",
    imagenet_200="imagenet200",
    imagenet_a="imageneta",
    imagenet_c="imagenetc",
    imagenet_o="imageneto",
    imagenet_r="imagenetr",
    imagenet_v2="imagenetv2",
    mvtec="mvtec_ad mvtecad",
    noise="uniform uniform_noise",
    tiny_imagenet="tinyimagenet tin",
)
SHIFTS = _aliases(
    color_jitter="colorjitter jitter",
    defocus_blur="defocus",
    elastic="elastic_transform",
    flip="hflip horizontal_flip",
    gaussian_noise="gaussian",
    glass_blur="glass frosted_glass_blur",
    impulse_noise="salt_and_pepper impulse",
    jpeg="jpeg_compression",
    motion_blur="motion",
    pixelate="pixelation",
    random_crop="crop",
    rot90="rotate rotation rotate90",
    rot270="rotate270",
    saturate="saturation",
    shot_noise="poisson_noise poisson",
    speckle_noise="speckle",
    zoom_blur="zoom",
)
ATTACKS = _aliases(
    adaptive_pgd="adaptive selective_pgd",
    apgd_ce="apgd auto_pgd autoattack",
    apgd_t="apgd_dlr",
    deepfool="deep_fool",
    fgsm="fast_gradient_sign fast_gradient_sign_method",
    masked_pgd="adversarial_patch patch",
    pgd="projected_gradient_descent linf_pgd bim",
)
VARIATIONS = _aliases(
    affine="rotation geometric", color="colour hue", composed="compose", latent="gan stylegan2", pixel="linf l_inf"
)
SEARCHES = _aliases(
    coordinate="coordinate_descent",
    evolution="evolution_strategy es cma_es",
    mh="metropolis metropolis_hastings mcmc",
    random="random_search",
    zeroth_order="zoo nes spsa",
)
PROTOCOLS = _aliases(
    attributes="shapes_chars",
    clean="openood standard",
    evasion="adv_openood adversarial",
    evg="evaluation_via_generation worst_case",
    raised_bar="raising_the_bar near_ood shifted calibration",
    rood="realistic generalizability corruptions",
)
