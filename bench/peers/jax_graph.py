"""An ONNX file as a function of jax.numpy, to be compiled by jax.jit."""
import jax
import jax.numpy as jnp

from graph import Graph


def pads(n):
    if n.attrs.get("auto_pad", "NOTSET") != "NOTSET" or n.attrs.get("ceil_mode"):
        raise NotImplementedError(f"{n.op} with auto_pad or ceil_mode")
    p = n.attrs.get("pads", [0, 0, 0, 0])
    return [(p[0], p[2]), (p[1], p[3])]


def conv(n, x, w, b=None):
    if len(n.input_shapes[1]) != 4:
        raise NotImplementedError("Conv that is not 2-D")
    a = n.attrs
    y = (f"jax.lax.conv_general_dilated({x}, {w}, {a.get('strides', [1, 1])}, {pads(n)}, "
         f"rhs_dilation={a.get('dilations', [1, 1])}, feature_group_count={a.get('group', 1)})")
    return f"{y} + {b}[:, None, None]" if b else y


def max_pool(n, x):
    kernel, stride = (1, 1, *n.attrs["kernel_shape"]), (1, 1, *n.attrs.get("strides", (1, 1)))
    return f"jax.lax.reduce_window({x}, -jnp.inf, jax.lax.max, {kernel}, {stride}, {[(0, 0), (0, 0), *pads(n)]})"


def gemm(n, a, b, c="0"):
    if n.attrs.get("alpha", 1) != 1 or n.attrs.get("beta", 1) != 1 or n.attrs.get("transA"):
        raise NotImplementedError("Gemm with alpha, beta or transA")
    return f"{a} @ {b}{'.T' if n.attrs.get('transB') else ''} + {c}"


def resize(n, x, *_):
    factors = [b // a for a, b in zip(n.input_shapes[0], n.shape)]
    if n.attrs.get("mode", "nearest") != "nearest" or any(b % a for a, b in zip(n.input_shapes[0], n.shape)):
        raise NotImplementedError("Resize that is not nearest by whole factors")
    return x + "".join(f".repeat({f}, {k})" for k, f in enumerate(factors) if f > 1)


def slice_(n, x, *_):
    start, end = n.values[1:3]
    along = n.values[3] if len(n.values) > 3 else range(len(start))
    step = n.values[4] if len(n.values) > 4 else [1] * len(start)
    index = ["slice(None)"] * len(n.input_shapes[0])
    for k, a in enumerate(along):
        index[a] = f"slice({start[k]}, {end[k]}, {step[k]})"
    return f"{x}[{', '.join(index)}]"


def split(n, x, *_):
    axis = n.attrs.get("axis", 0)
    sizes = n.attrs.get("split") or n.values[1] if len(n.values) > 1 else None
    ends = [sum(sizes[:k + 1]) for k in range(len(sizes) - 1)] if sizes else len(n.outputs)
    return f"jnp.split({x}, {ends}, {axis})"


def layer_norm(n, x, g, b="0"):
    axes = tuple(range(n.attrs.get("axis", -1) % len(n.input_shapes[0]), len(n.input_shapes[0])))
    return f"normalised({x}, {axes}, {n.attrs.get('epsilon', 1e-5)!r}) * {g} + {b}"


def normalised(x, axes, epsilon):
    return (x - x.mean(axes, keepdims=True)) * jax.lax.rsqrt(x.var(axes, keepdims=True) + epsilon)


def reduce(kind):
    def rule(n, x, *_):
        axes = n.attrs.get("axes", n.values[1] if len(n.values) > 1 else None)
        return f"{x}.{kind}({tuple(axes) if axes else None}, keepdims={bool(n.attrs.get('keepdims', 1))})"
    return rule


TYPES = {1: "float32", 6: "int32", 7: "int32", 9: "bool_", 10: "float16"}
TABLE = {
    "Add": "{0} + {1}", "Sub": "{0} - {1}", "Mul": "{0} * {1}", "Div": "{0} / {1}", "Pow": "{0} ** {1}", "Neg": "-{0}",
    "MatMul": "{0} @ {1}", "Relu": "jax.nn.relu({0})", "Sigmoid": "jax.nn.sigmoid({0})", "Tanh": "jnp.tanh({0})",
    "Erf": "jax.lax.erf({0})", "Exp": "jnp.exp({0})", "Log": "jnp.log({0})", "Sqrt": "jnp.sqrt({0})", "Abs": "jnp.abs({0})",
    "Identity": "{0}", "Where": "jnp.where({0}, {1}, {2})", "Clip": "jnp.clip({0}, {1}, {2})",
    "GlobalAveragePool": "{0}.mean((2, 3), keepdims=True)",
    "Gelu": lambda n, x: f"jax.nn.gelu({x}, approximate={n.attrs.get('approximate', 'none') == 'tanh'})",
    "Softmax": lambda n, x: f"jax.nn.softmax({x}, {n.attrs.get('axis', -1)})",
    "Cast": lambda n, x: f"{x}.astype(jnp.{TYPES[n.attrs['to']]})",
    "Concat": lambda n, *x: f"jnp.concatenate([{', '.join(x)}], {n.attrs['axis']})",
    "Transpose": lambda n, x: f"{x}.transpose({tuple(n.attrs['perm'])})",
    "Gather": lambda n, x, i: f"{x}.take({i}, {n.attrs.get('axis', 0)}, mode='clip')",
    "Expand": lambda n, x, *_: f"jnp.broadcast_to({x}, {n.shape})",
    "ReduceMean": reduce("mean"), "ReduceSum": reduce("sum"), "ReduceMax": reduce("max"), "ReduceMin": reduce("min"),
    "LayerNormalization": layer_norm, "Conv": conv, "MaxPool": max_pool, "Gemm": gemm, "Resize": resize, "Slice": slice_,
    "Split": split,
}
for op in ("Reshape", "Flatten", "Squeeze", "Unsqueeze"):
    TABLE[op] = lambda n, x, *_: f"{x}.reshape({n.shape})"


def function(path, inputs):
    text, constants = Graph(path, inputs).source(TABLE)
    space = {"jax": jax, "jnp": jnp, "normalised": normalised}
    exec(text, space)
    names = {k: jnp.asarray(v) for k, v in constants.items()}
    holder = type("Constants", (), names)()
    return jax.jit(lambda *x: space["forward"](holder, *x))
