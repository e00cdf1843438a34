#!/usr/bin/env python3
"""Ten networks that were not made for Shoal: imported from PyTorch's exporters, trained, and exported again.

    ten_networks.py SHOAL [name...] [--exporters ts,dynamo] [--steps 4] [--keep FOLDER]

Written from their papers (and the choices that PyTorch users make), at the papers' sizes unless the table says otherwise, with ten
classes and random weights.  Of each: `shoal model import` of what both of PyTorch's exporters write; probabilities of `shoal predict`
before any training against PyTorch's; a few steps of sync on 2 ranks and of ab; `ckpt export` to ONNX, and onnxruntime's
probabilities against Shoal's; of the GPT, which `shoal predict` does not take, the loss that follows from them against that of
Shoal's evaluation.  Needs torch with onnxscript, onnxruntime and h5py.  The result is a table in Markdown.
"""
import argparse
import os
import re
import shutil
import subprocess
import tempfile
import time

import h5py
import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from torch import nn

CLASSES, SAMPLES = 10, 8


def conv(cin, cout, kernel, stride=1, pad=0, groups=1):
    return nn.Sequential(nn.Conv2d(cin, cout, kernel, stride, pad, groups=groups, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


def alexnet():
    """Krizhevsky 2014, one tower."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, 1, 1), nn.ReLU(), nn.Conv2d(384, 256, 3, 1, 1), nn.ReLU(), nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU(),
        nn.MaxPool2d(3, 2), nn.AdaptiveAvgPool2d((6, 6)), nn.Flatten(), nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(), nn.Dropout(),
        nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, CLASSES))


def mobilenet():
    """Howard et al. 2017: depthwise separable convolutions."""
    widths = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), *[(512, 512, 1)] * 5, (512, 1024, 2), (1024, 1024, 1)]
    body = [layer for a, b, s in widths for layer in (conv(a, a, 3, s, 1, groups=a), conv(a, b, 1))]
    return nn.Sequential(conv(3, 32, 3, 2, 1), *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, CLASSES))


class Dense(nn.Module):
    """One layer of Huang et al. 2017: norm, 1x1, norm, 3x3; what it reads goes on beside what it makes."""

    def __init__(self, cin, growth=32):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(cin), nn.Conv2d(cin, 4 * growth, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv1(torch.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(torch.relu(self.norm2(y)))], 1)


def densenet():
    """DenseNet-121."""
    layers, width = [conv(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, 1)], 64
    for block, count in enumerate((6, 12, 24, 16)):
        for _ in range(count):
            layers.append(Dense(width))
            width += 32
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
        if block < 3:
            layers += [nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2, 2)]
            width //= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


class Fire(nn.Module):
    def __init__(self, cin, squeeze, expand):
        super().__init__()
        self.squeeze = nn.Conv2d(cin, squeeze, 1)
        self.one, self.three = nn.Conv2d(squeeze, expand, 1), nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.one(x)), torch.relu(self.three(x))], 1)


def squeezenet():
    """Iandola et al. 2016, version 1.1."""
    pool = lambda: nn.MaxPool2d(3, 2, ceil_mode=True)
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(), Fire(64, 16, 64), Fire(128, 16, 64), pool(), Fire(128, 32, 128), Fire(256, 32, 128), pool(),
        Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256), nn.Dropout(), nn.Conv2d(512, CLASSES, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten())


class UNet(nn.Module):
    """Ronneberger et al. 2015 with a class for each image: the skips are pooled to the size of the bottom instead of it being enlarged."""

    def __init__(self, width=32):
        super().__init__()
        two = lambda a, b: nn.Sequential(conv(a, b, 3, 1, 1), conv(b, b, 3, 1, 1))
        self.down = nn.ModuleList([two(3, width), two(width, 2 * width), two(2 * width, 4 * width)])
        self.bottom = two(4 * width, 8 * width)
        self.up = nn.ModuleList([two(12 * width, 4 * width), two(6 * width, 2 * width), two(3 * width, width)])
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        kept = []
        for stage in self.down:
            x = stage(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for stage, skip in zip(self.up, reversed(kept)):
            x = stage(torch.cat([x, F.avg_pool2d(skip, skip.shape[-1] // x.shape[-1])], 1))
        return self.head(x.mean((2, 3)))


class Mixer(nn.Module):
    """Tolstikhin et al. 2021, S/16."""

    class Block(nn.Module):
        def __init__(self, places, width):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.token = nn.Sequential(nn.Linear(places, width // 2), nn.GELU(), nn.Linear(width // 2, places))
            self.channel = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            x = x + self.token(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channel(self.norm2(x))

    def __init__(self, width=512, depth=8):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 16, 16)
        self.blocks = nn.Sequential(*[Mixer.Block(196, width) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.blocks(self.stem(x).flatten(2).transpose(1, 2))
        return self.head(self.norm(x).mean(1))


class ConvNeXt(nn.Module):
    """Liu et al. 2022, T: layer norm over channels, which lie last meanwhile; a learned scale of each block."""

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.deep, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
            self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.scale = nn.Parameter(torch.full((width,), 0.1))

        def forward(self, x):
            y = self.norm(self.deep(x).permute(0, 2, 3, 1))
            return x + (self.scale * self.fc2(F.gelu(self.fc1(y)))).permute(0, 3, 1, 2)

    class Norm(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    def __init__(self, depths=(3, 3, 9, 3), widths=(96, 192, 384, 768)):
        super().__init__()
        layers, before = [nn.Conv2d(3, widths[0], 4, 4), ConvNeXt.Norm(widths[0], eps=1e-6)], widths[0]
        for depth, width in zip(depths, widths):
            if width != before:
                layers += [ConvNeXt.Norm(before, eps=1e-6), nn.Conv2d(before, width, 2, 2)]
            layers += [ConvNeXt.Block(width) for _ in range(depth)]
            before = width
        self.body = nn.Sequential(*layers)
        self.norm, self.head = nn.LayerNorm(before, eps=1e-6), nn.Linear(before, CLASSES)

    def forward(self, x):
        return self.head(self.norm(self.body(x).mean((2, 3))))


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, places, width = x.shape
        q, k, v = self.qkv(x).view(n, places, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, places, width))


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Radford et al. 2019, its structure: bytes, 4 blocks of width 128, context 64."""

    def __init__(self, width=128, depth=4, context=64):
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Parameter(0.02 * torch.randn(context, width))
        self.blocks = nn.Sequential(*[Block(width, 4, True) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.token(x) + self.place)))


class ViT(nn.Module):
    """Dosovitskiy et al. 2021, S/16 with a class token."""

    def __init__(self, width=384, depth=12, heads=6):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 16, 16)
        self.token, self.place = nn.Parameter(0.02 * torch.randn(1, 1, width)), nn.Parameter(0.02 * torch.randn(1, 197, width))
        self.blocks = nn.Sequential(*[Block(width, heads, False) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bottleneck(nn.Module):
    def __init__(self, cin, width, stride):
        super().__init__()
        self.body = nn.Sequential(conv(cin, width, 1), conv(width, width, 3, stride, 1), nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.short = nn.Sequential(nn.Conv2d(cin, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)) if cin != 4 * width else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


def resnet50():
    """He et al. 2016, the stride in the 3x3."""
    layers, cin = [conv(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(cin, width, stride if i == 0 else 1))
            cin = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, CLASSES))


NETWORKS = {"alexnet": (alexnet, 224), "mobilenet": (mobilenet, 224), "densenet": (densenet, 224), "squeezenet": (squeezenet, 224),
            "unet": (UNet, 64), "mixer": (Mixer, 224), "convnext": (ConvNeXt, 224), "gpt": (GPT, 0), "vit": (ViT, 224), "resnet50": (resnet50, 224)}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Refused(Exception):
    pass


def shoal(program, *args):
    r = subprocess.run([program, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if r.returncode:
        raise Refused(r.stdout.strip().splitlines()[-1] if args[0] == "model" else r.stdout[-2000:])
    return r.stdout


def enliven(net, x):
    """Random networks give nearly the same for every sample: here norms have the statistics of x, and logits a deviation of up to 2."""
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    last = [m for m in net.modules() if isinstance(m, (nn.Linear, nn.Conv2d))][-1]
    with torch.no_grad():
        for m in norms:
            m.momentum = 1.0
        if norms:
            net.train()
            net(x)
        for m in norms:
            m.momentum = 0.1
        net.eval()
        y = net(x)
        last.weight *= 2 / y.std(0).mean().clamp(min=0.02)


def export(net, x, exporter, path):
    with torch.no_grad():
        torch.onnx.export(net, (x,), path, dynamo=exporter == "dynamo", opset_version=18, verbose=False)


def write_data(x):
    with h5py.File("data.h5", "w") as f:
        if x.dtype == np.int64:
            f["train/tokens"] = f["test/tokens"] = tokens_of(x).astype("u1")
            f.attrs["classes"] = 256
            return
        for part in ("train", "test"):
            f[f"{part}/x"], f[f"{part}/y"] = x, np.arange(len(x), dtype="i4") % CLASSES
        f.attrs["mean"], f.attrs["std"] = np.zeros(3, "f4"), np.ones(3, "f4")  # as the networks take them
        f.attrs["classes"] = CLASSES


def tokens_of(x):
    """Samples one behind the other, and a last one that follows."""
    return np.append(x.reshape(-1), 0)


def train(program, run, ranks, steps, *sets):
    options = {"run.name": run, "run.steps": steps, "data.file": "data.h5", "data.global_batch": SAMPLES, "model.name": "file", "model.file": "net.yaml",
               "model.weights": "net.safetensors", "optim.momentum": 0.9, "run.seed": 1}
    options.update(dict(zip(sets[::2], sets[1::2])))
    open("run.yaml", "w").close()
    return shoal(program, "launch", "run.yaml", "-n", str(ranks), "-q", *[a for k, v in options.items() for a in ("--set", f"{k}={v}")])


def probabilities(program, run, out):
    shoal(program, "predict", f"runs/{run}", "data.h5", "-o", out)
    with h5py.File(out) as f:
        return f["probability"][()]


def by_onnxruntime(run, x, program):
    shoal(program, "ckpt", "export", f"runs/{run}", "-o", f"{run}.onnx")
    out = onnxruntime.InferenceSession(f"{run}.onnx", providers=["CPUExecutionProvider"])
    return out.run(["probabilities"], {out.get_inputs()[0].name: x})[0]


def largest(a, b):
    return f"{np.abs(a - b).max():.1e}"


def losses(run, which="train_loss"):
    with open(f"runs/{run}/metrics.csv") as f:
        rows = [line.split(",") for line in f.read().splitlines()]
    return float(rows[-1][rows[0].index(which)])


def try_one(program, name, exporter, steps):
    make, size = NETWORKS[name]
    torch.manual_seed(1)
    net = make() if callable(make) else make
    x = torch.randn(SAMPLES, 3, size, size) if size else torch.randint(0, 256, (SAMPLES, 64))
    enliven(net, x)
    export(net, x[:1], exporter, "net.onnx")
    told = shoal(program, "model", "import", "net.onnx", "-o", "net.yaml")
    layers, weights = re.search(r"(\d+) layers, (\d+) weights", told).groups()
    with torch.no_grad():
        expected = softmax(net(x).numpy())
    write_data(x.numpy())
    with open("net.yaml") as f:
        net_text = f.read()
    with open("net.yaml", "w") as f:
        f.write(net_text.replace("op: batchnorm", "op: batchnorm, momentum: 0"))
    text = [] if size else ["data.context", x.shape[1]]
    train(program, "still", 1, 1, "optim.lr", "1e-44", *text)
    first = largest(probabilities(program, "still", "still.h5") if size else by_onnxruntime("still", x.numpy(), program), expected)
    with open("net.yaml", "w") as f:
        f.write(net_text)
    began = time.time()
    train(program, "sync", 2, steps, "optim.lr", 1e-3, "optim.clip", 1.0, *text)
    seconds = time.time() - began
    train(program, "ab", 2, steps, "optim.lr", 1e-3, "optim.clip", 1.0, "method.name", "ab", "method.warmup", 1, "method.cycle", 3,
          "method.rebound", 1, "method.ramp", 1, *text)
    theirs = by_onnxruntime("sync", x.numpy(), program)
    if size:
        difference = largest(probabilities(program, "sync", "sync.h5"), theirs)
    else:
        loss = -np.log(theirs.reshape(-1, 256)[range(x.numel()), tokens_of(x.numpy())[1:]]).mean()
        difference = f"{abs(loss - losses('sync', 'test_loss')):.1e} in loss"
    return f"{layers} layers, {weights} weights | {first} | {losses('sync'):.3f}, {losses('ab'):.3f} | {difference} | {seconds:.0f} s"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("shoal")
    p.add_argument("names", nargs="*", metavar="name", default=list(NETWORKS))
    p.add_argument("--exporters", default="ts,dynamo")
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--keep", help="work in this folder and leave it")
    o = p.parse_args()
    program, folder = os.path.abspath(o.shoal), o.keep or tempfile.mkdtemp()
    print(f"PyTorch {torch.__version__}, onnxruntime {onnxruntime.__version__}\n")
    print("| network | exporter | imported | PyTorch's probabilities, largest difference | loss after training, sync and ab | onnxruntime's | sync took |\n|---|---|---|---|---|---|---|")
    for name in o.names or list(NETWORKS):
        for exporter in o.exporters.split(","):
            place = os.path.join(folder, f"{name}-{exporter}")
            shutil.rmtree(place, ignore_errors=True)
            os.makedirs(place)
            os.chdir(place)
            try:
                result = try_one(program, name, exporter, o.steps)
            except Refused as e:
                result = str(e).replace("|", "/")
            print(f"| {name} | {exporter} | {result} |", flush=True)
    if not o.keep:
        shutil.rmtree(folder)


main()
