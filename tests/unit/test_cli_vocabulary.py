"""`shoal data import text` by a vocabulary of byte-pair encoding: the same tokens as an encoder written from GPT-2's definition."""
import json
import random
import re
import unicodedata

import h5py
import numpy as np
import pytest

from harness import PLAIN_ENV, assert_one_error, program, run

SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
SAMPLES = (
    "It's 12 o'clock; they'll say we're late, I'd guess.  Don't!\n\n  Two\tspaces  and 3.14159e10\r\nlines. HE'S 'S \n",
    "naïve café Ünïcödé, ΑΒΓ αβγ, Привет мир, 你好世界, こんにちは, שלום, مرحبا, ½ ² Ⅷ ٣٤٥ १२३, e\u0301 e\u20ac \U0001f600\U0001f468\u200d\U0001f469 𝒳𝟙",
    "a\xa0b\u2003\u2003c\u3000 d \x85\x1c\x1f\x00e\u2028f _x_ __ --'s''ll ' s \u200b\ufeff",
    "   leading, trailing   ",
    " ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabababababababab" * 3,
)


def signs():
    """The printable character of each byte, as in GPT-2's files."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


SIGN = signs()


def pieces(text):
    """GPT-2's regular expression, with its classes of Unicode as the characters of this text that they have."""
    among = lambda kind: "".join(re.escape(c) for c in sorted(set(text)) if unicodedata.category(c)[0] == kind) or "\ud800"
    letter, number, space = among("L"), among("N"), re.escape(SPACES)
    rule = (rf"'s|'t|'re|'ve|'m|'ll|'d| ?[{letter}]+| ?[{number}]+| ?[^{space}{letter}{number}]+"
            rf"|[{space}]+(?![^{space}])|[{space}]+")
    return re.findall(rule, text)


def merge(word, pair):
    out = []
    for c in word:
        if out and not isinstance(out[-1], list) and (out[-1], c) == pair:
            out[-1] = [out[-1] + c]  # a list: not merged again in this round
        else:
            out.append(c)
    return [c[0] if isinstance(c, list) else c for c in out]


def encode(text, vocab, merges):
    rank = {pair: i for i, pair in reversed(list(enumerate(merges)))}
    tokens = []
    for piece in pieces(text):
        word = [SIGN[b] for b in piece.encode()]
        while True:
            best = min(zip(word, word[1:]), key=lambda p: rank.get(p, len(rank)), default=None)
            if best not in rank:
                break
            word = merge(word, best)
        tokens += [vocab[c] for c in word]
    return tokens


def learn(text, n):
    """A vocabulary of all bytes and n merges, each the most frequent pair of the text by then; numbers are drawn."""
    words = [[SIGN[b] for b in piece.encode()] for piece in pieces(text)]
    merges, tokens = [], list(SIGN.values())
    for _ in range(n):
        count = {}
        for w in words:
            for p in zip(w, w[1:]):
                count[p] = count.get(p, 0) + 1
        pair = max(sorted(count), key=count.get)
        words = [merge(w, pair) for w in words]
        merges.append(pair)
        tokens.append("".join(pair))
    tokens = sorted(set(tokens))
    random.Random(1).shuffle(tokens)
    return {t: i for i, t in enumerate(tokens)}, merges


def tokenizer(vocab, merges, **changes):
    parts = {"added_tokens": [], "normalizer": None,
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
             "model": {"type": "BPE", "dropout": None, "unk_token": None, "vocab": vocab, "merges": merges}}
    parts["model"].update(changes.pop("model", {}))
    return json.dumps({**parts, **changes})


def write(vocab, merges):
    with open("vocab.json", "w") as f:
        json.dump(vocab, f)
    with open("merges.txt", "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    with open("tokenizer.json", "w") as f:
        f.write(tokenizer(vocab, [list(m) for m in merges]))


def load(*args, code=0):
    return run([program(), "data", "import", "text", *args], base=PLAIN_ENV, timeout=60, code=code)


def tokens_of(path):
    with h5py.File(path) as f:
        return np.concatenate([f["train/tokens"][:], f["test/tokens"][:]]) if "test/tokens" in f else f["train/tokens"][:]


PAIR = ("--vocab", "vocab.json", "--merges", "merges.txt")


@pytest.fixture(scope="module")
def learnt():
    return learn("".join(SAMPLES[:3]) * 2 + SAMPLES[-1], 200)


@pytest.mark.parametrize("text", [*SAMPLES, "".join(SAMPLES)], ids=range(len(SAMPLES) + 1))
def test_encode(learnt, text):
    """Both forms of the files give the tokens of the encoder here, whose bytes are the text; the data set counts them."""
    vocab, merges = learnt
    write(vocab, merges)
    with open("a.txt", "w", encoding="utf-8", newline="") as f:
        f.write(text)
    load("a.txt", "-o", "a.h5", *PAIR)
    load("a.txt", "-o", "b.h5", "--tokenizer", "tokenizer.json")
    expected = encode(text, vocab, merges)
    assert list(tokens_of("a.h5")) == expected
    of_number = {i: bytes({c: b for b, c in SIGN.items()}[c] for c in t) for t, i in vocab.items()}
    with h5py.File("a.h5") as a, h5py.File("b.h5") as b:
        assert a.attrs["classes"] == len(vocab) and a["train/tokens"].dtype == np.uint16
        assert bytes(a["vocabulary"][:]) == bytes(b["vocabulary"][:]) and list(a["train/tokens"]) == list(b["train/tokens"])
        for split in ("train", "test"):
            assert a[split + "/tokens"].attrs["bytes"] == sum(len(of_number[i]) for i in a[split + "/tokens"][:])
        kept = json.loads(bytes(a["vocabulary"][:]))
    assert kept["model"]["vocab"] == vocab and kept["model"]["merges"] == [" ".join(m) for m in merges]
    assert b"".join(of_number[i] for i in expected) == text.encode()


def test_any_bytes(learnt):
    """Bytes that are no UTF-8 are tokens, too; a long run without a place to cut takes no quadratic time; a copy has the same."""
    write(*learnt)
    text = bytes(random.Random(2).randrange(256) for _ in range(3000)) + b"ab" * 200_000 + bytes(range(256))
    with open("a.txt", "wb") as f:
        f.write(text)
    load("a.txt", "-o", "a.h5", *PAIR)
    run([program(), "data", "repack", "a.h5", "-o", "b.h5"], base=PLAIN_ENV, timeout=30)
    of_number = {i: bytes({c: b for b, c in SIGN.items()}[c] for c in t) for t, i in learnt[0].items()}
    assert b"".join(of_number[i] for i in tokens_of("a.h5")) == text
    with h5py.File("a.h5") as a, h5py.File("b.h5") as b:
        assert bytes(a["vocabulary"][:]) == bytes(b["vocabulary"][:])
        assert a["test/tokens"].attrs["bytes"] == b["test/tokens"].attrs["bytes"] > 0


def test_letters():
    """Every character of Unicode's first three planes is a letter, a number, a space or none of them, as Python says where it knows
    the version: a letter joins the a behind it, and so on."""
    if unicodedata.unidata_version != "14.0.0":
        pytest.skip(f"Unicode {unicodedata.unidata_version}")
    kind = lambda c: "S" if c in SPACES else unicodedata.category(c)[0] if unicodedata.category(c)[0] in "LN" else "O"
    characters = [chr(c) for c in range(0x33480) if not 0xd800 <= c < 0xe000 and chr(c) != "'"]
    bytes_of = list(SIGN.values())
    for k in "a1.":
        pairs = [b + k for b in bytes_of]
        vocab = {t: i for i, t in enumerate(bytes_of + pairs)}
        write(vocab, [(b, k) for b in bytes_of])
        with open("a.txt", "w", encoding="utf-8", newline="") as f:
            f.write("".join(c + k for c in characters if c != k))
        load("a.txt", "-o", "a.h5", "--test-share", "0", *PAIR)
        expected = []
        for c in (c for c in characters if c != k):
            *some, end = (SIGN[b] for b in c.encode())
            expected += [vocab[s] for s in some] + ([vocab[end + k]] if c == " " or kind(c) == kind(k) else [vocab[end], vocab[k]])
        assert np.array_equal(tokens_of("a.h5"), expected), k


def refusals(vocab, merges):
    one = next(iter(vocab))
    yield tokenizer(vocab, merges, normalizer={"type": "NFC"}), "it has a normalizer"
    yield tokenizer(vocab, merges, pre_tokenizer={"type": "Sequence"}), "its pre_tokenizer \"Sequence\" does not cut"
    yield tokenizer(vocab, merges, pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True}), "without add_prefix_space"
    yield tokenizer(vocab, merges, model={"type": "Unigram"}), "its model is of type \"Unigram\""
    yield tokenizer(vocab, merges, model={"byte_fallback": True}), "its model has byte_fallback"
    yield tokenizer({**vocab, "\u2581x": len(vocab)}, merges), "has a character that stands for no byte"
    yield tokenizer({**vocab, "\u00f0\U0001f600": len(vocab)}, merges), "has a character that stands for no byte"
    yield tokenizer({**vocab, one: len(vocab)}, merges), f"none of 0 to {len(vocab) - 1}"
    yield tokenizer({**vocab, one: -1}, merges), "has a number that another one has"
    yield tokenizer({**vocab, one: 1.5}, merges), "has a number that another one has"
    yield tokenizer({**vocab, one: vocab[list(vocab)[1]]}, merges), "has a number that another one has"
    yield tokenizer({}, []), "it has 0 tokens"
    yield tokenizer(vocab, [["a", "Q~"]]), "merge 1 makes \"aQ~\", which is no token"
    yield tokenizer(vocab, ["ab"]), "merge 1 \"ab\" is no pair"
    yield tokenizer(vocab, [["a"]]), "merge 1 is no pair"
    yield tokenizer(vocab, {}), "it has no list of merges"
    yield tokenizer([], merges), "it has no object of tokens"
    yield tokenizer(None, merges, added_tokens=[{"id": 0, "content": "<end>"}]), "it has no object of tokens"
    yield tokenizer(vocab, merges, added_tokens=[{"id": 3}]), "added token 1 has no content"
    yield tokenizer(vocab, merges, added_tokens=[{"id": len(vocab), "content": "a"}]), "is there with another number"
    yield "[" * 100000, "tokenizer.json:"
    yield "{}", "its model is of type"


def test_refused(learnt):
    vocab, merges = learnt
    with open("a.txt", "w") as f:
        f.write("a text of some words" * 9)
    for text, words in refusals(vocab, [list(m) for m in merges]):
        with open("tokenizer.json", "w") as f:
            f.write(text)
        assert_one_error(load("a.txt", "-o", "a.h5", "--tokenizer", "tokenizer.json", code=None), words)
    write({t: i for i, t in enumerate(t for t in vocab if t != "x" and len(t) == 1)}, [])
    assert_one_error(load("a.txt", "-o", "a.h5", *PAIR, code=2), "has a byte 0x78, which is no token")
    write(vocab, merges)
    assert_one_error(load("a.txt", "-o", "a.h5", *PAIR[:2], code=2), "--vocab alone is no vocabulary")
    assert_one_error(load("a.txt", "-o", "a.h5", *PAIR, "--tokenizer", "tokenizer.json", code=2), "leave one out")
    assert_one_error(run([program(), "data", "import", "csv", "a.csv", *PAIR], base=PLAIN_ENV, code=2), "--vocab does nothing for csv")
    load("a.txt", "-o", "a.h5", *PAIR)
    with h5py.File("a.h5", "a") as f:  # as somebody might make it up
        f.attrs["classes"] = len(vocab) + 1
    assert_one_error(run([program(), "data", "inspect", "a.h5"], base=PLAIN_ENV, code=7), f"/vocabulary has {len(vocab)} tokens")
    with h5py.File("a.h5", "a") as f:
        f.attrs["classes"] = len(vocab)
        text = f["vocabulary"][:]
        del f["vocabulary"]
        f["vocabulary"] = text[:-9]
    assert_one_error(run([program(), "data", "inspect", "a.h5"], base=PLAIN_ENV, code=7), "a.h5: /vocabulary:")


def test_added(learnt):
    """Tokens that no merge makes, among the others and behind them, are kept as their bytes."""
    vocab, merges = learnt
    marks = {**vocab, "<|end|>": len(vocab)}
    added = [{"id": len(vocab), "content": "<|end|>"}, {"id": len(vocab) + 1, "content": "<one two>"}]
    with open("tokenizer.json", "w") as f:
        f.write(tokenizer(marks, [" ".join(m) for m in merges], added_tokens=added))
    with open("a.txt", "w") as f:
        f.write("an <|end|> of <one two> words " * 3)
    load("a.txt", "-o", "a.h5", "--tokenizer", "tokenizer.json")
    with h5py.File("a.h5") as f:
        kept = json.loads(bytes(f["vocabulary"][:]))
    assert kept["model"]["vocab"] == {**marks, "<one\u0120two>": len(vocab) + 1}
    assert list(tokens_of("a.h5")) == encode("an <|end|> of <one two> words " * 3, vocab, merges)
