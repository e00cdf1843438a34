"""`shoal data import` of NumPy arrays, of folders of images, and of folders in place of lists of files."""
import base64
import gzip
import os
import resource
import struct
import time
import zipfile
import zlib

import h5py
import numpy as np
import pytest

from harness import PLAIN_ENV, ROOT, assert_one_error, program, run

GREY_JPEG = base64.b64decode(  # 16 x 16, four squares of 200 and 30
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMU"
    "FRUVDA8XGBYUGBIUFRT/wAALCAAQABABAREA/8QAFgABAQEAAAAAAAAAAAAAAAAACQAI/8QAFBABAAAAAAAAAAAAAAAAAAAAAP/a"
    "AAgBAQAAPwDYAOkcV//Z")


def load(*args, code=0, **options):
    return run([program(), "data", "import", *args, "-o", "t.h5"], base=PLAIN_ENV, timeout=30, code=code, **options)


def made(split="train"):
    with h5py.File("t.h5") as f:
        return f[f"{split}/x"][:], f[f"{split}/y"][:]


def names():
    """Names of the classes, and their number."""
    with h5py.File("t.h5") as f:
        text = f.attrs["class_names"]
        return (text.decode() if isinstance(text, bytes) else text).split("\n"), int(f.attrs["classes"])


# ---- NumPy ----

def test_unused_arrays():
    """What an array that is not used holds does not matter."""
    x, y = np.arange(80, dtype="f4").reshape(20, 4), np.arange(20) % 2
    np.savez("a.npz", X_train=x, y_train=y, notes=np.array(["a", "b"]), meta=np.array([{}], dtype=object), when=np.float32(3))
    r = load("npy", "a.npz")
    for name in ("notes", "meta", "when"):
        assert f"a.npz: array {name} is not used" in r.stdout
    assert sorted(np.concatenate([made("train")[0], made("test")[0]]).tolist()) == x.tolist()


RNG = np.random.default_rng(1)
X = RNG.normal(size=(40, 6)).astype("f4")
Y = np.arange(40) % 4


@pytest.mark.parametrize("dtype", ("f4", "f8", ">f4", ">f8", "i1", "i2", "<i4", ">i8", "u2", "u4", "u8", "u1", "?"))
@pytest.mark.parametrize("order", "CF")
def test_npy_types(dtype, order):
    """Every number comes through, in either order of bytes and of dimensions; labels of any width."""
    x = np.array(X * 20 if dtype not in ("u1", "u2", "u4", "u8", "?") else np.abs(X * 20), dtype=dtype, order=order)
    np.save("X_train.npy", x)
    np.save("y_train.npy", Y.astype(">i8" if order == "F" else "u1"))
    load("npy", "X_train.npy", "y_train.npy", "--test-share", "0")
    got, labels = made()
    assert got.dtype == ("u1" if dtype in ("u1", "?") else "f4")
    assert np.array_equal(got, x.astype("f4")) and np.array_equal(labels, Y)


@pytest.mark.parametrize("shape, turn", (((40, 5, 6), lambda x: x[:, None]), ((40, 3, 5, 6), lambda x: x),
                                         ((40, 5, 6, 3), lambda x: x.transpose(0, 3, 1, 2)), ((40,), lambda x: x[:, None])),
                         ids=range(4))
@pytest.mark.parametrize("order", "CF")
def test_npy_shapes(shape, turn, order):
    x = np.array(RNG.integers(0, 256, size=shape), dtype="u1", order=order)
    np.savez_compressed("set.npz", images=x, labels=Y)
    load("npy", "set.npz", "--test-share", "0")
    assert np.array_equal(made()[0], turn(x))


def test_npz_splits():
    """Named arrays are the splits they say; unnamed ones are told apart by dimensions, and the rest is drawn."""
    np.savez("set.npz", x_train=X[:30], y_train=Y[:30], x_test=X[30:], y_test=Y[30:], other=np.ones(3))
    assert "array other is not used" in load("npy", "set.npz").stdout
    assert np.array_equal(made("train")[0], X[:30]) and np.array_equal(made("test")[0], X[30:])
    np.savez("two.npz", X, Y)
    load("npy", "two.npz", "--test-share", "0.25")
    assert [len(made(s)[0]) for s in ("train", "test")] == [30, 10] and sorted(made("test")[1]) == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]


def npy(header, data=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


REFUSED = (  # contents of X_train.npy, of y_train.npy (arrays or bytes), words
    (np.array([1, "a"], dtype=object), Y, "holds Python objects, which are not loaded"),
    (X, np.array(["a", "b"] * 20), "holds text: number the classes with"),
    (X.astype("f2"), Y, "has type '<f2'"),
    (X, np.eye(4)[Y], "y.argmax(1)"),
    (X, Y[:39], "X_train has 40 samples, y_train has 39 labels"),
    (X, Y / 2, "label 1 of y_train is 0.5; classes are whole numbers"),
    (X, Y - 1, "4 to 4"),
    (X, Y.astype("u8") * 2**40, "classes are small numbers"),
    (np.where(np.arange(240).reshape(40, 6) == 17, np.nan, X), Y, "sample 2 of X_train has nan, which is not finite"),
    (np.full((40, 2), 1e300), Y, "which is not finite in f32"),
    (np.zeros((0, 3)), Y, "array X_train is empty"),
    (np.zeros((40, 2, 2, 2, 2)), Y, "1 to 4 dimensions are"),
    (b"text", Y, "is not a NumPy array"),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (40, 6)}", bytes(100)), Y, "X_train.npy says it has 960 B of X_train"),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4)}"), Y, "overflows"),
    (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (40, 1000000000000)}"), Y, "but can hold 0 B"),
    (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (40,)}"), Y, "structured data"),
    (npy("{}"), Y, "structured data"),
    (b"\x93NUMPY\x01\x00\xff\xff{", Y, "is cut short in its header"),
)


@pytest.mark.parametrize("x, y, words", REFUSED, ids=range(len(REFUSED)))
def test_npy_refused(x, y, words):
    for name, value in (("X_train.npy", x), ("y_train.npy", y)):
        if isinstance(value, bytes):
            with open(name, "wb") as f:
                f.write(value)
        else:
            np.save(name, value)
    r = load("npy", "X_train.npy", "y_train.npy", code=7)
    assert_one_error(r, "not in 0 to" if words == "4 to 4" else words)
    assert not os.path.exists("t.h5")


def test_npz_damaged():
    """Flipped bits in the packed data, a cut archive, and a member that claims more than it can hold."""
    np.savez_compressed("good.npz", x=X, y=Y)
    with open("good.npz", "rb") as f:
        good = bytearray(f.read())
    for at, words in ((120, "bad.npz"), (None, "bad.npz")):
        bad = good[:] if at else good[:300]
        if at:
            bad[at] ^= 0xFF
        with open("bad.npz", "wb") as f:
            f.write(bad)
        assert_one_error(load("npy", "bad.npz", code=7), words)


def small(megabytes):
    """Limits of a process that may have so much memory of its own, beside its libraries."""
    return {"env": {"SHOAL_MEMORY_LIMIT_MIB": str(megabytes)},
            "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_DATA, ((100 + megabytes) << 20,) * 2)}


def test_npz_bomb():
    """100 KB that unpack to 100 MB of zeros: refused by both sizes; if they are right, the cure imports them in little memory."""
    n = 100_000
    np.savez_compressed("zeros.npz", X_train=np.zeros((n, 250), "f4"), y_train=np.arange(n) % 3)
    begin = time.monotonic()
    r = load("npy", "zeros.npz", code=7, **small(32))
    assert_one_error(r, "zeros.npz: array X_train unpacks to more than 250 times its size (", " KiB to 95.4 MiB or more)",
                     "unzip zeros.npz and import its .npy files")
    assert time.monotonic() - begin < 10 and not os.path.exists("t.h5")
    with zipfile.ZipFile("zeros.npz") as z:
        z.extract("X_train.npy")
        z.extract("y_train.npy")
    load("npy", "X_train.npy", "y_train.npy", "--test-share", "0", **small(32))
    with h5py.File("t.h5") as f:
        assert f["train/x"].shape == (n, 250) and np.array_equal(f["train/y"][:], np.arange(n) % 3)


@pytest.mark.parametrize("save", (np.savez, np.savez_compressed))
def test_npz_in_little_memory(save):
    """Members are read row by row; only Fortran order needs all of an array in memory, and says so."""
    x = np.repeat(np.arange(20_000, dtype="f4"), 300).reshape(20_000, 300)
    x[:, 7] = -1
    save("c.npz", x=x, y=np.arange(20_000) % 2)
    save("f.npz", x=np.asfortranarray(x), y=np.arange(20_000) % 2)
    load("npy", "c.npz", "--test-share", "0", **small(8))
    assert np.array_equal(made()[0], x)
    assert_one_error(load("npy", "f.npz", code=7, **small(8)), "f.npz: x would take 22.9 MiB of memory", "np.ascontiguousarray")
    load("npy", "f.npz", "--test-share", "0")
    assert np.array_equal(made()[0], x)


def test_npz_sizes_disagree():
    """The shape in a member's header and the archive's directory must say the same."""
    for rows, words in ((39, "bad.npz: x has 936 B by its header and 960 B by the archive's directory"),
                        (41, "bad.npz says it has 984 B of x, but can hold 960 B")):
        np.savez("bad.npz", y=Y)
        with zipfile.ZipFile("bad.npz", "a") as z:
            z.writestr("x.npy", npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 6)}}", X.tobytes()))
        assert_one_error(load("npy", "bad.npz", code=7), words)


def test_npy_one_large_label():
    """A class of 16 million among ten samples takes no memory for the classes between."""
    np.savez("large.npz", x=X[:10], y=np.array([0, 2**22] * 4 + [0, 2**24 - 1]))
    assert "is 16777215 (train sample 7, 1 in all) a mark" in load("npy", "large.npz", "--test-share", "0.2", **small(32)).stderr
    assert "1 classes have no test sample (16777215)" in run([program(), "data", "inspect", "t.h5"], base=PLAIN_ENV).stderr
    assert sorted(made("test")[1]) == [0, 2**22]
    np.savez("stray.npz", x=X[:10], y=np.array([0, 1] * 4 + [0, 2**24 - 1]))
    assert_one_error(load("npy", "stray.npz", code=7), "sample 9 of /y has label 16777215, the largest of all others is 1")


def test_npy_time_stamps():
    np.savez("t.npz", x=np.arange(1.7e9, 1.7e9 + 40)[:, None] + [[0, 0]], y=Y)
    r = load("npy", "t.npz")
    assert "array x, feature 0: 39 of 40 numbers are too large for 32-bit floats" in r.stderr


# ---- images ----

def png(pixels, cut=0):
    """A PNG file of u1 [h, w] or [h, w, 3 or 4]."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    h, w = pixels.shape[:2]
    colour = 0 if pixels.ndim == 2 else {3: 2, 4: 6}[pixels.shape[2]]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    whole = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", w, h, 8, colour, 0, 0, 0)) +
             chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    return whole[:len(whole) - cut]


def put(path, contents):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(contents)


def pixels(i, *shape):
    return np.random.default_rng(i).integers(0, 256, size=shape).astype("u1")


def test_images_by_class():
    """Pixels and classes come through; grey beside colour has three channels; what is no image is told and left out."""
    for i in range(20):
        put(f"set/{'ab'[i % 2]}/{i:02}.png", png(pixels(i, 5, 6) if i == 4 else pixels(i, 5, 6, 3)))
    put("set/a/Thumbs.db", b"thumbs")
    put("set/b/.hidden", b"hidden")
    r = load("images", "set", "--test-share", "0.2")
    assert "20 images of 6 x 5, in colour, in 2 classes" in r.stdout
    assert "set/a/Thumbs.db is neither PNG nor JPEG: left out" in r.stderr and "hidden" not in r.stderr
    want = [pixels(i, 5, 6)[None].repeat(3, 0) if i == 4 else pixels(i, 5, 6, 3).transpose(2, 0, 1) for i in range(20)]
    got = {x.tobytes(): int(y) for s in ("train", "test") for x, y in zip(*made(s))}
    assert got == {w.tobytes(): i % 2 for i, w in enumerate(want)}
    assert [len(made(s)[1]) for s in ("train", "test")] == [16, 4] and sorted(made("test")[1]) == [0, 0, 1, 1]
    assert names() == (["a", "b"], 2)


def test_images_by_split():
    """Folders train and val hold the splits; JPEG and grey PNG make grey images; a class called train is one."""
    for k in "ab":
        put(f"set/train/{k}/1.jpg", GREY_JPEG)
        put(f"set/train/{k}/2.png", png(pixels(2, 16, 16)))
    put("set/val/b/3.png", png(pixels(3, 16, 16)))
    load("images", "set")
    x, y = made()
    assert x.shape == (4, 1, 16, 16) and y.tolist() == [0, 0, 1, 1]
    assert abs(x[0, 0, :8, :8].astype(int) - 200).max() < 12 and abs(x[0, 0, :8, 8:].astype(int) - 30).max() < 12
    assert np.array_equal(made("test")[0][0, 0], pixels(3, 16, 16)) and made("test")[1].tolist() == [1]
    assert_one_error(load("images", "set", "--test-share", "0.1", code=2), "--test-share does nothing")
    for k in ("train", "car"):
        put(f"vehicles/{k}/1.jpg", GREY_JPEG)
    assert "in 2 classes" in load("images", "vehicles", "--test-share", "0").stdout


IMAGES_REFUSED = (  # file in class b (class a has a grey image of 16 x 16), words
    ("2.png", png(pixels(1, 16, 17)), "set/b/2.png is 17 x 16, but set/a/1.jpg is 16 x 16: all images must have one size"),
    ("2.png", png(pixels(1, 16, 16), cut=60), "set/b/2.png is damaged or cut short"),
    ("2.jpg", GREY_JPEG[:-8], "set/b/2.jpg is damaged or cut short"),
    ("2.jpg", GREY_JPEG[:30], "set/b/2.jpg is damaged or cut short"),
    ("2.png", png(pixels(1, 2, 5000)), "set/b/2.png is 5000 x 2, at most 4096 x 4096 is read"),
)


@pytest.mark.parametrize("name, contents, words", IMAGES_REFUSED, ids=range(len(IMAGES_REFUSED)))
def test_images_refused(name, contents, words):
    put("set/a/1.jpg", GREY_JPEG)
    put("set/a/Thumbs.db", b"thumbs")
    put(f"set/b/{name}", contents)
    r = load("images", "set", code=7)
    assert_one_error(r, words)
    assert r.stderr.count("\n") == 1, r.stderr
    assert not os.path.exists("t.h5")


def test_images_large_files():
    """Of a file that is no image only the first bytes are read, and one that cannot be so large an image is refused."""
    images_of("set/a", "set/b")
    put("set/a/film.mp4", b"\0\0\0\x20ftyp")
    os.truncate("set/a/film.mp4", 3 << 30)
    assert "set/a/film.mp4 is neither PNG nor JPEG" in load("images", "set", "--test-share", "0", **small(32)).stderr
    put("set/b/huge.png", png(pixels(1, 4, 4)))
    os.truncate("set/b/huge.png", 3 << 30)
    assert_one_error(load("images", "set", code=7, **small(32)), "set/b/huge.png has 3.0 GiB, an image of at most 4096 x 4096")


def test_images_missing():
    os.mkdir("none")
    assert_one_error(load("images", "none", code=7), "none has no folders")
    os.mkdir("none/a")
    assert_one_error(load("images", "none", code=7), "no PNG or JPEG files")
    put("new/train/a/1.jpg", GREY_JPEG)
    put("new/test/b/1.jpg", GREY_JPEG)
    assert_one_error(load("images", "new", code=7), "new/test/b has 1 images, but the training split has none (its folder is missing)")


def images_of(*folders, n=4):
    for folder in folders:
        for i in range(n):
            put(f"{folder}/{i}.png", png(pixels(i, 4, 4)))


def test_images_empty_class():
    """A folder without an image is no class: one warning names it, and the numbers of the others have no gap."""
    images_of("set/ant", "set/cow", "set/elk")
    os.mkdir("set/bee")
    put("set/dog/notes.txt", b"later")
    put("set/dog/todo.txt", b"later")
    put("set/emu/more/1.png", png(pixels(1, 4, 4)))
    left_out = "has no image and is left out of the classes: it"
    assert load("images", "set", "--test-share", "0.25").stderr.splitlines() == [
        f"shoal: warning: set/bee {left_out} is empty", f"shoal: warning: set/dog {left_out} holds only notes.txt and 1 other files",
        f"shoal: warning: set/emu {left_out} holds only folders, which are not looked into"]
    assert names() == (["ant", "cow", "elk"], 3) and sorted(made()[1]) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_images_empty_in_split():
    """Empty for training: no class if the test split has no image of it either, else refused; without test images: told by name."""
    images_of("set/train/ant", "set/train/cow", "set/test/cow")
    for folder in ("set/train/bee", "set/test/bee", "set/test/ant"):
        os.mkdir(folder)
    r = load("images", "set")
    assert r.stderr.count("\n") == 2 and "set/train/bee has no image and is left out" in r.stderr, r.stderr
    assert '1 classes have no test sample (0 "ant")' in r.stderr
    assert names() == (["ant", "cow"], 2) and made("test")[1].tolist() == [1] * 4
    images_of("set/test/bee")
    r = load("images", "set", code=7)
    assert_one_error(r, "set/test/bee has 4 images, but the training split has none (its folder is empty)")
    assert r.stderr.count("\n") == 1, r.stderr
    os.rename("set/test/bee", "set/test/cows")
    assert_one_error(load("images", "set", code=7), 'set/test/cows has 4 images, but the training split has none (did you mean "cow"?)')
    for folder in ("cow", "cows"):
        os.rename(f"set/test/{folder}", folder)
    assert_one_error(load("images", "set", code=7), "set has no image in the folders of its test split")


def test_images_two_folders_train():
    """What is not the test split is for training: its classes are those of all its folders together."""
    images_of("set/train/cow", "set/more/ant", "set/more/cow", "set/test/cow", n=2)
    load("images", "set")
    assert names() == (["ant", "cow"], 2) and made()[1].tolist() == [0, 0, 1, 1, 1, 1]
    os.symlink("nowhere.png", "set/train/cow/broken.png")
    assert_one_error(load("images", "set", code=7), "set/train/cow/broken.png", "No such file")


# ---- folders of files ----

def test_folders():
    """A folder stands for its files of the kind, in sorted order, with their splits."""
    batch = lambda k: b"".join(bytes([(k + i) % 10]) + bytes([k]) * 3072 for i in range(10))
    for k in (2, 1):
        put(f"c/data_batch_{k}.bin", batch(k))
    put("c/test_batch.bin.gz", gzip.compress(batch(3)))
    put("c/readme.html", b"<html>")
    r = load("cifar10", "c")
    assert "c: 3 files in this order: data_batch_1.bin, data_batch_2.bin, test_batch.bin.gz" in r.stdout
    assert made()[0][:, 0, 0, 0].tolist() == [1] * 10 + [2] * 10 and made("test")[0][0, 0, 0, 0] == 3
    for name, n in (("train", 6), ("t10k", 4)):
        put(f"m/{name}-images-idx3-ubyte", struct.pack(">4B3I", 0, 0, 8, 3, n, 2, 2) + bytes(range(4 * n)))
        put(f"m/{name}-labels-idx1-ubyte", struct.pack(">4BI", 0, 0, 8, 1, n) + bytes(i % 2 for i in range(n)))
    load("idx", "m")
    assert len(made()[1]) == 6 and len(made("test")[1]) == 4
    put("v/test.csv", b"1,0\n2,1\n")
    put("v/train.csv", b"3,0\n4,1\n5,0\n")
    load("csv", "v")
    assert made()[0][:, 0].tolist() == [3, 4, 5]
    assert_one_error(load("csv", "m", code=7), "the folder m has no file called like *.csv")


def test_documented_layout():
    """The lines of h5py in docs/data-layout.md make a data set."""
    with open(f"{ROOT}/docs/data-layout.md") as f:
        lines = f.read().split("```python\n")[1].split("```")[0]
    exec(lines, {"x_train": X[:30], "y_train": Y[:30], "x_test": X[30:], "y_test": Y[30:]})
    assert run([program(), "data", "inspect", "set.h5"], base=PLAIN_ENV, timeout=30).stderr == ""
