// Plots in SVG: drawn for the width there is, again when it changes. Colours come from the style sheet, so that light, dark
// and print need no drawing of their own.

// Round numbers that divide a range into about `count` parts.
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((by) => by * power).find((by) => by >= rough * 0.999);
  const list = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-6; at += step) list.push(Math.abs(at) < step / 1e6 ? 0 : at);
  return list;
}

const scale = (from, to, start, end) => {
  const factor = (end - start) / (to - from || 1);
  const place = (value) => start + (value - from) * factor;
  place.back = (pixel) => from + (pixel - start) / (factor || 1);
  return place;
};

// A drawing that follows the width of its place. `draw(svg, width, height)` fills it.
function drawing(label, height, draw, attributes) {
  const box = h("div", { class: "plot", ...(attributes || {}) });
  const render = () => {
    const width = Math.max(240, Math.round(box.clientWidth || 720));
    const tall = typeof height === "function" ? height(width) : height;
    const svg = s("svg", { viewBox: "0 0 " + width + " " + tall, width, height: tall, role: "img", "aria-label": label });
    draw(svg, width, tall);
    const old = box.querySelector("svg");
    if (old) old.replaceWith(svg);
    else box.prepend(svg);
    box.dataset.width = width;
  };
  box.render = render;
  watcher.observe(box);
  return box;
}

const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.isConnected && Math.abs((target.dataset.width || 0) - Math.round(target.clientWidth)) > 1 && target.clientWidth) target.render();
  }
});

// Words at both axes, and lines across.
function axes(svg, { x, y, xTicks, yTicks, xText, yText, left, right, top, bottom, xLabel, yLabel }) {
  const group = s("g", { class: "axes", "aria-hidden": "true" });
  for (const at of yTicks) {
    group.append(s("line", { class: "grid", x1: left, x2: right, y1: y(at), y2: y(at) }));
    group.append(s("text", { x: left - 6, y: y(at), "text-anchor": "end", "dominant-baseline": "middle" }, yText(at)));
  }
  for (const at of xTicks) {
    group.append(s("text", { x: x(at), y: bottom + 15, "text-anchor": "middle" }, xText(at)));
    group.append(s("line", { class: "tick", x1: x(at), x2: x(at), y1: bottom, y2: bottom + 3 }));
  }
  group.append(s("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
  if (xLabel) group.append(s("text", { class: "axis-label", x: right, y: bottom + 29, "text-anchor": "end" }, xLabel));
  if (yLabel) group.append(s("text", { class: "axis-label", x: left - 6, y: top - 9, "text-anchor": left >= 44 ? "end" : "start" }, yLabel));
  svg.append(group);
}

const widest = (texts) => Math.max(...texts.map((text) => String(text).length)) * 6.6 + 14;

// Columns: bars [{name, value, title, class}]. Shown one by one with the arrow keys and under the pointer.
// Gaps {from, to, text} are stretches without anything, told apart from low columns.
function columnPlot(label, bars, { how, height, every, marks, gaps }) {
  const readout = h("p", { class: "readout", "aria-live": "polite" }, label);
  let chosen = -1;
  let place = null;
  const choose = (at) => {
    chosen = Math.max(0, Math.min(bars.length - 1, at));
    readout.textContent = bars[chosen].title;
    if (place) place(chosen);
  };
  const box = drawing(label, height || 180, (svg, width, tall) => {
    const high = largest(bars.map((one) => one.value), 1e-9);
    const yTicks = ticks(0, high, 3);
    const left = widest(yTicks.map(how));
    const [right, top, bottom] = [width - 4, 14, tall - 24];
    const y = scale(0, high * 1.04, bottom, top);
    const step = Math.min(64, (right - left) / bars.length);
    const x = (at) => left + (at + 0.5) * step;
    const labels = Math.max(1, Math.ceil((every || 62) / step));
    const shown = bars.map((_, at) => at).filter((at) => at % labels === 0);
    for (const gap of gaps || []) {
      const [from, to] = [left + gap.from * step, left + gap.to * step];
      const mark = s("g", { class: "gap" }, s("title", {}, gap.text), s("rect", { x: from, y: top, width: to - from, height: bottom - top }));
      if (to - from > gap.text.length * 6) mark.append(s("text", { x: (from + to) / 2, y: (top + bottom) / 2, "text-anchor": "middle" }, gap.text));
      svg.append(mark);
    }
    axes(svg, { x, y, xTicks: shown.filter((at) => x(at) < right - 24 || bars.length < 3), yTicks, xText: (at) => bars[at].name, yText: how, left, right, top, bottom });
    const group = s("g", {});
    bars.forEach((one, at) => {
      const size = Math.max(one.value > 0 ? 1 : 0, bottom - y(one.value));
      group.append(s("rect", {
        class: "column " + (one.class || ""), x: left + at * step + Math.min(1, step * 0.1), y: bottom - size,
        width: Math.max(0.5, step - Math.min(2, step * 0.2)), height: size,
      }));
    });
    svg.append(group);
    for (const mark of marks || []) {
      const at = left + mark.at * step;
      svg.append(s("line", { class: "limit", x1: at, x2: at, y1: top, y2: bottom }));
      svg.append(s("text", { class: "note", x: at - 4, y: top + 8, "text-anchor": "end" }, mark.text));
    }
    const cursor = s("rect", { class: "cursor", y: top, height: bottom - top, width: 0, x: left });
    svg.append(cursor);
    place = (at) => {
      cursor.setAttribute("x", left + at * step);
      cursor.setAttribute("width", Math.max(1, step));
    };
    svg.addEventListener("pointermove", (event) => {
      const at = Math.floor((event.clientX - svg.getBoundingClientRect().left - left) / step);
      if (at >= 0 && at < bars.length) choose(at);
    });
    if (chosen >= 0) place(chosen);
  }, {
    tabindex: "0", role: "group", "aria-label": label + ". Arrow keys go from column to column.",
    onkeydown: (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      choose(chosen + by);
    },
  });
  return h("figure", { class: "columns" }, box, readout);
}

// A line of a few pixels in a table.
function spark(values, width, height, marks) {
  const count = values.length;
  if (!count) return h("span", {});
  const high = largest(values, 0) || 1;
  const x = (at) => (count > 1 ? (at / (count - 1)) * (width - 2) + 1 : 1);
  let path = "";
  const step = Math.max(1, Math.floor(count / width));
  for (let at = 0; at < count; at += step) {
    let most = 0;
    for (let next = at; next < Math.min(count, at + step); next += 1) most = Math.max(most, values[next]);
    path += (path ? "L" : "M") + x(at).toFixed(1) + " " + (height - 1 - (most / high) * (height - 2)).toFixed(1);
  }
  return s("svg", { class: "spark", width, height, viewBox: "0 0 " + width + " " + height, "aria-hidden": "true" },
    s("path", { d: path }),
    (marks || []).map((at) => s("line", { x1: x(at), x2: x(at), y1: 0, y2: height })));
}
