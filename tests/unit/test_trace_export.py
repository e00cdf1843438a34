"""`trace export` of made runs: both formats hold the same spans, nested, matched by flows, from time 0 on.

The protobuf is decoded here by hand, after Perfetto's .proto files, and with the package `perfetto` where it is found: run.sh --full
puts it into build/perfetto.
"""
import json
import os
import struct
from fractions import Fraction

import pytest

import browser
from harness import PLAIN_ENV, ROOT, program, run
from test_trace_golden import BACKWARD, FORWARD, MS, Made, slow_rank
from traces import KINDS, RECEIVE, SEND


def fields(data):
    """(number, value) of a protobuf message: integers, 8 bytes as an integer, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            yield number, varint()
        elif kind == 1:
            yield number, struct.unpack_from("<Q", data, at)[0]
            at += 8
        else:
            assert kind == 2, f"field {number} has wire type {kind}"
            n = varint()
            assert at + n <= len(data), f"field {number} ends after its message"
            yield number, data[at:at + n]
            at += n


def one(message, number, otherwise=None):
    values = [v for n, v in fields(message) if n == number]
    assert len(values) <= 1
    return values[0] if values else otherwise


def signed(x):
    return x - (1 << 64) if x >= 1 << 63 else x


def decode(data):
    """{(rank, track): spans in order of begin} and {rank: name} of Perfetto's format; a span is as in `spans_of_json`."""
    names, tracks, processes, open_spans, spans = {}, {}, {}, {}, {}
    for number, packet in fields(data):
        assert number == 1
        sequence = one(packet, 10)
        assert sequence
        if (one(packet, 13) or 0) & 1:
            names[sequence] = {1: {}, 2: {}, 3: {}}
        interned = one(packet, 12)
        for kind, entry in fields(interned) if interned else ():
            names[sequence][kind][one(entry, 1)] = one(entry, 2).decode()
        descriptor = one(packet, 60)
        if descriptor:
            process = one(descriptor, 3)
            uuid = one(descriptor, 1)
            assert uuid not in tracks, "a track twice"
            if process:
                processes[uuid] = one(process, 1) - 1, one(process, 6).decode(), one(process, 8).decode(), one(process, 3)
            tracks[uuid] = processes[one(descriptor, 5, uuid)][0], one(descriptor, 2, b"").decode()
        event = one(packet, 11)
        if event:
            t, uuid = one(packet, 8), one(event, 11)
            assert uuid in tracks
            if one(event, 9) == 1:
                listed = names[sequence]
                args = {}
                for n, a in fields(event):
                    if n == 4:
                        values = [v for k, v in fields(a) if k != 1]
                        args[listed[3][one(a, 1)]] = values[0].decode() if isinstance(values[0], bytes) else signed(values[0])
                span = [t, None, listed[1][one(event, 3)], listed[2][one(event, 10)], args, one(event, 47)]
                open_spans.setdefault(uuid, []).append(span)
                spans.setdefault(tracks[uuid], []).append(span)
            else:
                assert one(event, 9) == 2
                open_spans[uuid].pop()[1] = t  # ends come in the order of nesting
    assert not any(open_spans.values()), "a span without an end"
    return spans, {rank: (name, label, order) for rank, name, label, order in processes.values()}


def spans_of_json(text):
    trace = json.loads(text)
    tracks, spans = {}, {}
    for e in trace["traceEvents"]:
        if e["ph"] == "M" and e["name"] == "thread_name":
            tracks[e["pid"], e["tid"]] = e["args"]["name"]
        if e["ph"] == "X":
            t0 = round(e["ts"] * 1000)
            flow = int(e["bind_id"], 16) if "bind_id" in e else None
            spans.setdefault((e["pid"], tracks[e["pid"], e["tid"]]), []).append(
                [t0, t0 + round(e["dur"] * 1000), e["cat"], e["name"], e["args"], flow])
    return spans, trace


def export(folder, name, *args, code=0):
    r = run([program(), "trace", "export", folder, "-o", name, *map(str, args)], code=code, base=PLAIN_ENV)
    if code:
        return r
    with open(name, "rb") as f:
        data = f.read()
    said = int(r.stderr.split(" spans, about ")[0])
    return data, said, r.stderr


def check_nesting(spans):
    """On each track spans are in order and either apart or one within the other; none begins before 0."""
    for track, listed in spans.items():
        until = []
        for t0, t1, *_ in listed:
            assert 0 <= t0 <= t1, f"{track}: {t0} to {t1}"
            while until and until[-1] <= t0:
                until.pop()
            assert not until or (t1 <= until[-1] and track[1] == "work"), f"{track}: {t0} to {t1} is not within {until}"
            until.append(t1)
        assert [t0 for t0, *_ in listed] == sorted(t0 for t0, *_ in listed), f"{track}"


def flows_of(spans):
    flows = {}
    for (rank, _), listed in spans.items():
        for t0, t1, kind, name, args, flow in listed:
            if flow:
                flows.setdefault(flow, []).append((rank, kind, name, args["number"], t0, t1))
    return flows


def pipeline():
    """Two ranks, whose clocks differ by 3 s and 50 ppm: rank 0 computes and sends, rank 1 receives; a sum that overlaps with a vote."""
    m = Made(2, 100)
    for step in range(5):
        m.span(0, step, FORWARD, 0, 80)
        m.exchange(0, step, "activations", 80, 80, 100, role=SEND, peer=1)
        m.exchange(1, step, "activations", 50, 50, 90, role=RECEIVE, peer=0)
        m.span(1, step, BACKWARD, 0, 50)
        for rank in range(2):
            m.exchange(rank, step, 'exchange "bucket 0"', 20, 95, 100)
            m.step(rank, step)
    return m


def test_formats_agree(work):
    """The same spans in both formats; every exchange has one flow, on all its ranks."""
    pipeline().save("r", 1, clocks={1: (3_000_000_000, Fraction(100005, 100000))})
    data, said, _ = export("r", "t.pftrace")
    spans, processes = decode(data)
    text, said_json, _ = export("r", "t.json")
    other, trace = spans_of_json(text)
    assert spans == other
    check_nesting(spans)
    assert sum(map(len, spans.values())) == said == said_json == sum(len(rows) for rows in pipeline().rows)
    assert processes == {0: ("node 0 (n0), rank 0", "clock within 0.000 us of rank 0", 0),
                         1: ("node 1 (n1), rank 1", "clock within 1.000 us of rank 0", 1)}
    assert min(t0 for listed in spans.values() for t0, *_ in listed) == 0
    assert {track for _, track in spans} == {"work", "exchanges 1", "exchanges 2"}
    steps = [s for s in spans[1, "work"] if s[2] == "step"]
    assert [(t0, t1) for t0, t1, *_ in steps] == [(100 * k * MS, 100 * (k + 1) * MS) for k in range(5)], "on rank 0's clock"
    flows = flows_of(spans)
    assert len(flows) == 10
    for parts in flows.values():
        assert sorted(rank for rank, *_ in parts) == [0, 1], parts
        assert len({(name, number) for _, _, name, number, *_ in parts}) == 1, parts
        if parts[0][2] == "activations":
            (_, kind, _, _, t0, _), (_, other_kind, _, _, _, t1) = sorted(parts)
            assert (kind, other_kind) == ("exchange", "wait")
            assert t0 <= t1, "received before it was sent"
    out = [e for e in trace["traceEvents"] if e.get("name") == "activations" and "bind_id" in e]
    assert {(e["pid"], e.get("flow_out", False), e.get("flow_in", False)) for e in out} == {(0, True, False), (1, False, True)}


def test_size(work):
    """What is said beforehand is near what comes, and the protobuf is less than half of the JSON."""
    slow_rank(steps=400).save("r", 2)
    sizes = {}
    for name in ("t.json", "t.pftrace"):
        data, _, said = export("r", name)
        number, unit = said.split(" spans, about ")[1].split()
        told = float(number) * {"KiB": 1 << 10, "MiB": 1 << 20}[unit]
        sizes[name] = len(data)
        assert 0.6 < told / len(data) < 1.7, f"{name}: said {said}, came {len(data)}"
    assert sizes["t.pftrace"] < sizes["t.json"] / 2, sizes


def test_window(work):
    """Steps or seconds: whole spans that are in it, at the same times and with the same flows as in all of it."""
    pipeline().save("r", 1)
    whole, _ = decode(export("r", "all.pftrace")[0])

    def kept(wanted):
        return {track: some for track, listed in whole.items() if (some := [s for s in listed if wanted(s)])}

    def merged(spans):  # which track an exchange is on depends on what else is there
        return {rank: sorted(map(repr, (s for (r, _), listed in spans.items() if r == rank for s in listed))) for rank in (0, 1)}

    part, _ = decode(export("r", "part.pftrace", "--steps", "1:3")[0])
    assert merged(part) == merged(kept(lambda s: 1 <= s[4]["step"] <= 3))
    part, _ = spans_of_json(export("r", "part.json", "--from", 0.21, "--to", 0.24)[0])
    assert merged(part) == merged(kept(lambda s: s[1] >= 210 * MS and s[0] <= 240 * MS))
    check_nesting(part)
    for args, words in ((["--steps", "3"], "as 100:120"), (["--steps", "3:1"], "as 100:120"), (["--steps", "9:12"], "no span"),
                        (["--from", "2", "--to", "1"], "is after"), (["--from", "x"], "say seconds"),
                        (["--format", "xml"], "json or perfetto")):
        r = export("r", "refused.json", *args, code=2)
        assert words in r.stderr and not os.path.exists("refused.json"), r.stderr


READ = """(async () => {
  const file = document.querySelector("input").files[0], trace = JSON.parse(await file.text());
  const spans = trace.traceEvents.filter(e => e.ph === "X"), flows = {};
  for (const e of spans) if (e.bind_id) (flows[e.bind_id] ||= []).push(e.pid);
  return { size: file.size, spans: spans.length, whole: spans.filter(e => Number.isInteger(Math.round(e.ts * 1000)) && e.dur >= 0 && e.name).length,
           ranks: trace.traceEvents.filter(e => e.ph === "M" && e.name === "process_name").map(e => e.args.name),
           begin: Math.min(...spans.map(e => e.ts)), end: Math.max(...spans.map(e => e.ts + e.dur)),
           flows: Object.values(flows).map(pids => pids.sort().join()) };
})()"""


def test_in_browser(work):
    """A page in Chromium opens the JSON: the same spans and flows as read here."""
    if not browser.find():
        pytest.skip("no chromium")
    pipeline().save("r", 1, clocks={1: (3_000_000_000, Fraction(100005, 100000))})
    text, said, _ = export("r", "t.json")
    spans, _ = spans_of_json(text)
    with open("page.html", "w") as f:
        f.write("<!DOCTYPE html><title>trace</title><input type=file>")
    with browser.Browser() as b:
        b.show("page.html", 800)
        b.choose("input", "t.json")
        seen = b.evaluate(READ)
        assert b.faults == []
    assert (seen["size"], seen["spans"], seen["whole"]) == (len(text), said, said) and said == sum(map(len, spans.values()))
    assert seen["ranks"] == ["node 0 (n0), rank 0", "node 1 (n1), rank 1"] and seen["flows"] == ["0,1"] * 10
    assert seen["begin"] == 0 and round(seen["end"] * 1000) == max(t1 for listed in spans.values() for _, t1, *_ in listed)


def test_package(work, monkeypatch):
    """What Perfetto's own definitions make of the file."""
    monkeypatch.syspath_prepend(f"{ROOT}/build/perfetto")
    Trace = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the package perfetto is not installed").Trace
    pipeline().save("r", 1)
    data = export("r", "t.pftrace")[0]
    trace = Trace()
    trace.ParseFromString(data)
    assert trace.SerializeToString() == data or len(trace.packet) > 0
    spans, _ = decode(data)
    begins = [p for p in trace.packet if p.HasField("track_event") and p.track_event.type == 1]
    assert len(begins) == sum(map(len, spans.values()))
    assert sorted(p.timestamp for p in begins) == sorted(t0 for listed in spans.values() for t0, *_ in listed)
    flows = {}
    for p in begins:
        for flow in p.track_event.flow_ids:
            flows.setdefault(flow, []).append(p.trusted_packet_sequence_id)
    assert {f: sorted(r + 1 for r, *_ in parts) for f, parts in flows_of(spans).items()} == {f: sorted(r) for f, r in flows.items()}
    assert {n.name for p in trace.packet for n in p.interned_data.event_categories} == set(KINDS)
    assert {p.track_descriptor.process.process_name for p in trace.packet if p.track_descriptor.HasField("process")} == \
        {"node 0 (n0), rank 0", "node 1 (n1), rank 1"}
