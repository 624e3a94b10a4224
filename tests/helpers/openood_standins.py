"""Post-processors and nets written to OpenOOD's interface, each with one of its conventions."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class BasePostprocessor:
    """As theirs: takes a config, sets up, gives predictions and confidences."""

    def __init__(self, config: Any = None) -> None:
        self.config = config

    def setup(self, net: Any, id_loader_dict: Any, ood_loader_dict: Any) -> None:
        pass

    @torch.no_grad()
    def postprocess(self, net: Any, data: Any) -> tuple[Tensor, Tensor]:
        conf, pred = net(data).softmax(1).max(1)
        return pred, conf


class ASHPostprocessor(BasePostprocessor):
    """Calls forward_threshold with a percentile, which only the wrapped net understands as one."""

    percentile = 50

    @torch.no_grad()
    def postprocess(self, net: Any, data: Any) -> tuple[Tensor, Tensor]:
        output = net.forward_threshold(data, self.percentile)
        return output.argmax(1), output.logsumexp(1)


class HalvingNet(nn.Module):
    """Wraps a net as ASHNet does; its forward_threshold keeps the largest of the features."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone: Any = backbone

    def forward(self, x: Tensor, return_feature: bool = False) -> Any:
        return self.backbone(x, return_feature)

    def forward_threshold(self, x: Tensor, percentile: float) -> Tensor:
        _, feature = self.backbone(x, return_feature=True)
        cut = feature.quantile(percentile / 100, dim=1, keepdim=True)
        logits: Tensor = self.backbone.get_fc_layer()(torch.where(feature > cut, feature, 0.0))
        return logits


class PrototypePostprocessor(BasePostprocessor):
    """Like their she and mds: deep copies of labels, results moved with .cuda()."""

    def setup(self, net: Any, id_loader_dict: Any, ood_loader_dict: Any) -> None:
        features, labels = [], []
        with torch.no_grad():
            for batch in id_loader_dict["train"]:
                features.append(net(batch["data"].cuda(), return_feature=True)[1].cpu())
                labels.append(deepcopy(batch["label"]))
        every, of = torch.cat(features), torch.cat(labels)
        self.means = torch.stack([every[of == label].mean(0) for label in range(4)]).cuda()

    @torch.no_grad()
    def postprocess(self, net: Any, data: Any) -> tuple[Tensor, Tensor]:
        logits, feature = net(data, return_feature=True)
        weight = torch.from_numpy(net.get_fc()[0]).cuda()
        scale = torch.cuda.FloatTensor([2.0]) * torch.ones(1, device="cuda").to("cuda:0")
        pred = logits.argmax(1)
        return pred, ((feature * self.means[pred]).sum(1) + 0 * weight.sum()) * scale / 2


class FirstBatchesPostprocessor(BasePostprocessor):
    """Like their nnguide: keeps whole batches until a share of the set is reached."""

    def setup(self, net: Any, id_loader_dict: Any, ood_loader_dict: Any) -> None:
        loader, self.bank = id_loader_dict["train"], 0
        assert len(iter(loader)) == len(loader)  # as their openmax asks for it
        for count, batch in enumerate(loader, start=1):
            self.bank += len(batch["data"])
            if count * loader.batch_size > 0.1 * len(loader.dataset):
                break


class DrawingPostprocessor(BasePostprocessor):
    """Like their gram and cfood: draws from the global generators; its confidence is [B, 1]."""

    def setup(self, net: Any, id_loader_dict: Any, ood_loader_dict: Any) -> None:
        self.draws = [random.random(), float(np.random.rand()), float(torch.rand(()))]  # noqa: NPY002

    @torch.no_grad()
    def postprocess(self, net: Any, data: Any) -> tuple[Tensor, Tensor]:
        logits = net(data)
        return logits.argmax(1), logits.amax(1, keepdim=True) + sum(self.draws)


class LayersPostprocessor(BasePostprocessor):
    """Like their mds_ensemble: reads the list of maps by place; learns from validation outliers where told to."""

    outliers = False

    def setup(self, net: Any, id_loader_dict: Any, ood_loader_dict: Any) -> None:
        if self.outliers:
            len(ood_loader_dict["val"])

    @torch.no_grad()
    def postprocess(self, net: Any, data: Any) -> tuple[Tensor, Tensor]:
        logits, maps = net(data, return_feature_list=True)
        self.shapes = [tuple(one.shape[1:]) for one in maps]
        return logits.argmax(1), maps[0].view(len(data), -1).mean(1)
