#!/usr/bin/env python3
"""Checks `rlx embed` on all-MiniLM-L6-v2 against an independent implementation.

Reference: the `transformers` BertModel with mean pooling and L2 normalisation (what sentence-transformers
does), in float32 on PyTorch. Prints the smallest cosine over the sentences and, on request, the Spearman
correlation of the STS-B test set.

usage: check_minilm.py --rlx build/release/rlx --model DIR --sts sts-test.csv [--device cpu] [--sentences 100]
       [--spearman]
"""
import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

FALLBACK = ["A cat sits on the mat.", "The stock market fell today.", "Zażółć gęślą jaźń", "naïve café 漢字",
            "An airplane is taking off.", "Two men are playing chess; one of them is winning, slowly.", "", "42"]


def embed(args, sentences):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "e.npy")
        subprocess.run([args.rlx, "embed", args.model, "--device", args.device, "--stdin", "--npy", out, "-q"],
                       input="\n".join(sentences) + "\n", text=True, check=True, stdout=subprocess.DEVNULL)
        return np.load(out)


def reference(args, sentences):
    import torch
    from transformers import AutoModel, AutoTokenizer
    tokenizer, model = AutoTokenizer.from_pretrained(args.model), AutoModel.from_pretrained(args.model).eval()
    rows = []
    with torch.no_grad():
        for at in range(0, len(sentences), 32):
            x = tokenizer(sentences[at:at + 32], padding=True, truncation=True, max_length=256, return_tensors="pt")
            h, m = model(**x).last_hidden_state, x["attention_mask"].unsqueeze(-1).float()
            mean = (h * m).sum(1) / m.sum(1).clamp(min=1e-9)
            rows.append(torch.nn.functional.normalize(mean, dim=1).numpy())
    return np.concatenate(rows)


def spearman(a, b):
    def rank(v):
        order = np.argsort(v, kind="stable")
        r = np.empty(len(v))
        r[order] = np.arange(len(v))
        for value in np.unique(v):  # ties share their mean rank
            r[v == value] = r[v == value].mean()
        return r
    return float(np.corrcoef(rank(np.asarray(a)), rank(np.asarray(b)))[0, 1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rlx", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--sts")
    p.add_argument("--device", default="cpu")
    p.add_argument("--sentences", type=int, default=100)
    p.add_argument("--spearman", action="store_true")
    p.add_argument("--golden", help="JSON with sentences and vectors made by --make-golden, instead of torch")
    p.add_argument("--make-golden")
    args = p.parse_args()
    result = {"device": args.device}
    pairs = []
    if args.sts:
        with open(args.sts, newline="") as f:
            for row in csv.reader(f, delimiter="\t", quoting=csv.QUOTE_NONE):
                if len(row) >= 7:
                    pairs.append((float(row[4]), row[5], row[6]))
    if args.make_golden:
        vectors = reference(args, FALLBACK)
        with open(args.make_golden, "w") as f:
            json.dump({"made_by": "transformers BertModel, mean pooling, L2 norm, float32",
                       "sentences": FALLBACK, "vectors": [[round(float(x), 7) for x in v] for v in vectors]}, f)
        return 0
    if args.golden:
        with open(args.golden) as f:
            golden = json.load(f)
        sentences, want = golden["sentences"], np.asarray(golden["vectors"], dtype=np.float64)
    else:
        sentences = [s for _, a, b in pairs for s in (a, b)][:args.sentences] or FALLBACK
        want = reference(args, sentences)
    got = embed(args, sentences)
    cosine = (got * want).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(want, axis=1)
    result.update(sentences=len(sentences), min_cosine=float(cosine.min()), max_abs=float(np.abs(got - want).max()))
    ok = cosine.min() >= 0.99999
    if args.spearman:
        a, b = embed(args, [x for _, x, _ in pairs]), embed(args, [y for _, _, y in pairs])
        result.update(pairs=len(pairs), spearman=spearman((a * b).sum(1), [s for s, _, _ in pairs]))
        ok = ok and result["spearman"] >= 0.819
    result["ok"] = bool(ok)
    print(json.dumps(result))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
