// Recorded compactions: where thresholds lie, what each boundary freed, which made things worse.

function viewAudit() {
  return h("div", {}, data.audits.map((audit, number) => auditPart(audit, number)));
}

function auditPart(audit, number) {
  const totals = audit.totals;
  const rows = new Rows(audit.boundaries);
  const list = [
    ["Boundaries", say.count(totals.boundaries), "in " + say.count(totals.sessions_with_boundaries) + " of " + say.several(totals.sessions, "session")],
    ["Automatic", say.count(totals.automatic)],
    ["Asked for", say.count(totals.manual)],
    totals.unknown_trigger ? ["Of old clients", say.count(totals.unknown_trigger)] : null,
    ["Micro", say.count(totals.micro)],
    ["Freed", say.tokens(totals.freed_tokens), totals.micro ? say.tokens(totals.micro_freed_tokens) + " by micro" : null],
    ["Net negative", say.count(totals.net_negative), "larger after than before"],
    ["Window after", say.tokens(totals.median_window_after), "median"],
    ["Calls between", say.count(totals.median_calls_between), "median; " + say.count(totals.median_calls_to_first) + " to the first"],
    known(totals.took_ms) ? ["Time spent", say.duration(totals.took_ms / 1000)] : null,
  ];
  const id = "audit-" + number;
  return h("div", {},
    data.audits.length > 1 ? h("h1", {}, audit.name) : null,
    h("p", { class: "lead" }, auditSentence(totals)),
    figures(list),
    thresholdSection(audit.thresholds || [], id),
    audit.setting ? settingSection(audit.setting, id) : null,
    rows.count ? boundarySection(rows, id) : section(id + "-none", "Boundaries", "No compaction is recorded in these sessions."));
}

// The answer in a few words.
function auditSentence(totals) {
  const count = totals.boundaries - (totals.micro || 0);
  if (!totals.boundaries) return h("strong", {}, "No compaction is recorded in " + say.several(totals.sessions, "session") + ".");
  return [h("strong", {}, say.several(totals.sessions_with_boundaries, "session") + " of " + say.count(totals.sessions) + " compacted: " + say.several(count, "compaction") +
    (totals.micro ? " and " + say.several(totals.micro, "micro-compaction") : "") + ". "),
    totals.net_negative ? say.count(totals.net_negative) + " of them left a window that was larger than before." : ""];
}

// What the words in the tables mean.
const VERDICTS = [
  ["as expected", "compactions came where the policy puts them for this version, and no context passed that place"],
  ["lower", "they came earlier: a setting lowered the threshold, or the window was smaller than assumed"],
  ["higher", "contexts passed the place without a compaction: the window was larger than assumed, or automatic compaction was off"],
  ["no evidence", "no context came near that place, or the logs do not say how large it was"],
];
const REMARKS = [
  ["grew", "the window was larger after than before"],
  ["lower", "below the usual threshold"],
  ["high", "10,000 tokens or more above it"],
  ["little", "less than half of the window came free"],
  ["again", "fewer than 10 calls after the one before"],
  ["slow", "took over two minutes"],
];

const wordList = (words, seen) => h("dl", { class: "words" }, words.filter(([word]) => seen(word)).map(([word, about]) => h("div", {}, h("dt", {}, word), h("dd", {}, about))));

function thresholdSection(thresholds, id) {
  const told = thresholds.filter((row) => row.verdict !== "no evidence");
  const versions = (row) => (row.version_first === row.version_last ? row.version_first : row.version_first + " – " + row.version_last);
  const columns = [["Versions", "text"], ["Model", "text"], ["Verdict", "text"], ["Window", "number"], ["Expected", "number"], ["Not at", "number"], ["Compacted", "number"], ["Lowest", "number"], ["Median", "number"], ["Highest", "number"], ["Too early", "number"]];
  const cells = (row) => [versions(row), say.text(row.model),
    row.about_tokens ? row.verdict + ", at about " + say.tokens(row.about_tokens) + " (" + say.share(row.about_share) + ")" : row.verdict,
    say.tokens(row.window_tokens), say.tokens(row.expected_tokens), say.tokens(row.highest_unfired),
    say.count(row.automatic), say.tokens(row.lowest_fired), say.tokens(row.median_fired), say.tokens(row.highest_fired), say.count(row.lower)];
  const plot = told.length ? thresholdPlot(told, versions) : null;
  return section(id + "-thresholds", "Thresholds by version",
    "The log does not record thresholds: each lies above the highest context that was not compacted, and is at most the lowest that was.",
    plot,
    told.length ? smallTable("Thresholds by version, model and window", columns, told.map(cells)) : h("p", {}, "No group of sessions shows where its threshold lies."),
    told.length ? h("p", { class: "about" }, "Expected: where the policy of the version compacts. Not at: the highest context that was sent on without a compaction. Compacted: automatic compactions, with the lowest, median and highest context that they came at. Too early: those below the expected place.") : null,
    wordList(VERDICTS, (word) => thresholds.some((row) => row.verdict === word)),
    told.length < thresholds.length
      ? h("details", {}, h("summary", {}, say.several(thresholds.length - told.length, "group") + " without evidence"),
        smallTable("Groups without evidence", columns, thresholds.filter((row) => row.verdict === "no evidence").map(cells)))
      : null);
}

// A line a group: where it is expected, the highest that passed, and where compaction really came.
function thresholdPlot(rows, versions) {
  const label = "Thresholds: expected and seen, by version and model. The table below has the numbers.";
  const values = rows.flatMap((row) => [row.expected_tokens, row.highest_unfired, row.lowest_fired, row.highest_fired]).filter((value) => value > 0);
  const [low, high] = [Math.min(...values) * 0.92, Math.max(...values, 1)];
  const line = 22;
  const box = drawing(label, rows.length * line + 40, (svg, width, tall) => {
    const names = rows.map((row) => versions(row) + "  " + say.text(row.model));
    const isNarrow = width < 560;
    const left = isNarrow ? 8 : Math.min(width * 0.36, widest(names));
    const right = width - 12;
    const x = scale(low, high + (high - low) * 0.04, left, right);
    const bottom = tall - 24;
    axes(svg, { x, y: () => 0, xTicks: ticks(low, high, isNarrow ? 3 : 6), yTicks: [], xText: say.tokens, yText: String, left, right, top: 0, bottom });
    rows.forEach((row, at) => {
      const y = 14 + at * line;
      svg.append(s("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }));
      if (!isNarrow) svg.append(s("text", { class: "axis-text", x: left - 8, y: y + 4, "text-anchor": "end" }, names[at]));
      if (row.lowest_fired) svg.append(s("line", { class: "range", x1: x(row.lowest_fired), x2: Math.max(x(row.highest_fired), x(row.lowest_fired) + 1), y1: y, y2: y }));
      if (row.median_fired) svg.append(s("circle", { class: row.lower ? "dot hot" : "dot", cx: x(row.median_fired), cy: y, r: 4 }));
      if (row.highest_unfired) svg.append(s("circle", { class: "ring", cx: x(row.highest_unfired), cy: y, r: 3.5 }));
      if (row.expected_tokens) svg.append(s("line", { class: "limit solid", x1: x(row.expected_tokens), x2: x(row.expected_tokens), y1: y - 8, y2: y + 8 }));
    });
  });
  return h("figure", {}, box, h("figcaption", {}, "Red line: where the policy expects it. Dot and bar: where it came, median and range. Ring: the highest that was not compacted."));
}

function settingSection(setting, id) {
  const rows = Object.entries(setting.effects).filter(([, count]) => count).map(([effect, count]) => [say.words(effect), say.count(count)]);
  return section(id + "-setting", "Does the setting work?", setting.values.map((value) => value.key + " = " + value.value + " (" + value.origin + ")").join("; "),
    smallTable("Sessions by effect", [["Effect", "text"], ["Sessions", "number"]], rows, { class: "plain" }));
}

function boundarySection(rows, id) {
  const get = (row, name) => rows.get(row, name);
  const link = (row) => sessionLink(get(row, "session"), { agent: get(row, "agent"), call: get(row, "call") }, sessionTitle(get(row, "session")));
  const column = (name, title, how, about) => fieldColumn(rows, name, title, how, about);
  const columns = [
    { title: "Session", kind: "text title-cell", value: (row) => sessionTitle(get(row, "session")).toLowerCase(), cell: link },
    column("time", "Time", say.time), column("version", "Version", say.text), column("trigger", "Trigger", say.text), column("kind", "Kind", say.text),
    column("recorded_tokens", "Recorded", say.tokens, "Tokens before, as the client wrote them down"),
    column("recorded_after_tokens", "Rec. after", say.tokens, "Tokens after, as the client wrote them down: without system prompt and tools"),
    column("window_before", "Before", say.tokens, "Window on the wire before"), column("window_after", "After", say.tokens, "Window on the wire after"),
    column("freed_tokens", "Freed", say.tokens), column("summary_tokens", "Summary", say.tokens), column("threshold_tokens", "Threshold", say.tokens),
    column("calls_since", "Calls", say.count, "Calls since the one before"), column("remarks", "Remarks", say.text),
  ].filter(Boolean);
  const table = new Table({
    caption: "Recorded boundaries", count: rows.count, columns, sort: { title: "Time", down: false },
    mark: (row) => get(row, "net_negative") === true,
    search: (row) => columns.map((one) => one.value(row)).join(" "),
  });
  const sized = table.order.filter((row) => known(get(row, "window_before")) && known(get(row, "window_after")));
  const worse = sized.filter((row) => get(row, "net_negative") === true);
  return section(id + "-boundaries", "Recorded boundaries",
    worse.length ? say.several(worse.length, "boundary", "boundaries") + " left the window larger than it was (marked)." : "No boundary left the window larger than it was.",
    sized.length ? dropPlot(rows, sized) : null, table.element,
    wordList(REMARKS, (word) => table.order.some((row) => String(get(row, "remarks") || "").split(", ").includes(word))));
}

// A line a boundary, from the window before down to the window after, in the order of time.
function dropPlot(rows, order) {
  const high = largest(order.map((row) => Math.max(rows.get(row, "window_before"), rows.get(row, "window_after"))), 1);
  const label = "Windows before and after " + say.several(order.length, "recorded boundary", "recorded boundaries") + ", in the order of time. The table below has the numbers.";
  const readout = h("p", { class: "readout", "aria-live": "polite" }, "A line a boundary, in the order of time: from the window before (top) to the window after (dot).");
  const tell = (row) => {
    clear(readout);
    add(readout, [sessionLink(rows.get(row, "session"), { agent: rows.get(row, "agent"), call: rows.get(row, "call") }), " ", say.time(rows.get(row, "time")), ", ", rows.get(row, "trigger"), " ", rows.get(row, "kind"), ": ",
      say.tokens(rows.get(row, "window_before")), " → ", say.tokens(rows.get(row, "window_after")), rows.get(row, "remarks") ? " (" + rows.get(row, "remarks") + ")" : ""]);
  };
  let chosen = -1;
  let place = null;
  const box = drawing(label, 220, (svg, width, tall) => {
    const [left, right, top, bottom] = [50, width - 6, 12, tall - 10];
    const y = scale(0, high * 1.04, bottom, top);
    const step = (right - left) / order.length;
    axes(svg, { x: () => 0, y, xTicks: [], yTicks: ticks(0, high, 4), xText: String, yText: say.tokens, left, right, top, bottom });
    order.forEach((row, at) => {
      const worse = rows.get(row, "net_negative") === true;
      const micro = rows.get(row, "kind") === "micro";
      const x = left + (at + 0.5) * step;
      svg.append(s("line", { class: "drop" + (worse ? " hot" : micro ? " soft" : ""), x1: x, x2: x, y1: y(rows.get(row, "window_before")), y2: y(rows.get(row, "window_after")) }));
      svg.append(s("circle", { class: "dot" + (worse ? " hot" : micro ? " soft" : ""), cx: x, cy: y(rows.get(row, "window_after")), r: Math.max(1.5, Math.min(3.5, step / 2)) }));
    });
    const cursor = s("line", { class: "cursor-line off", y1: top, y2: bottom, x1: 0, x2: 0 });
    svg.append(cursor);
    place = (at) => {
      ["x1", "x2"].forEach((name) => cursor.setAttribute(name, left + (at + 0.5) * step));
      cursor.classList.remove("off");
    };
    svg.addEventListener("pointermove", (event) => {
      const at = Math.floor((event.clientX - svg.getBoundingClientRect().left - left) / step);
      if (at >= 0 && at < order.length) choose(at);
    });
    if (chosen >= 0) place(chosen);
  }, {
    tabindex: "0", role: "group", "aria-label": label + " Arrow keys go from one to the next.",
    onkeydown: (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      choose(chosen + by);
    },
  });
  const choose = (at) => {
    chosen = Math.max(0, Math.min(order.length - 1, at));
    tell(order[chosen]);
    if (place) place(chosen);
  };
  return h("figure", {}, box, readout);
}
