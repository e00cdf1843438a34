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


class Next(nn.Module):
    """As ConvNeXt: norms over channels, which lie last meanwhile; learned scales along the last dimension and of channels."""

    class Norm(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class Block(nn.Module):
        def __init__(self, last):
            super().__init__()
            self.last, self.deep, self.norm = last, nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.LayerNorm(6, eps=1e-6)
            self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 6)
            self.scale = nn.Parameter(torch.randn(6) if last else torch.randn(6, 1, 1))

        def forward(self, x):
            y = self.fc2(nn.functional.gelu(self.fc1(self.norm(self.deep(x).permute(0, 2, 3, 1)))))
            return x + ((self.scale * y).permute(0, 3, 1, 2) if self.last else self.scale * y.permute(0, 3, 1, 2))

    def __init__(self):
        super().__init__()
        self.stem, self.norm1, self.norm2 = nn.Conv2d(3, 6, 2, 2), Next.Norm(6), Next.Norm(6)
        self.block1, self.block2 = Next.Block(True), Next.Block(False)
        self.down, self.norm, self.head = nn.Conv2d(6, 7, 2, 2), nn.LayerNorm(7), nn.Linear(7, 5)

    def forward(self, x):
        x = self.down(self.norm2(self.block2(self.block1(self.norm1(self.stem(x))))))
        return self.head(self.norm(x.mean((2, 3))))


class Attention(nn.Module):
    """One product for queries, keys and values, or three; by PyTorch's function, or written down with a mask."""

    def __init__(self, packed, places=0, function=True):
        super().__init__()
        self.qkv = nn.Linear(8, 24) if packed else nn.ModuleList([nn.Linear(8, 8, bias=k != 1) for k in range(3)])
        self.out, self.packed, self.causal, self.function = nn.Linear(8, 8), packed, places > 0, function
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x):
        n, t, width = x.shape
        if self.packed and self.function:
            q, k, v = self.qkv(x).view(n, t, 3, 2, 4).permute(2, 0, 3, 1, 4)
        else:
            parts = self.qkv(x).split(width, 2) if self.packed else [f(x) for f in self.qkv]
            q, k, v = (p.view(n, t, 2, 4).transpose(1, 2) for p in parts)
        if self.function:
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = (q @ k.transpose(-2, -1)) * 0.5
            if self.causal:
                scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
            y = torch.softmax(scores, -1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(n, t, width))


class Vit(nn.Module):
    """Patches behind a class token, of which alone the head is; attention of three kinds."""

    def __init__(self):
        super().__init__()
        self.stem, self.token, self.place = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 5, 8))
        self.norm1, self.attention, self.written = nn.LayerNorm(8), Attention(True), Attention(True, function=False)
        self.block = nn.TransformerEncoderLayer(8, 2, 12, dropout=0, activation="gelu", batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        x = x + self.attention(self.norm1(x))
        x = self.block(x + self.written(x))
        return self.head(self.norm(x)[:, 0])


class Text(nn.Module):
    """Tokens and their places, causal attention, and an output that is tied to the tokens' table."""

    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(20, 8), nn.Embedding(16, 8)
        self.norm1, self.norm2, self.norm = nn.LayerNorm(8), nn.LayerNorm(8), nn.LayerNorm(8)
        self.attention, self.written = Attention(True, 8), Attention(False, 8, False)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        x = self.token(x) + self.place(torch.arange(x.shape[1]))
        x = x + self.attention(self.norm1(x))
        x = x + self.written(self.norm2(x))
        return nn.functional.linear(self.norm(x + self.mlp(x)), self.token.weight)


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
    for make in (Residual, Mixer, Means, Next, Vit, Text):
        torch.manual_seed(1)
        net = make()
        for m in net.modules():
            if isinstance(m, nn.BatchNorm2d):
                nn.init.uniform_(m.weight), nn.init.normal_(m.bias), nn.init.normal_(m.running_mean), nn.init.uniform_(m.running_var, 0.5, 2)
        net.eval()
        sample = lambda n: torch.randint(0, 20, (n, 8)) if make is Text else torch.randn(n, 3, 8, 8)
        x = sample(1)
        old = "dynamo" not in inspect.signature(torch.onnx.export).parameters
        options = {} if old else {"dynamo": kind == "dynamo"}
        name = f"{make.__name__.lower()}-{kind}-{'.'.join(torch.__version__.split('.')[:2])}"
        torch.onnx.export(net, x, f"{folder}/{name}.onnx", **options)
        without_places(f"{folder}/{name}.onnx")
        y = sample(4)
        with torch.no_grad():
            np.savez(f"{folder}/{name}.npz", x=y.numpy(), logits=net(y).numpy())


main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), "golden", "onnx"))
