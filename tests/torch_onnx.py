"""Makes tests/golden/onnx/*: small networks as PyTorch exports them, with random weights, each with an input and its logits.

    python3 tests/torch_onnx.py ts|dynamo [FOLDER]

ts needs any PyTorch (the files here: 1.13 and 2.15), dynamo one from 2.6 on with onnxscript.  Tests need neither: they compare with
the logits in NAME.npz, which PyTorch computed.
"""
import inspect
import os
import sys

import numpy as np
import onnx
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, groups=4, bias=False)
        self.bn2 = nn.BatchNorm2d(8)
        self.deep = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8)
        self.fc1, self.fc2 = nn.Linear(8, 2), nn.Linear(2, 8)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.act = nn.SiLU()
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        y = self.act(self.bn2(self.conv2(x))) + x
        gate = torch.sigmoid(self.fc2(torch.relu(self.fc1(self.pool(y).flatten(1)))))
        z = nn.functional.hardswish(self.deep(y * gate[:, :, None, None]))
        z = torch.cat([nn.functional.max_pool2d(z, 2), nn.functional.relu6(nn.functional.avg_pool2d(y, 3, 2, 1))], 1)
        return self.fc(self.pool(z).reshape(z.shape[0], -1))


class Mixer(nn.Module):
    """Patches, products along both dimensions, layer norm, both GELUs, shape arithmetic."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 4, 4)
        self.norm1, self.norm2 = nn.LayerNorm(6), nn.LayerNorm(6)
        self.places = nn.Sequential(nn.Linear(4, 7), nn.GELU(), nn.Linear(7, 4))
        self.channels = nn.Sequential(nn.Linear(6, 9), nn.GELU(approximate="tanh"), nn.Dropout(0.1), nn.Linear(9, 6, bias=False))
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        x = self.stem(x)
        x = x.view(x.size(0), x.size(1), -1).transpose(1, 2)
        x = x + self.places(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norm2(x))
        return torch.log_softmax(self.head(x.flatten(1)), 1)


class Means(nn.Module):
    """Means over places, which lie before the channels."""

    def __init__(self):
        super().__init__()
        self.stem, self.fc, self.head = nn.Conv2d(3, 6, 3, 2), nn.Linear(6, 7), nn.Linear(13, 5)

    def forward(self, x):
        x = self.stem(x).permute(0, 2, 3, 1)
        y = torch.relu(self.fc(x.reshape(x.shape[0], 9, 6)))
        return self.head(torch.cat([x.mean((1, 2)), y.mean(1, keepdim=True).flatten(1)], 1))


def without_places(path):
    """Of what dynamo remarks of nodes, where their lines are on this machine is left out."""
    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        remarks = [(p.key, p.value) for p in getattr(node, "metadata_props", []) if "stack_trace" not in p.key]
        node.ClearField("metadata_props") if hasattr(node, "metadata_props") else None
        for key, text in remarks:
            node.metadata_props.add(key=key, value=text)
    with open(path, "wb") as f:
        f.write(model.SerializeToString())


def main(kind, folder):
    os.makedirs(folder, exist_ok=True)
    for make in (Residual, Mixer, Means):
        torch.manual_seed(1)
        net = make()
        for m in net.modules():
            if isinstance(m, nn.BatchNorm2d):
                nn.init.uniform_(m.weight), nn.init.normal_(m.bias), nn.init.normal_(m.running_mean), nn.init.uniform_(m.running_var, 0.5, 2)
        net.eval()
        x = torch.randn(1, 3, 8, 8)
        old = "dynamo" not in inspect.signature(torch.onnx.export).parameters
        options = {} if old else {"dynamo": kind == "dynamo"}
        name = f"{make.__name__.lower()}-{kind}-{'.'.join(torch.__version__.split('.')[:2])}"
        torch.onnx.export(net, x, f"{folder}/{name}.onnx", **options)
        without_places(f"{folder}/{name}.onnx")
        y = torch.randn(4, 3, 8, 8)
        with torch.no_grad():
            np.savez(f"{folder}/{name}.npz", x=y.numpy(), logits=net(y).numpy())


main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), "golden", "onnx"))
