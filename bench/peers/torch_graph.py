"""An ONNX file as a torch module of straight-line calls, convolutions in torch's channels_last layout."""
import torch
import torch.nn.functional as F

from graph import Graph


def axes(n, k=1):
    return n.attrs.get("axes", n.values[k] if len(n.values) > k else None)


def padded(n, x, value):
    """The padding that torch's own argument cannot say, and what is left of it for the argument."""
    pads = n.attrs.get("pads", [0, 0, 0, 0])
    if n.attrs.get("auto_pad", "NOTSET") != "NOTSET" or n.attrs.get("ceil_mode"):
        raise NotImplementedError(f"{n.op} with auto_pad or ceil_mode")
    if pads[:2] == pads[2:]:
        return x, tuple(pads[:2])
    return f"F.pad({x}, ({pads[1]}, {pads[3]}, {pads[0]}, {pads[2]}), value={value})", (0, 0)


def conv(n, x, w, b="None"):
    if len(n.input_shapes[1]) != 4:
        raise NotImplementedError("Conv that is not 2-D")
    x, pad = padded(n, x, 0)
    a = n.attrs
    return f"F.conv2d({x}, {w}, {b}, {tuple(a.get('strides', (1, 1)))}, {pad}, {tuple(a.get('dilations', (1, 1)))}, {a.get('group', 1)})"


def max_pool(n, x):
    x, pad = padded(n, x, "float('-inf')")
    return f"F.max_pool2d({x}, {tuple(n.attrs['kernel_shape'])}, {tuple(n.attrs.get('strides', (1, 1)))}, {pad})"


def average_pool(n, x):
    x, pad = padded(n, x, 0)
    return (f"F.avg_pool2d({x}, {tuple(n.attrs['kernel_shape'])}, {tuple(n.attrs.get('strides', (1, 1)))}, {pad}, "
            f"count_include_pad={bool(n.attrs.get('count_include_pad', 0))})")


def gather(n, x, i):
    axis = n.attrs.get("axis", 0)
    if isinstance(n.values[1], int):
        return f"{x}.select({axis}, {n.values[1]})"
    if axis == 0 and len(n.input_shapes[0]) == 2:
        return f"F.embedding({i}, {x})"
    return f"{x}.index_select({axis}, {i}.flatten()).reshape({n.shape})"


def gemm(n, a, b, c="None"):
    if n.attrs.get("alpha", 1) != 1 or n.attrs.get("beta", 1) != 1 or n.attrs.get("transA"):
        raise NotImplementedError("Gemm with alpha, beta or transA")
    return f"F.linear({a}, {b if n.attrs.get('transB') else b + '.T'}, {c})"


def resize(n, x, *_):
    if n.attrs.get("mode", "nearest") != "nearest" or any(b % a for a, b in zip(n.input_shapes[0], n.shape)):
        raise NotImplementedError("Resize that is not nearest by whole factors")
    return f"F.interpolate({x}, size={n.shape[2:]}, mode='nearest')"


def slice_(n, x, *_):
    start, end = n.values[1:3]
    along = n.values[3] if len(n.values) > 3 else range(len(start))
    step = n.values[4] if len(n.values) > 4 else [1] * len(start)
    if min(step) < 1:
        raise NotImplementedError("Slice backwards")
    index = ["slice(None)"] * len(n.input_shapes[0])
    for k, a in enumerate(along):
        index[a] = f"slice({start[k]}, {end[k]}, {step[k]})"
    return f"{x}[{', '.join(index)}]"


def split(n, x, *_):
    axis = n.attrs.get("axis", 0)
    sizes = n.attrs.get("split") or (n.values[1] if len(n.values) > 1 else None)
    return f"torch.split({x}, {sizes or n.input_shapes[0][axis] // len(n.outputs)}, {axis})"


def clip(n, x, low="None", high="None"):
    limits = [v if v is None else float(v) for v in (n.values + [None, None])[1:3]]
    return f"F.hardtanh({x}, {limits[0]}, {limits[1]})" if None not in limits else f"torch.clamp({x}, {low}, {high})"


def reduce(kind):
    def rule(n, x, *_):
        dims = axes(n)
        return f"torch.{kind}({x}, {tuple(range(len(n.input_shapes[0])) if dims is None else dims)}, {bool(n.attrs.get('keepdims', 1))})"
    return rule


TYPES = {1: "float32", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64"}
TABLE = {
    "Add": "{0} + {1}", "Sub": "{0} - {1}", "Mul": "{0} * {1}", "Div": "{0} / {1}", "Pow": "{0} ** {1}", "Neg": "-{0}",
    "MatMul": "{0} @ {1}", "Linear": "F.linear({0}, {1}, {2})", "Relu": "F.relu({0})", "Silu": "F.silu({0})",
    "Sigmoid": "torch.sigmoid({0})", "Tanh": "torch.tanh({0})", "Erf": "torch.erf({0})", "Exp": "torch.exp({0})",
    "Log": "torch.log({0})", "Sqrt": "torch.sqrt({0})", "Abs": "torch.abs({0})", "Identity": "{0}",
    "HardSwish": "F.hardswish({0})", "Where": "torch.where({0}, {1}, {2})", "GlobalAveragePool": "F.adaptive_avg_pool2d({0}, 1)",
    "Attention": lambda n, q, k, v, m: f"F.scaled_dot_product_attention({q}, {k}, {v}, attn_mask={m}, scale={n.attrs['scale']!r})",
    "Gelu": lambda n, x: f"F.gelu({x}, approximate={n.attrs.get('approximate', 'none')!r})",
    "LeakyRelu": lambda n, x: f"F.leaky_relu({x}, {n.attrs.get('alpha', 0.01)!r})",
    "HardSigmoid": lambda n, x: f"torch.clamp({x} * {n.attrs.get('alpha', 0.2)!r} + {n.attrs.get('beta', 0.5)!r}, 0, 1)",
    "Softmax": lambda n, x: f"torch.softmax({x}, {n.attrs.get('axis', -1)})",
    "LayerNormalization": lambda n, x, g, b="None":
        f"F.layer_norm({x}, {n.input_shapes[0][n.attrs.get('axis', -1):]}, {g}, {b}, {n.attrs.get('epsilon', 1e-5)!r})",
    "BatchNormalization": lambda n, x, g, b, m, v: f"F.batch_norm({x}, {m}, {v}, {g}, {b}, eps={n.attrs.get('epsilon', 1e-5)!r})",
    "Cast": lambda n, x: f"{x}.to(torch.{TYPES[n.attrs['to']]})",
    "Concat": lambda n, *x: f"torch.cat([{', '.join(x)}], {n.attrs['axis']})",
    "Transpose": lambda n, x: f"{x}.permute({tuple(n.attrs['perm'])})",
    "Expand": lambda n, x, *_: f"{x}.expand({n.shape})",
    "ReduceMean": reduce("mean"), "ReduceSum": reduce("sum"), "ReduceMax": reduce("amax"), "ReduceMin": reduce("amin"),
    "Conv": conv, "MaxPool": max_pool, "AveragePool": average_pool, "Gather": gather, "Gemm": gemm, "Resize": resize,
    "Slice": slice_, "Split": split, "Clip": clip,
}
for op in ("Reshape", "Flatten", "Squeeze", "Unsqueeze"):
    TABLE[op] = lambda n, x, *_: f"{x}.reshape({n.shape})"


def module(path, inputs):
    graph = Graph(path, inputs)
    graph.recognise(("Linear", "Silu", "Attention"))
    text, constants = graph.source(TABLE)
    space = {"torch": torch, "F": F}
    exec(text, space)
    result = type("Graph", (torch.nn.Module,), {"forward": space["forward"]})()
    for name, value in constants.items():
        t = torch.tensor(value)
        result.register_buffer(name, t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t)
    return result.eval()
