"""An ONNX file as a tf.function. Four-dimensional values are kept in TensorFlow's layout NHWC from one convolution to the
next: what `LAYOUT` names works on it; any other op gets its inputs in the layout of the file.
"""
import tensorflow as tf

from graph import Graph

AXIS = {0: 0, 1: 3, 2: 1, 3: 2, -4: 0, -3: 3, -2: 1, -1: 2}
nhwc = set()  # Names of values in that layout.


def to_nhwc(x):
    return x if x in nhwc else f"tf.transpose({x}, [0, 2, 3, 1])"


def to_nchw(x):
    return f"tf.transpose({x}, [0, 3, 1, 2])" if x in nhwc else x


def pads(n):
    if n.attrs.get("auto_pad", "NOTSET") != "NOTSET" or n.attrs.get("ceil_mode"):
        raise NotImplementedError(f"{n.op} with auto_pad or ceil_mode")
    p = n.attrs.get("pads", [0, 0, 0, 0])
    return [[0, 0], [p[0], p[2]], [p[1], p[3]], [0, 0]]


def conv(n, x, w, b=None):
    out, cin, kh, kw = n.input_shapes[1]
    group, stride, pad = n.attrs.get("group", 1), n.attrs.get("strides", [1, 1]), pads(n)
    dilations = n.attrs.get("dilations", [1, 1])
    if group > 1 and (cin != 1 or out != group or stride[0] != stride[1]):
        raise NotImplementedError("Conv in groups that are not single channels")
    if group > 1:  # TensorFlow's takes no padding of its own.
        x = f"tf.pad({x}, {pad})" if any(map(any, pad)) else x
        y = f"tf.nn.depthwise_conv2d({x}, filters({w}, (2, 3, 0, 1)), [1, {stride[0]}, {stride[1]}, 1], 'VALID', dilations={dilations})"
    else:
        y = f"tf.nn.conv2d({x}, filters({w}, (2, 3, 1, 0)), {stride}, {pad if any(map(any, pad)) else 'VALID'!r}, dilations={dilations})"
    return f"tf.nn.bias_add({y}, {b})" if b else y


def max_pool(n, x):
    pad, kernel, stride = pads(n), list(n.attrs["kernel_shape"]), list(n.attrs.get("strides", [1, 1]))
    x = f"tf.pad({x}, {pad}, constant_values=-3.4e38)" if any(map(any, pad)) else x
    return f"tf.nn.max_pool2d({x}, {kernel}, {stride}, 'VALID')"


def gemm(n, a, b, c="0."):
    if n.attrs.get("alpha", 1) != 1 or n.attrs.get("beta", 1) != 1 or n.attrs.get("transA"):
        raise NotImplementedError("Gemm with alpha, beta or transA")
    return f"tf.matmul({a}, {b}, transpose_b={bool(n.attrs.get('transB'))}) + {c}"


def resize(n, x, *_):
    if n.attrs.get("mode", "nearest") != "nearest" or any(b % a for a, b in zip(n.input_shapes[0], n.shape)):
        raise NotImplementedError("Resize that is not nearest by whole factors")
    return f"tf.image.resize({x}, {list(n.shape[2:])}, 'nearest')"


def axis(n, default):
    a = n.attrs.get("axis", default)
    return AXIS[a] if n.layout else a


def split(n, x, *_):
    sizes = n.attrs.get("split") or n.values[1] if len(n.values) > 1 else None
    return f"tf.split({x}, {sizes or len(n.outputs)}, {axis(n, 0)})"


def layer_norm(n, x, g, b="0."):
    axes = list(range(n.attrs.get("axis", -1) % len(n.input_shapes[0]), len(n.input_shapes[0])))
    return f"normalised({x}, {axes}, {n.attrs.get('epsilon', 1e-5)!r}, {g}, {b})"


def normalised(x, axes, epsilon, g, b):
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, b, g, epsilon)


def reduce(kind):
    def rule(n, x, *_):
        axes = n.attrs.get("axes", n.values[1] if len(n.values) > 1 else None)
        return f"tf.reduce_{kind}({x}, {axes}, keepdims={bool(n.attrs.get('keepdims', 1))})"
    return rule


TYPES = {1: "float32", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64"}
LAYOUT = {
    "Add": "{0} + {1}", "Sub": "{0} - {1}", "Mul": "{0} * {1}", "Div": "{0} / {1}", "Relu": "tf.nn.relu({0})",
    "Sigmoid": "tf.sigmoid({0})", "Silu": "tf.nn.silu({0})", "Tanh": "tf.tanh({0})", "Identity": "{0}",
    "Clip": lambda n, x, *_: f"tf.nn.relu6({x})" if n.values[1:] == [0.0, 6.0] else f"tf.clip_by_value({x}, {n.values[1]}, {n.values[2]})",
    "GlobalAveragePool": "tf.reduce_mean({0}, [1, 2], keepdims=True)",
    "Concat": lambda n, *x: f"tf.concat([{', '.join(x)}], {axis(n, 0)})",
    "Conv": conv, "MaxPool": max_pool, "Resize": resize, "Split": split,
}
PLAIN = {
    "MatMul": "tf.matmul({0}, {1})", "Linear": "tf.matmul({0}, {1}, transpose_b=True) + {2}", "Neg": "-{0}",
    "Erf": "tf.math.erf({0})", "Exp": "tf.exp({0})", "Log": "tf.math.log({0})", "Sqrt": "tf.sqrt({0})", "Pow": "tf.pow({0}, {1})",
    "Abs": "tf.abs({0})", "Where": "tf.where({0}, {1}, {2})",
    "Gelu": lambda n, x: f"tf.nn.gelu({x}, approximate={n.attrs.get('approximate', 'none') == 'tanh'})",
    "Softmax": lambda n, x: f"tf.nn.softmax({x}, {n.attrs.get('axis', -1)})",
    "Cast": lambda n, x: f"tf.cast({x}, tf.{TYPES[n.attrs['to']]})",
    "Transpose": lambda n, x: f"tf.transpose({x}, {list(n.attrs['perm'])})",
    "Gather": lambda n, x, i: f"tf.gather({x}, {i}, axis={n.attrs.get('axis', 0)})",
    "Expand": lambda n, x, *_: f"tf.broadcast_to({x}, {list(n.shape)})",
    "ReduceMean": reduce("mean"), "ReduceSum": reduce("sum"), "ReduceMax": reduce("max"), "ReduceMin": reduce("min"),
    "LayerNormalization": layer_norm, "Gemm": gemm,
}
for op in ("Reshape", "Flatten", "Squeeze", "Unsqueeze"):
    PLAIN[op] = lambda n, x, *_: f"tf.reshape({x}, {list(n.shape)})"
OPENS = ("Conv", "MaxPool", "Resize", "GlobalAveragePool")  # Always in the layout; the rest of LAYOUT if an input is.


def rule(n, *x):
    """Chooses the layout of a node, and brings its inputs there."""
    data = [k for k, s in enumerate(n.input_shapes) if s is not None and len(s) == 4 and not (n.op == "Conv" and k)]
    n.layout = n.op in OPENS or n.op in LAYOUT and any(x[k] in nhwc for k in data)
    if n.layout and not all(k in data or n.input_shapes[k] in ((), (1,), None) or n.op in ("Conv", "Split", "Resize", "Clip")
                            for k in range(len(x))):
        n.layout = False
    x = [v if k not in data else to_nhwc(v) if n.layout else to_nchw(v) for k, v in enumerate(x)]
    if n.layout:
        nhwc.update(n.names)
    how = LAYOUT.get(n.op) or PLAIN[n.op]
    return how.format(*x) if isinstance(how, str) else how(n, *x)


def filters(w, order):
    with tf.init_scope():  # Once, not in each run.
        return tf.constant(w.numpy().transpose(order))


def function(path, inputs):
    graph = Graph(path, inputs)
    graph.recognise(("Linear", "Silu"))
    text, constants = graph.source(dict.fromkeys([*LAYOUT, *PLAIN], rule), to_nchw)
    space = {"tf": tf, "normalised": normalised, "filters": filters}
    exec(text, space)
    holder = type("Constants", (), {k: tf.constant(v) for k, v in constants.items()})()
    return tf.function(lambda *x: space["forward"](holder, *x))
