/* The timeline: spans of all ranks on a canvas, to pan and zoom.
 *
 * The data of a run are columns of unsigned numbers, split into planes of bytes (all lowest bytes, then the next ...), which is
 * what zlib packs well: begin as difference to the span before, duration, and the index of (kind, name, link, peer, bytes).  Spans
 * of a rank are ordered by begin, enclosing ones first, so drawing them in order paints inner spans over outer ones.  What is
 * narrower than a pixel is added up per pixel and kind, and drawn as shares of that column, so no span is lost and none is
 * drawn twice.  Exchanges, which overlap with everything, are a thin lane below their rank. */
"use strict";
(() => {
  const EXCHANGE = 3, STEP = 9;

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  function column(bytes, at, n, width) {
    const out = new Float64Array(n);
    let scale = 1;
    for (let plane = 0; plane < width; plane++, scale *= 256)
      for (let i = 0, from = at + plane * n; i < n; i++) out[i] += bytes[from + i] * scale;
    return out;
  }

  /* Ranks with begin, end (seconds) and entry of each span. */
  async function load(meta) {
    const bytes = await unpack(meta.data), n = meta.counts.reduce((a, b) => a + b, 0);
    const gap = column(bytes, 0, n, 4), length = column(bytes, 4 * n, n, 4), entry = column(bytes, 8 * n, n, meta.entry_width);
    let at = 0;
    return meta.counts.map((count, r) => {
      const t0 = new Float64Array(count), t1 = new Float64Array(count), e = entry.subarray(at, at + count);
      let t = meta.begin_s / meta.unit_s, longest = 0;
      for (let i = 0; i < count; i++, at++) {
        t += gap[at];
        t0[i] = t * meta.unit_s;
        t1[i] = (t + length[at]) * meta.unit_s;
        if (meta.entries[e[i]][0] !== EXCHANGE) longest = Math.max(longest, t1[i] - t0[i]);
      }
      return { rank: meta.ranks[r], t0, t1, entry: e, longest: Math.max(longest, ...exchangeLengths(meta, t0, t1, e)) };
    });
  }

  function exchangeLengths(meta, t0, t1, entry) {
    let longest = 0;
    for (let i = 0; i < t0.length; i++) if (meta.entries[entry[i]][0] === EXCHANGE) longest = Math.max(longest, t1[i] - t0[i]);
    return [longest];
  }

  function lowerBound(values, x) {
    let a = 0, b = values.length;
    while (a < b) {
      const m = (a + b) >> 1;
      if (values[m] < x) a = m + 1; else b = m;
    }
    return a;
  }

  function spell(seconds) {
    const a = Math.abs(seconds);
    const [size, unit] = a >= 1 || a === 0 ? [1, "s"] : a >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
    return `${+(seconds / size).toPrecision(5)} ${unit}`;
  }

  function spellBytes(n) {
    const [size, unit] = n >= 1e9 ? [1e9, "GB"] : n >= 1e6 ? [1e6, "MB"] : n >= 1e3 ? [1e3, "kB"] : [1, "B"];
    return `${+(n / size).toPrecision(4)} ${unit}`;
  }

  class Timeline {
    constructor(root, meta, ranks) {
      Object.assign(this, { root, meta, ranks, printing: false, pointers: new Map() });
      this.steps = this.stepBounds();
      this.first = ranks.reduce((t, r) => r.t0.length ? Math.min(t, r.t0[0]) : t, Infinity);
      this.last = ranks.reduce((t, r) => r.t1.reduce((a, b) => Math.max(a, b), t), -Infinity);
      this.canvas = root.querySelector("canvas.spans");
      this.axis = root.querySelector("canvas.axis");
      this.readout = root.querySelector(".readout");
      this.lane = meta.lane;
      this.bind();
      /* some steps behind the first ones, which have one-time costs */
      const at = Math.ceil(this.steps.length / 20), to = Math.min(at + 4, this.steps.length - 1);
      if (at <= to) this.showSteps(this.steps[at].step, this.steps[to].step); else this.show(this.first, this.last);
    }

    /* Begin and end of every step over all ranks, in order. */
    stepBounds() {
      const bounds = new Map(), numbers = this.meta.steps;
      this.ranks.forEach((r, k) => {
        let i = 0;
        r.steps = []; /* [number, begin, end] */
        for (let j = 0; j < r.t0.length; j++) {
          if (this.meta.entries[r.entry[j]][0] !== STEP) continue;
          const step = Array.isArray(numbers[k]) ? numbers[k][i] : numbers[k] + i;
          i++;
          r.steps.push([step, r.t0[j], r.t1[j]]);
          const b = bounds.get(step) || { step, t0: Infinity, t1: -Infinity };
          b.t0 = Math.min(b.t0, r.t0[j]);
          b.t1 = Math.max(b.t1, r.t1[j]);
          bounds.set(step, b);
        }
      });
      return [...bounds.values()].sort((a, b) => a.step - b.step);
    }

    show(a, b) {
      const whole = Math.max(this.last - this.first, 1e-9), least = Math.max(whole * 1e-7, 2e-7);
      const width = Math.min(Math.max(b - a, least), whole);
      this.a = Math.min(Math.max(a, this.first), this.last - width);
      this.b = this.a + width;
      this.draw();
      this.fillInputs();
    }

    showSteps(from, to) {
      const inside = this.steps.filter(s => s.step >= from && s.step <= to);
      if (!inside.length) return;
      const a = inside[0].t0, b = inside.reduce((t, s) => Math.max(t, s.t1), a);
      this.show(a - 0.01 * (b - a), b + 0.01 * (b - a));
    }

    zoom(factor, at = (this.a + this.b) / 2) {
      this.show(at - (at - this.a) * factor, at + (this.b - at) * factor);
    }

    pan(share) {
      const d = (this.b - this.a) * share;
      this.show(this.a + d, this.b + d);
    }

    fillInputs() {
      const seen = this.steps.filter(s => s.t1 > this.a && s.t0 < this.b);
      const most = seen.filter(s => Math.min(s.t1, this.b) - Math.max(s.t0, this.a) > 0.5 * (s.t1 - s.t0));
      const shown = most.length ? most : seen;
      if (!shown.length) return;
      this.root.querySelector(".from").value = shown[0].step;
      this.root.querySelector(".to").value = shown[shown.length - 1].step;
    }

    bind() {
      const on = (selector, act) => this.root.querySelector(selector).addEventListener("click", act);
      on(".in", () => this.zoom(0.5));
      on(".out", () => this.zoom(2));
      on(".left", () => this.pan(-0.5));
      on(".right", () => this.pan(0.5));
      on(".all", () => this.show(this.first, this.last));
      on(".save", () => this.save());
      const go = () => this.showSteps(+this.root.querySelector(".from").value, +this.root.querySelector(".to").value);
      for (const name of [".from", ".to"]) this.root.querySelector(name).addEventListener("change", go);
      const c = this.canvas;
      c.addEventListener("keydown", e => {
        const act = { ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), "+": () => this.zoom(0.5), "-": () => this.zoom(2),
                      Home: () => this.show(this.first, this.last) }[e.key];
        if (act) { e.preventDefault(); act(); }
      });
      c.addEventListener("wheel", e => { /* with Ctrl (also a pinch on a touch pad); else the page scrolls */
        if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) { e.preventDefault(); this.pan(e.deltaX / c.clientWidth); return; }
        if (!e.ctrlKey && !e.shiftKey) return;
        e.preventDefault();
        this.zoom(Math.exp(Math.max(-80, Math.min(80, e.deltaY)) * 0.01), this.timeAt(e));
      }, { passive: false });
      c.addEventListener("dblclick", e => this.zoom(0.33, this.timeAt(e)));
      c.addEventListener("pointerdown", e => { this.pointers.set(e.pointerId, e.clientX); c.setPointerCapture(e.pointerId); });
      const end = e => this.pointers.delete(e.pointerId);
      c.addEventListener("pointerup", end);
      c.addEventListener("pointercancel", end);
      c.addEventListener("pointermove", e => this.moved(e));
      c.addEventListener("click", e => this.tell(e));
      new ResizeObserver(() => this.draw()).observe(c.parentElement);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
      addEventListener("beforeprint", () => { this.printing = true; this.draw(); });
      addEventListener("afterprint", () => { this.printing = false; this.draw(); });
    }

    moved(e) {
      if (!this.pointers.has(e.pointerId)) { this.tell(e); return; }
      const before = this.pointers.get(e.pointerId);
      const perPixel = (this.b - this.a) / this.plot;
      if (this.pointers.size === 2) {
        const other = [...this.pointers].find(([id]) => id !== e.pointerId)[1];
        const was = Math.abs(before - other), now = Math.abs(e.clientX - other);
        this.pointers.set(e.pointerId, e.clientX);
        if (was > 10 && now > 10) this.zoom(was / now, this.timeAt({ clientX: (e.clientX + other) / 2 }));
      } else {
        this.pointers.set(e.pointerId, e.clientX);
        this.show(this.a - (e.clientX - before) * perPixel, this.b - (e.clientX - before) * perPixel);
      }
    }

    timeAt(e) {
      const x = e.clientX - this.canvas.getBoundingClientRect().left - this.left;
      return this.a + x / this.plot * (this.b - this.a);
    }

    colour(name) {
      if (this.printing) return this.meta.light[name];
      return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    }

    /* A canvas as sharp as the screen; its context draws in CSS pixels. */
    prepare(canvas, height) {
      const width = canvas.parentElement.clientWidth, ratio = Math.min(devicePixelRatio || 1, 3);
      canvas.style.height = `${height}px`;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      const g = canvas.getContext("2d");
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.clearRect(0, 0, width, height);
      g.font = '11px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
      return [g, width];
    }

    draw() {
      const [g, width] = this.prepare(this.canvas, this.ranks.length * this.lane + 2);
      this.left = this.ranks.length > 1000 ? 44 : 34;
      this.plot = width - this.left;
      if (!(this.plot > 10) || !(this.b > this.a)) return;
      const paint = this.meta.kinds.map(k => this.colour(this.meta.colours[k] || "grey"));
      paint.push(this.colour("orange")); /* agreement */
      const muted = this.colour("muted"), grid = this.colour("grid"), paper = this.colour("paper");
      const px = this.plot / (this.b - this.a);
      g.textBaseline = "middle";
      this.ranks.forEach((r, k) => {
        const top = k * this.lane + 1, gap = this.lane > 12 ? 3 : 1, thin = Math.max(2, Math.round(this.lane * 0.2));
        const high = this.lane - gap - thin;
        if (this.lane > 12 || k % 4 === 0) {
          g.fillStyle = muted;
          g.textAlign = "right";
          g.fillText(r.rank, this.left - 6, top + (this.lane - gap) / 2);
        }
        g.save();
        g.beginPath();
        g.rect(this.left, top - 1, this.plot, this.lane);
        g.clip();
        const small = new Map(), from = lowerBound(r.t0, this.a - r.longest);
        for (let i = from; i < r.t0.length && r.t0[i] < this.b; i++) {
          if (r.t1[i] <= this.a) continue;
          const [kind, , link] = this.meta.entries[r.entry[i]];
          const c = kind === 4 && link === 3 ? this.meta.kinds.length : kind;
          const x0 = this.left + (r.t0[i] - this.a) * px, w = (r.t1[i] - r.t0[i]) * px;
          if (kind === EXCHANGE) {
            g.fillStyle = muted;
            g.globalAlpha = 0.75;
            g.fillRect(x0, top + high, Math.max(w, 0.5), thin);
            g.globalAlpha = 1;
          } else if (w >= 1) {
            g.fillStyle = kind === STEP ? grid : paint[c];
            g.fillRect(x0, top, w, high);
            if (w > 3) { /* neighbours of one kind stay apart */
              g.fillStyle = paper;
              g.fillRect(x0, top, 0.7, high);
            }
          } else if (kind !== STEP) {
            const key = Math.floor(x0) * 16 + c;
            small.set(key, (small.get(key) || 0) + w);
          }
        }
        const filled = new Map();
        for (const [key, share] of small) {
          const x = Math.floor(key / 16), h = Math.max(share * high, share > 0.02 ? 1 : 0), y = filled.get(x) || 0;
          g.fillStyle = paint[key % 16];
          g.fillRect(x, top + high - Math.min(y + h, high), 1, Math.min(h, high - y));
          filled.set(x, Math.min(high, y + h));
        }
        if (this.lane > 20) this.names(g, r, from, top, high, px);
        g.restore();
      });
      this.drawAxis(grid, muted);
    }

    /* Names inside the spans that have room for them. */
    names(g, r, from, top, high, px) {
      g.textAlign = "center";
      for (let i = from, n = 0; i < r.t0.length && r.t0[i] < this.b && n < 400; i++) {
        const [kind, name] = this.meta.entries[r.entry[i]];
        if (kind === EXCHANGE || kind === STEP) continue;
        const x0 = Math.max(this.left, this.left + (r.t0[i] - this.a) * px), x1 = Math.min(this.left + this.plot, this.left + (r.t1[i] - this.a) * px);
        if (x1 - x0 < 24 || x1 - x0 < 6.6 * name.length + 6) continue;
        let next = i + 1;
        while (next < r.t0.length && this.meta.entries[r.entry[next]][0] === EXCHANGE) next++;
        if (next < r.t0.length && r.t0[next] < r.t1[i]) continue; /* has inner spans */
        g.fillStyle = ["backward", "checkpoint", "exposed exchange", "evaluation"].includes(this.label(r.entry[i])) && !this.darkInk() ? "#ffffff" : "#101418";
        g.fillText(name, (x0 + x1) / 2, top + high / 2 + 0.5);
        n++;
      }
    }

    darkInk() {
      return !this.printing && matchMedia("(prefers-color-scheme: dark)").matches;
    }

    label(entry) {
      const [kind, , link] = this.meta.entries[entry];
      if (kind === 4) return link === 3 ? "agreement" : "exposed exchange";
      return kind === 5 ? "input wait" : this.meta.kinds[kind];
    }

    drawAxis(grid, muted) {
      const [g, width] = this.prepare(this.axis, 30);
      const width_s = this.b - this.a, about = width_s / Math.max(2, this.plot / 110), power = 10 ** Math.floor(Math.log10(about));
      const tick = [1, 2, 5, 10].map(k => k * power).find(t => t >= about);
      const [size, unit] = width_s >= 2 ? [1, "s"] : width_s >= 2e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
      g.textBaseline = "top";
      g.textAlign = "center";
      for (let t = Math.ceil(this.a / tick) * tick; t <= this.b; t += tick) {
        const x = this.left + (t - this.a) / width_s * this.plot;
        g.fillStyle = grid;
        g.fillRect(x, 0, 1, 5);
        const said = `${+(t / size).toPrecision(7)}`;
        if (x > this.left + 3.4 * said.length && x < width - 3.4 * said.length - 26) { g.fillStyle = muted; g.fillText(said, x, 6); }
      }
      g.fillStyle = muted;
      g.textAlign = "right";
      g.fillText(unit, width - 4, 6);
      g.textAlign = "left";
      g.fillText("rank", 2, 6);
    }

    /* The innermost span at a position, or the exchange below it. */
    tell(e) {
      const box = this.canvas.getBoundingClientRect(), y = e.clientY - box.top - 1, k = Math.floor(y / this.lane), r = this.ranks[k];
      const t = this.timeAt(e);
      if (!r || t < this.a) return;
      const gap = this.lane > 12 ? 3 : 1, thin = Math.max(2, Math.round(this.lane * 0.2));
      const wanted = y - k * this.lane > this.lane - gap - thin - 1, slack = (this.b - this.a) / this.plot;
      let found = -1;
      for (let i = lowerBound(r.t0, t - r.longest - slack); i < r.t0.length && r.t0[i] <= t + slack; i++)
        if (r.t1[i] >= t && r.t0[i] <= t && (this.meta.entries[r.entry[i]][0] === EXCHANGE) === wanted) found = i;
      if (found < 0) { this.readout.textContent = `rank ${r.rank}, ${spell(t)}: no ${wanted ? "exchange" : "span"} here`; return; }
      const [, name, link, peer, bytes] = this.meta.entries[r.entry[found]];
      const step = r.steps.find(([, t0, t1]) => t0 <= t && t <= t1);
      this.readout.textContent = [
        `rank ${r.rank}${step ? `, step ${step[0]}` : ""}: ${this.label(r.entry[found])}${name !== this.meta.kinds[this.meta.entries[r.entry[found]][0]] ? ` “${name}”` : ""}`,
        `${spell(r.t1[found] - r.t0[found])}, from ${spell(r.t0[found])} to ${spell(r.t1[found])}`,
        bytes ? `${spellBytes(bytes)} sent` : "", link < this.meta.links.length ? `link ${this.meta.links[link]}` : "",
        peer >= 0 ? `peer ${peer}` : ""].filter(Boolean).join("; ");
    }

    /* The spans of the window as CSV. */
    save() {
      const lines = ["rank,kind,name,link,peer,bytes,t0_s,t1_s"];
      for (const r of this.ranks)
        for (let i = lowerBound(r.t0, this.a - r.longest); i < r.t0.length && r.t0[i] < this.b; i++) {
          if (r.t1[i] < this.a) continue;
          const [kind, name, link, peer, bytes] = this.meta.entries[r.entry[i]];
          lines.push([r.rank, this.meta.kinds[kind], `"${name.replaceAll('"', '""')}"`, this.meta.links[link] || "", peer, bytes,
                      r.t0[i].toFixed(9), r.t1[i].toFixed(9)].join(","));
        }
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
      link.download = `${this.meta.name}-spans.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    }
  }

  /* Unpacks one timeline; the page does one after another, so that they are there when it is printed. */
  async function begin(root) {
    const said = root.querySelector(".readout");
    if (typeof DecompressionStream === "undefined") {
      said.textContent = "This browser is too old to unpack the timeline (it needs DecompressionStream).";
      return;
    }
    const meta = JSON.parse(root.querySelector("script").textContent);
    root.timeline = new Timeline(root, meta, await load(meta));
    said.textContent = said.dataset.hint;
    root.dataset.ready = 1;
  }

  addEventListener("load", async () => {
    for (const root of document.querySelectorAll(".timeline")) await begin(root);
  });
  addEventListener("beforeprint", () => document.querySelectorAll("details.run").forEach(d => { d.open = true; }));
})();
