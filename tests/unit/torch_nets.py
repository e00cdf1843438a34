"""Our networks in PyTorch, and how their gradients and steps are compared: for test_nn_torch.py, which says what is compared."""
import numpy as np
import torch
from torch import nn

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


class Decisions:
    """Relu and maximum pool: as PyTorch decides, or as the outputs of our forward say that we decided."""

    def __init__(self):
        self.ours = None

    def follow(self, outputs):
        self.ours = iter(outputs)
        self.changed, self.farthest = 0, 0.0

    def own(self):
        assert next(self.ours, None) is None, "PyTorch's network has fewer relus"
        self.ours = None

    def note(self, x, distance):
        """distance: how far each input lies beyond the threshold that we saw it on the other side of, otherwise 0."""
        self.changed += (distance > 0).sum().item()
        self.farthest = max(self.farthest, (distance.max() / x.abs().max()).item())

    def relu(self, x):
        if self.ours is None:
            return torch.relu(x)
        self.last = next(self.ours)
        passes = self.last > 0
        self.note(x.detach(), x.detach().abs() * (passes != (x > 0)))
        return x * passes

    def pool(self, x):
        if self.ours is None:
            return nn.functional.max_pool2d(x, 2)
        _, at = nn.functional.max_pool2d(self.last, 2, return_indices=True)
        y = x.flatten(2).gather(2, at.flatten(2)).view(at.shape)
        self.note(x.detach(), nn.functional.max_pool2d(x.detach(), 2) - y.detach())
        return y


decisions = Decisions()


class Layer(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


class Mlp(nn.Module):
    """fc1 norm1 act … fcN"""

    def __init__(self, widths, activation="relu", norm="none"):
        super().__init__()
        self.depth = len(widths)
        sizes = [3 * 32 * 32, *widths, 10]
        for i in range(len(sizes) - 1):
            setattr(self, f"fc{i + 1}", nn.Linear(sizes[i], sizes[i + 1]))
        for i, w in enumerate(widths):
            kinds = {"none": lambda w: nn.Identity(), "batch": nn.BatchNorm1d, "layer": nn.LayerNorm}
            setattr(self, f"norm{i + 1}", kinds[norm](w))
        self.act = {"relu": Layer(decisions.relu), "gelu": nn.GELU()}[activation]

    def forward(self, x):
        x = x.flatten(1)
        for i in range(1, self.depth + 1):
            x = self.act(getattr(self, f"norm{i}")(getattr(self, f"fc{i}")(x)))
        return getattr(self, f"fc{self.depth + 1}")(x)


class Block(nn.Module):
    def __init__(self, i, o, stride, project):
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(o)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(o)
        self.downsample = None
        if project:
            self.downsample = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        y = self.bn2(self.conv2(decisions.relu(self.bn1(self.conv1(x)))))
        return decisions.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    def __init__(self, width, stages, blocks):
        super().__init__()
        self.stages = stages
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        i = width
        for s in range(stages):
            o = width << s
            layers = []
            for b in range(blocks):
                first = s > 0 and b == 0
                layers.append(Block(i, o, 2 if first else 1, first))
                i = o
            setattr(self, f"layer{s + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(i, 10)

    def forward(self, x):
        x = decisions.relu(self.bn1(self.conv1(x)))
        for s in range(self.stages):
            x = getattr(self, f"layer{s + 1}")(x)
        return self.fc(x.mean((2, 3)))


class Vgg(nn.Module):
    def __init__(self, norm):
        super().__init__()
        layers, i = [], 3
        for o in [64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0]:
            if o == 0:
                layers.append(Layer(decisions.pool))
                continue
            layers.append(nn.Conv2d(i, o, 3, 1, 1, bias=not norm))
            layers += [nn.BatchNorm2d(o)] if norm else []
            layers.append(Layer(decisions.relu))
            i = o
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(512, 10)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Attention(nn.Module):
    """In parts of 64 numbers."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value, self.c_proj = [nn.Linear(width, width) for _ in range(4)]

    def forward(self, x):
        q, k, v = [f(x).unflatten(2, (-1, 64)).transpose(1, 2) for f in (self.query, self.key, self.value)]
        return self.c_proj((torch.softmax(q @ k.transpose(2, 3) / 8, -1) @ v).transpose(1, 2).flatten(2))


class VitBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), Attention(width), nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["c_proj"](nn.functional.gelu(self.mlp["c_fc"](self.ln_2(x))))


class Vit(nn.Module):
    def __init__(self, pool, width=128, depth=2, patch=8):
        super().__init__()
        self.pool, tokens = pool, (32 // patch) ** 2
        self.patches = nn.Conv2d(3, width, patch, patch)
        if pool == "class":
            self.add_module("class", nn.Embedding(1, width))
        self.wpe = nn.Embedding(tokens + (pool == "class"), width)
        self.h = nn.Sequential(*[VitBlock(width) for _ in range(depth)])
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        if self.pool == "class":
            x = torch.cat([getattr(self, "class").weight.expand(len(x), 1, -1), x], 1)
        x = self.ln_f(self.h(x + self.wpe.weight))
        return self.head(x[:, 0] if self.pool == "class" else x.mean(1))


# backend, batch, steps, model, options, how to build it, bound


def load(folder):
    data = np.fromfile(f"{folder}/data.bin", np.float32).astype(np.float64)
    arrays = {}
    for line in open(f"{folder}/index.txt"):
        name, at, *shape = line.split()
        shape = [int(n) for n in shape]
        arrays[name] = torch.from_numpy(data[int(at):int(at) + int(np.prod(shape))].reshape(shape))
    return arrays


def start(model, a):
    names = {n for n, _ in model.named_parameters()}
    ours = {n[2:] for n in a if n.startswith("w/")}
    assert names == ours, f"names differ: {names ^ ours}"
    with torch.no_grad():
        for n, p in model.named_parameters():
            assert p.shape == a[f"w/{n}"].shape, f"{n}: {tuple(p.shape)}"
            p.copy_(a[f"w/{n}"])
        for n, b in model.named_buffers():
            if not n.endswith("num_batches_tracked"):
                b.copy_(a[f"s/{n}"])
    model.train()


def worst(pairs):
    """pairs: name -> (ours, theirs)."""
    largest = max(t.abs().max().item() for _, t in pairs.values())
    errors = {n: ((o - t).abs().max() / max(t.abs().max().item(), largest * 0.01)).item() for n, (o, t) in pairs.items()}
    name = max(errors, key=lambda n: errors[n])
    return errors[name], name


def replay(model, a, kind, optimizer, steps):
    """Our gradients through torch.optim."""
    start(model, a)
    for k in range(steps):
        for n, p in model.named_parameters():
            p.grad = a[f"{kind}{k}/{n}"].clone()
        optimizer.step()
    return worst({n: (a[f"{kind}/{n}"], p.detach()) for n, p in model.named_parameters()})


def train(model, a, kind, optimizer, steps):
    """PyTorch's own way; the difference of the ways in the Euclidean norm over all weights."""
    start(model, a)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a["x"]), a["y"].long()).backward()
        optimizer.step()
    off = sum(((a[f"{kind}/{n}"] - p) ** 2).sum().item() for n, p in model.named_parameters())
    way = sum(((a[f"w/{n}"] - p) ** 2).sum().item() for n, p in model.named_parameters())
    return (off / way) ** 0.5, "all weights"


def compare(a, model, steps):
    """Every kind of number with its worst error and where it was."""
    start(model, a)
    found = {}
    decisions.follow(x for n, x in a.items() if n.startswith("a/"))
    logits = model(a["x"])
    decisions.own()
    found["decisions"] = decisions.farthest, f"{decisions.changed} inputs"
    loss = nn.functional.cross_entropy(logits, a["y"].long())
    loss.backward()
    found["logits"] = worst({"logits": (a["logits"], logits)})
    found["loss"] = worst({"loss": (a["loss"], loss)})
    found["gradients"] = worst({n: (a[f"g/{n}"], p.grad) for n, p in model.named_parameters()})
    buffers = {n: (a[f"t/{n}"], b) for n, b in model.named_buffers() if not n.endswith("num_batches_tracked")}
    if buffers:
        found["statistics"] = worst(buffers)
    model.eval()
    with torch.no_grad():
        found["evaluation"] = worst({"logits": (a["eval_logits"], model(a["x"]))})
    makers = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.002, betas=(0.9, 0.99), eps=1e-3, weight_decay=0.1),
    }
    for kind, make in makers.items() if steps else []:
        found[kind] = replay(model, a, kind, make(model.parameters()), steps)
        found[f"{kind} alone"] = train(model, a, kind, make(model.parameters()), steps)
    return found
