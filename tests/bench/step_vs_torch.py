#!/usr/bin/env python3
"""Speed of a training step compared with PyTorch, both measured alternately in one run on the same cores.

Usage: step_vs_torch.py SHOAL [--rounds 5] [--seconds 4] [--threads 1] [--bf16 [--compile]] [--markdown] [model...]

Each round times Shoal (`shoal bench step MODEL --json`) and then PyTorch for the same time; the table has the medians of the
rounds, so that other load affects both alike.  The step is forward, backward and SGD with momentum,
f32, at the batch sizes of `shoal bench step`; with --bf16 Shoal runs with `compute.dtype: bf16`, which the processor must have, and
PyTorch under autocast with tensors in channels-last order; --compile: its step compiled, too.
"""
import argparse
import json
import statistics
import subprocess
import time

import torch
from torch import nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = nn.Sequential()
        if stride != 1 or cin != cout:
            self.short = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))


def resnet(blocks, widths):
    layers = [nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    cin = widths[0]
    for stage, (count, width) in enumerate(zip(blocks, widths)):
        for i in range(count):
            layers.append(Block(cin, width, 2 if stage and i == 0 else 1))
            cin = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, 10))


def vgg16():
    layers, cin = [], 3
    for width in [64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0]:
        if width == 0:
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(cin, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU()]
            cin = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


MODELS = {
    "mlp": (128, lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(),
                                       nn.Linear(4096, 10)), (1, 28, 28)),
    "resnet20": (128, lambda: resnet([3, 3, 3], [16, 32, 64]), (3, 32, 32)),
    "vgg16": (64, vgg16, (3, 32, 32)),
    "resnet18": (32, lambda: resnet([2, 2, 2, 2], [64, 128, 256, 512]), (3, 32, 32)),
}


class Torch:
    """A PyTorch step, timed for a given duration at a time."""

    def __init__(self, name, bf16=False, compiled=False):
        self.bf16 = bf16
        self.batch, make, shape = MODELS[name]
        torch.manual_seed(1)
        self.model = make()
        self.model.train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.x = torch.rand(self.batch, *shape) * 2 - 1
        if bf16:
            self.model = self.model.to(memory_format=torch.channels_last)
            self.x = self.x.to(memory_format=torch.channels_last)
        self.run = torch.compile(self.model) if compiled else self.model
        self.y = torch.arange(self.batch) % 10
        for _ in range(2):
            self.step()

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16):
            logits = self.run(self.x)
        F.cross_entropy(logits.float(), self.y).backward()
        self.optimizer.step()

    def samples_per_s(self, seconds):
        times, start = [], time.perf_counter()
        while len(times) < 3 or time.perf_counter() - start < seconds:
            t = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - t)
        return self.batch / statistics.median(times)


def shoal(program, name, args):
    command = [program, "bench", "step", name, "--json", "--seconds", str(args.seconds), "--threads", str(args.threads)]
    for setting in args.set + (["compute.dtype=bf16"] if args.bf16 else []):
        command += ["--set", setting]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("shoal")
    p.add_argument("models", nargs="*", default=list(MODELS))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=4)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--set", action="append", default=[])
    p.add_argument("--bf16", action="store_true")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--markdown", action="store_true")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    row = "| {} | {} | {} | {} | {} | {} | {} |" if args.markdown else "{:10} {:>6} {:>10} {:>10} {:>8} {:>10} {:>9}"
    print(row.format("model", "batch", "shoal", "pytorch", "ratio", "bound", "of bound"))
    if args.markdown:
        print("|---|---|---|---|---|---|---|")
    for name in args.models:
        reference = Torch(name, args.bf16, args.compile)
        ours, theirs, bounds = [], [], []
        for _ in range(args.rounds):
            result = shoal(args.shoal, name, args)
            ours.append(result["samples_per_s"])
            bounds.append(result["bound_samples_per_s"])
            theirs.append(reference.samples_per_s(args.seconds))
        a, b, bound = statistics.median(ours), statistics.median(theirs), statistics.median(bounds)
        print(row.format(name, reference.batch, f"{a:.1f}", f"{b:.1f}", f"{a / b:.2f}", f"{bound:.1f}", f"{a / bound:.2f}"))
    print(f"PyTorch {torch.__version__}, {args.threads} thread(s), medians of {args.rounds} rounds of {args.seconds} s")


if __name__ == "__main__":
    main()
