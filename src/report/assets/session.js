// One session: its window over calls, what happened at each boundary, every call.

const IDLE_SECONDS = 3600;
const MARK_TITLES = { made: "simulated boundary", recorded: "recorded boundary", micro: "micro-compaction", missed: "miss", idle: "idle for an hour or more" };

// Everything about a chain that has a place on the plot.
function chainFacts(run, session, chain) {
  const of = (name) => (bySession(run, name).get(session) || []).filter((row) => (run[name].get(row, "agent") || "") === chain.agent);
  const places = new Map();
  for (let at = 0; at < chain.count; at += 1) places.set(chain.call[at], at);
  // A boundary at the end of a chain has no call after it.
  const place = (call) => (places.has(call) ? places.get(call) : Math.min(chain.count, Math.max(0, call)));
  const read = (name, row, fields) => Object.fromEntries(fields.map((field) => [field, run[name].get(row, field)]));
  const boundaryFields = ["call", "time", "trigger", "kind", "source", "tokens_before", "tokens_after", "tokens_counted", "summary_tokens",
    "restored_tokens", "restored_files", "dropped_tokens", "kept_tokens", "messages_summarized", "prompts_summarized", "threshold", "window",
    "window_grounds", "rounds_since", "turns_since", "is_recompaction", "kept", "retries"];
  const boundaries = of("boundaries").map((row) => ({ ...read("boundaries", row, boundaryFields) }));
  const misses = of("misses").map((row) => read("misses", row, ["call", "path", "outcome", "distance", "boundary"]));
  for (const one of [...boundaries, ...misses]) one.at = place(one.call);
  boundaries.forEach((one, number) => {
    const next = boundaries[number + 1];
    one.after = misses.filter((miss) => miss.call >= one.call && (!next || miss.call < next.call));
  });
  const recorded = [];
  const micro = [];
  const idle = [];
  for (let at = 0; at < chain.count; at += 1) {
    const told = chain.recordedBoundaries[at];
    if (told && told !== "micro") recorded.push({ at, trigger: told });
    const happened = (chain.events.get(at) || "").split("; ").filter((text) => /^micro [a-z]+ \d+$/.test(text));
    if (told === "micro" || happened.length) micro.push({ at, text: [...happened, told === "micro" ? "recorded" : ""].filter(Boolean).join(", ") });
    const pause = at > 0 ? chain.second[at] - chain.second[at - 1] : 0;
    if (pause >= IDLE_SECONDS) idle.push({ at, seconds: pause });
  }
  return { boundaries, misses, recorded, micro, idle };
}

class Sawtooth {
  constructor(chain, facts, others, onchange) {
    Object.assign(this, { chain, facts, others, onchange });
    this.layers = LAYERS.filter((layer) => chain[layer].some((value) => value > 0));
    this.from = 0;
    this.to = chain.count;
    this.cursor = -1;
    const label = "The context window over " + say.several(chain.count, "call") + ": largest " + say.tokens(Math.max(...chain.input)) + ", " +
      say.several(facts.recorded.length, "recorded and", "recorded and") + " " + say.several(facts.boundaries.length, "simulated boundary", "simulated boundaries") +
      ". The table of calls below has the same numbers.";
    this.plot = drawing(label, (width) => (width < 520 ? 330 : 430), (svg, width, height) => this.draw(svg, width, height), {
      class: "plot sawtooth", tabindex: "0", role: "group",
      "aria-label": label + " Keys: left and right choose a call, plus and minus zoom, 0 shows all, Enter goes to the call in the table.",
      onkeydown: (event) => this.key(event),
    });
    this.legend = h("dl", { class: "legend" });
    this.where = h("p", { class: "where", "aria-live": "polite" });
    const button = (text, label, work) => h("button", { type: "button", title: label, "aria-label": label, onclick: work }, text);
    this.tools = h("div", { class: "toolbar", role: "toolbar", "aria-label": "Zoom" },
      button("+", "Zoom in", () => this.zoom(0.5)),
      button("−", "Zoom out", () => this.zoom(2)),
      button("‹", "Earlier", () => this.pan(-0.5)),
      button("›", "Later", () => this.pan(0.5)),
      button("All", "Show all calls", () => this.show(0, chain.count)));
    this.element = h("div", { class: "session-plot" },
      h("div", {}, this.tools, this.plot, markLegend(facts, others)),
      h("aside", { "aria-label": "The chosen call" }, this.where, this.legend));
    this.tell();
  }

  show(from, to) {
    const count = this.chain.count;
    const size = Math.min(count, Math.max(Math.min(4, count), Math.round(to - from)));
    const start = Math.max(0, Math.min(count - size, Math.round(from)));
    if (start === this.from && start + size === this.to) return;
    this.from = start;
    this.to = start + size;
    this.plot.render();
    announce("Calls " + this.from + " to " + (this.to - 1));
    this.onchange(this);
  }

  zoom(by) {
    const size = (this.to - this.from) * by;
    const inside = this.cursor >= this.from && this.cursor < this.to;
    const middle = inside ? this.cursor + 0.5 : (this.from + this.to) / 2;
    const left = inside ? ((middle - this.from) / (this.to - this.from)) * size : size / 2;
    this.show(middle - left, middle - left + size);
  }

  pan(by) {
    const size = this.to - this.from;
    this.show(this.from + by * size, this.to + by * size);
  }

  // Chooses a call; the plot follows if it is out of sight.
  choose(at, quiet) {
    const cursor = Math.max(0, Math.min(this.chain.count - 1, at));
    this.cursor = cursor;
    if (cursor < this.from || cursor >= this.to) {
      const size = this.to - this.from;
      this.from = Math.max(0, Math.min(this.chain.count - size, Math.round(cursor - size / 2)));
      this.to = this.from + size;
      this.plot.render();
    } else {
      this.placeCursor();
    }
    this.tell();
    if (!quiet) this.onchange(this);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = event.shiftKey ? 10 : 1;
    const start = this.cursor < 0 ? this.from - 1 : this.cursor;
    const work = {
      ArrowLeft: () => this.choose(this.cursor < 0 ? this.to - 1 : start - step),
      ArrowRight: () => this.choose(start + step),
      Home: () => this.choose(0),
      End: () => this.choose(this.chain.count - 1),
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.show(0, this.chain.count),
      Escape: () => this.show(0, this.chain.count),
      Enter: () => this.cursor >= 0 && this.onchange(this, true),
    }[event.key];
    if (!work || (event.target !== this.plot && event.key === "Enter")) return;
    event.preventDefault();
    work();
  }

  // The values of the chosen call, or of all calls together.
  tell() {
    const { chain, cursor } = this;
    const at = cursor;
    clear(this.legend);
    const sums = (layer) => (at >= 0 ? chain[layer][at] : chain[layer].reduce((sum, value) => sum + value, 0) / Math.max(1, chain.count));
    for (const layer of [...this.layers].reverse()) {
      this.legend.append(h("div", {}, h("dt", {}, swatch(layer), layerName(layer)), h("dd", {}, say.tokens(sums(layer)))));
    }
    const total = at >= 0 ? chain.input[at] : chain.input.reduce((sum, value) => sum + value, 0) / Math.max(1, chain.count);
    this.legend.append(h("div", { class: "total" }, h("dt", {}, "window"), h("dd", {}, say.tokens(total))));
    if (at < 0) {
      this.where.textContent = "Mean of all calls. Point at the plot or use the arrow keys to choose one.";
      return;
    }
    const more = (name, value) => this.legend.append(h("div", {}, h("dt", {}, name), h("dd", {}, value)));
    more("as recorded", say.tokens(chain.recorded[at]));
    this.others.forEach((other) => more(other.name, say.tokens(other.chain.input[at])));
    more("threshold", say.tokens(chain.threshold[at]));
    more("answered", say.tokens(chain.output[at]));
    more("read from cache", say.tokens(chain.cacheRead[at]));
    more("written to cache", say.tokens(chain.cacheWrite[at]));
    if (chain.cacheMisses[at]) more("cache missed", chain.cacheMisses[at]);
    more("cost", say.price(chain.cost[at]));
    const parts = ["Call " + say.count(chain.call[at]), "turn " + say.count(chain.turn[at]), say.second(chain.second[at]), chain.models[at]];
    this.where.textContent = parts.join(" · ");
    const happened = chain.events.get(at);
    if (happened) this.where.append(h("span", { class: "events" }, happened));
  }

  // Calls that are drawn: where several share a pixel, the largest and the last of them.
  visible(width) {
    const { from, to, chain } = this;
    const count = to - from;
    if (count <= width) return Array.from({ length: count }, (_, at) => from + at);
    const found = [];
    for (let pixel = 0; pixel < width; pixel += 1) {
      const first = from + Math.floor((pixel * count) / width);
      const end = Math.max(first + 1, from + Math.floor(((pixel + 1) * count) / width));
      let most = first;
      for (let at = first; at < end; at += 1) if (chain.input[at] > chain.input[most]) most = at;
      found.push(most);
      if (most !== end - 1) found.push(end - 1);
    }
    return found;
  }

  draw(svg, width, height) {
    const { chain, from, to } = this;
    const lanes = this.layers.length ? 46 : 0;
    const left = 50;
    const [right, top, bottom] = [width - 6, 50, height - 24 - lanes - 14];
    const x = scale(from, to, left, right);
    let high = 1;
    let threshold = 0;
    for (let at = from; at < to; at += 1) {
      high = Math.max(high, chain.input[at], chain.recorded[at] || 0);
      threshold = Math.max(threshold, chain.threshold[at] || 0);
    }
    for (const other of this.others) for (let at = from; at < Math.min(to, other.chain.count); at += 1) high = Math.max(high, other.chain.input[at]);
    const isNear = threshold > 0 && threshold <= high * 1.9;
    const y = scale(0, (isNear ? Math.max(high, threshold) : high) * 1.05, bottom, top);
    axes(svg, {
      x, y, left, right, top, bottom, xTicks: [], yTicks: ticks(0, y.back(top), 4), yText: say.tokens, xText: String, yLabel: "tokens",
    });
    const calls = this.visible(Math.max(100, right - left));
    const edge = (number) => x(number + 1 < calls.length ? calls[number + 1] : to);
    this.drawIdle(svg, x, top, bottom);
    this.drawLayers(svg, calls, edge, x, y);
    this.drawLines(svg, calls, edge, x, y, isNear);
    if (!isNear && threshold > 0) {
      svg.append(s("text", { class: "note", x: right - 4, y: top + 10, "text-anchor": "end" }, "threshold " + say.tokens(threshold) + ", above ↑"));
    }
    this.drawMarks(svg, x, y, top, bottom);
    this.drawCost(svg, x, bottom + 12, height - 24, left, right);
    const shown = ticks(from, Math.max(from + 1, to - 1), Math.max(2, Math.floor((right - left) / 90))).filter((at) => Number.isInteger(at));
    const scaleGroup = s("g", { class: "axes", "aria-hidden": "true" });
    for (const at of shown) scaleGroup.append(s("text", { x: x(at + 0.5), y: height - 8, "text-anchor": "middle" }, grouping.format(chain.call[at])));
    scaleGroup.append(s("text", { class: "axis-label", x: left - 16, y: height - 8, "text-anchor": "end" }, "call"));
    svg.append(scaleGroup);
    this.cursorLine = s("line", { class: "cursor-line", x1: 0, x2: 0, y1: top, y2: height - 24 });
    this.band = s("rect", { class: "band", x: 0, y: top, width: 0, height: height - 24 - top });
    svg.append(this.band, this.cursorLine);
    this.x = x;
    this.placeCursor();
    this.listen(svg, x, left, right);
  }

  drawLayers(svg, calls, edge, x, y) {
    const { chain } = this;
    const below = new Float64Array(calls.length);
    const group = s("g", { class: "layers" });
    for (const layer of this.layers) {
      let forth = "";
      const back = [];
      calls.forEach((at, number) => {
        const low = y(below[number]);
        below[number] += Math.max(0, chain[layer][at]);
        const high = y(below[number]);
        const [start, end] = [x(at).toFixed(1), edge(number).toFixed(1)];
        forth += (forth ? "L" : "M") + start + " " + high.toFixed(1) + "L" + end + " " + high.toFixed(1);
        back.push("L" + end + " " + low.toFixed(1) + "L" + start + " " + low.toFixed(1));
      });
      group.append(s("path", { class: "layer l-" + layer, d: forth + back.reverse().join("") + "Z" }));
    }
    svg.append(group);
  }

  stepLine(values, calls, edge, x, y) {
    let path = "";
    let isDown = true;
    calls.forEach((at, number) => {
      const value = values[at];
      if (!known(value)) {
        isDown = true;
        return;
      }
      path += (isDown ? "M" : "L") + x(at).toFixed(1) + " " + y(value).toFixed(1) + "L" + edge(number).toFixed(1) + " " + y(value).toFixed(1);
      isDown = false;
    });
    return path;
  }

  drawLines(svg, calls, edge, x, y, hasThreshold) {
    const line = (values, name) => svg.append(s("path", { class: name, d: this.stepLine(values, calls, edge, x, y) }));
    line(this.chain.recorded, "recorded-line");
    this.others.forEach((other, number) => line(other.chain.input, "other-line other-" + number));
    if (hasThreshold) line(this.chain.threshold, "limit");
  }

  drawIdle(svg, x, top, bottom) {
    const shown = this.facts.idle.filter((one) => one.at >= this.from && one.at < this.to);
    const group = s("g", { class: "idles" });
    for (const one of shown) {
      const line = s("line", { class: "idle", x1: x(one.at), x2: x(one.at), y1: top - 6, y2: bottom });
      line.append(s("title", {}, "idle for " + say.duration(one.seconds)));
      group.append(line);
      if (shown.length <= 10) group.append(s("text", { class: "idle-text", x: x(one.at) + 3, y: bottom - 4 }, say.duration(one.seconds)));
    }
    svg.append(group);
  }

  // Shapes tell marks apart, not only colours. Those of boundaries are links to their place below.
  drawMarks(svg, x, y, top, bottom) {
    const inside = (one) => one.at >= this.from && one.at <= this.to;
    const group = s("g", { class: "marks" });
    const mark = (one, shape, title, act) => {
      const node = s("g", { class: "mark", transform: "translate(" + x(one.at).toFixed(1) + " 0)", tabindex: act ? "0" : null, role: act ? "button" : null, "aria-label": act ? title : null },
        s("title", {}, title), shape);
      if (act) {
        node.addEventListener("click", act);
        node.addEventListener("keydown", (event) => {
          if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            event.stopPropagation();
            act();
          }
        });
      }
      group.append(node);
    };
    for (const one of this.facts.recorded.filter(inside)) {
      mark(one, [s("line", { class: "m-recorded-line", x1: 0, x2: 0, y1: 11, y2: bottom }), s("path", { class: "m-recorded", d: "M-5 2h10l-5 8z" })], "recorded boundary (" + one.trigger + ") before call " + this.chain.call[Math.min(one.at, this.chain.count - 1)]);
    }
    this.facts.boundaries.forEach((one, number) => {
      if (!inside(one)) return;
      mark(one, [s("line", { class: "m-made-line", x1: 0, x2: 0, y1: 24, y2: bottom }), s("path", { class: "m-made", d: "M-5 15h10l-5 8z" })],
        "simulated boundary (" + one.trigger + ", " + one.kind + ") before call " + one.call + ": " + say.tokens(one.tokens_before) + " to " + say.tokens(one.tokens_after),
        () => this.onboundary(number));
    });
    for (const one of this.facts.micro.filter(inside)) mark(one, s("circle", { class: "m-micro", cx: 0, cy: 31, r: 3 }), "micro-compaction: " + one.text);
    for (const one of this.facts.misses.filter(inside)) {
      mark({ at: one.at + 0.5 }, s("path", { class: "m-missed", d: "M-3 38l6 6M3 38l-6 6" }), one.outcome + ": " + one.path);
    }
    svg.append(group);
  }

  drawCost(svg, x, top, bottom, left, right) {
    const { chain, from, to } = this;
    let high = 0;
    for (let at = from; at < to; at += 1) high = Math.max(high, chain.cost[at] || 0);
    if (!high) return;
    const y = scale(0, high, bottom, top);
    const group = s("g", { class: "costs" });
    const wide = Math.max(0.7, x(1) - x(0) - 0.4);
    const most = new Map();
    for (let at = from; at < to; at += 1) {
      const pixel = wide < 1 ? Math.round(x(at)) : at;
      if (!most.has(pixel) || chain.cost[most.get(pixel)] < chain.cost[at]) most.set(pixel, at);
    }
    for (const at of most.values()) {
      const size = bottom - y(chain.cost[at] || 0);
      group.append(s("rect", { class: chain.cacheMisses[at] ? "cost missed" : "cost", x: x(at), y: bottom - size, width: wide, height: Math.max(0, size) }));
    }
    group.append(s("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
    group.append(s("text", { class: "axis-text", x: left - 6, y: top + 8, "text-anchor": "end" }, say.money(high)));
    svg.append(group);
  }

  placeCursor() {
    if (!this.cursorLine) return;
    const isShown = this.cursor >= this.from && this.cursor < this.to;
    const at = isShown ? this.x(this.cursor + 0.5) : 0;
    this.cursorLine.setAttribute("x1", at);
    this.cursorLine.setAttribute("x2", at);
    this.cursorLine.classList.toggle("off", !isShown);
  }

  listen(svg, x, left, right) {
    const place = (event) => {
      const box = svg.getBoundingClientRect();
      const inside = (event.clientX - box.left) * (svg.viewBox.baseVal.width / box.width);
      return x.back(Math.max(left, Math.min(right - 0.01, inside)));
    };
    let start = null;
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch" || event.target.closest(".mark")) return;
      start = place(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      const now = place(event);
      if (start === null) {
        this.choose(Math.floor(now), true);
        return;
      }
      const [low, high] = [Math.min(start, now), Math.max(start, now)];
      this.band.setAttribute("x", x(low));
      this.band.setAttribute("width", Math.max(0, x(high) - x(low)));
    });
    svg.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const now = place(event);
      const [low, high] = [Math.min(start, now), Math.max(start, now)];
      start = null;
      this.band.setAttribute("width", 0);
      if (Math.abs(x(high) - x(low)) > 6) this.show(Math.floor(low), Math.ceil(high));
      else this.choose(Math.floor(now));
    });
    svg.addEventListener("dblclick", () => this.show(0, this.chain.count));
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.altKey) return;
      event.preventDefault();
      this.cursor = Math.floor(place(event));
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8);
    }, { passive: false });
  }
}

function markLegend(facts, others) {
  const shape = (content) => s("svg", { width: 12, height: 12, viewBox: "-6 -6 12 12", "aria-hidden": "true" }, content);
  const list = [
    ["made", facts.boundaries.length, s("path", { class: "m-made", d: "M-5 -4h10l-5 8z" })],
    ["recorded", facts.recorded.length, s("path", { class: "m-recorded", d: "M-5 -4h10l-5 8z" })],
    ["micro", facts.micro.length, s("circle", { class: "m-micro", cx: 0, cy: 0, r: 3 })],
    ["missed", facts.misses.length, s("path", { class: "m-missed", d: "M-3 -3l6 6M3 -3l-6 6" })],
    ["idle", facts.idle.length, s("line", { class: "idle", x1: 0, x2: 0, y1: -6, y2: 6 })],
  ].filter(([, count]) => count);
  return h("ul", { class: "marks-legend" },
    list.map(([kind, count, picture]) => h("li", {}, shape(picture), MARK_TITLES[kind] + " (" + say.count(count) + ")")),
    h("li", {}, s("svg", { width: 16, height: 12, viewBox: "0 0 16 12", "aria-hidden": "true" }, s("line", { class: "recorded-line", x1: 0, x2: 16, y1: 6, y2: 6 })), "as recorded"),
    h("li", {}, s("svg", { width: 16, height: 12, viewBox: "0 0 16 12", "aria-hidden": "true" }, s("line", { class: "limit", x1: 0, x2: 16, y1: 6, y2: 6 })), "threshold"),
    others.map((other, number) => h("li", {}, s("svg", { width: 16, height: 12, viewBox: "0 0 16 12", "aria-hidden": "true" }, s("line", { class: "other-line other-" + number, x1: 0, x2: 16, y1: 6, y2: 6 })), other.name)),
    h("li", {}, h("span", { class: "swatch missed" }), "cost of a call that missed the cache"));
}

// What left at a boundary, as a bar of its parts.
function partsBar(parts, whole) {
  return h("span", { class: "parts", "aria-hidden": "true" }, LAYERS.filter((layer) => (parts || {})[layer]).map((layer) =>
    h("span", { title: layerName(layer) + " " + say.tokens(parts[layer]), style: { width: ((100 * parts[layer]) / whole).toFixed(2) + "%", background: "var(--c-" + layer + ")" } })));
}

// What a recorded boundary kept is in the window after it, but no log says which part it is.
const stayed = (one) => (one.source === "recorded" ? say.none : say.tokens(sumOf(one.kept_tokens)));

const sumOf = (parts) => Object.values(parts || {}).reduce((sum, value) => sum + value, 0);

function boundaryDetail(one, number) {
  const layers = LAYERS.filter((layer) => (one.dropped_tokens || {})[layer] || (one.kept_tokens || {})[layer]);
  const rows = layers.map((layer) => [[swatch(layer), layerName(layer)], say.tokens((one.dropped_tokens || {})[layer] || 0), one.source === "recorded" ? say.none : say.tokens((one.kept_tokens || {})[layer] || 0)]);
  const files = one.restored_files || [];
  const facts = [
    ["Before", say.tokens(one.tokens_before), "the client counts " + say.tokens(one.tokens_counted)],
    ["After", say.tokens(one.tokens_after), one.tokens_after > one.tokens_before ? "larger than before" : null],
    ["Threshold", say.tokens(one.threshold), "window " + say.tokens(one.window) + " (" + say.text(one.window_grounds) + ")"],
    ["Summary", say.tokens(one.summary_tokens), say.count(one.messages_summarized) + " messages, " + say.several(one.prompts_summarized, "prompt") + " of people"],
    ["Came back", say.tokens(one.restored_tokens), files.length ? say.several(files.length, "file") : null],
    ["Since the last", say.several(one.rounds_since, "call"), say.several(one.turns_since, "turn")],
  ];
  return h("article", { class: "boundary", id: "boundary-" + number, tabindex: "-1", "aria-label": "Boundary before call " + one.call },
    h("h3", {}, "Boundary " + (number + 1) + ": ", one.trigger, ", ", one.kind, ", before ", "call " + say.count(one.call),
      one.source === "recorded" ? h("span", { class: "tag" }, "as recorded") : null,
      one.is_recompaction ? h("span", { class: "tag" }, "again") : null),
    figures(facts),
    h("div", { class: "three" },
      h("div", {}, smallTable("What left and what stayed", [["What was in the window", "text"], ["Left", "number"], ["Stayed", "number"]], rows, { captioned: true })),
      h("div", {}, h("h4", {}, "Files that came back"), files.length
        ? h("ul", { class: "list" }, files.map((file) => h("li", {}, pathText(file.path), " ", h("small", {}, say.tokens(file.tokens)))))
        : h("p", { class: "about" }, "None.")),
      h("div", {}, h("h4", {}, "Misses until the next one"), one.after.length
        ? h("ul", { class: "list" }, one.after.slice(0, 30).map((miss) => h("li", {}, pathText(miss.path), " ", h("small", {}, miss.outcome + ", call " + miss.call + ", " + say.tokens(miss.distance) + " away"))),
          one.after.length > 30 ? h("li", {}, say.count(one.after.length - 30) + " more") : null)
        : h("p", { class: "about" }, "None."))));
}

class SessionView {
  constructor(run, row, agent) {
    this.run = run;
    this.row = row;
    this.session = run.sessions.get(row, "session");
    this.chains = chainsOf(run, row);
    this.agent = agent;
    const chain = this.chains.find((one) => one.agent === agent) || this.chains[0];
    this.element = h("div", {}, this.head(chain));
    if (!chain || !chain.count) {
      this.element.append(h("p", {}, "No calls of this session are on the page."));
      return;
    }
    this.chain = chain;
    this.facts = chainFacts(run, this.session, chain);
    const others = runs.filter((one) => one !== run).flatMap((one) => {
      const at = sessionRow(one, this.session);
      const found = at < 0 ? null : chainsOf(one, at).find((other) => other.agent === chain.agent);
      return found && found.count === chain.count ? [{ name: one.name, chain: found }] : [];
    });
    this.plot = new Sawtooth(chain, this.facts, others, (plot, goes) => this.follow(goes));
    this.plot.onboundary = (number) => this.openBoundary(number, true);
    this.calls = this.callTable();
    this.boundaries = this.boundaryTable();
    this.detail = h("div", { class: "detail" });
    add(this.element, [
      section("window", "The window", "Stacked by what is in it; hover or use the arrow keys for numbers, drag to zoom.", this.plot.element),
      this.boundaries ? section("boundaries", "Boundaries", null, this.boundaries.element, this.detail)
        : section("boundaries", "Boundaries", "The policy compacts nowhere in this chain."),
      section("calls", "Calls", null, this.calls.element),
    ]);
  }

  head(chain) {
    const { run, row } = this;
    const rows = run.sessions;
    const get = (name) => rows.get(row, name);
    const beside = (by) => {
      const to = row + by;
      return to >= 0 && to < rows.count ? h("a", { href: sessionPlace(run, rows.get(to, "session")), class: "choice" }, by < 0 ? "‹ Session before" : "Session after ›") : null;
    };
    const agents = this.chains.length > 1
      ? h("p", { class: "picker" }, "Agent: ", this.chains.map((one) => h("a", {
        href: sessionPlace(run, this.session, { agent: one.agent }), class: "choice", "aria-current": one === chain ? "true" : null,
      }, one.agent ? one.agent.slice(0, 12) : "main", h("small", {}, " " + say.count(one.count)))))
      : null;
    const notes = data.notes.some((one) => one.session === this.session);
    return [
      h("nav", { class: "crumbs", "aria-label": "Sessions" }, h("a", { href: "#sessions/" + run.number }, "All sessions"), beside(-1), beside(1)),
      h("h1", { class: "mono" }, this.session),
      h("p", { class: "about" }, say.text(get("project")), h("br", {}), say.time(get("first_time")), " to ", say.time(get("last_time")), " UTC",
        notes ? [" · ", h("a", { href: "#notes/" + encodeURIComponent(this.session) }, "notes")] : null),
      runPicker(run, (one) => sessionPlace(one, this.session)),
      figures([
        ["Calls", say.count(get("calls")), get("subagent_calls") ? say.count(get("subagent_calls")) + " of sub-agents" : null],
        ["Turns", say.count(get("turns"))],
        ["Largest window", say.tokens(get("peak")), "mean " + say.tokens(get("mean"))],
        ["Compactions", say.count(get("compactions")), say.count(get("recorded_compactions")) + " recorded"],
        get("micro") ? ["Micro-compactions", say.count(get("micro")), say.tokens(get("saved_tokens")) + " saved"] : null,
        known(get("misses")) ? ["Misses", say.count(get("misses_credited")) + "–" + say.count(get("misses")), "of " + say.count(get("uses")) + " edits"] : null,
        ["Cost", say.money(get("cost_micro_usd")), say.money(get("recorded_micro_usd")) + " by recorded usage"],
      ]),
      agents,
    ];
  }

  place(more) {
    return sessionPlace(this.run, this.session, { agent: this.chain.agent, ...more });
  }

  callTable() {
    const { chain } = this;
    const number = (title, values, how, about) => ({ title, about, kind: "number", value: (at) => values[at], cell: (at) => how(values[at]) });
    return new Table({
      caption: "Calls",
      count: chain.count,
      search: (at) => [chain.call[at], chain.models[at], chain.cacheMisses[at], chain.events.get(at) || ""].join(" "),
      columns: [
        { title: "Call", kind: "number", value: (at) => chain.call[at], cell: (at) => h("a", { href: this.place({ call: chain.call[at] }), "aria-label": "Call " + chain.call[at] + ", show in the plot" }, say.count(chain.call[at])) },
        number("Turn", chain.turn, say.count),
        { title: "Time", kind: "text", value: (at) => chain.second[at], cell: (at) => say.second(chain.second[at]) },
        { title: "Model", kind: "text", value: (at) => chain.models[at], cell: (at) => say.text(chain.models[at].replace(/^claude-/, "")) },
        number("Window", chain.input, say.count, "Tokens sent"),
        number("Recorded", chain.recorded, say.count, "Tokens sent, as the log has them"),
        number("Answered", chain.output, say.count),
        number("From cache", chain.cacheRead, say.count),
        number("To cache", chain.cacheWrite, say.count),
        chain.cacheMisses.some(Boolean) ? { title: "Cache missed", about: "Why less was read from the prompt cache than the call before left there", kind: "text", value: (at) => chain.cacheMisses[at] } : null,
        number("Cost", chain.cost, say.price),
        chain.events.size ? { title: "Events", kind: "text wrap", value: (at) => chain.events.get(at) || "" } : null,
      ],
    });
  }

  boundaryTable() {
    const list = this.facts.boundaries;
    if (!list.length) return null;
    const whole = Math.max(...list.map((one) => sumOf(one.dropped_tokens)), 1);
    return new Table({
      caption: "Boundaries",
      count: list.length,
      mark: (at) => list[at].tokens_after > list[at].tokens_before,
      columns: [
        { title: "Call", kind: "number", value: (at) => list[at].call, cell: (at) => h("a", { href: this.place({ boundary: at }), "aria-label": "Boundary before call " + list[at].call + ", show" }, say.count(list[at].call)) },
        { title: "Trigger", kind: "text", value: (at) => list[at].trigger },
        { title: "Kind", kind: "text", value: (at) => list[at].kind },
        { title: "Source", kind: "text", about: "Recorded: the log has a boundary at the same place, and its sizes were taken", value: (at) => list[at].source },
        { title: "Before", kind: "number", value: (at) => list[at].tokens_before, cell: (at) => say.tokens(list[at].tokens_before) },
        { title: "After", kind: "number", value: (at) => list[at].tokens_after, cell: (at) => say.tokens(list[at].tokens_after) },
        { title: "Left", kind: "number", value: (at) => sumOf(list[at].dropped_tokens), cell: (at) => say.tokens(sumOf(list[at].dropped_tokens)) },
        { title: "What left", kind: "parts-cell", value: (at) => sumOf(list[at].dropped_tokens), cell: (at) => partsBar(list[at].dropped_tokens, whole) },
        { title: "Stayed", kind: "number", value: (at) => sumOf(list[at].kept_tokens), cell: (at) => stayed(list[at]) },
        { title: "Summary", kind: "number", value: (at) => list[at].summary_tokens, cell: (at) => say.tokens(list[at].summary_tokens) },
        { title: "Back", kind: "number", about: "Tokens that came back: files, skills, states", value: (at) => list[at].restored_tokens, cell: (at) => say.tokens(list[at].restored_tokens) },
        { title: "Misses", kind: "number", about: "Misses until the next boundary", value: (at) => list[at].after.length, cell: (at) => say.count(list[at].after.length) },
      ],
    });
  }

  openBoundary(number, moves) {
    const one = this.facts.boundaries[number];
    if (!one || !this.boundaries) return;
    this.boundaries.goTo(number, false);
    clear(this.detail).append(boundaryDetail(one, number));
    if (moves) {
      this.detail.scrollIntoView({ block: "nearest" });
      this.detail.firstChild.focus({ preventScroll: true });
      this.remember({ boundary: number });
    }
  }

  // The address follows what is chosen, without a new entry in the history for every step.
  remember(more) {
    const isZoomed = this.plot.to - this.plot.from < this.chain.count;
    const place = this.place({ ...(isZoomed ? { from: this.plot.from, to: this.plot.to } : {}), ...more });
    replacePlace(place);
  }

  follow(goes) {
    const { cursor } = this.plot;
    if (cursor >= 0) this.calls.goTo(cursor, goes);
    this.remember(cursor >= 0 ? { call: this.chain.call[cursor] } : {});
    if (goes) {
      const link = this.calls.body.querySelector(".marked a");
      if (link) link.focus({ preventScroll: true });
    }
  }

  // Brings the view to what the address says. `moves` if somebody followed a link on the page.
  update(query, moves) {
    if (!this.chain) return;
    if (query.has("from") && query.has("to")) this.plot.show(Number(query.get("from")), Number(query.get("to")));
    if (query.has("call")) {
      const at = this.chain.call.indexOf(Number(query.get("call")));
      if (at >= 0) {
        this.plot.choose(at, true);
        this.calls.goTo(at, false);
        if (moves) this.plot.element.scrollIntoView({ block: "center" });
      }
    }
    if (query.has("boundary")) {
      const number = Number(query.get("boundary"));
      const one = this.facts.boundaries[number];
      if (!one) return;
      this.plot.choose(one.at, true);
      this.openBoundary(number, false);
      if (moves) this.detail.scrollIntoView({ block: "nearest" });
    } else if (this.facts.boundaries.length && !this.detail.firstChild) {
      this.openBoundary(0, false);
    }
  }
}
