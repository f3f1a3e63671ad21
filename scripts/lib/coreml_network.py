"""A vision tower's pass for one bucket's shape as a Core ML program: src/vision/forward.cpp in MIL operations. Inputs and the
output: docs/tower-format.md, "Core ML packages". How work is cut up for the Neural Engine is a guess that no Mac has confirmed."""
import itertools
import logging

import numpy as np
from tower_weights import Norm

logging.getLogger("coremltools").setLevel(logging.ERROR)  # elsewhere than on a Mac it tells what it cannot load
import coremltools as ct  # noqa: E402
from coremltools.converters.mil import Builder as mb  # noqa: E402

VERSION = f"coremltools {ct.__version__}"
# Scores of so many queries and keys at once, over all heads: 64 MB of 16-bit floats.
MOST_SCORES = 1 << 25


def network_inputs(tower, n_patches):
    """Names and shapes; all are floats."""
    shapes = {"pixels": (n_patches, tower.patch_embed.weight.shape[1])}
    if tower.has_positions:
        shapes["positions"] = (n_patches, tower.width)
    if tower.partner:
        shapes["cosines"] = shapes["sines"] = (n_patches, tower.head_dim)
    windowed = [tower.is_windowed(i) for i in range(tower.n_blocks)]
    if not all(windowed):
        shapes["mask"] = (1, n_patches)
    if any(windowed):
        shapes["windows"] = (n_patches, n_patches)
    return shapes


class Builder:
    def __init__(self, tower, n_patches, inputs):
        self.tower, self.n, self.inputs = tower, n_patches, inputs

    def linear(self, linear, x):
        x = self.bound(x, linear.bounds.get("input_min"), linear.bounds.get("input_max"))
        bias = {} if linear.bias is None else {"bias": linear.bias}
        return self.bound(mb.linear(x=x, weight=linear.weight, **bias), linear.bounds.get("output_min"),
                          linear.bounds.get("output_max"))

    @staticmethod
    def bound(x, least, most):
        if least is not None:
            x = mb.maximum(x=x, y=np.float32(least))
        if most is not None:
            x = mb.minimum(x=x, y=np.float32(most))
        return x

    def norm(self, norm, x):
        return self.rms_norm(norm, x) if self.tower.is_rms else self.layer_norm(norm, x)

    def layer_norm(self, norm, x):
        return mb.layer_norm(x=x, axes=[-1], gamma=norm.weight, beta=norm.bias, epsilon=np.float32(self.tower.eps))

    def rms_norm(self, norm, x):
        """The layer norm of x beside -x, whose mean is 0: no square that 16-bit floats could not hold."""
        n, rank = x.shape[-1], len(x.shape)
        both = mb.concat(values=[x, mb.mul(x=x, y=np.float32(-1))], axis=-1)
        both = mb.layer_norm(x=both, axes=[-1], epsilon=np.float32(self.tower.eps))
        normed = mb.slice_by_size(x=both, begin=[0] * rank, size=[*x.shape[:-1], n])
        return normed if norm.weight is None else mb.mul(x=normed, y=norm.weight)

    def activate(self, x):
        kind = self.tower.activation
        if kind == "gelu_tanh":
            return mb.gelu(x=x, mode="TANH_APPROXIMATION")
        if kind == "silu":
            return mb.silu(x=x)
        return mb.mul(x=x, y=mb.sigmoid(x=mb.mul(x=x, y=np.float32(1.702))))

    def heads(self, x):
        return mb.reshape(x=x, shape=[self.n, self.tower.n_heads, self.tower.head_dim])

    def rotate(self, x):
        """Heads, turned: x * cosines + partner(x) * sines."""
        if not self.tower.partner:
            return x
        runs = []
        for _, run in itertools.groupby(enumerate(self.tower.partner), key=lambda pair: pair[1] - pair[0]):
            run = [partner for _, partner in run]
            runs.append(mb.slice_by_size(x=x, begin=[0, 0, run[0]], size=[self.n, self.tower.n_heads, len(run)]))
        cosines, sines = (mb.expand_dims(x=self.inputs[name], axes=[1]) for name in ("cosines", "sines"))
        return mb.add(x=mb.mul(x=x, y=cosines), y=mb.mul(x=mb.concat(values=runs, axis=-1), y=sines))

    def queries_keys_values(self, block, h):
        if len(block["qkv"]) == 1:
            parts = mb.split(x=self.linear(block["qkv"][0], h), num_splits=3, axis=-1)
        else:
            parts = [self.linear(linear, h) for linear in block["qkv"]]
        q, k, v = (self.heads(part) for part in parts)
        if self.tower.norms_heads:
            q, k, v = (self.rms_norm(norm, part) for norm, part in ((block["q_norm"], q), (block["k_norm"], k), (Norm(), v)))
        q = mb.mul(x=self.rotate(q), y=np.float32(self.tower.scale))
        return [mb.transpose(x=part, perm=[1, 0, 2]) for part in (q, self.rotate(k), v)]

    def attention(self, i, block, x):
        q, k, v = self.queries_keys_values(block, self.norm(block["norm1"], x))
        n_heads, head_dim = self.tower.n_heads, self.tower.head_dim
        is_windowed = self.tower.is_windowed(i)
        step = max(1, min(self.n, MOST_SCORES // (n_heads * self.n)))
        mixed = []
        for begin in range(0, self.n, step):
            rows = min(step, self.n - begin)
            part = mb.slice_by_size(x=q, begin=[0, begin, 0], size=[n_heads, rows, head_dim])
            hidden = self.inputs["windows" if is_windowed else "mask"]
            if is_windowed:
                hidden = mb.slice_by_size(x=hidden, begin=[begin, 0], size=[rows, self.n])
            scores = mb.add(x=mb.matmul(x=part, y=k, transpose_y=True), y=hidden)
            mixed.append(mb.matmul(x=mb.softmax(x=scores, axis=-1), y=v))
        mixed = mixed[0] if len(mixed) == 1 else mb.concat(values=mixed, axis=1)
        mixed = mb.reshape(x=mb.transpose(x=mixed, perm=[1, 0, 2]), shape=[self.n, self.tower.width])
        return self.add_branch(x, self.linear(block["out"], mixed), block["after_attention"])

    def feed_forward(self, block, x):
        h = self.norm(block["norm2"], x)
        up = self.linear(block["up"], h)
        if block["gate"] is None:
            up = self.activate(up)
        else:
            up = mb.mul(x=self.activate(self.linear(block["gate"], h)), y=up)
        x = self.add_branch(x, self.linear(block["down"], up), block["after_ffn"])
        return x if block["scale"] == 1.0 else mb.mul(x=x, y=np.float32(block["scale"]))

    def add_branch(self, x, branch, norm):
        return mb.add(x=x, y=self.norm(norm, branch) if self.tower.norms_branches else branch)

    def side_by_side(self, x):
        """Each token's patches in one row."""
        per_token = self.tower.merge ** 2
        return mb.reshape(x=x, shape=[self.n // per_token, per_token * self.tower.width])

    def merge(self, fc1, fc2, x):
        return self.linear(fc2, mb.gelu(x=self.linear(fc1, x), mode="EXACT"))

    def pool(self, x):
        per_token = self.tower.merge ** 2
        x = mb.reshape(x=x, shape=[self.n // per_token, per_token, self.tower.width])
        x = mb.mul(x=mb.reduce_mean(x=x, axes=[1]), y=np.float32(self.tower.pool_scale))
        if self.tower.pool_bias is not None:
            x = mb.sub(x=x, y=self.tower.pool_bias)
        if self.tower.pool_gain is not None:
            x = mb.mul(x=x, y=self.tower.pool_gain)
        return self.linear(self.tower.fc2, self.rms_norm(self.tower.pool_norm, x))

    def rows(self):
        tower = self.tower
        x = self.linear(tower.patch_embed, self.inputs["pixels"])
        if tower.has_positions:
            x = mb.add(x=x, y=self.inputs["positions"])
        extra = []
        for i, block in enumerate(tower.blocks):
            x = self.feed_forward(block, self.attention(i, block, x))
            if i in tower.deepstack:
                norm, fc1, fc2 = tower.deepstack[i]
                extra.append(self.merge(fc1, fc2, self.norm(norm, self.side_by_side(x))))
        if tower.post_norm is not None:
            x = self.norm(tower.post_norm, x)
        if not tower.is_qwen:
            return mb.identity(x=self.pool(x), name="rows")
        main = self.merge(tower.fc1, tower.fc2, self.side_by_side(x))
        if not extra:
            return mb.identity(x=main, name="rows")
        return mb.concat(values=[main, *extra], axis=-1, name="rows")


def build_package(tower, n_patches, precision, path):
    """Writes the package of one bucket."""
    shapes = network_inputs(tower, n_patches)
    specs = [mb.TensorSpec(shape=shape) for shape in shapes.values()]

    def program(*values):
        return Builder(tower, n_patches, dict(zip(shapes, values))).rows()
    # MIL names a program's inputs by the function's parameters.
    names = ", ".join(shapes)
    named = eval(f"lambda {names}: program({names})", {"program": program})  # names of ours, no text of a file's
    model = ct.convert(mb.program(input_specs=specs, opset_version=ct.target.iOS16)(named), convert_to="mlprogram",
                       compute_precision=ct.precision.FLOAT16 if precision == "float16" else ct.precision.FLOAT32,
                       minimum_deployment_target=ct.target.macOS13, skip_model_load=True)
    model.short_description = f"tempo9 vision tower, {tower.projector_type}, {n_patches} patches"
    model.save(str(path))
