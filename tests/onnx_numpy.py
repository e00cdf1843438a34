"""An ONNX network evaluated by NumPy in double precision, for the operators that Shoal writes; and checked by the format's own
checker, shapes included."""
import math

import numpy as np
import onnx
from onnx import numpy_helper


def windows(x, a, fill):
    top, left, bottom, right = a["pads"]
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=0 if a.get("count_include_pad") else fill)
    if a.get("ceil_mode"):  # as PyTorch: a window that would begin in the padding at the end is left out
        for axis, k, s, pad in zip((2, 3), a["kernel_shape"], a["strides"], (bottom, right)):
            begin = s * -(-(x.shape[axis] - k) // s)
            if begin < x.shape[axis] - pad:
                more = [(0, 0)] * 4
                more[axis] = (0, begin + k - x.shape[axis])
                x = np.pad(x, more, constant_values=fill)
    (dh, dw), (kh, kw) = a.get("dilations", (1, 1)), a["kernel_shape"]
    view = np.lib.stride_tricks.sliding_window_view(x, ((kh - 1) * dh + 1, (kw - 1) * dw + 1), axis=(2, 3))
    return view[:, :, :: a["strides"][0], :: a["strides"][1], ::dh, ::dw]


def conv(a, x, w, b=None):
    parts = zip(np.split(windows(x, a, 0), a["group"], 1), np.split(w, a["group"]))
    y = np.concatenate([np.einsum("nihwkl,oikl->nohw", p, q, optimize=True) for p, q in parts], 1)
    return y if b is None else y + b[:, None, None]


def batchnorm(a, x, scale, shift, mean, var):
    shape = (-1,) + (1,) * (x.ndim - 2)
    return (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + a["epsilon"]) * scale.reshape(shape) + shift.reshape(shape)


def layernorm(a, x, scale, shift):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + a["epsilon"]) * scale + shift


def softmax(a, x):
    p = np.exp(x - x.max(a["axis"], keepdims=True))
    return p / p.sum(a["axis"], keepdims=True)


def averages(a, x):
    return np.nanmean(windows(x, a, np.nan), (4, 5))


OPERATORS = {
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y,
    "Erf": lambda a, x: np.vectorize(math.erf)(x),
    "Relu": lambda a, x: np.maximum(x, 0),
    "Concat": lambda a, *x: np.concatenate(x, a["axis"]),
    "Reshape": lambda a, x, shape: x.reshape([len(x), *shape[1:].astype(int)]),
    "Shape": lambda a, x: np.array(x.shape),
    "Gather": lambda a, x, at: x[at.astype(int)],
    "Expand": lambda a, x, shape: x * np.ones(shape.astype(int)),
    "Slice": lambda a, x, first, last, axis: x.take(np.arange(int(first[0]), int(last[0])), int(axis[0])),
    "Sum": lambda a, *x: sum(x),
    "Sigmoid": lambda a, x: 1 / (1 + np.exp(-x)),
    "Tanh": lambda a, x: np.tanh(x),
    "Clip": lambda a, x, least, most: np.clip(x, least, most),
    "LeakyRelu": lambda a, x: np.where(x > 0, x, a["alpha"] * x),
    "HardSwish": lambda a, x: x * np.clip(x / 6 + 0.5, 0, 1),
    "HardSigmoid": lambda a, x: np.clip(a["alpha"] * x + a["beta"], 0, 1),
    "Identity": lambda a, x: x,
    "Gemm": lambda a, x, w, b=0: x @ (w.T if a["transB"] else w) + b,
    "MatMul": lambda a, x, y: x @ y,
    "Transpose": lambda a, x: x.transpose(a.get("perm")),
    "Flatten": lambda a, x: x.reshape(len(x), -1),
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdims=True),
    "MaxPool": lambda a, x: windows(x, a, -np.inf).max((4, 5)),
    "AveragePool": averages,
    "Conv": conv,
    "BatchNormalization": batchnorm,
    "LayerNormalization": layernorm,
    "Softmax": softmax,
}


def load(path):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    return model


def facts(model):
    return {p.key: p.value for p in model.metadata_props}


def run(model, x):
    """All outputs by name for raw samples x."""
    values = {t.name: numpy_helper.to_array(t).astype("f8") for t in model.graph.initializer}
    values[model.graph.input[0].name] = x.astype("f8")
    for node in model.graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        values[node.output[0]] = OPERATORS[node.op_type](attributes, *(values[i] for i in node.input))
    return {o.name: values[o.name] for o in model.graph.output}


# A module that stands for ONNX Runtime in the examples of docs/predict.md.
RUNTIME = """import types
import onnx
import onnx_numpy

class InferenceSession:
    def __init__(self, path):
        self.model = onnx_numpy.load(path)
    def get_modelmeta(self):
        return types.SimpleNamespace(custom_metadata_map=onnx_numpy.facts(self.model))
    def run(self, outputs, inputs):
        values = onnx_numpy.run(self.model, inputs["input"])
        return [values["probabilities"], values["logits"]]
"""
