"""What a saved Core ML package says, computed by numpy: the operations that vision towers are made of, no others."""
import logging
import math

import numpy as np

logging.getLogger("coremltools").setLevel(logging.ERROR)  # elsewhere than on a Mac it tells what it cannot load
import coremltools as ct  # noqa: E402
from coremltools.converters.mil.frontend.milproto.load import load as program_of  # noqa: E402


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float32])(x)


def gelu(x, mode):
    if mode == "EXACT":
        return 0.5 * x * (1 + erf(x / math.sqrt(2)))
    assert mode == "TANH_APPROXIMATION", mode
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def layer_norm(x, axes, epsilon, gamma=None, beta=None):
    axes = tuple(int(a) for a in axes)
    x = x - x.mean(axis=axes, keepdims=True)
    x = x / np.sqrt((x * x).mean(axis=axes, keepdims=True) + epsilon)
    x = x if gamma is None else x * gamma
    return x if beta is None else x + beta


def turned(x, is_turned):
    return np.swapaxes(x, -1, -2) if is_turned else x


def slice_by_size(x, begin, size):
    return x[tuple(slice(b, b + s) for b, s in zip(begin, size))]


def slice_by_index(x, begin, end, stride=None, begin_mask=None, end_mask=None, squeeze_mask=None):
    stride = [1] * x.ndim if stride is None else stride
    assert squeeze_mask is None or not np.any(squeeze_mask)
    return x[tuple(slice(None if begin_mask is not None and begin_mask[i] else int(begin[i]),
                         None if end_mask is not None and end_mask[i] else int(end[i]), int(stride[i]))
                   for i in range(x.ndim))]


OPERATIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "maximum": lambda x, y: np.maximum(x, y),
    "minimum": lambda x, y: np.minimum(x, y),
    "clip": lambda x, alpha, beta: np.clip(x, alpha, beta),
    "identity": lambda x: x,
    "cast": lambda x, dtype: x,  # all is computed in 32 bits; weights have the package's own precision
    "linear": lambda x, weight, bias=None: x @ weight.T + (0 if bias is None else bias),
    "matmul": lambda x, y, transpose_x=False, transpose_y=False: turned(x, transpose_x) @ turned(y, transpose_y),
    "layer_norm": layer_norm,
    "softmax": softmax,
    "gelu": gelu,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "reshape": lambda x, shape: x.reshape([int(n) for n in shape]),
    "transpose": lambda x, perm: x.transpose([int(p) for p in perm]),
    "expand_dims": lambda x, axes: np.expand_dims(x, tuple(int(a) for a in axes)),
    "concat": lambda values, axis, interleave=False: np.concatenate(values, axis=int(axis)),
    "split": lambda x, num_splits=None, split_sizes=None, axis=0: np.split(
        x, int(num_splits) if split_sizes is None else np.cumsum(split_sizes)[:-1], axis=int(axis)),
    "reduce_mean": lambda x, axes, keep_dims=False: x.mean(axis=tuple(int(a) for a in axes), keepdims=bool(keep_dims)),
    "slice_by_size": slice_by_size,
    "slice_by_index": slice_by_index,
}


class Package:
    def __init__(self, path):
        model = ct.models.MLModel(str(path), skip_model_load=True)
        self.spec = model.get_spec()
        program = program_of(self.spec, self.spec.specificationVersion, str(model.weights_dir))
        self.function = program.functions["main"]
        self.operations = [op for op in self.function.operations if op.op_type != "const"]

    def inputs(self):
        return {i.name: tuple(i.type.multiArrayType.shape) for i in self.spec.description.input}

    def outputs(self):
        return {o.name: tuple(o.type.multiArrayType.shape) for o in self.spec.description.output}

    def compute(self, arrays):
        values = {name: array.astype(np.float32) for name, array in arrays.items()}

        def value_of(var):
            if isinstance(var, (list, tuple)):
                return [value_of(v) for v in var]
            if var.name in values:
                return values[var.name]
            constant = var.val
            assert constant is not None, var.name
            is_float = getattr(constant, "dtype", None) in (np.float16, np.float32)
            return np.asarray(constant, np.float32) if is_float else constant
        for op in self.operations:
            given = {name: value_of(var) for name, var in op.inputs.items() if var is not None}
            results = OPERATIONS[op.op_type](**given)
            for var, result in zip(op.outputs, results if op.op_type == "split" else [results]):
                values[var.name] = result
        return {name: values[name] for name in self.outputs()}
