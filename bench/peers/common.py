"""What the programs of this folder share: processes of peers, timing in turns, reports.

Each peer runs in a process of its own (worker.py) with the Python that bench/setup made for it, since the packages
of two frameworks rarely live in one environment. Only the process whose turn it is runs: the others are stopped.
Importing this module restarts the program with the Python of scripts/python where numpy or onnx is missing.
"""
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CACHE = os.environ.get("RLX_CACHE") or os.path.expanduser("~/.cache/rlx")
PYTHON = os.path.join(CACHE, "venv/bin/python")

if any(importlib.util.find_spec(m) is None for m in ("numpy", "onnx")):
    if os.path.realpath(sys.prefix) == os.path.realpath(os.path.dirname(os.path.dirname(PYTHON))):
        sys.exit(f"numpy or onnx is missing in {sys.prefix}")
    found = subprocess.check_output([os.path.join(ROOT, "scripts/python")], text=True).strip()
    os.execv(found, [found] + sys.argv)

import numpy as np

# Peer -> the environment it runs in: "venv" is that of scripts/python, others are made by bench/setup.
PEERS = {"onnxruntime": "venv", "numpy": "venv", "copy": "venv", "openvino": "bench-venv-openvino",
         "torch": "bench-venv-torch", "torch-compile": "bench-venv-torch", "jax": "bench-venv-jax",
         "tensorflow": "bench-venv-tensorflow", "tinygrad": "bench-venv-tinygrad", "iree": "bench-venv-iree",
         "tract": None, "rten": None}
RUST = os.path.join(CACHE, "bench-rust/release/rlx-bench-peers")


class Absent(Exception):
    """A peer that cannot take part, and why."""


def pin(threads):
    cpus = sorted(os.sched_getaffinity(0))
    return lambda: os.sched_setaffinity(0, cpus[:threads])


class Peer:
    """One peer in its own process, asked by lines of JSON, stopped while it is not asked."""

    def __init__(self, name, threads, folder):
        self.name = name
        if name not in PEERS:
            raise Absent("unknown peer")
        python = sys.executable if PEERS[name] == "venv" else os.path.join(CACHE, PEERS[name] or "", "bin/python")
        command = [python, os.path.join(HERE, "worker.py"), name] if PEERS[name] else [RUST, name]
        if not os.path.exists(command[0]):
            raise Absent(f"not installed: bench/setup {(PEERS[name] or 'bench-venv-rust')[11:]}")
        env = dict(os.environ, RLX_CACHE=CACHE, TMPDIR=folder, TF_CPP_MIN_LOG_LEVEL="3")
        for k in ("OMP", "OPENBLAS", "MKL", "TINYGRAD", "RTEN", "RAYON"):
            env[k + "_NUM_THREADS"] = str(threads)
        for k in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
            env.pop(k, None)
        self.threads, self.log = threads, tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env=env, preexec_fn=pin(threads))

    def ask(self, **request):
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.log.seek(0)
            lines = self.log.read().decode(errors="replace").strip().splitlines()
            raise Absent("process ended" + (": " + lines[-1] if lines else ""))
        self.process.send_signal(signal.SIGSTOP)
        reply = json.loads(line)
        if "error" in reply:
            raise Absent(reply["error"])
        return reply

    def load(self, model, inputs, case=None):
        self.ask(do="load", model=os.path.abspath(model), inputs=inputs, threads=self.threads, case=case)

    def outputs(self, folder):
        count = self.ask(do="outputs", folder=folder)["count"]
        return [np.load(os.path.join(folder, f"{k}.npy")) for k in range(count)]

    def p50(self, warmup, iterations):
        return statistics.median(self.ask(do="time", warmup=warmup, iterations=iterations)["ms"])

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Rlx:
    """The program rlx: a fresh process for each request; `rlx bench` times the runs inside."""

    def __init__(self, program, threads):
        self.program, self.threads, self.report = program, threads, {}
        if not os.path.exists(program):
            sys.exit(f"{program} does not exist: build it, or name another with --rlx")

    def load(self, model, inputs):
        self.common = [model]
        for k, v in inputs.items():
            self.common += ["--input", f"{k}={v}"]
        self.common += ["--threads", str(self.threads)]

    def call(self, verb, *more):
        done = subprocess.run([self.program, verb, *self.common, *more, "--json"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, preexec_fn=pin(self.threads))
        if done.returncode:
            raise Absent(done.stderr.strip() or f"rlx {verb} ended with {done.returncode}")
        return json.loads(done.stdout)

    def outputs(self, folder, names):
        self.call("run", "--output-dir", folder)
        return [np.load(os.path.join(folder, n.replace("/", "_") + ".npy")) for n in names]

    def p50(self, warmup, iterations):
        self.report = self.call("bench", "--warmup", str(warmup), "--iterations", str(iterations), "--no-limits")
        return self.report["p50Ms"]


def difference(ours, theirs):
    """The largest difference, in units of the largest value of the output."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape or not np.isfinite(a).all():
            return float("inf")
        worst = max(worst, float(np.abs(a.astype(np.float64) - b).max() / max(1e-6, np.abs(b).max())))
    return worst


def output_names(model):
    import onnx
    return [o.name for o in onnx.load(model, load_external_data=False).graph.output]


def measure(args, model, inputs, rlx_model=None, case=None, tolerance=1e-3):
    """Compares the outputs of all, then times all in turns. The result has the p50 of each in ms.

    `inputs` are arrays by name. The time of a peer is the median over rounds of the p50 of a round.
    """
    if (load := busy()) > 0.1:
        print(f"others take {load:.0%} of the processors: these times will mean little", file=sys.stderr)
    absent, peers, times, worst = {}, {}, {}, {}
    with tempfile.TemporaryDirectory() as tmp:
        files = {}
        for k, (name, value) in enumerate(inputs.items()):
            files[name] = os.path.join(tmp, f"in{k}.npy")
            np.save(files[name], value)
        rlx = Rlx(args.rlx, args.threads)
        rlx.load(rlx_model or model, files)
        try:
            ours = rlx.outputs(tmp, output_names(model))
            for name in [n for n in args.peers.split(",") if n]:
                try:
                    peers[name] = Peer(name, args.threads, tmp)
                    peers[name].load(model, files, case)
                    theirs = peers[name].outputs(tmp)
                except Absent as e:
                    absent[name] = str(e)
                    if name in peers:
                        peers.pop(name).close()
                    continue
                if name != "copy":
                    worst[name] = difference(ours, theirs)
                    if not worst[name] <= tolerance:
                        sys.exit(f"outputs differ from {name} by {worst[name]} of the largest value")
            for _ in range(args.rounds):
                for name, peer in [("rlx", rlx), *peers.items()]:
                    times.setdefault(name, []).append(peer.p50(args.warmup, args.iterations))
        except Absent as e:
            sys.exit(str(e))
        finally:
            for peer in peers.values():
                peer.close()
    p50 = {n: statistics.median(t) for n, t in times.items()}
    result = {"threads": args.threads, "rlx_p50_ms": p50.pop("rlx"), "peers_p50_ms": p50, "absent": absent,
              "compile_ms": rlx.report["compileMs"], "peak_bytes": rlx.report["peakBytes"], "gflops": rlx.report["gflops"],
              "largest_difference": worst, "busy": load}
    rivals = {n: t for n, t in p50.items() if n != "copy"}
    if rivals:
        result["best_peer"] = min(rivals, key=rivals.get)
        result["ratio_best_peer"] = rivals[result["best_peer"]] / result["rlx_p50_ms"]
    return result


def busy():
    """The share of the processors' time that others take at this moment."""
    def idle():
        with open("/proc/stat") as f:
            ticks = [int(v) for v in f.readline().split()[1:9]]
        return ticks[3] + ticks[4], sum(ticks)
    before = idle()
    time.sleep(0.3)
    after = idle()
    return 1 - (after[0] - before[0]) / max(1, after[1] - before[1])


def options(parser, peers, rounds, iterations, warmup=5):
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers", default=peers, help="of " + ",".join(n for n in PEERS if n != "copy"))
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--iterations", type=int, default=iterations, help="runs of each in a round")
    parser.add_argument("--warmup", type=int, default=warmup, help="runs before them")
    parser.add_argument("--rlx", default=os.path.join(ROOT, "build/release/rlx"))
    parser.add_argument("--json", action="store_true")


def show(args, result):
    if args.json:
        print(json.dumps(result))
        return
    for k, v in result.items():
        print(f"{k}: " + (", ".join(f"{n} {w:.4g}" if isinstance(w, float) else f"{n} ({w})" for n, w in v.items()) or "none"
                          if isinstance(v, dict) else f"{v:.4g}" if isinstance(v, float) else str(v)))
