"""Predictions of an exported model without Shoal: what `shoal ckpt export` writes has all that is needed.

    python3 predict.py MODEL.h5 DATA.h5      a line for each sample: class, probability; or the numbers that are predicted;
                                             of a network that reads text one line: the mean loss of its tokens

Samples are those of the test split, or of the training split where there is no other, as `shoal predict` takes them.  It needs h5py
and NumPy (Debian: python3-h5py), and is a guide to any other library.
"""
import json
import math
import signal
import sys

try:
    import h5py
    import numpy as np
except ImportError as e:
    sys.exit(f"predict.py needs h5py and NumPy, which {sys.executable} lacks ({e}): {sys.executable} -m pip install h5py numpy; "
             "or, on Debian and Ubuntu, apt install python3-h5py, and then /usr/bin/python3 predict.py")


CURVES = {
    "gelu-tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "relu6": lambda x: np.clip(x, 0, 6),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
}


def windows(x, layer, fill):
    """[n, c, h, w] as [n, c, h', w', kernel height, kernel width]."""
    (kh, kw), (sh, sw), (ph, pw) = layer["kernel"], layer["stride"], layer["padding"]
    dh, dw = layer.get("dilation", (1, 1))
    x = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)), constant_values=0 if layer.get("count_pad") else fill)
    if layer.get("ceil"):  # room for a last window that begins before the padding at the end
        more = [(-(n - k) % s) * ((n - k + s - 1) // s * s < n - p) for n, k, s, p in zip(x.shape[2:], (kh, kw), (sh, sw), (ph, pw))]
        x = np.pad(x, ((0, 0), (0, 0), (0, more[0]), (0, more[1])), constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(x, ((kh - 1) * dh + 1, (kw - 1) * dw + 1), axis=(2, 3))
    return view[:, :, ::sh, ::sw, ::dh, ::dw]


def apply(layer, x=None, *others, weight=None, bias=None, running_mean=None, running_var=None):
    kind = layer["kind"]
    if kind == "parameter":
        x = weight[None]  # for every sample: NumPy repeats it
    elif kind == "embedding":
        x = weight[x.astype(int)]
    elif kind == "linear":
        x = x @ weight.T + (0 if bias is None else bias)
    elif kind == "conv":
        groups = layer.get("groups", 1)
        parts = zip(np.split(windows(x, layer, 0), groups, 1), np.split(weight, groups))
        x = np.concatenate([np.einsum("nihwkl,oikl->nohw", p, w, optimize=True) for p, w in parts], 1)
        x = x + (0 if bias is None else bias[:, None, None])
    elif kind == "batchnorm":
        scale = weight / np.sqrt(running_var + layer["eps"])
        shape = (-1,) + (1,) * (x.ndim - 2)
        x = x * scale.reshape(shape) + (bias - running_mean * scale).reshape(shape)
    elif kind == "layernorm":
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + layer["eps"]) * weight + bias
    elif kind == "relu":
        x = np.maximum(x, 0)
    elif kind in CURVES:
        x = CURVES[kind](x)
    elif kind == "leakyrelu":
        x = np.where(x > 0, x, layer["slope"] * x)
    elif kind == "gelu":
        x = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    elif kind == "maxpool":
        x = windows(x, layer, -np.inf).max((4, 5))
    elif kind == "avgpool":
        x = np.nanmean(windows(x, layer, np.nan), (4, 5))
    elif kind == "globalpool":
        x = x.mean((2, 3))
    elif kind == "add":
        x = x + sum(others)
    elif kind == "mul":
        x = x * others[0].reshape(others[0].shape + (1,) * (x.ndim - others[0].ndim))
    elif kind == "concat":
        n = max(len(part) for part in (x, *others))
        x = np.concatenate([np.broadcast_to(part, (n, *part.shape[1:])) for part in (x, *others)], 1)
    elif kind == "slice":
        x = x[:, layer["first"]:layer["first"] + layer["count"]]
    elif kind == "attention":
        q, k, v = (i.reshape(*i.shape[:2], layer["heads"], -1).swapaxes(1, 2) for i in (x, *others))
        s = q @ k.swapaxes(2, 3) / math.sqrt(q.shape[3])
        s = np.where(np.tri(*s.shape[2:], dtype=bool) | (not layer["causal"]), s, -np.inf)
        p = np.exp(s - s.max(3, keepdims=True))
        x = (p / p.sum(3, keepdims=True) @ v).swapaxes(1, 2).reshape(x.shape)
    elif kind == "reshape":
        x = x.reshape(len(x), *layer["shape"])
    elif kind == "transpose":
        x = x.transpose(0, *(d + 1 for d in layer["order"]))
    elif kind == "flatten":
        x = x.reshape(len(x), -1)
    elif kind != "dropout":
        raise ValueError(f"unknown kind of layer {kind}")
    return np.maximum(x, 0) if layer.get("relu") else x


def predict(model, x):
    """Of raw samples x [n, ...], as they are in a data set: probabilities, or the numbers that are predicted."""
    shape = (-1,) + (1,) * (x.ndim - 2)
    scaled = "mean" in model.attrs  # tokens are as they are
    values = {None: (x - model.attrs["mean"].reshape(shape)) / model.attrs["std"].reshape(shape) if scaled else x}
    for layer in json.loads(model.attrs["layers"]):
        tensors = {t: model[f"{layer['name']}.{t}"][()] for t in ("weight", "bias", "running_mean", "running_var")
                   if f"{layer['name']}.{t}" in model}
        if "weight" in layer:  # that of another layer
            tensors["weight"] = model[layer["weight"]][()]
        values[layer["name"]] = apply(layer, *(values[i] for i in layer["inputs"]), **tensors)
    logits = values[layer["name"]]
    if "target_mean" in model.attrs:
        return logits * model.attrs["target_std"] + model.attrs["target_mean"]
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def score(model, tokens):
    """Of a text: the mean loss of a token in nats, and how many tokens that is of.  It is cut into samples as in training."""
    context, at_once = int(model.attrs["sample"][0]), 64
    n = (len(tokens) - 1) // context
    loss = 0
    for i in range(0, n, at_once):
        part = tokens[i * context:min(i + at_once, n) * context + 1].astype(int)
        p = predict(model, part[:-1].reshape(-1, context)).reshape(len(part) - 1, -1)
        loss -= np.log(p[np.arange(len(p)), part[1:]]).sum()
    return loss / (n * context), n * context


def open_file(path, holds, give):
    """An HDF5 file that has one of these things; else the program ends with a line that says what to give."""
    try:
        f = h5py.File(path)
    except OSError as e:
        sys.exit(f"predict.py: {path} cannot be read as HDF5 ({e}): give {give}")
    if not any(name in f or name in f.attrs for name in holds):
        sys.exit(f"predict.py: {path} has no {' and no '.join(holds)}: give {give}")
    return f


def text(attribute):
    return attribute if isinstance(attribute, str) else attribute.decode()


def check_features(model, data, shape):
    """Ends the program where samples are not like those that the model was trained on."""
    wanted = model.attrs["sample"].tolist()
    if list(shape) != wanted:
        sys.exit(f"predict.py: samples have the shape {list(shape)}, the model was trained on {wanted}")
    here, there = (text(f.attrs.get("feature_names", "")).split("\n") for f in (data, model))
    if here != there and sorted(here) == sorted(there):
        sys.exit(f"predict.py: the features are {', '.join(here)}, and the model was trained on the order {', '.join(there)}")


def check_tokens(model, tokens):
    """Ends the program where a text is too short, or of other tokens than those that the model was trained on."""
    context, known = int(model.attrs["sample"][0]), int(model.attrs["classes"])
    if len(tokens) <= context:
        sys.exit(f"predict.py: the text has {len(tokens)} tokens, and the model needs {context} and the one that follows")
    if tokens[:].max() >= known:
        sys.exit(f"predict.py: token {tokens[:].max()} is none of the model's, which are 0 to {known - 1}: import the text as for training")


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):  # ends without a word where `head` has read enough
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if len(sys.argv) != 3:
        sys.exit("usage: python3 predict.py MODEL.h5 DATA.h5")
    with open_file(sys.argv[1], ["layers"], "what `shoal ckpt export RUN -o MODEL.h5` writes") as model:
        reads = text(model.attrs["kind"]) == "text"
        names = ["test/tokens", "train/tokens"] if reads else ["test/x", "train/x"]
        data = open_file(sys.argv[2], names, f"a data set, as `shoal data import{' text' * reads}` makes it")
        samples = data[names[0]] if names[0] in data and len(data[names[0]]) else data[names[1]]
        if reads:
            check_tokens(model, samples)
            loss, n = score(model, samples)
            print(f"loss {loss:.6g} per token, perplexity {math.exp(loss):.6g}, of {n} tokens")
            sys.exit()
        check_features(model, data, samples.shape[1:])
        p = predict(model, samples[:].astype("f8"))
        if "target_mean" in model.attrs:
            for row in p:
                print(*row)
            sys.exit()
        names = text(model.attrs["class_names"]).split("\n") if "class_names" in model.attrs else range(model.attrs["classes"])
        for row in p:
            print(names[row.argmax()], row.max())
