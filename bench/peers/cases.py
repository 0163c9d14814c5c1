"""The cases of micro: each op as a small ONNX graph, and written directly for NumPy and torch."""
import dataclasses
import typing

import numpy as np


@dataclasses.dataclass
class Case:
    shapes: dict  # Inputs, of `dtype`: name -> shape. (shape, limit) makes int64 below it, (shape, dtype) all its values.
    nodes: list  # (op, inputs, attributes): the result of node k is "t<k>"; the last one is the output.
    numpy: typing.Callable  # Takes the inputs, then the constants.
    torch: typing.Callable  # Takes torch, torch.nn.functional, the inputs, the constants.
    flops: float = 0  # Set for what computation limits; what memory limits is rated by bytes.
    constants: dict = dataclasses.field(default_factory=dict)
    touched: int | None = None  # Bytes read and written where they are not those of inputs, constants and output.
    dtype: type = np.float32  # Of the inputs that are floats, and of the output.

    def inputs(self):
        rng = np.random.default_rng(2)
        return {k: rng.normal(size=s).astype(self.dtype) if not isinstance(s[0], tuple) else
                rng.integers(0, s[1], s[0]) if isinstance(s[1], int) else integers(rng, *s)
                for k, s in self.shapes.items()}

    @property
    def bytes(self):
        if self.touched:
            return self.touched
        values = [*self.inputs().values(), *self.constants.values()]
        return sum(v.nbytes for v in values) + self.numpy(*values).nbytes

    def save(self, path):
        from onnx import TensorProto, helper, numpy_helper, save
        values = self.inputs()
        nodes = [helper.make_node(op, inputs, [f"t{k}"], **attrs) for k, (op, inputs, attrs) in enumerate(self.nodes)]
        kinds = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE,
                 np.dtype(np.int64): TensorProto.INT64, np.dtype(np.int32): TensorProto.INT32,
                 np.dtype(np.uint8): TensorProto.UINT8}
        ports = [helper.make_tensor_value_info(k, kinds[v.dtype], v.shape) for k, v in values.items()]
        out = self.numpy(*values.values(), *self.constants.values())
        graph = helper.make_graph(nodes, "case", ports,
                                  [helper.make_tensor_value_info(f"t{len(nodes) - 1}", kinds[out.dtype], out.shape)],
                                  [numpy_helper.from_array(v, k) for k, v in self.constants.items()])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


def integers(rng, shape, dtype):
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def softmax(x):
    y = np.exp(x - x.max(-1, keepdims=True))
    return y / y.sum(-1, keepdims=True)


def layer_norm(x, g, b):
    y = x - x.mean(-1, keepdims=True)
    return y / np.sqrt((y * y).mean(-1, keepdims=True) + np.float32(1e-5)) * g + b


def gelu(x):
    from scipy.special import erf  # NumPy has none.
    return x * np.float32(0.5) * (1 + erf(x * np.float32(0.5 ** 0.5)))


def conv3x3(x, w, b):
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x[0], ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))
    columns = windows.transpose(0, 3, 4, 1, 2).reshape(-1, x.shape[2] * x.shape[3])
    return (w.reshape(len(w), -1) @ columns + b[:, None]).reshape(1, len(w), *x.shape[2:])


def reduce(shape, axis):
    return Case({"x": shape}, [("ReduceSum", ["x", "axes"], {"keepdims": 0})], lambda x, a: x.sum(axis),
                lambda torch, F, x, a: x.sum(axis), constants={"axes": np.array([axis], np.int64)})


def matmul(n, dtype=np.float32):
    return Case({"a": (n, n), "b": (n, n)}, [("MatMul", ["a", "b"], {})], np.matmul, lambda torch, F, a, b: a @ b, 2.0 * n ** 3,
                dtype=dtype)


def matmul_integer(n):
    # NumPy and torch have no product of u8 by i8; in float32 the sums are exact up to 2^24.
    assert n * 255 * 128 <= 2 ** 24
    return Case({"a": ((n, n), np.uint8)}, [("MatMulInteger", ["a", "b"], {})],
                lambda a, b: (a.astype(np.float32) @ b.astype(np.float32)).astype(np.int32),
                lambda torch, F, a, b: (a.float() @ b.float()).int(), 2.0 * n ** 3,
                {"b": integers(np.random.default_rng(1), (n, n), np.int8)})


def weights(*shape):
    return np.random.default_rng(1).normal(0, np.prod(shape[1:]) ** -0.5, shape).astype(np.float32)


HEADS = (1, 12, 512, 64)
CASES = {
    "add": Case({"a": (1024, 1024), "b": (1024, 1024)}, [("Add", ["a", "b"], {})], np.add, lambda torch, F, a, b: a + b),
    "mul_broadcast": Case({"a": (64, 1, 512), "b": (64, 128, 512)}, [("Mul", ["a", "b"], {})], np.multiply,
                          lambda torch, F, a, b: a * b),
    "gelu": Case({"x": (1024, 1024)}, [("Gelu", ["x"], {})], gelu, lambda torch, F, x: F.gelu(x)),
    "softmax": Case({"x": (2048, 512)}, [("Softmax", ["x"], {"axis": -1})], softmax, lambda torch, F, x: torch.softmax(x, -1)),
    "layer_norm": Case({"x": (1365, 768)}, [("LayerNormalization", ["x", "g", "b"], {"axis": -1, "epsilon": 1e-5})], layer_norm,
                       lambda torch, F, x, g, b: F.layer_norm(x, (768,), g, b),
                       constants={"g": weights(768) + 1, "b": weights(768)}),
    "transpose": Case({"x": (1024, 1024)}, [("Transpose", ["x"], {"perm": [1, 0]})], lambda x: np.ascontiguousarray(x.T),
                      lambda torch, F, x: x.T.contiguous()),
    "sum_first": reduce((1024, 1024), 0),
    "sum_middle": reduce((64, 256, 256), 1),
    "sum_last": reduce((1024, 1024), 1),
    "gather_rows": Case({"rows": ((4096,), 30000)}, [("Gather", ["table", "rows"], {"axis": 0})], lambda i, table: table[i],
                        lambda torch, F, i, table: F.embedding(i, table), constants={"table": weights(30000, 384)},
                        touched=4096 * (384 * 4 * 2 + 8)),
    "matmul_512": matmul(512),
    "matmul_1024": matmul(1024),
    "matmul_512_f64": matmul(512, np.float64),
    "matmul_integer_512": matmul_integer(512),
    "attention": Case({"q": HEADS, "k": HEADS, "v": HEADS},
                      [("Transpose", ["k"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["q", "t0"], {}), ("Mul", ["t1", "scale"], {}),
                       ("Softmax", ["t2"], {"axis": -1}), ("MatMul", ["t3", "v"], {})],
                      lambda q, k, v, s: softmax(q @ k.swapaxes(-1, -2) * s) @ v,
                      lambda torch, F, q, k, v, s: F.scaled_dot_product_attention(q, k, v), 4.0 * 12 * 512 * 512 * 64,
                      {"scale": np.array(0.125, np.float32)}),
    "conv3x3": Case({"x": (1, 64, 56, 56)}, [("Conv", ["x", "w", "b"], {"pads": [1] * 4, "kernel_shape": [3, 3]})], conv3x3,
                    lambda torch, F, x, w, b: F.conv2d(x, w, b, padding=1), 2.0 * 64 * 64 * 9 * 56 * 56,
                    {"w": weights(64, 64, 3, 3), "b": weights(64)}),
}
