"""The process of one peer: holds a model, answers lines of JSON on stdin. See common.py.

load {model, inputs, threads, case}   outputs {folder} -> count, files 0.npy, 1.npy ...   time {warmup, iterations} -> ms
A loader returns run, which computes the outputs once, and the function that turns them into arrays.
Python's call of a peer takes microseconds and is part of its time.
"""
import gc
import json
import os
import shutil
import sys
import tempfile
import time

import numpy as np


def onnxruntime(model, inputs, threads, case):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs), list


def openvino(model, inputs, threads, case):
    import openvino as ov
    core = ov.Core()
    graph = core.read_model(model)
    graph.reshape({k: list(v.shape) for k, v in inputs.items()})
    request = core.compile_model(graph, "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(threads),
        "INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    return lambda: request.infer(inputs, share_inputs=True, share_outputs=True), lambda out: list(out.values())


def torch(model, inputs, threads, case, compiled=False):
    import torch
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    torch.inference_mode().__enter__()
    values = [torch.from_numpy(v) for v in inputs.values()]
    if case:
        import cases
        constants = [torch.from_numpy(v) for v in cases.CASES[case].constants.values()]
        f = cases.CASES[case].torch

        def forward(*x):
            return f(torch, torch.nn.functional, *x, *constants)
    else:
        import torch_graph
        forward = torch_graph.module(model, inputs)
        values = [v.contiguous(memory_format=torch.channels_last) if v.dim() == 4 else v for v in values]
    if compiled:
        import torch._inductor.config
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(os.environ["RLX_CACHE"], "bench/inductor"))
        torch._inductor.config.freezing = True
        torch._inductor.config.compile_threads = 1
        forward = torch.compile(forward)
    return lambda: forward(*values), lambda out: [v.numpy() for v in (out if isinstance(out, (tuple, list)) else [out])]


def torch_compile(*args):
    return torch(*args, compiled=True)


def jax(model, inputs, threads, case):
    import jax

    import jax_graph
    f = jax_graph.function(model, inputs)
    values = [jax.numpy.asarray(v) for v in inputs.values()]
    return lambda: jax.block_until_ready(f(*values)), lambda out: [np.asarray(v) for v in out]


def tensorflow(model, inputs, threads, case):
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    import tensorflow_graph
    f = tensorflow_graph.function(model, inputs)
    values = [tf.constant(v) for v in inputs.values()]
    return lambda: [v.numpy() for v in f(*values)], list


def tinygrad(model, inputs, threads, case):
    """tinygrad's own reader of ONNX and its default schedules, without a search (BEAM)."""
    os.environ["DEV"] = "CPU"
    os.environ["NUM_CPU_THREADS"] = str(threads)
    compilers = [c for c in ("clang", *(f"clang-{v}" for v in range(30, 13, -1))) if shutil.which(c)]
    if not compilers:
        raise RuntimeError("needs clang")
    os.environ["CC"] = compilers[0]
    import tinygrad as tiny
    from tinygrad.nn.onnx import OnnxRunner
    runner = OnnxRunner(static_model(model, inputs))
    values = {k: tiny.Tensor(v).realize() for k, v in inputs.items()}
    f = tiny.TinyJit(lambda **x: [v.contiguous().realize() for v in runner(x).values()])

    def run():
        out = f(**values)
        tiny.Device["CPU"].synchronize()
        return out

    return run, lambda out: [v.numpy() for v in out]


def iree(model, inputs, threads, case):
    """Compiled by iree-import-onnx and iree-compile for this processor, run by local-task."""
    import subprocess

    import iree.runtime as rt
    tools = os.path.dirname(sys.executable)
    with tempfile.TemporaryDirectory() as tmp:
        mlir, code = os.path.join(tmp, "m.mlir"), os.path.join(tmp, "m.vmfb")
        for command in (["iree-import-onnx", static_model(model, inputs), "-o", mlir],
                        ["iree-compile", mlir, "-o", code, "--iree-hal-target-device=local", "--iree-opt-level=O3",
                         "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host",
                         "--iree-llvmcpu-stack-allocation-limit=1048576"]):
            done = subprocess.run([os.path.join(tools, command[0]), *command[1:]], capture_output=True, text=True)
            if done.returncode:
                lines = done.stderr.strip().split("\n")
                raise RuntimeError(f"{command[0]}: " + next((t for t in lines if "error:" in t), lines[-1])[-160:])
        rt.flags.parse_flags(f"--task_topology_group_count={threads}")
        module = rt.load_vm_flatbuffer(open(code, "rb").read(), driver="local-task")
    f = module[next(n for n in module.vm_module.function_names if not n.startswith("__") and not n.endswith("$async"))]
    device = rt.get_device("local-task")
    values = [rt.asdevicearray(device, v) for v in inputs.values()]

    def run():
        out = f(*values)
        return [v.to_host() for v in (out if isinstance(out, (tuple, list)) else [out])]

    return run, list


def static_model(model, inputs):
    """A copy of the file whose shapes are all fixed."""
    import onnx

    import graph
    path = os.path.join(tempfile.gettempdir(), f"static{os.getpid()}.onnx")
    onnx.save(graph.Graph(model, inputs).model, path)
    return path


def numpy(model, inputs, threads, case):
    import cases
    if not case:
        raise ValueError("numpy runs no models")
    values = [*inputs.values(), *cases.CASES[case].constants.values()]
    return lambda: cases.CASES[case].numpy(*values), lambda out: [out]


COPIES = 8  # in one run of copy: what starts the threads should not count.


def copy(model, inputs, threads, case):
    """Copies half of the bytes that the case reads and writes: equal traffic. One numpy.copyto a thread."""
    import threading

    import cases
    part = max(4, cases.CASES[case].bytes // 2 // 4 // threads)
    buffers = [(np.ones(part, np.float32), np.ones(part, np.float32)) for _ in range(threads)]
    begin, end = threading.Barrier(threads), threading.Barrier(threads)

    def work(k):
        for _ in range(COPIES):
            np.copyto(*buffers[k])

    def other(k):
        while True:
            begin.wait()
            work(k)
            end.wait()

    for k in range(1, threads):
        threading.Thread(target=other, args=(k,), daemon=True).start()

    def run():
        begin.wait()
        work(0)
        end.wait()

    return run, lambda out: []


LOADERS = {"onnxruntime": onnxruntime, "openvino": openvino, "torch": torch, "torch-compile": torch_compile,
           "jax": jax, "tensorflow": tensorflow,
           "tinygrad": tinygrad, "iree": iree, "numpy": numpy, "copy": copy}


def clock(run, iterations):
    ms = []
    gc.disable()
    for _ in range(iterations):
        start = time.perf_counter()
        run()
        ms.append((time.perf_counter() - start) * 1e3)
    gc.enable()
    return ms


def main():
    name = sys.argv[1]
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What a framework prints is no reply.
    run = arrays = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {}
            if request["do"] == "load":
                inputs = {k: np.load(v) for k, v in request["inputs"].items()}
                run, arrays = LOADERS[name](request["model"], inputs, request["threads"], request["case"])
            elif request["do"] == "outputs":
                values = arrays(run())
                for k, v in enumerate(values):
                    np.save(os.path.join(request["folder"], f"{k}.npy"), v)
                reply["count"] = len(values)
            else:
                clock(run, request["warmup"])
                reply["ms"] = clock(run, request["iterations"])
                if name == "copy":
                    reply["ms"] = [t / COPIES for t in reply["ms"]]
        except Exception as e:
            reply = {"error": f"{type(e).__name__}: {e}".strip().split("\n")[0][:200]}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
