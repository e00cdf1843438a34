"""Files that were damaged, or made up by somebody with check sums made right again: 200 of each kind, drawn by the seed.  Each
ends in a right result or in one clear line, never in a crash, a hang, more than a GiB of memory, or silence.

SHOAL_FULL=1 draws 2000 of each, SHOAL_TEST_SEED others."""
import concurrent.futures
import glob
import os
import resource
import shutil
import signal
import subprocess

import h5py
import numpy as np
import pytest

import crafted
from harness import FULL, PLAIN_ENV, TESTS, built, program, random_source, run, trace_files

COUNT = 2000 if FULL else 200
SECONDS, GIB = 10, 1 << 30
NUMBERS = (0, 1, 2, 255, 256, 65535, 1 << 31, (1 << 31) - 1, 1 << 32, (1 << 63) - 1, -1, -2, -(1 << 31), -(1 << 63))
REALS = (0.0, -1.0, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"))
TEXTS = ("", "x", "\x1b[2J", "a\nb", "%s%n", "x" * 5000, "ö" * 40, "../../x")


def limited():
    """The time that it computes is limited, since a loaded machine makes everything late."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (GIB, GIB))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def judge(*args):
    """Runs shoal; returns what is wrong with how it ended, or None."""
    try:
        r = subprocess.run([program(), *args], env=PLAIN_ENV, timeout=12 * SECONDS, capture_output=True, preexec_fn=limited)
    except subprocess.TimeoutExpired:
        return "hangs"
    if r.returncode == -signal.SIGXCPU:
        return "computes without end"
    out, err = r.stdout, r.stderr
    if b"\x1b" in out + err:
        return f"prints control characters: {out + err!r}"
    if r.returncode == 0:
        return None if out or args[0] == "data" else "says nothing"
    lines = [line for line in err.splitlines() if b"error" in line]
    if r.returncode not in (2, 6, 7) or not lines and args[1] != "verify":
        return f"exit {r.returncode}: {err[-300:]!r}"
    return None if len(lines) <= 1 else f"{len(lines)} lines: {err!r}"


# ---- mutating ------------------------------------------------------------------------------------------------------------

def bytes_changed(rng, data):
    """Some bytes or bits, the end cut off, a piece taken out or doubled."""
    data, how = bytearray(data), rng.randrange(6)
    for _ in range(rng.choice((1, 1, 2, 8, 64)) if how < 3 else 0):
        i = rng.randrange(len(data)) if how else rng.randrange(min(len(data), 2048))  # most of HDF5's own is at the front
        data[i] = rng.choice((0, 255, data[i] ^ (1 << rng.randrange(8)), rng.randrange(256)))
    if how == 3:
        del data[rng.randrange(len(data)):]
    if how >= 4:
        i = rng.randrange(len(data))
        piece = data[i:i + rng.randrange(1, 512)]
        data[i:i + (len(piece) if how == 4 else 0)] = b"" if how == 4 else piece
    return bytes(data)


def other_value(rng, dtype):
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return rng.choice([n for n in NUMBERS if low <= n <= high])
    return rng.choice(REALS) if dtype.kind == "f" else None


def change_one(rng, f):
    """One attribute or one number of an HDF5 file gets a value that nobody expects."""
    things = [f, *(f[name] for name in names_of(f))]
    thing = rng.choice(things)
    if thing.attrs and rng.random() < 0.7 or not isinstance(thing, h5py.Dataset):
        if not thing.attrs:
            return
        key = rng.choice(sorted(thing.attrs))
        old, how = thing.attrs[key], rng.randrange(4)
        if how == 0:
            del thing.attrs[key]
        elif how == 1:
            thing.attrs[key] = rng.choice((np.zeros(3), np.int8(1), "text", np.zeros((2, 2), "f4"), np.float64(0.5)))
        elif isinstance(old, (str, bytes)):
            thing.attrs[key] = rng.choice(TEXTS)
        else:
            thing.attrs[key] = np.full(np.shape(old), other_value(rng, np.asarray(old).dtype), np.asarray(old).dtype)
    elif thing.size:
        change_number(rng, thing)


def change_number(rng, d):
    i = np.unravel_index(rng.randrange(d.size), d.shape) if d.shape else ()
    if d.dtype.names:
        row = d[i]
        name = rng.choice(d.dtype.names)
        base = row.dtype[name]
        value = other_value(rng, base.subdtype[0] if base.subdtype else base)
        row[name] = value if value is not None else rng.choice(TEXTS[:4]).encode()[:base.itemsize]
        d[i] = row
    elif other_value(rng, d.dtype) is not None:
        d[i] = other_value(rng, d.dtype)


def names_of(f):
    return [name for name, _ in crafted.data_sets(f)]


def change_hdf5(rng, path, extendible=False):
    with h5py.File(path, "r+") as f:
        for _ in range(rng.choice((1, 1, 3))):
            change_one(rng, f)
        if extendible and rng.random() < 0.2:
            d = f[rng.choice(names_of(f))]
            if d.maxshape and d.maxshape[0] is None:
                d.resize((rng.choice((0, 1, 10**4, 1 << 31, 1 << 40, 1 << 60)),) + d.shape[1:])


# ---- the kinds -----------------------------------------------------------------------------------------------------------

def mutate_bytes(rng, good, path):
    with open(good, "rb") as f, open(path, "wb") as out:
        out.write(bytes_changed(rng, f.read()))


def mutate_data(rng, good, path):
    if rng.random() < 0.5:
        return mutate_bytes(rng, good, path)
    shutil.copy(good, path)
    change_hdf5(rng, path)


def mutate_trace(rng, good, path):
    if rng.random() < 0.5:
        return mutate_bytes(rng, good, path)
    shutil.copy(good, path)
    change_hdf5(rng, path, extendible=True)


def mutate_ckpt(rng, good, path):
    if rng.random() < 0.2:
        return mutate_bytes(rng, good, path)
    shutil.copy(good, path)
    if rng.random() < 0.3:  # what HDF5 itself wrote
        places = crafted.metadata(path)

        def change(body):
            for _ in range(rng.choice((1, 2, 4))):
                i = rng.choice(places)
                body[i] = rng.choice((0, 255, body[i] ^ (1 << rng.randrange(8)), rng.randrange(256)))
        crafted.change_bytes(path, change)
        return
    crafted.unseal(path)
    if rng.random() < 0.7:
        change_hdf5(rng, path)
        crafted.seal(path)
    else:  # the index says something else than the file
        crafted.seal(path, change_field(rng, crafted.index(path)))


def mutate_shards(rng, good, path):
    """One file of several is changed, mostly sealed again and listed by the main file as it is now; or a shard is lost, or is
    another one."""
    files = {path + str(f)[len(str(good)):]: f for f in (good, *sorted(good.parent.glob(f"{good.name}.*")))}
    for to, f in files.items():
        shutil.copy(f, to)
    names, how = list(files), rng.random()
    k = rng.randrange(len(names))
    if how < 0.2:
        mutate_bytes(rng, files[names[k]], names[k])
    elif how < 0.3:
        os.remove(names[max(k, 1)])
    elif how < 0.4:
        shutil.copy(files[rng.choice(names)], names[max(k, 1)])
    else:
        body, lines, version = crafted.parts(names[k])
        if how < 0.7:
            for _ in range(rng.choice((1, 2, 4))):
                body[rng.randrange(min(len(body), 2048))] = rng.randrange(256)
        else:
            lines = change_field(rng, lines, (b"../../x", b"0" * 32, b"1", b"2", b"4", b"1048576"))
        listed = crafted.put_together(names[k], body, lines, version)
        if k:
            body, lines, version = crafted.parts(path)
            new = [b"shard\t%d\t%d\t%08x" % (k, *listed) if line.startswith(b"shard\t%d\t" % k) else line
                   for line in lines.split(b"\n")]
            crafted.put_together(path, body, b"\n".join(new), version)


def change_field(rng, text, more=()):
    """One field of an index gets a value that nobody expects."""
    lines = text.splitlines(True)
    i = rng.randrange(len(lines))
    fields = lines[i][:-1].split(b"\t")
    fields[rng.randrange(len(fields))] = rng.choice((b"", b"0", b"-1", b"18446744073709551615", b"f64", b"2147483648x2147483648",
                                                    b"x\x1b[2J", *more))
    lines[i] = b"\t".join(fields) + b"\n"
    return b"".join(lines)


CSV_PIECES = (b",", b"\n", b"\"", b";", b"\t", b"nan", b"-1", b"1e400", b"\0", b"\xff\xfe", b"\x1b[2J", b"99999999999", b"")


def mutate_csv(rng, good, path):
    with open(good, "rb") as f:
        data = bytes_changed(rng, f.read())
    for _ in range(rng.randrange(3)):
        i = rng.randrange(len(data) + 1)
        data = data[:i] + rng.choice(CSV_PIECES) * rng.choice((1, 1, 1, 3000)) + data[i + rng.randrange(3):]
    with open(path, "wb") as out:
        out.write(data)


KINDS = {
    "data": (mutate_data, lambda p: (("data", "inspect", p), ("data", "inspect", p, "--json"))),
    "csv": (mutate_csv, lambda p: (("data", "import", "csv", p, "-o", f"{p}.h5"),)),
    "ckpt": (mutate_ckpt, lambda p: (("ckpt", "verify", p), ("ckpt", "show", p))),
    "shards": (mutate_shards, lambda p: (("ckpt", "verify", p), ("ckpt", "show", p), ("ckpt", "diff", p, p))),
    "trace": (mutate_trace, lambda p: (("trace", "show", p), ("trace", "export", p))),
    "trace-v1": (mutate_trace, lambda p: (("trace", "show", p), ("trace", "export", p))),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A small good file of each kind."""
    folder, before = tmp_path_factory.mktemp("good"), os.getcwd()
    os.chdir(folder)
    run([program(), *"data synth glyphs -o data --train 16 --test 8 --size 8".split()], base=PLAIN_ENV)
    with open("run.yaml", "w") as f:
        f.write("run: { name: r, epochs: 1 }\nmodel: { name: mlp, widths: [4] }\ndata: { file: data, batch: 8 }\n")
    run([program(), "train", "run.yaml", "--quiet"], base=PLAIN_ENV)
    os.rename("runs/r/ckpt/step-000000002.h5", "ckpt")
    run([built("ckpt_split"), "ckpt", "shards", 3], base=PLAIN_ENV)
    os.rename(trace_files("r")[0], "trace")
    shutil.copy(f"{TESTS}/golden/trace-v1-rank-00000.h5", "trace-v1")
    with open("csv", "w") as f:
        f.write("a,b,label\n" + "".join(f"{i},{i * 0.5},{'cat' if i % 2 else 'dog'}\n" for i in range(40)))
    os.chdir(before)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_mutated(good, kind):
    mutate, commands = KINDS[kind]
    rng = random_source(f"mutated {kind}")

    def check(i):
        path = f"{kind}-{i}"
        # Some files are tried by one command only: two would take too long.
        wrong = [f"{' '.join(c)}: {w}" for c in [rng.choice(commands(path))] for w in [judge(*c)] if w]
        if not wrong:
            for file in (path, *glob.glob(f"{path}.*")):
                os.remove(file)
        return wrong
    for i in range(COUNT):
        mutate(rng, good / kind, f"{kind}-{i}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [w for found in pool.map(check, range(COUNT)) for w in found]
    assert not wrong, "\n".join([f"{len(wrong)} of {COUNT}", *wrong[:20]])
