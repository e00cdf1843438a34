"""`shoal data import` of folders of images."""
import base64
import csv
import importlib.util
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import zlib

import h5py
import numpy as np
import pytest

from harness import PLAIN_ENV, assert_one_error, program, run
from importing import load, made, names, put, small

GREY_JPEG = base64.b64decode(  # 16 x 16, four squares of 200 and 30
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMU"
    "FRUVDA8XGBYUGBIUFRT/wAALCAAQABABAREA/8QAFgABAQEAAAAAAAAAAAAAAAAACQAI/8QAFBABAAAAAAAAAAAAAAAAAAAAAP/a"
    "AAgBAQAAPwDYAOkcV//Z")


COLOURS = ((200, 40, 40), (40, 200, 40)), ((40, 40, 200), (220, 220, 60))
COLOUR_JPEG = base64.b64decode(  # 16 x 8, four rectangles of these
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk"
    "//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAAIABADAREAAhEBAxEB"
    "/8QAFAABAAAAAAAAAAAAAAAAAAAABv/EABsQAAEEAwAAAAAAAAAAAAAAAAAUFWJkoaLh/8QAFgEBAQEAAAAAAAAAAAAAAAAABgQF/8QAGxEAAQQDAAAAAA"
    "AAAAAAAAAAABVioeETYWP/2gAMAwEAAhEDEQA/ADquGS9D6RZprDJods1jToKz6DqU+LP/2Q==")
PRINT_JPEG = base64.b64decode(  # 16 x 8 in cyan, magenta, yellow and black, two squares, which Pillow turns into PRINT_RGB
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwANCQoLCggNCwoLDg4NDxMgFRMSEhMnHB4XIC4pMTAuKS0sMzpKPjM2RjcsLUBXQUZMTlJTUjI+WmFaUGBKUVJP"
    "/8AAFAgACAAQBEMRAE0RAFkRAEsRAP/EABcAAAMBAAAAAAAAAAAAAAAAAAUGBwj/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/9oADgRDAE0AWQBLAAA/AFI+"
    "Kcdl1TVngYf/2Q==")
PRINT_RGB = (47, 191, 216), (245, 105, 35)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels, cut=0, extra=b""):
    """A PNG file of u1 or >u2 [h, w] or [h, w, 3 or 4], with more chunks in front of the pixels."""
    h, w = pixels.shape[:2]
    colour = 0 if pixels.ndim == 2 else {3: 2, 4: 6}[pixels.shape[2]]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    whole = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", w, h, 8 * pixels.itemsize, colour, 0, 0, 0)) + extra +
             chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    return whole[:len(whole) - cut]


def pixels(i, *shape):
    return np.random.default_rng(i).integers(0, 256, size=shape).astype("u1")


def type_shoal(command):
    """Types a command that has the word shoal."""
    return subprocess.run(command.replace("&& shoal ", f"&& {shlex.quote(program())} "), shell=True, check=True, capture_output=True, text=True)


def test_images_deep():
    """Of 16 bits 8 are left, which is told once; the command keeps all, also beside images of 8 bits and in splits."""
    deep = np.random.default_rng(1).integers(1000, 1201, (8, 16, 16)).astype(">u2")
    for i, image in enumerate(deep):
        put(f"set/{i // 4 + 9}/{i}.png", png(image))
    r = load("images", "set", "--test-share", "0")
    told = [line for line in r.stderr.splitlines() if "16 bits" in line]
    assert len(told) == 1 and "8 images have 16 bits, of which 8 are kept (v / 257, rounded), the first is set/10/4.png" in told[0]
    put("set/10/9.png", png(pixels(1, 16, 16)))
    r = load("images", "set", "--test-share", "0")
    assert "8 images have 16 bits" in r.stderr
    if importlib.util.find_spec("PIL"):
        type_shoal(re.search(r"from an array of the pixels: (.*)", r.stderr)[1])
        with h5py.File("set-16bit.h5") as f:
            x, y = (np.concatenate([f[f"{split}/{part}"][()] for split in ("train", "test") if split in f]) for part in "xy")
        want = np.concatenate([deep, pixels(1, 16, 16)[None].astype("u2") * 257]).astype("f4")
        labels = [0] * 4 + [1] * 5
        pairs = lambda y, x: sorted((k, v.tobytes()) for k, v in zip(y, x))
        assert pairs(y, x[:, 0]) == pairs(labels, want)
    for split in ("train", "test"):
        shutil.copytree("set", f"both/{split}")
    r = load("images", "both")
    if importlib.util.find_spec("PIL"):
        type_shoal(re.search(r"from an array of the pixels: (.*)", r.stderr)[1])
        with h5py.File("both-16bit.h5") as f:
            for split in ("train", "test"):
                assert pairs(f[f"{split}/y"], f[f"{split}/x"][:, 0]) == pairs(labels, want)
    put("set/10/8.png", png(pixels(1, 16, 16, 3)))
    r = load("images", "set", "--test-share", "0")
    assert "8 images have 16 bits" in r.stderr and "python3" not in r.stderr, r.stderr


def test_images_of_other_kinds():
    """One command for all kinds that are in the folders."""
    for k, (name, kind) in enumerate((("bmp", "BMP"), ("gif", "GIF"))):
        put(f"set/{name}/1.png", png(pixels(1, 8, 8)))
        for i in range(2):
            put(f"set/{name}/{i}0.{name}", b"GIF89a" if k else b"BM" + bytes(20))
    r = load("images", "set", "--test-share", "0")
    assert "find set \\( -name '*.bmp' -o -name '*.gif' \\) -exec mogrify -format png {} + makes PNGs of all" in r.stderr


def test_images_masks():
    """Images and their masks are no classes."""
    for split in ("train", "test"):
        put(f"unet/{split}/imgs/1.png", png(pixels(1, 8, 8, 3)))
        put(f"unet/{split}/Masks/1_mask.png", png(pixels(2, 8, 8)))
    assert_one_error(load("images", "unet", code=7), "unet has the folders imgs and Masks, as data sets for segmentation")
    assert_one_error(load("images", "unet/train", code=7), "unet/train has the folders imgs and Masks")
    put("yolo/images/1.png", png(pixels(1, 8, 8, 3)))
    put("yolo/labels/1.txt", b"0 0.5 0.5 0.1 0.1")
    assert_one_error(load("images", "yolo", code=7), "yolo has the folders images and labels")
    os.rename("yolo/images", "yolo/no_mask")
    os.rename("yolo/labels", "yolo/mask")
    load("images", "yolo", "--test-share", "0")


def test_images_called_new():
    """A cure does not write into the folder that it reads, whatever that is called, nor into that of another cure."""
    for i in range(3):
        for name in ("cat", "dog"):
            put(f"NEW/{name}.{i}.png", png(pixels(i, 8, 8)))
    before = sorted(os.listdir("NEW"))
    r = load("images", "NEW", code=7)
    subprocess.run(r.stderr.strip().split("begin with the class: ")[1], shell=True, check=True)
    assert sorted(os.listdir("NEW")) == before and sorted(os.listdir("NEW2")) == ["cat", "dog"]
    load("images", "NEW2", "--test-share", "0")
    for k in "ab":
        put(f"set/train/{k}/1.png", png(pixels(1, 8, 8)))
    put("set/test/1.png", png(pixels(1, 8, 8)))
    r = load("images", "set", "--test-share", "0")
    assert "mkdir -p NEW3/all && cp set/test/* NEW3/all && shoal data import images NEW3 --test-share 0 -o NEW3.h5" in r.stderr


def test_images_by_class():
    """Pixels and classes come through; grey beside colour has three channels; what is no image is told and left out."""
    for i in range(20):
        put(f"set/{'ab'[i % 2]}/{i:02}.png", png(pixels(i, 5, 6) if i == 4 else pixels(i, 5, 6, 3)))
    put("set/a/notes.txt", b"thumbs")
    put("set/b/.hidden", b"hidden")
    r = load("images", "set", "--test-share", "0.2")
    assert "20 images of 6 x 5, in colour, in 2 classes" in r.stdout
    assert "set/a/notes.txt is neither PNG nor JPEG: left out" in r.stderr and "hidden" not in r.stderr
    want = [pixels(i, 5, 6)[None].repeat(3, 0) if i == 4 else pixels(i, 5, 6, 3).transpose(2, 0, 1) for i in range(20)]
    got = {x.tobytes(): int(y) for s in ("train", "test") for x, y in zip(*made(s))}
    assert got == {w.tobytes(): i % 2 for i, w in enumerate(want)}
    assert [len(made(s)[1]) for s in ("train", "test")] == [16, 4] and sorted(made("test")[1]) == [0, 0, 1, 1]
    assert names() == (["a", "b"], 2)


def test_images_values():
    """Values are those of the file: 16 bits linearly reduced, alpha mixed with black, gamma not applied whatever the file says."""
    linear, deep = chunk(b"gAMA", struct.pack(">I", 100000)), np.arange(1 << 16).reshape(256, 256)
    colour, alpha = pixels(1, 256, 256, 3), pixels(2, 256, 256, 1)
    grey = np.rint(deep / 257)[:, :, None].repeat(3, 2)
    mixed = np.rint(colour * (alpha / 255))
    images = {"a/1": (deep.astype(">u2"), b"", grey), "a/2": (deep.astype(">u2"), linear, grey), "b/3": (colour, linear, colour),
              "b/4": (np.concatenate([colour, alpha], 2), linear, mixed),
              "b/5": ((colour * 257.0).astype(">u2"), chunk(b"sRGB", b"\0"), colour)}
    for name, (values, extra, _) in images.items():
        put(f"set/{name}.png", png(values, extra=extra))
    load("images", "set", "--test-share", "0")
    found = made()[0]
    for name, (_, _, want) in images.items():
        assert any(np.array_equal(x, want.transpose(2, 0, 1)) for x in found), name


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
    ("2.png", png(pixels(1, 16, 17)), "set: 2 images have 2 sizes: 16 x 16 (1, the first is set/a/1.jpg), 17 x 16 (1, the first is set/b/2.png); all must have one"),
    ("2.png", png(pixels(1, 16, 16), cut=60), "set/b/2.png is damaged or cut short"),
    ("2.jpg", GREY_JPEG[:-8], "set/b/2.jpg is damaged or cut short"),
    ("2.jpg", GREY_JPEG[:30], "set/b/2.jpg is damaged or cut short"),
    ("2.png", png(pixels(1, 2, 17000)), "set/b/2.png is 17000 x 2, at most 67108864 pixels, and 16384 in a row or column, are read"),
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
    assert_one_error(load("images", "set", code=7, **small(32)), "set/b/huge.png has 3.0 GiB, images of at most 256 MiB are read")


def test_images_missing():
    os.mkdir("none")
    assert_one_error(load("images", "none", code=7), "none has no folders")
    os.mkdir("none/a")
    assert_one_error(load("images", "none", code=7), "no PNG or JPEG files")
    put("new/train/a/1.jpg", GREY_JPEG)
    put("new/test/b/1.jpg", GREY_JPEG)
    assert_one_error(load("images", "new", code=7), "new/test/b has 1 images, but the training split has none (its folder is missing)")


def test_images_numbers():
    """A table that gives each image a number, not a class: told, and the command pairs them, whatever the order of its rows, also of splits."""
    faces = pixels(5, 30, 5, 4)
    ages = [f"{20 + k * 1.5:g}" for k in range(30)]
    order = np.random.default_rng(6).permutation(30)
    for k in range(30):
        put(f"faces/{k:02}.png", png(faces[k]))
    put("faces/ages.csv", ("file,age\n" + "".join(f"{k:02}.png,{ages[k]}\n" for k in order)).encode())
    r = run([program(), "data", "import", "images", "faces", "-o", "t.h5"], base=PLAIN_ENV, code=7)
    assert_one_error(r, 'by faces/ages.csv: its "age" are numbers to be predicted, and no classes, and images of other sizes are scaled to that of the first: ')
    command, import_ = re.search(r"(\S*python3 -c .* NEW) does, and (shoal data import npy NEW.npz --target age) -o NEW.h5", r.stderr).groups()
    subprocess.run(command, shell=True, check=True)
    load(*import_.split()[3:], "--test-share", "0")
    with h5py.File("t.h5") as f:
        assert np.array_equal(f["train/x"][:, 0], faces[order]) and f["train/targets"][:].ravel().tolist() == [float(ages[k]) for k in order]
        assert f.attrs["target_names"] in ("age", b"age")
    put("faces/ages.csv", ("file,kind\n" + "".join(f"{k:02}.png,{k % 3}\n" for k in order)).encode())
    r = run([program(), "data", "import", "images", "faces", "-o", "t.h5"], base=PLAIN_ENV, code=7)
    assert "numbers to be predicted" not in r.stderr and "shoal data import images NEW" in r.stderr


def images_of(*folders, n=4):
    for folder in folders:
        for i in range(n):
            put(f"{folder}/{i}.png", png(pixels(zlib.crc32(folder.encode()) + i, 4, 4)))


def test_images_empty_class():
    """A folder without an image is no class: one warning names it, and the numbers of the others have no gap."""
    images_of("set/ant", "set/cow", "set/elk")
    os.mkdir("set/bee")
    put("set/dog/notes.txt", b"later")
    put("set/dog/todo.txt", b"later")
    put("set/emu/more/1.png", png(pixels(1, 4, 4)))
    left_out = "has no image and is left out of the classes: it"
    assert load("images", "set", "--test-share", "0.25").stderr.splitlines() == [
        f"shoal: warning: set/bee {left_out} is empty", f"shoal: warning: set/dog {left_out} holds only notes.txt and 1 other file",
        f"shoal: warning: set/emu {left_out} holds only folders, which are not looked into"]
    assert names() == (["ant", "cow", "elk"], 3) and sorted(made()[1]) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    put("set/bee/1.png", b"version https://git-lfs.github.com/spec/v1\n")
    assert f"set/bee {left_out} holds only 1.png, which is a pointer of Git LFS without the data" in load("images", "set").stderr
    os.makedirs("clone/a")
    os.rename("set/bee/1.png", "clone/a/1.png")
    assert_one_error(load("images", "clone", code=7), "clone/a/1.png is a pointer of Git LFS without the data: git lfs pull fetches that")
    for i in range(3):
        put(f"set/bee/{i}.webp", b"RIFF....WEBPVP8")
    assert (f"set/bee {left_out} holds only 0.webp, which is a WebP image, and 2 other files; find set/bee -name '*.webp' -exec mogrify -format png {{}} + makes PNGs"
            in load("images", "set").stderr)


def test_images_empty_in_split():
    """Empty for training: no class if the test split has no image of it either, else refused; without test images: told by name."""
    images_of("set/train/ant", "set/train/cow", "set/test/cow")
    for folder in ("set/train/bee", "set/test/bee", "set/test/ant"):
        os.mkdir(folder)
    r = load("images", "set")
    assert r.stderr.count("\n") == 2 and "set/train/bee has no image and is left out" in r.stderr, r.stderr
    assert '1 class has no test sample (0 "ant")' in r.stderr
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


def test_images_of_systems():
    """What a system or its file browser leaves behind is no class and no split: one line names the folder, none a file."""
    images_of("set/train/cat", "set/train/dog", "set/test/cat", "set/test/dog")
    for folder in ("__MACOSX/cat", "__MACOSX/train/cat", "@eaDir/train", ".ipynb_checkpoints/cat", "train/__MACOSX", "train/lost+found"):
        put(f"set/{folder}/._1.png", bytes([0, 5, 22, 7]) + bytes(208))
        put(f"set/{folder}/1.png", png(pixels(1, 4, 4)))
    for file in ("Thumbs.db", ".DS_Store", "train/Thumbs.db", "train/cat/Thumbs.db", "train/cat/desktop.ini", "test/dog/._1.png"):
        put(f"set/{file}", b"x")
    r = load("images", "set")
    assert r.stderr.splitlines() == ["shoal: warning: set/train/__MACOSX and 3 more such folders are left out: a system or its file "
                                     "browser made them, not who made the images"], r.stderr
    assert names() == (["cat", "dog"], 2) and made()[1].tolist() == [0] * 4 + [1] * 4 == made("test")[1].tolist()
    put("set/train/emu/.DS_Store", b"x")
    assert "set/train/emu has no image and is left out of the classes: it holds only hidden files" in load("images", "set").stderr


def test_images_two_folders_train():
    """What is not the test split is for training: its classes are those of all its folders together."""
    images_of("set/train/cow", "set/more/ant", "set/more/cow", "set/test/cow", n=2)
    put("set/annotations/1.xml", b"<a/>")
    put("set/notes/more/1.txt", b"later")
    r = load("images", "set")
    assert "set/more is for training, too, since no word of its name is train" in r.stderr
    assert "set/annotations is left out: it stands beside train and has no folders of classes" in r.stderr
    assert "set/notes is left out: it stands beside train and has no images in folders of classes" in r.stderr
    assert names() == (["ant", "cow"], 2) and made()[1].tolist() == [0, 0, 1, 1, 1, 1]
    os.symlink("nowhere.png", "set/train/cow/broken.png")
    assert_one_error(load("images", "set", code=7), "set/train/cow/broken.png", "No such file")


def exif(orientation, big):
    """The segment of a JPEG with this orientation, behind another tag."""
    order = ">" if big else "<"
    entries = b"".join(struct.pack(order + "HHIHH", tag, 3, 1, value, 0) for tag, value in ((0x100, 7), (0x112, orientation)))
    tiff = (b"MM" if big else b"II") + struct.pack(order + "HIH", 42, 8, 2) + entries + bytes(4)
    return b"\xff\xe1" + struct.pack(">H", len(tiff) + 8) + b"Exif\0\0" + tiff


TURNED = {2: lambda x: x[:, ::-1], 3: lambda x: x[::-1, ::-1], 4: lambda x: x[::-1], 5: lambda x: x.swapaxes(0, 1),
          6: lambda x: np.rot90(x, -1), 7: lambda x: x[::-1, ::-1].swapaxes(0, 1), 8: lambda x: np.rot90(x)}


@pytest.mark.parametrize("orientation", TURNED)
def test_images_exif(orientation):
    """A photo that is stored turned is read as it is shown, and has the size that is shown; pixels are otherwise the same."""
    put("plain/a/1.jpg", COLOUR_JPEG)
    load("images", "plain", "--test-share", "0")
    stored = made()[0][0].transpose(1, 2, 0)
    for i, j in np.ndindex(2, 2):
        assert abs(stored[4 * i + 1, 8 * j + 1].astype(int) - COLOURS[i][j]).max() < 12
    for big in (False, True):
        put("set/a/1.jpg", COLOUR_JPEG[:2] + exif(orientation, big) + COLOUR_JPEG[2:])
        assert "1 image is turned as its Exif orientation says, the first is set/a/1.jpg" in load(
            "images", "set", "--test-share", "0").stdout
        assert np.array_equal(made()[0][0].transpose(1, 2, 0), TURNED[orientation](stored)), big


@pytest.mark.parametrize("orientation", TURNED)
def test_images_exif_of_png(orientation):
    put("set/a/1.png", png(pixels(1, 4, 6, 3), extra=chunk(b"eXIf", exif(orientation, True)[10:])))
    assert "1 image is turned as its Exif orientation says" in load("images", "set", "--test-share", "0").stdout
    assert np.array_equal(made()[0][0].transpose(1, 2, 0), TURNED[orientation](pixels(1, 4, 6, 3)))


def test_images_exif_damaged():
    """As if there was none, or another orientation; never a crash."""
    whole = exif(6, True)
    for at in range(4, len(whole), 3):
        put(f"set/a/{at}.jpg", COLOUR_JPEG[:2] + whole[:at] + b"\xff" + whole[at + 1:] + COLOUR_JPEG[2:])
    put("set/a/0.jpg", COLOUR_JPEG[:2] + whole + COLOUR_JPEG[2:])
    r = load("images", "set", code=None)
    assert r.returncode in (0, 7) and r.stderr.count("\n") <= 2, r.stderr


def triangle(old, new):
    """Weights [new, old] of each old pixel in each new one."""
    scale = old / new
    far = abs(np.arange(old) + 0.5 - (np.arange(new)[:, None] + 0.5) * scale) / max(scale, 1)
    weights = np.maximum(0, 1 - far)
    return weights / weights.sum(1, keepdims=True)


def scaled(image, width, height):
    return np.einsum("ij,jk...,lk->il...", triangle(image.shape[0], height), image.astype("f8"), triangle(image.shape[1], width))


def test_images_sizes():
    """Images of several sizes: all are told, and the import that is printed scales them; files stay as they are."""
    folder = "my $pics/it's a set"
    shapes = [(16, 16), (16, 16), (16, 16), (8, 24), (40, 7), (3, 3)]
    for i, (h, w) in enumerate(shapes):
        put(f"{folder}/{'ab'[i % 2]}/{i}.png", png(pixels(i, h, w, 3)))
    r = load("images", folder, "--test-share", "0", code=7)
    assert_one_error(r, f"{folder}: 6 images have 4 sizes: 16 x 16 (3, the first is {folder}/a/0.png), ",
                     f"24 x 8 (1, the first is {folder}/b/3.png)", " --size 16x16 --test-share 0 -o ")
    before = {f: open(f, "rb").read() for f in (f"{folder}/{'ab'[i % 2]}/{i}.png" for i in range(6))}
    command = r.stderr.strip().split("stay as they are: shoal ")[1]
    r = subprocess.run(f"{shlex.quote(program())} {command}", shell=True, capture_output=True, text=True, env={**os.environ, **PLAIN_ENV})
    assert r.returncode == 0 and f"3 images are scaled to 16 x 16, 2 of them to other proportions; the first is {folder}/a/4.png, 7 x 40" in r.stdout, r
    x = made()[0]
    for k, i in enumerate((0, 2, 4, 1, 3, 5)):
        assert abs(x[k].transpose(1, 2, 0) - scaled(pixels(i, *shapes[i], 3), 16, 16)).max() <= (0.501 if i > 2 else 0)
    assert before == {f: open(f, "rb").read() for f in before}
    if importlib.util.find_spec("PIL"):
        from PIL import Image
        for k, i in ((2, 4), (4, 3), (5, 5)):
            want = np.array(Image.open(f"{folder}/{'ab'[i % 2]}/{i}.png").resize((16, 16), Image.Resampling.BILINEAR))
            assert abs(x[k].transpose(1, 2, 0).astype(int) - want).max() <= 1
    load("images", folder, "--size", "5x9")
    assert made()[0].shape[1:] == (3, 9, 5)
    load("images", folder, "--size", "4")
    assert made()[0].shape[1:] == (3, 4, 4)
    for wrong in ("0x4", "4x", "x4", "4x4x4", "5000", "big", ""):
        assert_one_error(load("images", folder, "--size", wrong, code=2), f'--size is "{wrong}": must be width and height, 1 to 4096')
    assert_one_error(load("images", folder, "--size", "4", "--like", "t.h5", code=2), "--size does nothing beside --like")


def test_images_sizes_middle():
    """No size that most have: the middle of widths and heights, at most 224; turned images have the size that is shown."""
    for i, (h, w) in enumerate(((2, 400), (4, 300), (6, 500), (8, 250), (10, 260))):
        put(f"set/a/{i}.png", png(pixels(i, h, w)))
    assert_one_error(load("images", "set", code=7), "5 images have 5 sizes", "--size 224x4 -o ")
    put("large/a/1.png", png(pixels(1, 2, 5000)))
    assert_one_error(load("images", "large", code=7), "1 image has 1 size: 5000 x 2 (1, ", "4096 x 4096 is the largest", "--size 224x1 -o ")
    load("images", "large", "--size", "50x2", "--test-share", "0")
    assert abs(made()[0][0, 0] - scaled(pixels(1, 2, 5000), 50, 2)).max() <= 0.501
    put("turned/a/1.jpg", COLOUR_JPEG)
    put("turned/a/2.jpg", COLOUR_JPEG[:2] + exif(6, False) + COLOUR_JPEG[2:])
    assert_one_error(load("images", "turned", code=7), "16 x 8 (1, the first is turned/a/1.jpg), 8 x 16 (1, ", "--size 16x8 -o ")
    load("images", "turned", "--size", "16x8", "--test-share", "0")
    both = made()[0]
    shutil.copytree("turned", "one", ignore=shutil.ignore_patterns("1.jpg"))
    load("images", "one", "--test-share", "0")
    assert abs(both[1].transpose(1, 2, 0) - scaled(made()[0][0].transpose(1, 2, 0), 16, 8)).max() <= 0.501


def test_images_print():
    """The colours of print become those that Pillow makes of them."""
    put("set/a/1.jpg", PRINT_JPEG)
    r = load("images", "set", "--test-share", "0")
    assert "1 image has the colours of print (CMYK), which become RGB, the first is set/a/1.jpg" in r.stdout
    x = made()[0][0].transpose(1, 2, 0)
    assert (x[:, :8] == PRINT_RGB[0]).all() and (x[:, 8:] == PRINT_RGB[1]).all()


def test_images_harmless_warnings():
    """What a decoder says about all but the pixels is a warning; pixels are those of a file without it."""
    put("plain/a/1.jpg", COLOUR_JPEG)
    load("images", "plain", "--test-share", "0")
    want = made()[0]
    put("set/a/1.jpg", COLOUR_JPEG[:-2] + bytes(range(64)) + COLOUR_JPEG[-2:])
    r = load("images", "set", "--test-share", "0")
    assert "1 image was read in spite of a warning, the first is set/a/1.jpg: Corrupt JPEG data" in r.stderr
    assert np.array_equal(made()[0], want)
    put("set/b/2.jpg", COLOUR_JPEG[:-2] + bytes(range(64)) + COLOUR_JPEG[-2:])
    assert re.search("2 images were read in spite of a warning, the first is set/a/1.jpg: Corrupt.*; set/b/2.jpg: Corrupt",
                     load("images", "set", "--test-share", "0").stderr)
    for extra in (chunk(b"iCCP", b"sRGB\0\0" + zlib.compress(bytes(20))), chunk(b"tEXt", b"a\0b")[:-1] + b"?"):
        put("other/a/1.png", png(pixels(1, 5, 6, 3), extra=extra))
        r = load("images", "other", "--test-share", "0")
        assert "in spite of a warning, the first is other/a/1.png" in r.stderr
        assert np.array_equal(made()[0][0], pixels(1, 5, 6, 3).transpose(2, 0, 1))
    damaged = png(pixels(1, 5, 6, 3), extra=extra)
    put("other/a/1.png", damaged[:-20] + bytes([damaged[-20] ^ 1]) + damaged[-19:])  # in the pixels, too
    assert_one_error(load("images", "other", code=7), "other/a/1.png is damaged or cut short: IDAT",
                     "get it again, or leave it out: mkdir -p other-damaged && mv --backup=numbered -t other-damaged other/a/1.png")


@pytest.mark.parametrize("folder", ("set", "set/", "."))
def test_images_damaged(folder):
    """All images that are cut are told at once, in their pixels or their heads, and the command takes them out, though two have one
    name; nothing is lost."""
    images_of("set/a", "set/b")
    if folder == ".":
        os.mkdir("above"), os.rename("set", "above/set"), os.chdir("above/set")
    at = "" if folder == "." else "set/"
    put(f"{at}a/7.jpg", COLOUR_JPEG[:-40])
    put(f"{at}b/7.jpg", COLOUR_JPEG[:-40])
    put(f"{at}b/8.png", png(pixels(1, 5, 6, 3))[:20])
    r = load("images", folder, code=7)
    assert_one_error(r, "is damaged or cut short: ", "; 2 more cannot be read; get them again, or leave them out: mkdir -p ")
    run(["bash", "-c", re.search("leave them out: (.*)", r.stderr)[1]], base=PLAIN_ENV)
    load("images", folder, "--test-share", "0")
    apart = "../damaged" if folder == "." else "set-damaged" if folder == "set" else "set/../damaged"
    assert sorted(os.listdir(apart)) == ["7.jpg", "7.jpg.~1~", "8.png"] and len(made()[1]) == 8


OTHERS = ((b"GIF89a", " but a GIF image: left out; mogrify -format png set/a/0 makes a PNG"), (b"", "is empty: left out; get it again"),
          (b"RIFF....WEBPVP8", " but a WebP image"), (b"<!doctype html>", " but a web page"), (b"II*\0....", " but a TIFF image"),
          (b"\0\0\0\x18ftypheic", " but a HEIC image"), (b"notes", "is neither PNG nor JPEG: left out"))


@pytest.mark.parametrize("contents, words", OTHERS)
def test_images_of_other_kinds(contents, words):
    images_of("set/a", "set/b")
    put("set/a/0", contents)
    assert "set/a/0" in (r := load("images", "set", "--test-share", "0")).stderr and words in r.stderr and len(made()[1]) == 8


def test_images_files():
    """The names of the files are kept beside the samples, also by repack, and come with predictions in both forms."""
    images_of("set/a", "set/b, c")
    load("images", "set", "--test-share", "0.5")
    run([program(), "data", "repack", "t.h5", "-o", "again.h5"], base=PLAIN_ENV)
    with h5py.File("t.h5") as f, h5py.File("again.h5") as g:
        files = {s: bytes(f[f"{s}/files"]).decode().splitlines() for s in ("train", "test")}
        assert all(bytes(g[f"{s}/files"]) == bytes(f[f"{s}/files"]) for s in files)
        for split, names_ in files.items():
            for name, x in zip(names_, f[f"{split}/x"][:], strict=True):
                k, i = name.split("/")
                assert np.array_equal(x[0], pixels(zlib.crc32(f"set/{k}".encode()) + int(i[0]), 4, 4)), name
    assert sorted(files["train"] + files["test"]) == sorted(f"{k}/{i}.png" for k in ("a", "b, c") for i in range(4))
    run([program(), "train", "-q", "--set", "data.file=t.h5", "--set", "model.name=mlp", "--set", "model.widths=4", "--set", "run.epochs=1"], base=PLAIN_ENV)
    assert "of 6 columns: sample, file, label, predicted," in run([program(), "predict", "runs/run", "t.h5", "-o", "p.csv"], base=PLAIN_ENV).stdout
    run([program(), "predict", "runs/run", "t.h5", "-o", "p.h5"], base=PLAIN_ENV)
    with open("p.csv", newline="") as f:
        assert [row["file"] for row in csv.DictReader(f)] == files["test"]
    with h5py.File("p.h5") as f:
        assert bytes(f["files"]).decode().splitlines() == files["test"]


def test_images_converted():
    """What a file was converted to lies beside it, as the cure makes it: then nothing is said of the original."""
    images_of("set/a", "set/b")
    for name in ("0.webp", "9.WEBP"):
        put(f"set/a/{name}", b"RIFF....WEBPVP8")
    assert "set/a/9.WEBP is neither PNG nor JPEG but a WebP image: left out; mogrify -format png set/a/9.WEBP" in load(
        "images", "set", "--test-share", "0").stderr
    put("set/a/9.png", png(pixels(9, 4, 4)))
    assert "WebP" not in load("images", "set", "--test-share", "0").stderr and len(made()[1]) == 9


def test_images_class_names():
    """Numbers are classes in the order of their values; a name that cannot be stored is refused."""
    images_of(*(f"set/{k}" for k in range(12)), n=1)
    load("images", "set", "--test-share", "0")
    assert names() == ([str(k) for k in range(12)], 12)
    for k in range(12):
        put(f"set/{k}/0.png", png(np.full((4, 4), k, "u1")))
    load("images", "set", "--test-share", "0")
    assert np.array_equal(made()[0][:, 0, 0, 0], made()[1])
    images_of("set/ten", n=1)
    load("images", "set", "--test-share", "0")
    assert names()[0] == [*map(str, range(12)), "ten"]
    images_of("set/a\nb", n=1)
    assert_one_error(load("images", "set", code=7), 'the name of the folder "a\\nb" has a line break')


def test_images_folder_in_folder():
    images_of("outer/inner/a", "outer/inner/b")
    assert_one_error(load("images", "outer", code=7), "if the folders in outer/inner are the classes, give that")
    stderr = load("images", "outer", code=7).stderr
    subprocess.run(re.search(r"if they are parts of a class, (.*?) links all", stderr)[1], shell=True, check=True)
    assert "in 1 class" in load("images", "outer-flat").stdout


def test_images_three_splits():
    """One of them is told to be left out, and the other two are what their names say."""
    images_of("set/train/a", "set/train/b", "set/val/a", "set/test/b", n=2)
    r = load("images", "set")
    assert "val is for validation, by its name, and left out: test is the test split" in r.stderr
    assert made()[1].tolist() == [0, 0, 1, 1] and made("test")[1].tolist() == [1, 1]


def test_images_to_predict():
    """Kaggle's test beside train and valid: its images have no classes; the command that is printed makes a set to predict of them."""
    images_of("set/train/a", "set/train/b", "set/valid/a", n=2)
    images_of("set/test", n=3)
    r = load("images", "set")
    assert "its 3 images are in no folder of a class, so left out; to predict them: mkdir" in r.stderr, r.stderr
    assert made()[1].tolist() == [0, 0, 1, 1] and made("test")[1].tolist() == [0, 0]
    command = re.search(r"to predict them: (mkdir .*) && shoal (.*)", r.stderr)
    subprocess.run(command[1], shell=True, check=True)
    run([program(), *command[2].split()], base=PLAIN_ENV, timeout=30)
    with h5py.File("NEW.h5") as f:
        assert f["train/x"].shape[0] == 3
    shutil.rmtree("set/test")
    os.mkdir("set/test")
    assert "set/test is left out: it has no folders of classes" in load("images", "set").stderr and made("test")[1].tolist() == [0, 0]


def test_images_unseen():
    """What is in no folder of a class, and in folders inside them, is told."""
    images_of("set/a", "set/b", "set", "set/a/more", n=2)
    r = load("images", "set", "--test-share", "0")
    assert "set/0.png and 1 more images are in no folder of a class: left out" in r.stderr
    assert "set/a has folders inside (more), which are not looked into: images in them belong to no class" in r.stderr
    assert made()[1].tolist() == [0, 0, 1, 1]
    shutil.rmtree("set/a/more")
    os.symlink("..", "set/a/again")
    images_of("other/x", n=1)
    os.symlink("../other", "set/all")
    os.symlink(".", "set/loop")
    r = load("images", "set", "--test-share", "0")
    assert "set/a has folders inside (again, a link), which are not looked into" in r.stderr
    assert "set/all has no image and is left out of the classes: it is a link to a folder of folders, which are not looked into" in r.stderr
    assert "set/loop is a link to a folder that holds it, and is left out\n" in r.stderr
    assert made()[1].tolist() == [0, 0, 1, 1] and names() == (["a", "b"], 2)


def test_images_animated():
    """Of an animated PNG the picture that others show is taken, which is told; one of a single picture is like any other."""
    for n in (1, 3):
        put(f"set/a/{n}.png", png(pixels(n, 4, 4), extra=chunk(b"acTL", struct.pack(">2I", n, 0))))
    put("set/b/1.png", png(pixels(5, 4, 4)))
    r = load("images", "set", "--test-share", "0")
    assert ("1 image has several pictures (animated, or by a camera with several lenses): the first is taken, the others are left out; "
            "the first is set/a/3.png") in r.stderr
    assert np.array_equal(made()[0][:, 0], [pixels(k, 4, 4) for k in (1, 3, 5)])


def test_images_multi_picture():
    """Of a JPEG with several pictures (MPO) the first is taken, which is told."""
    index = b"MPF\0MM\0*\0\0\0\10\0\0"
    put("set/a/1.jpg", GREY_JPEG)
    put("set/b/1.jpg", GREY_JPEG[:2] + b"\xff\xe2" + struct.pack(">H", len(index) + 2) + index + GREY_JPEG[2:] + GREY_JPEG)
    r = load("images", "set", "--test-share", "0")
    assert "1 image has several pictures" in r.stderr and "the first is set/b/1.jpg" in r.stderr, r.stderr
    x = made()[0]
    assert np.array_equal(x[0], x[1])


def by_table(r):
    """Types the command of a message, and gives what it made."""
    command, then = re.search("([^ ]*python3 -c .*) && (shoal data import images NEW -o NEW.h5)$", r.stderr, re.M).groups()
    subprocess.run(["bash", "-c", command], check=True)
    return {d: sorted(f) for d, _, f in os.walk("NEW") if f}


def test_images_table():
    """A table beside the images is not read, which is told; where there are no folders, too, and the command makes them."""
    for n in range(6):
        put(f"flat/{n}.png", png(pixels(n, 4, 4)))
    put("flat/labels.csv", b"file,class\r\n" + b"".join(b"%d.png,%s\r\n" % (n, (b"cat", b"a dog")[n % 2]) for n in range(6)))
    r = load("images", "flat", code=7)
    assert_one_error(r, "flat has no folders", "; by flat/labels.csv: ")
    assert by_table(r) == {"NEW/cat": ["0.png", "2.png", "4.png"], "NEW/a dog": ["1.png", "3.png", "5.png"]}
    assert "labels.csv" not in load("images", "NEW", "--test-share", "0").stderr
    assert names() == (["a dog", "cat"], 2)
    assert sorted(made()[0][made()[1] == 0].tolist()) == sorted(pixels(n, 4, 4)[None].tolist() for n in (1, 3, 5))
    put("NEW/train.csv", b"file,class\n")
    assert "NEW/train.csv is not read, classes are the names of folders\n" in load("images", "NEW").stderr


@pytest.mark.parametrize("form", ("ids", "list", "bare"))
def test_images_listed(form):
    """Tables of contests, whose ids lack an ending; lists without header and with spaces; all images in one folder that is no class."""
    for n in range(6):
        put(f"set/train/{n:03}a.png" if form == "ids" else f"set/img/{n:03}a.png", png(pixels(n, 4, 4)))
    if form == "ids":
        put("set/test/9.png", png(pixels(9, 4, 4)))
        put("set/labels.csv", b"id,breed\n" + b"".join(b"%03da,%s\n" % (n, (b"pug", b"boxer")[n % 2]) for n in range(6)))
    elif form == "list":
        put("set/train.txt", b"".join(b"img/%03da.png %d\n" % (n, n % 2) for n in range(4)))
        put("set/test.txt", b"".join(b"img/%03da.png %d\n" % (n, n % 2) for n in range(4, 6)))
        put("set/readme.txt", b"Images of dogs\n")
    else:
        put("set/labels.csv", b"".join(b"%03da.png,%s\n" % (n, (b"pug", b"boxer")[n % 2]) for n in range(6)))
    r = load("images", "set", code=7)
    assert_one_error(r, "each split has a folder" if form == "ids" else "set has all images in one folder, set/img, and set/")
    made_of = by_table(r)
    if form == "list":
        assert made_of == {"NEW/train/0": ["000a.png", "002a.png"], "NEW/train/1": ["001a.png", "003a.png"], "NEW/test/0": ["004a.png"],
                           "NEW/test/1": ["005a.png"]}
    else:
        assert made_of == {"NEW/pug": ["000a.png", "002a.png", "004a.png"], "NEW/boxer": ["001a.png", "003a.png", "005a.png"]}
    load("images", "NEW", "--test-share", "0") if form != "list" else load("images", "NEW")
    for name in ("train.txt", "test.txt", "labels.csv"):
        if os.path.exists(f"set/{name}"):
            os.remove(f"set/{name}")
    if form != "ids":
        assert "one class only" in load("images", "set", "--test-share", "0").stderr


@pytest.mark.parametrize("where", ("absolute", "table", "working", "split"))
@pytest.mark.parametrize("inside", (False, True))
def test_images_tables_of_splits(where, inside):
    """Splits without folders of classes, with a table each, beside or in them, whose first column counts and whose files are named from
    anywhere; folders called train and test are never classes."""
    at = {"absolute": lambda s: f"{os.getcwd()}/set/{s}/", "working": lambda s: f"set/{s}/", "split": lambda s: "",
          "table": lambda s: "" if inside else f"{s}/"}[where]
    for split, count in (("train", 8), ("test", 4)):
        for n in range(count):
            put(f"set/{split}/{n}.png", png(pixels(n, 4, 4)))
        rows = "".join(f"{7 * n % 5},{at(split)}{n}.png,{n % 2}\n" for n in range(count))
        put(f"set/{split}/labels.csv" if inside else f"set/{split}.csv", f",{split}_samples,{split}_labels\n{rows}".encode())
    r = load("images", "set", code=7)
    assert_one_error(r, "set has folders called as splits, whose images lie in no folder of a class, the first is set/test/0.png")
    assert by_table(r) == {"NEW/train/0": ["0.png", "2.png", "4.png", "6.png"], "NEW/train/1": ["1.png", "3.png", "5.png", "7.png"],
                           "NEW/test/0": ["0.png", "2.png"], "NEW/test/1": ["1.png", "3.png"]}
    load("images", "NEW")
    assert names() == (["0", "1"], 2) and len(made("test")[1]) == 4
    for name in ("train", "test"):
        os.remove(f"set/{name}/labels.csv" if inside else f"set/{name}.csv")
    assert_one_error(load("images", "set", code=7), "each split has a folder for each class")


def test_folders_that_look_alike():
    """In capitals or spaces alone: classes of their own, told.  Those of a test split, written with an accent in two ways: refused,
    and the command printed makes one of them."""
    for k, name in enumerate(("cat", "dog", "Cat ")):
        for i in range(3):
            put(f"set/{name}/{i}.png", png(pixels(10 * k + i, 4, 4)))
    words = 'classes 0 "Cat " and 1 "cat" differ only in capitals or spaces, and are two'
    assert words in load("images", "set", "--test-share", "0").stderr
    images_of("split/train/Man\u00e1", "split/train/b", "split/test/Mana\u0301", "split/test/b", n=2)
    r = load("images", "split", code=7)
    assert_one_error(r, "split/test/Mana\u0301 has 2 images, but the training split has none under this name, which differs from that of "
                     "split/train/Man\u00e1 only in signs that look alike (U+00E1 and U+0061 U+0301): if they are one class, mv")
    subprocess.run("mv " + r.stderr.split(": if they are one class, mv ")[1], shell=True, check=True)
    load("images", "split")
    assert made("test")[1].tolist() == [0, 0, 1, 1]


def test_classes_in_names():
    """Images of a folder that are called by their classes and a number: the command makes a folder of each class."""
    for i in range(1, 13):
        put(f"all/cat.{i}.png", png(pixels(i, 4, 4)))
        put(f"all/great_dane ({i}).png", png(pixels(100 + i, 4, 4)))
    put("all/LICENSE", b"text")
    r = load("images", "all", code=7)
    subprocess.run(["bash", "-c", re.search("class: (for .* done)$", r.stderr.strip())[1]], check=True)
    assert "LICENSE" in load("images", "NEW").stderr
    assert names() == (["cat", "great_dane"], 2) and len(made()[1]) == 22
    put("all/1.png", png(pixels(7, 4, 4)))
    assert "for f in" not in load("images", "all", code=7).stderr


def test_images_like():
    """Channels, size and classes are those of another data set, whatever the folders have; all samples stay in one split."""
    for name, shape in (("rgb", (4, 6, 3)), ("grey", (4, 6))):
        for label in ("10", "day", "night"):
            for i in range(4):
                put(f"{name}/{label}/{i}.png", png(pixels(zlib.crc32(f"{name}{label}{i}".encode()), *shape)))
        load("images", name)
        shutil.move("t.h5", f"{name}.h5")
    shutil.rmtree("grey/10")
    shutil.rmtree("rgb/day")
    r = load("images", "grey", "--like", "rgb.h5")
    assert "8 images are grey and become three equal channels, as rgb.h5 has them; the first is grey/day/0.png" in r.stdout
    x, y = made()
    assert names() == (["10", "day", "night"], 3) and y.tolist() == [1] * 4 + [2] * 4
    for k, (label, i) in enumerate((label, i) for label in ("day", "night") for i in range(4)):
        assert np.array_equal(x[k], [pixels(zlib.crc32(f"grey{label}{i}".encode()), 4, 6)] * 3)
    put("rgb/night/4.jpg", COLOUR_JPEG)
    r = load("images", "rgb", "--like", "grey.h5")
    assert "1 image is scaled to 6 x 4, as those of grey.h5, to other proportions; the first is rgb/night/4.jpg, 16 x 8" in r.stdout
    assert made()[0].shape == (9, 1, 4, 6)
    os.remove("rgb/night/4.jpg")
    r = load("images", "rgb", "--like", "grey.h5")
    assert "8 images have colours and become grey (0.299 red + 0.587 green + 0.114 blue), as grey.h5 has them" in r.stdout
    x, y = made()
    assert x.shape == (8, 1, 4, 6) and y.tolist() == [0] * 4 + [2] * 4
    for k, (label, i) in enumerate((label, i) for label in ("10", "night") for i in range(4)):
        want = pixels(zlib.crc32(f"rgb{label}{i}".encode()), 4, 6, 3) @ [0.299, 0.587, 0.114]
        assert abs(x[k, 0] - want).max() <= 0.51
    load("images", "rgb", "--like", "grey.h5", "--test-share", "0.25")
    assert len(made()[1]) == 6 and len(made("test")[1]) == 2


def test_images_like_jpeg():
    """Colours of a JPEG, and those of print, are mixed as those of a PNG."""
    put("grey/a/0.png", png(pixels(1, 8, 16)))
    put("set/a/0.jpg", COLOUR_JPEG)
    put("set/a/1.jpg", PRINT_JPEG)
    load("images", "set", "--test-share", "0")
    want = np.einsum("nchw,c->nhw", made()[0].astype("f8"), [0.299, 0.587, 0.114])
    load("images", "grey", "--test-share", "0")
    os.rename("t.h5", "grey.h5")
    load("images", "set", "--like", "grey.h5")
    assert abs(made()[0][:, 0] - want).max() <= 0.51


def test_images_like_labels():
    """Classes without names are their numbers; one folder that is none of them has images without labels; other folders are refused."""
    with h5py.File("numbers.h5", "w") as f:
        f["train/x"], f["train/y"] = np.zeros((4, 1, 4, 4), "u1"), np.arange(4, dtype="i4")
        f.attrs.update({"kind": "images", "classes": 4})
    images_of("set/3", "set/1", n=2)
    load("images", "set", "--like", "numbers.h5")
    assert made()[1].tolist() == [1, 1, 3, 3]
    with h5py.File("t.h5") as f:
        assert f.attrs["classes"] == 4 and "class_names" not in f.attrs
    images_of("cats/cat", "cats/dog", "all/some", "near/cats", "other/cat", "other/cow", n=2)
    load("images", "cats")
    os.rename("t.h5", "like.h5")
    r = load("images", "all", "--like", "like.h5")
    assert "all/some is no class of like.h5: its images have no labels" in r.stdout and names() == (["?"], 1)
    r = load("images", "all/some", "--like", "like.h5")  # the images themselves
    assert "all/some is no class of like.h5: its images have no labels" in r.stdout and names() == (["?"], 1) and len(made()[1]) == 2
    put("t.h5", b"an older file")
    for folder, words in (("near", 'near/cats has 2 images, but like.h5 has no such class (did you mean "cat"?)'),
                          ("other", 'other/cow has 2 images, but like.h5 has no such class')):
        assert_one_error(load("images", folder, "--like", "like.h5", code=7), words, "rename the folder, or remove it")
    with h5py.File("table.h5", "w") as f:
        f["train/x"], f.attrs["kind"] = np.zeros((4, 2), "f4"), "features"
    assert_one_error(load("images", "cats", "--like", "table.h5", code=2), "--like table.h5: it was not made of images")
    with h5py.File("four.h5", "w") as f:
        f["train/x"], f.attrs["kind"] = np.zeros((4, 4, 4, 4), "u1"), "images"
    assert_one_error(load("images", "cats", "--like", "four.h5", code=2), "its images have 4 channels")
    with h5py.File("targets.h5", "w") as f:
        f["train/x"], f["train/targets"], f.attrs["kind"] = np.zeros((4, 1, 4, 4), "u1"), np.zeros(4), "images"
    assert_one_error(load("images", "cats", "--like", "targets.h5", code=2), "numbers that are to be predicted, and folders have classes")
    with open("t.h5", "rb") as f:
        assert f.read() == b"an older file"
