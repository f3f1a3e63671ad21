"""A vision tower's weights.gguf (docs/tower-format.md) as a description that networks are built from: the second reader of
the format, beside src/vision/families. Formulas: the same; where families differ there is a field."""
import dataclasses
import math
import typing

import gguf
import numpy as np


@dataclasses.dataclass
class Norm:
    weight: typing.Optional[np.ndarray] = None
    bias: typing.Optional[np.ndarray] = None


@dataclasses.dataclass
class Linear:
    weight: np.ndarray  # rows, columns
    bias: typing.Optional[np.ndarray] = None
    bounds: dict = dataclasses.field(default_factory=dict)  # input_min, input_max, output_min, output_max


class Tower:
    """`path` is the weights.gguf of a tower that `tempo9 tower export` made and so found sound."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self._fields = {name: field.contents() for name, field in reader.fields.items()}
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.projector_type = self._fields.get("clip.projector_type") or self._fields["clip.vision.projector_type"]
        self.is_qwen = self.projector_type in ("qwen2vl_merger", "qwen2.5vl_merger", "qwen3vl_merger")
        if not self.is_qwen and self.projector_type not in ("gemma3", "gemma4v"):
            raise SystemExit(f"tower-coreml: towers of type {self.projector_type} are not implemented")
        self._read_sizes()
        if self.is_qwen:
            self._read_qwen()
        else:
            self._read_gemma()
        self.blocks = [self._block(f"v.blk.{i}.") for i in range(self.n_blocks)]

    def _key(self, name, fallback=None):
        value = self._fields.get("clip." + name, fallback)
        if value is None:
            raise SystemExit(f"tower-coreml: metadata clip.{name} is missing")
        return value

    def _values(self, name):
        """Floats in numpy's order: the last dimension of the file's first. None when there is no such tensor."""
        tensor = self._tensors.get(name)
        if tensor is None:
            return None
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        return values.reshape([int(n) for n in reversed(tensor.shape)])

    def _norm(self, name):
        return Norm(self._values(name + ".weight"), self._values(name + ".bias"))

    def _linear(self, name):
        weight = self._values(name + ".weight")
        if weight is None:
            return None
        bounds = {b: self._values(f"{name}.{b}") for b in ("input_min", "input_max", "output_min", "output_max")}
        return Linear(weight, self._values(name + ".bias"),
                      {b: float(v.reshape(-1)[0]) for b, v in bounds.items() if v is not None})

    def _read_sizes(self):
        self.patch = self._key("vision.patch_size")
        self.width = self._key("vision.embedding_length")
        self.n_blocks = self._key("vision.block_count")
        self.n_heads = self._key("vision.attention.head_count")
        self.eps = self._key("vision.attention.layer_norm_epsilon")
        self.head_dim = self.width // self.n_heads
        self.scale = 1.0 / math.sqrt(self.head_dim)
        self.patch_embed = Linear(self._values("v.patch_embd.weight").reshape(self.width, -1),
                                  self._values("v.patch_embd.bias"))
        self.has_positions = "v.position_embd.weight" in self._tensors
        self.norms_heads = self.norms_branches = False
        self.is_rms = False
        self.period = 0  # of blocks without windows; 0: none has windows
        self.partner = None  # of each element of a head, that it turns with; none: no rotation
        self.deepstack = {}

    def _read_qwen(self):
        self.merge = self._key("vision.spatial_merge_size", 2)
        self.is_rms = self.projector_type == "qwen2.5vl_merger"
        if self.is_rms:
            self.period = self._key("vision.n_wa_pattern")
        half = self.head_dim // 2
        self.partner = [*range(half, 2 * half), *range(half)]
        gelu, silu = self._key("use_gelu", False), self._key("use_silu", False)
        self.activation = "gelu_tanh" if gelu else "silu" if silu else "gelu_quick"
        self.post_norm = self._norm("v.post_ln")
        self.fc1, self.fc2 = self._linear("mm.0"), self._linear("mm.2")
        flags = self._key("vision.is_deepstack_layers", []) if self.projector_type == "qwen3vl_merger" else []
        for i in (i for i, flag in enumerate(flags) if flag):
            name = f"v.deepstack.{i}."
            self.deepstack[i] = (self._norm(name + "norm"), self._linear(name + "fc1"), self._linear(name + "fc2"))

    def _read_gemma(self):
        is_4 = self.projector_type == "gemma4v"
        self.merge = self._key("vision.projector.scale_factor", 3 if is_4 else 4)
        self.activation = "gelu_tanh"
        self.is_rms = self.norms_heads = self.norms_branches = is_4
        self.pool_scale, self.pool_bias, self.pool_gain = 1.0, None, None
        self.fc2 = self._linear("mm.input_projection")
        if is_4:
            self.scale = 1.0
            quarter = self.head_dim // 4
            self.partner = [begin + (i + quarter) % (2 * quarter) for begin in (0, 2 * quarter) for i in range(2 * quarter)]
            self.pool_scale = math.sqrt(self.width)
            self.pool_bias, self.pool_gain = self._values("v.std_bias"), self._values("v.std_scale")
            self.post_norm, self.pool_norm = None, Norm()
        else:
            self.fc2.weight = np.ascontiguousarray(self.fc2.weight.T)  # stored the other way round
            self.post_norm, self.pool_norm = self._norm("v.post_ln"), self._norm("mm.soft_emb_norm")

    def _block(self, prefix):
        parts = ["attn_qkv"] if prefix + "attn_qkv.weight" in self._tensors else ["attn_q", "attn_k", "attn_v"]
        block = {"norm1": self._norm(prefix + "ln1"), "norm2": self._norm(prefix + "ln2"),
                 "qkv": [self._linear(prefix + part) for part in parts], "out": self._linear(prefix + "attn_out"),
                 "gate": self._linear(prefix + "ffn_gate"), "up": self._linear(prefix + "ffn_up"),
                 "down": self._linear(prefix + "ffn_down"), "q_norm": self._norm(prefix + "attn_q_norm"),
                 "k_norm": self._norm(prefix + "attn_k_norm"), "after_attention": self._norm(prefix + "attn_post_norm"),
                 "after_ffn": self._norm(prefix + "ffn_post_norm"), "scale": 1.0}
        if block["gate"] is None and block["up"].weight.shape[1] != self.width:  # names exchanged in old exports
            block["up"], block["down"] = block["down"], block["up"]
        scale = self._values(prefix + "out_scale.weight")
        if scale is not None:
            block["scale"] = float(scale.reshape(-1)[0])
        return block

    def is_windowed(self, i):
        return self.period > 0 and (i + 1) % self.period != 0

    @property
    def out_width(self):
        return self.fc2.weight.shape[0]

    @property
    def embedding_cols(self):
        return self.out_width * (1 + len(self.deepstack))
