#!/usr/bin/env python3
"""Runs real ONNX models with `rlx run` and compares every output with onnxruntime.

usage: onnx_models.py RLX [--device D] [--data FOLDER] [MODEL...]

The folder of models is --data, else $RLX_DATA, else ../shared/data beside the repository; without it
nothing is checked and the last line says so. mnist_cntk is also scored on all 10,000 test images.
The allowed error is graphTolerance() of src/ops/tolerance.cc: with the depth of the graph and its
longest contraction, relative to the largest magnitude of the output. Integers may differ by one:
where a value is rounded, an error below the tolerance may step over a half. The last line is
`N passed, N failed`; the exit status is 1 when anything failed.
"""

import argparse
import gzip
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

# name: (file, cut, shapes of the inputs, high end of the values). A cut names the values between
# which the model is taken, for files whose ends decode and encode images.
CASES = {
    "mnist_cntk": ("mnist_cntk.onnx", None, {}, 255),
    "rten_mnist": ("rten_mnist.onnx", None, {}, 1),
    "FastestDet": ("FastestDet.onnx", None, {}, 1),
    "ultraface_slim320": ("ultraface_slim320.onnx", None, {}, 1),
    "magika_standard_v3_3": ("magika_standard_v3_3.onnx", None, {"bytes": [3, 2048]}, 256),
    "superres_net": (
        "superres_ortext_op18.onnx",
        (["_ppp5_expanded"], ["output"], {"_ppp5_expanded": ["n", 1, "h", "w"]}),
        {"_ppp5_expanded": [2, 1, 40, 56]},
        1,
    ),
    # In two parts: a pixel that the first rounds the other way would move many of the second.
    "superres_resize": (
        "superres_ortext_op18.onnx",
        (["_ppp0_bgr_data"], ["_ppp1_resized"], {"_ppp0_bgr_data": [300, 420, 3]}),
        {"_ppp0_bgr_data": [300, 420, 3]},
        256,
    ),
    "superres_rest": (
        "superres_ortext_op18.onnx",
        (["_ppp1_resized"], ["_ppp12_bgr_data"], {"_ppp1_resized": [1, 224, 313, 3]}),
        {"_ppp1_resized": [1, 224, 313, 3]},
        256,
    ),
}

DTYPES = {
    onnx.TensorProto.FLOAT: np.float32,
    onnx.TensorProto.UINT8: np.uint8,
    onnx.TensorProto.INT32: np.int32,
    onnx.TensorProto.INT64: np.int64,
}


def load(path, cut):
    """The model, or the part between the values of the cut."""
    model = onnx.load(path)
    if cut is None:
        return model
    inputs, outputs, shapes = cut
    made = {name: node for node in model.graph.node for name in node.output}
    needed, work = [], list(outputs)
    while work:
        name = work.pop()
        node = made.get(name)
        if name in inputs or node is None or node in needed:
            continue
        needed.append(node)
        work.extend(node.input)
    nodes = [n for n in model.graph.node if n in needed]
    for n in nodes:  # the standard asks for it since opset 18, and onnxruntime insists
        if n.op_type == "Split" and len(n.input) < 2 and not any(
            a.name == "num_outputs" for a in n.attribute
        ):
            n.attribute.append(onnx.helper.make_attribute("num_outputs", len(n.output)))
    used = {name for n in nodes for name in n.input}
    def value(name, shape):
        pixels = name.endswith(("_bgr_data", "_resized"))
        element = onnx.TensorProto.UINT8 if pixels else onnx.TensorProto.FLOAT
        return onnx.helper.make_tensor_value_info(name, element, shape)

    graph = onnx.helper.make_graph(
        nodes,
        "cut",
        [value(n, shapes[n]) for n in inputs],
        [value(n, None) for n in outputs],
        [t for t in model.graph.initializer if t.name in used],
    )
    opsets = [o for o in model.opset_import if o.domain in ("", "ai.onnx")]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version)


def make_inputs(model, shapes, high):
    rng = np.random.default_rng(7)
    weights = {t.name for t in model.graph.initializer}
    out = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        kind = value.type.tensor_type
        shape = shapes.get(value.name) or [d.dim_value for d in kind.shape.dim]
        data = rng.random(shape) * high
        out[value.name] = data.astype(DTYPES[kind.elem_type])
    return out


def tolerance(model):
    """graphTolerance(f32, depth, length) of src/ops/tolerance.cc."""
    unit, cap = 2.0**-23, 1e-3
    length = 1
    for t in model.graph.initializer:
        if len(t.dims) >= 2:
            length = max(length, math.prod(t.dims) // max(t.dims[0], 1))
    root = math.sqrt(max(len(model.graph.node), 1)) * math.sqrt(length)
    return 16 * unit, min(2 * root * unit, cap)


def difference(got, want, allowed):
    """Empty when they agree; the worst error relative to what is allowed otherwise."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if want.dtype.kind in "iub":
        worst = int(np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0))
        return f"integers differ by {worst}" if worst > 1 else ""
    relative, absolute = allowed
    scale = float(np.abs(want[np.isfinite(want)]).max(initial=0))
    bound = relative * np.abs(want) + absolute * scale
    error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    worst = float((error / np.maximum(bound, 1e-300)).max(initial=0))
    if np.isnan(worst) or worst > 1:
        return f"largest error {float(error.max()):.3g}, {worst:.1f} times what is allowed"
    return ""


def run_rlx(rlx, device, path, inputs, folder):
    arguments = [rlx, "run", str(path), "--device", device, "--output-dir", str(folder / "out")]
    for k, (name, value) in enumerate(inputs.items()):
        np.save(folder / f"in{k}.npy", value)
        arguments += ["--input", f"{name}={folder / f'in{k}.npy'}"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[0] if done.stderr else "no message")


def check(rlx, device, data, name):
    file, cut, shapes, high = CASES[name]
    model = load(data / "models" / file, cut)
    inputs = make_inputs(model, shapes, high)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    wanted = session.run(None, inputs)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        path = data / "models" / file
        if cut is not None:
            path = folder / "cut.onnx"
            onnx.save(model, path)
        run_rlx(rlx, device, path, inputs, folder)
        allowed = tolerance(model)
        for output, want in zip(session.get_outputs(), wanted):
            got = np.load(folder / "out" / f"{output.name.replace('/', '_')}.npy")
            if why := difference(got, want, allowed):
                return f"output '{output.name}': {why}"
    return ""


def idx(path):
    raw = gzip.decompress(path.read_bytes())
    rank = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * k : 8 + 4 * k], "big") for k in range(rank)]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


def score_mnist(rlx, device, data):
    """mnist_cntk on the test images with pixels 0 to 255: at least 98.90 %."""
    images = idx(data / "mnist" / "t10k-images-idx3-ubyte.gz").astype(np.float32)
    labels = idx(data / "mnist" / "t10k-labels-idx1-ubyte.gz")
    model = onnx.load(data / "models" / "mnist_cntk.onnx")
    # The file fixes the batch at one, also in the shape that a Reshape asks for.
    weights = {t.name for t in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in weights:
            name = value.name
            value.type.tensor_type.shape.dim[0].dim_param = "n"
    for t in model.graph.initializer:
        array = onnx.numpy_helper.to_array(t)
        if array.dtype == np.int64 and array.tolist() == [1, 256]:
            t.CopyFrom(onnx.numpy_helper.from_array(np.array([-1, 256]), t.name))
    output = model.graph.output[0]
    output.type.tensor_type.shape.dim[0].dim_param = "n"
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        onnx.save(model, folder / "batched.onnx")
        inputs = {name: images.reshape(-1, 1, 28, 28)}
        run_rlx(rlx, device, folder / "batched.onnx", inputs, folder)
        scores = np.load(folder / "out" / f"{output.name}.npy")
    right = float((scores.argmax(axis=1) == labels).mean()) * 100
    print(f"mnist_cntk: {right:.2f} % of {len(labels)} test images")
    return "" if right >= 98.9 else f"{right:.2f} %, expected at least 98.90 %"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rlx")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data")
    parser.add_argument("models", nargs="*", default=[])
    arguments = parser.parse_args()
    data = pathlib.Path(
        arguments.data or os.environ.get("RLX_DATA") or REPOSITORY.parent / "shared" / "data"
    )
    if not (data / "models").is_dir():
        print("0 passed, 0 failed (no models: set RLX_DATA)")
        return 0
    checks = {n: lambda n=n: check(arguments.rlx, arguments.device, data, n) for n in CASES}
    checks["mnist_score"] = lambda: score_mnist(arguments.rlx, arguments.device, data)
    failed = 0
    names = arguments.models or list(checks)
    for name in names:
        try:
            why = checks[name]()
        except RuntimeError as error:
            why = str(error)
        print(f"{name}: {why or 'ok'}")
        failed += bool(why)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
