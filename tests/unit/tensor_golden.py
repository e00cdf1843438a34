#!/usr/bin/env python3
"""Write tensor_golden.h: what PyTorch, in double, says about a few operations.

    /usr/bin/python3 tests/unit/tensor_golden.py > tests/unit/tensor_golden.h

Inputs are a formula (pattern), so nothing but two numbers per result is stored: its sum weighted with another pattern,
and the Euclidean norm of the terms, which says how large a rounding error is.  Needs torch; run it again only when
cases are added."""
import textwrap

import torch
import torch.nn.functional as F

CURVES = ("GELU", "GELU_TANH", "SIGMOID", "TANH", "SILU", "LEAKYRELU", "RELU6", "HARDSWISH", "HARDSIGMOID")
CASES = [
    # kind, input, attributes
    ("LINEAR", (5, 17), dict(out=10, bias=True)),
    ("LINEAR", (2, 3, 7), dict(out=33, relu=True)),
    ("CONV", (3, 17, 9, 7), dict(out=10, kernel=(3, 5), stride=(2, 1), pad=(1, 2), bias=True)),
    ("CONV", (2, 16, 8, 8), dict(out=16, kernel=(3, 3), stride=(1, 1), pad=(1, 1), relu=True)),
    ("CONV", (2, 16, 8, 7), dict(out=24, kernel=(3, 3), stride=(2, 1), pad=(2, 1), gap=(1, 0), groups=8, bias=True)),
    ("CONV", (2, 17, 9, 9), dict(out=17, kernel=(3, 3), stride=(1, 1), pad=(1, 1), groups=17, relu=True)),
    ("CONV", (1, 3, 6, 5), dict(out=64, kernel=(1, 1), stride=(2, 2), pad=(0, 0))),
    ("BATCHNORM", (5, 3), dict()),
    ("BATCHNORM", (3, 10, 5, 7), dict(relu=True)),
    ("BATCHNORM", (3, 10, 5, 7), dict(training=False)),
    ("LAYERNORM", (3, 5, 17), dict()),
    ("RELU", (3, 10, 5), dict()),
    ("GELU", (7, 33), dict()),
    ("GELU_TANH", (7, 33), dict()),
    ("SIGMOID", (3, 10, 5), dict()),
    ("TANH", (3, 10, 5), dict()),
    ("SILU", (3, 10, 5), dict()),
    ("LEAKYRELU", (3, 10, 5), dict(slope=0.2)),
    ("RELU6", (3, 10, 5), dict()),
    ("HARDSWISH", (3, 10, 5), dict()),
    ("HARDSIGMOID", (3, 10, 5), dict()),
    ("MAXPOOL", (3, 10, 9, 7), dict(kernel=(3, 3), stride=(2, 2), pad=(1, 1))),
    ("MAXPOOL", (2, 17, 6, 6), dict(kernel=(2, 3), stride=(3, 1), pad=(0, 1))),
    ("AVGPOOL", (3, 10, 9, 7), dict(kernel=(3, 3), stride=(2, 2), pad=(1, 1))),
    ("MAXPOOL", (2, 3, 8, 7), dict(kernel=(3, 2), stride=(2, 3), pad=(1, 0), ceil=True)),
    ("AVGPOOL", (2, 3, 8, 7), dict(kernel=(3, 2), stride=(2, 3), pad=(1, 1), ceil=True)),
    ("AVGPOOL", (2, 3, 8, 9), dict(kernel=(3, 3), stride=(3, 2), pad=(1, 1), ceil=True, count_pad=True)),
    ("PARAMETER", (3, 4, 5), dict()),
    ("EMBEDDING", (3, 17), dict(rows=11, out=6)),
    ("ATTENTION", (2, 9, 12), dict(inputs=3, heads=3, causal=True)),
    ("ATTENTION", (2, 4, 10), dict(shapes=[(2, 4, 10), (2, 7, 10), (2, 7, 10)], heads=2)),
    ("RESHAPE", (3, 10, 6), dict(sample=(4, -1, 5))),
    ("TRANSPOSE", (3, 10, 6, 4), dict(order=(2, 0, 1))),
    ("GLOBALPOOL", (3, 10, 9, 7), dict()),
    ("ADD", (3, 10, 5, 7), dict(relu=True, inputs=2)),
    ("ADD", (3, 17, 5, 4), dict(relu=True, inputs=3)),
    ("MUL", (3, 10, 5), dict(inputs=2)),
    ("MUL", (3, 17, 4, 5), dict(shapes=[(3, 17, 4, 5), (3, 17)])),
    ("CONCAT", (2, 5, 4, 3), dict(shapes=[(2, 5, 4, 3), (2, 17, 4, 3), (2, 1, 4, 3)])),
    ("FLATTEN", (3, 10, 5, 7), dict()),
    ("DROPOUT", (3, 10), dict(training=False)),
]


def pattern(shape, salt):
    n = 1
    for s in shape:
        n *= s
    return (((torch.arange(n, dtype=torch.int64) * 7919 + salt * 104729) % 257 - 128).double() / 64).reshape(shape)


def apply(kind, x, w, stats, a):
    training = a.get("training", True)
    if kind == "LINEAR":
        return F.linear(x[0], *w)
    if kind == "CONV":
        return F.conv2d(x[0], *w, stride=a["stride"], padding=a["pad"],
                        dilation=[g + 1 for g in a.get("gap", (0, 0))], groups=a.get("groups", 1))
    if kind == "BATCHNORM":
        return F.batch_norm(x[0], stats[0], stats[1], w[0], w[1], training, 0.1, 1e-5)
    if kind == "LAYERNORM":
        return F.layer_norm(x[0], x[0].shape[-1:], w[0], w[1], 1e-5)
    if kind == "MAXPOOL":
        return F.max_pool2d(x[0], a["kernel"], a["stride"], a["pad"], ceil_mode=a.get("ceil", False))
    if kind == "AVGPOOL":
        return F.avg_pool2d(x[0], a["kernel"], a["stride"], a["pad"], a.get("ceil", False), a.get("count_pad", False))
    if kind == "PARAMETER":
        return w[0].expand(a["batch"], *w[0].shape)
    if kind == "EMBEDDING":
        return F.embedding(x[0], w[0])
    if kind == "ATTENTION":
        q, k, v = (t.reshape(*t.shape[:2], a["heads"], -1).transpose(1, 2) for t in x)
        s = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        if a.get("causal"):
            s = s.masked_fill(torch.ones(s.shape[2:]).triu(1).bool(), -torch.inf)
        return (s.softmax(3) @ v).transpose(1, 2).reshape(x[0].shape)
    if kind == "RESHAPE":
        return x[0].reshape(len(x[0]), *a["sample"])
    if kind == "TRANSPOSE":
        return x[0].permute(0, *(d + 1 for d in a["order"]))
    if kind == "DROPOUT":
        return F.dropout(x[0], 0.5, training)
    if kind == "MUL":
        return x[0] * x[1].reshape(x[1].shape + (1,) * (x[0].ndim - x[1].ndim))
    if kind == "CONCAT":
        return torch.cat(x, 1)
    if kind == "LEAKYRELU":
        return F.leaky_relu(x[0], a["slope"])
    if kind == "GELU_TANH":
        return F.gelu(x[0], approximate="tanh")
    simple = {"SIGMOID": torch.sigmoid, "TANH": torch.tanh, "SILU": F.silu, "RELU6": F.relu6, "HARDSWISH": F.hardswish,
              "HARDSIGMOID": F.hardsigmoid, "RELU": F.relu, "GELU": F.gelu, "GLOBALPOOL": lambda t: t.mean((2, 3)), "FLATTEN": lambda t: t.flatten(1)}
    return sum(x[1:], x[0]) if kind == "ADD" else simple[kind](x[0])


def weights(kind, shape, a):
    if kind in ("BATCHNORM", "LAYERNORM"):
        width = shape[1] if kind == "BATCHNORM" else shape[-1]
        return [pattern((width,), 3), pattern((width,), 4)]
    if kind == "LINEAR":
        w = [pattern((a["out"], shape[-1]), 3)]
    elif kind == "PARAMETER":
        w = [pattern(shape[1:], 3)]
    elif kind == "EMBEDDING":
        w = [pattern((a["rows"], a["out"]), 3)]
    elif kind == "CONV":
        w = [pattern((a["out"], shape[1] // a.get("groups", 1)) + tuple(a["kernel"]), 3)]
    else:
        return []
    return w + ([pattern((a["out"],), 4)] if a.get("bias") else [])


def digest(t):
    if t is None:
        return "{ 0, 0 }"
    terms = t.detach().double() * pattern(tuple(t.shape), 9)
    return "{ %.15g, %.3g }" % (terms.sum(), terms.square().sum().sqrt())


def run(kind, shape, a):
    training = a.get("training", True)
    a = dict(a, batch=shape[0])
    shapes = [] if kind == "PARAMETER" else a["shapes"] if "shapes" in a else [shape] * a.get("inputs", 1)
    x = [pattern(s, (1, 2, 10)[i]) for i, s in enumerate(shapes)]
    w = weights(kind, shape, a)
    stats = [pattern((shape[1],), 5), pattern((shape[1],), 6).abs() + 1] if kind == "BATCHNORM" else [None, None]
    if kind in CURVES:
        x[0] = 4 * x[0] + 1 / 32  # beside kinks, where PyTorch depends on the path its loop takes
    if kind == "EMBEDDING":
        x[0] = (64 * x[0]).abs().long() % a["rows"]
    for t in (w if kind == "EMBEDDING" else x + w):
        t.requires_grad_(True)
    y = apply(kind, x, w, stats, a)
    y = F.relu(y) if a.get("relu") else y
    if training:
        y.backward(pattern(tuple(y.shape), 7))
    grads = [t.grad for t in x] + [None] * (3 - len(x)) + [t.grad for t in w] + [None] * (2 - len(w))
    return [y] + grads + stats


def literal(kind, shape, a):
    to = ".out" if kind == "PARAMETER" else ".in[0]"
    fields = [f".kind = SHOAL_OP_{kind}", "%s = { %d, { %s } }" % (to, len(shape), ", ".join(map(str, shape)))]
    for i, s in enumerate((a["shapes"] if "shapes" in a else [shape] * a.get("inputs", 1))[1:]):
        fields.append(".in[%d] = { %d, { %s } }" % (i + 1, len(s), ", ".join(map(str, s))))
    if "out" in a:
        out = [0] * (len(shape) + (kind == "EMBEDDING"))
        out[1 if kind == "CONV" else -1] = a["out"]
        fields.append(".out = { %d, { %s } }" % (len(out), ", ".join(map(str, out))))
    fields += [".%s = { %d, %d }" % (k, *a[k]) for k in ("kernel", "stride", "pad", "gap") if k in a]
    fields += [".%s = %d" % (k, a[k]) for k in ("groups", "rows", "heads") if k in a]
    fields += [".%s = true" % k for k in ("bias", "relu", "ceil", "count_pad", "causal") if a.get(k)]
    if "sample" in a:
        fields.append(".out = { %d, { 0, %s } }" % (len(a["sample"]) + 1, ", ".join(map(str, a["sample"]))))
    if "order" in a:
        fields.append(".order = { %s }" % ", ".join(map(str, a["order"])))
    fields += [".%s = %gf" % (k, a[k]) for k in ("slope",) if k in a]
    training = a.get("training", True)
    fields += [".eps = 1e-5f", ".momentum = 0.1f", ".p = 0.5f", ".need_dx = %s" % ("false" if kind in ("PARAMETER", "EMBEDDING") else "true"),
               ".training = %s" % ("true" if training else "false")]
    return textwrap.fill(", ".join(fields), 110, initial_indent="{ { ", subsequent_indent="    ")


print("/* Written by tensor_golden.py: sums of y, dx0, dx1, dx2, dw0, dw1, running mean and variance, and their scales. */")
print("// clang-format off")
for kind, shape, a in CASES:
    print("%s },\n  { %s } }," % (literal(kind, shape, a), ",\n    ".join(digest(t) for t in run(kind, shape, a))))
