#!/usr/bin/env python3
"""Makes tests/golden/wordpiece.json, the oracle of src/model/wordpiece_test.cc.

usage: make_wordpiece_golden.py OUTPUT [MINILM_FOLDER]

The ids come from the `tokenizers` package (Hugging Face; its version is recorded in the file), an
implementation that RLX shares no code with. The vocabulary is made up here: special tokens, single
characters with and without the continuation prefix, and some words. Each variant is a
tokenizer.json in which one setting differs. With the folder of all-MiniLM-L6-v2 (scripts/models
minilm prints it) the same texts are also run through the real tokenizer; only the ids are kept. The
test rebuilds each tokenizer.json from the vocabulary and the variant.
"""

import json
import sys

import tokenizers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = """
hello world un ##aff ##able the quick brown fox jump ##s ##ed over lazy dog run ##ning token
##izer cafe naive uber strasse Hello World caf\u00e9 na\u00efve \u00fcber stra\u00dfe ISTANBUL
\u0130 \u0131 i \u03c3 \u03c2 \u03b1\u03c3 \u03b1\u03c2 \u4e2d \u56fd \u65e5 \u672c \u8a9e
\u30ab\u30bf \u30ab ##\u30bf \u3131 \u1100 ##\u1161 \uac00 \u0915 ##\u0930 \u093f can ' t don won
""".split()
CHARS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["\u2014", "\u3002", "\u00bf", "\u20ac"]
VOCAB = list(
    dict.fromkeys(SPECIAL + WORDS + [p + c for c in CHARS for p in ("", "##")] + PUNCTUATION)
)


def added(content, index, **flags):
    base = dict(special=True, single_word=False, lstrip=False, rstrip=False, normalized=False)
    return dict(base, id=index, content=content, **flags)


ADDED = [added(t, i) for i, t in enumerate(SPECIAL)]
N = len(VOCAB)
TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ],
    "pair": [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 1}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 1}},
    ],
    "special_tokens": {
        "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
        "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]},
    },
}


def variant(normalizer=None, **changes):
    norm = dict(
        type="BertNormalizer",
        clean_text=True,
        handle_chinese_chars=True,
        strip_accents=None,
        lowercase=True,
    )
    norm.update(normalizer or {})
    out = dict(
        version="1.0",
        truncation=None,
        padding=None,
        added_tokens=ADDED,
        normalizer=norm,
        pre_tokenizer={"type": "BertPreTokenizer"},
        post_processor=TEMPLATE,
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
        model={
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
        },
    )
    out.update(changes)
    return out


def truncation(length, strategy="LongestFirst", direction="Right"):
    return dict(direction=direction, max_length=length, strategy=strategy, stride=0)


def padding(strategy, direction="Right", multiple=None, pad_id=0, type_id=0):
    return dict(
        strategy=strategy,
        direction=direction,
        pad_to_multiple_of=multiple,
        pad_id=pad_id,
        pad_type_id=type_id,
        pad_token="[PAD]",
    )


VARIANTS = {
    "uncased": variant(),
    "cased": variant({"lowercase": False}),
    "cased_stripped": variant({"lowercase": False, "strip_accents": True}),
    "lower_with_accents": variant({"strip_accents": False}),
    "raw": variant(
        {
            "clean_text": False,
            "handle_chinese_chars": False,
            "strip_accents": False,
            "lowercase": False,
        }
    ),
    "short_words": variant(
        model={
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 5,
        }
    ),
    "bert_processing": variant(
        post_processor={"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    ),
    "no_processor": variant(post_processor=None),
    "cut": variant(truncation=truncation(6)),
    "cut_left": variant(truncation=truncation(7, direction="Left")),
    "cut_first": variant(truncation=truncation(7, "OnlyFirst")),
    "padded": variant(padding=padding({"Fixed": 12}, "Left", type_id=1), truncation=truncation(12)),
    "padded_multiple": variant(padding=padding("BatchLongest", multiple=8)),
    "added": variant(
        added_tokens=ADDED
        + [
            added("<a>", N, special=False),
            added("<ab>", N + 1, lstrip=True, rstrip=True),
            added("word", N + 2, special=False, single_word=True, normalized=True),
            added("\u00c9T", N + 3, special=False, normalized=True),
        ]
    ),
}

TEXTS = [
    "",
    " ",
    "hello world",
    "Hello, WORLD!",
    "unaffable",
    "The quick brown fox jumped over the lazy dog.",
    "caf\u00e9 na\u00efve \u00dcBER Stra\u00dfe",
    "cafe\u0301 e\u0301\u0327",
    "\u0130STANBUL \u0131\u0130",
    "\u03a3\u0391\u03a3 \u03b1\u03c2",
    "\u4e2d\u56fdhello\u65e5\u672c\u8a9e",
    "\u30ab\u30bf\u30ab\u30ca",
    "\uac00 \u1100\u1161",
    "\u0915\u0930\u093f\u0902",
    "\U0001f600 smile \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "a\u200bb\u00adc\ufeffd",
    "tab\tnew\nline\r\nend\u00a0nbsp\u3000ideographic\u2028ls",
    "\u0000nul\u0001\u0007\u007f\u0085x",
    "\ufffd?\ufffe\uffff\ue000",
    "can't don't won't",
    "3.14 + 2,000 = $5\u20ac",
    "[CLS] inside [SEP] and [MASK]",
    "[cls] [ MASK ] [MASK]x[MASK]",
    "a" * 100,
    "a" * 101,
    "\u00e9" * 100 + " ok",
    "abcdef ab cdefg",
    "<a><ab> <ab> <a",
    "word words aword word's",
    "\u00e9t \u00c9T et \u00c9t",
    "!!!...---",
    "_under_score_",
    "x\u2014y\u3002z\u00bf",
    "\U00020000\U0002b81f\U0002b820\U0002b920",
    "\u3131\u3132",
    "\u166d\u1885\u1734a",
    "\u09fd\u2e52 \U0001e944",
    "I\u0307 \u01c5 \ufb01 \u00c5 \u212b",
    "  lead and trail  ",
    "\U0001d504 \u2460 \u00b2",
    "\u202ertl\u202c \u05d0\u05d1\u05b0 \u0627\u0644\u0639",
    "tokenizer tokenizers",
    "zzz\u4e00zzz",
]
PAIRS = [
    ("hello world", "the dog"),
    ("", ""),
    ("the quick brown fox jump", "dog"),
    ("dog", "the quick brown fox jump"),
    ("hello world the quick", "brown fox over lazy"),
    ("hello world the quick over", "brown fox over lazy the"),
    ("[SEP]", "caf\u00e9"),
]


def encode(tokenizer, *texts):
    try:
        e = tokenizer.encode(*texts)
    except (
        Exception
    ) as error:  # the package raises its own exception class for a refused truncation
        return {"error": str(error)}
    out = {"ids": e.ids}
    # Only what differs from the usual is kept.
    if any(e.type_ids):
        out["types"] = e.type_ids
    if not all(e.attention_mask):
        out["mask"] = e.attention_mask
    return out


def complete(config):
    vocab = {t: i for i, t in enumerate(VOCAB)}
    return dict(config, model=dict(config["model"], vocab=vocab))


def main():
    out = {
        "made_by": "tokenizers " + tokenizers.__version__,
        "vocab": VOCAB,
        "texts": TEXTS,
        "pairs": PAIRS,
        "variants": {},
    }
    for name, config in VARIANTS.items():
        t = tokenizers.Tokenizer.from_str(json.dumps(complete(config)))
        base = VARIANTS["uncased"]
        out["variants"][name] = {
            "config": (
                config if name == "uncased" else {k: v for k, v in config.items() if v != base[k]}
            ),
            "texts": [encode(t, x) for x in TEXTS],
            "pairs": [encode(t, a, b) for a, b in PAIRS],
        }
    if len(sys.argv) > 2:
        t = tokenizers.Tokenizer.from_file(sys.argv[2] + "/tokenizer.json")
        t.no_padding()
        out["minilm"] = {
            "texts": [encode(t, x) for x in TEXTS],
            "pairs": [encode(t, a, b) for a, b in PAIRS],
        }
    text = json.dumps(out, ensure_ascii=True, separators=(",", ":"))
    text = (
        text.replace('},{"ids"', '},\n{"ids"')
        .replace('"texts":[', '\n"texts":[')
        .replace('"pairs":[', '\n"pairs":[')
    )
    with open(sys.argv[1], "w") as f:
        f.write(text + "\n")


main()
