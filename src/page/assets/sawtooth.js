// The window of a chain over its calls: layers by category, marks above, cost below; hover, zoom, keys.

const MARK_TITLES = { made: "simulated boundary", recorded: "recorded boundary", micro: "micro-compaction", missed: "miss", idle: "idle for an hour or more" };

class Sawtooth {
  constructor(chain, facts, others, onchange) {
    Object.assign(this, { chain, facts, others, onchange });
    this.layers = LAYERS.filter((layer) => chain[layer].some((value) => value > 0));
    this.from = 0;
    this.to = chain.count;
    this.cursor = -1;
    const label = "The context window over " + say.several(chain.count, "call") + ": largest " + say.tokens(largest(chain.input)) + ", " +
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
    // A few calls are a few steps, not a wall.
    const least = chain.count < 12 ? 12 : 0;
    const x = scale(from, Math.max(to, from + least), left, right);
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
    this.drawLayers(svg, calls, edge, x, y);
    this.drawIdle(svg, x, top, bottom, right);
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

  drawIdle(svg, x, top, bottom, right) {
    const shown = this.facts.idle.filter((one) => one.at >= this.from && one.at < this.to);
    const group = s("g", { class: "idles" });
    for (const one of shown) {
      const line = s("line", { class: "idle", x1: x(one.at), x2: x(one.at), y1: top - 6, y2: bottom });
      line.append(s("title", {}, "idle for " + say.duration(one.seconds)));
      group.append(line);
      const isRight = x(one.at) > right - 44;
      if (shown.length <= 10) group.append(s("text", { class: "idle-text", x: x(one.at) + (isRight ? -3 : 3), y: bottom - 4, "text-anchor": isRight ? "end" : "start" }, say.duration(one.seconds)));
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
