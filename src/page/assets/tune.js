// A sweep: what each policy costs and loses, which are worth choosing between, which to set.

function viewTune(parts, query) {
  const sweeps = data.tunes.map((tune, number) => tunePart(tune, number, query));
  // Windows with too few sessions are named last.
  return h("div", {}, sweeps.filter((sweep) => sweep.matches(".tuned")), sweeps.filter((sweep) => !sweep.matches(".tuned")));
}

// Windows with fewer sessions than this are named and not drawn.
const FEW_SESSIONS = 5;

const TUNE_WORDS = [
  ["Policy", "the context at which it compacts, in tokens, or what else is set; “now” is the present policy"],
  ["Saved", "share of the present policy's cost; what a miss costs is not in it"],
  ["Misses per 100", "edits of lines that were gone, per 100 calls; files that came back are not credited"],
  ["Per extra miss", "dollars saved for each miss more than now"],
  ["Hours waiting", "for compactions, at the median recorded duration"],
  ["Mean window", "tokens sent with a call, on average"],
  ["Blocks", "sessions that it would end, though the present policy does not: such a policy has no figures"],
  ["Front", "no other policy beats it in everything"],
];

const AGENT_NAMES = { codex: "Codex", opencode: "OpenCode", pi: "Pi" };

function windowTitle(tune) {
  const agent = tune.coding_agent && tune.coding_agent !== "claude" ? (AGENT_NAMES[tune.coding_agent] || tune.coding_agent) + ", " : "";
  return agent + "windows of " + say.count(tune.window_tokens) + " tokens";
}

function tunePart(tune, number, query) {
  const several = data.tunes.length > 1 && tune.window_tokens;
  const compared = known(tune.sessions_compared) ? tune.sessions_compared : tune.sessions;
  if (several && compared < FEW_SESSIONS) {
    return h("p", { class: "about" }, windowTitle(tune)[0].toUpperCase() + windowTitle(tune).slice(1) + ": " + say.several(tune.sessions, "session") + ", too few to compare.");
  }
  const rows = new Rows(tune.points);
  const best = tune.choice ? tune.choice.best : null;
  const find = (name) => {
    for (let row = 0; row < rows.count; row += 1) if (rows.get(row, "policy") === name) return row;
    return -1;
  };
  const chosen = best === null ? -1 : find(best);
  const table = tuneTable(tune, rows, number, chosen);
  const ctx = { tune, rows, chosen, table, number };
  const hasThresholds = thresholdRows(rows).length > 2;
  const plots = [tunePlot(ctx, "cost"), ...(hasThresholds ? [] : [tunePlot(ctx, "window")])];
  const asked = query && query.get("point") ? query.get("point").split(".").map(Number) : null;
  if (asked && asked[0] === number && asked[1] < rows.count) {
    table.goTo(asked[1], false);
    if (known(rows.get(asked[1], "cost_micro_usd"))) plots.forEach((plot) => plot.choose(asked[1]));
  }
  const id = "tune-" + number;
  return h("div", { class: "tuned" },
    h("h1", {}, several ? "Tune: " + windowTitle(tune) : "Tune"),
    choiceSection(tune, id),
    hasThresholds ? section(id + "-curve", "What each threshold saves", "Compacting at fewer tokens costs less and loses more. Savings are of simulated cost alone.", savingCurve(ctx)) : null,
    section(id + "-front", "What each policy costs and loses", "Every policy is a bar from misses with files that came back credited to not credited. Filled ones are on the front: no other policy beats them in everything.",
      h("div", { class: plots.length > 1 ? "two" : null }, plots.map((plot) => plot.element)), table.element,
      wordList(TUNE_WORDS, (word) => table.columns.some((column) => column.title === word))),
    boundsTable(tune, id),
    flipSection(tune, id, (name) => (find(name) < 0 ? name : rows.get(find(name), "label") || name)));
}

function tuneTable(tune, rows, number, chosen) {
  const column = (name, title, how, about) => fieldColumn(rows, name, title, how, about);
  const fixed = (value) => value.toFixed(2);
  const some = (name) => Array.from({ length: rows.count }, (_, row) => rows.get(row, name)).some((value) => value > 0);
  const isUnsettable = (row) => rows.get(row, "settable") === false;
  const hasThresholds = thresholdRows(rows).length > 2;
  const columns = [
    {
      title: "Policy", kind: "text", value: (row) => (hasThresholds ? thresholdOf(rows, row) || tune.usual_threshold : rows.get(row, "label") || rows.get(row, "policy")),
      cell: (row) => [h("a", { href: "#tune?point=" + number + "." + row, title: rows.get(row, "policy") }, rows.get(row, "label") || rows.get(row, "policy")),
        isUnsettable(row) ? h("span", { class: "tag", title: "The client has no setting for it" }, "not settable") : null],
    },
    column("saved_share", "Saved", say.share, "Share of the present policy's cost"),
    column("cost_micro_usd", "Cost", say.money),
    column("misses_per_100_calls", "Misses per 100", fixed, "Edits of lines that were gone, per 100 calls"),
    column("usd_per_extra_miss_micro", "Per extra miss", say.money, "Dollars saved for each miss more than now"),
    column("compactions", "Compactions", say.count), column("waiting_hours", "Hours waiting", fixed, "For compactions, at the median recorded duration"),
    column("mean_window", "Mean window", say.tokens), column("blocked_sessions", "Blocks", say.count, "Sessions that it would end"),
    some("blocked_calls") ? column("blocked_calls", "Blocked calls", say.count, "Calls that could not have been made, over all sessions with this window") : null,
    { title: "Front", kind: "text", value: (row) => (rows.get(row, "on_front") ? "yes" : ""), cell: (row) => (rows.get(row, "on_front") ? "on it" : "") },
  ].filter(Boolean);
  return new Table({
    caption: "Policies", count: rows.count, columns, sort: { title: hasThresholds ? "Policy" : "Cost", down: false }, size: 25, best: (row) => row === chosen,
    search: (row) => String(rows.get(row, "policy")) + rows.get(row, "label"),
  });
}

// The threshold that a policy sets, if it sets nothing else.
function thresholdOf(rows, row) {
  const found = /^window\.threshold=(\d+)$/.exec(rows.get(row, "policy") || "");
  return found ? Number(found[1]) : null;
}

const thresholdRows = (rows) => Array.from({ length: rows.count }, (_, row) => row).filter((row) => thresholdOf(rows, row) && known(rows.get(row, "saved_share")))
  .sort((a, b) => thresholdOf(rows, a) - thresholdOf(rows, b));

// Savings and misses over the threshold, one above the other.
function savingCurve({ tune, rows, chosen, table }) {
  const present = tune.usual_threshold;
  const at = (row) => thresholdOf(rows, row) || present;
  // The present policy has its place on the curve, too.
  const now = Array.from({ length: rows.count }, (_, row) => row).filter((row) => present && rows.get(row, "point") === 0 && known(rows.get(row, "saved_share")));
  const order = [...thresholdRows(rows), ...now].sort((a, b) => at(a) - at(b));
  const misses = (row) => rows.get(row, "misses_per_100_calls") || 0;
  const saved = (row) => rows.get(row, "saved_share");
  const label = "Saving and misses of " + say.several(order.length, "threshold") + " from " + say.tokens(at(order[0])) + " to " + say.tokens(at(order[order.length - 1])) + ". The table below has the numbers.";
  const readout = h("p", { class: "readout", "aria-live": "polite" }, "Above: saving. Below: misses per 100 calls. Point at a threshold or use the arrow keys.");
  let picked = -1;
  let mark = null;
  const choose = (row) => {
    picked = row;
    readout.textContent = "Compacting at " + say.count(at(row)) + ": saves " + say.share(saved(row)) + ", " + misses(row).toFixed(2) + " misses per 100 calls, " + say.several(rows.get(row, "compactions"), "compaction") +
      ", mean window " + say.tokens(rows.get(row, "mean_window"));
    if (mark) mark(row);
  };
  const box = drawing(label, 330, (svg, width, tall) => {
    const [low, high] = [Math.min(0, ...order.map(saved)), Math.max(0.001, ...order.map(saved))];
    const most = largest(order.map(misses), 0.1);
    const percent = (value) => minus((100 * value).toFixed(high - low < 0.05 ? 1 : 0)) + " %";
    const [left, right, top, middle, below, bottom] = [52, width - 14, 20, 190, 222, tall - 38];
    const x = scale(at(order[0]), Math.max(at(order[order.length - 1]), present || 0), left + 6, right - 6);
    const y = scale(low, high + (high - low) * 0.08, middle, top);
    const z = scale(0, most * 1.08, bottom, below);
    axes(svg, { x, y, xTicks: [], yTicks: ticks(low, high, 4), xText: String, yText: percent, left, right, top, bottom: middle, yLabel: "saved" });
    axes(svg, { x, y: z, xTicks: ticks(at(order[0]), x.back(right), width < 480 ? 3 : 7), yTicks: ticks(0, most, 2), xText: say.tokens, yText: (value) => value.toFixed(1), left, right, top: below, bottom, xLabel: "compacts at", yLabel: "misses" });
    svg.append(s("line", { class: "zero", x1: left, x2: right, y1: y(0), y2: y(0) }));
    const line = (value) => order.map((row, number) => (number ? "L" : "M") + x(at(row)).toFixed(1) + " " + value(row).toFixed(1)).join("");
    svg.append(s("path", { class: "curve", d: line((row) => y(saved(row))) }), s("path", { class: "curve lost", d: line((row) => z(misses(row))) }));
    for (const row of order) {
      const cannot = rows.get(row, "settable") === false ? " soft" : "";
      svg.append(s("circle", { class: cannot ? "ring" : "dot", cx: x(at(row)), cy: y(saved(row)), r: 3 }), s("circle", { class: "dot lost", cx: x(at(row)), cy: z(misses(row)), r: 2.5 }));
    }
    const upright = (place, text, name, down) => {
      const isRight = x(place) > right - 110;
      svg.append(s("line", { class: name, x1: x(place), x2: x(place), y1: top, y2: bottom }),
        s("text", { class: "note strong", x: x(place) + (isRight ? -5 : 5), y: top + 4 + down, "text-anchor": isRight ? "end" : "start" }, text));
    };
    if (present) upright(present, "now " + say.tokens(present), "bound", 14);
    if (chosen >= 0 && order.includes(chosen) && !now.includes(chosen)) {
      upright(at(chosen), (tune.verdict === "set" ? "recommended " : "best on all sessions ") + say.tokens(at(chosen)), "limit", 0);
      svg.append(s("circle", { class: "halo hot", cx: x(at(chosen)), cy: y(saved(chosen)), r: 6.5 }));
    }
    const cursor = s("line", { class: "cursor-line off", x1: 0, x2: 0, y1: top, y2: bottom });
    svg.append(cursor);
    mark = (row) => {
      cursor.classList.remove("off");
      cursor.setAttribute("x1", x(at(row)));
      cursor.setAttribute("x2", x(at(row)));
    };
    if (picked >= 0) mark(picked);
    const nearest = (event) => {
      const place = x.back(event.clientX - svg.getBoundingClientRect().left);
      return order.reduce((best, row) => (Math.abs(at(row) - place) < Math.abs(at(best) - place) ? row : best), order[0]);
    };
    svg.addEventListener("pointermove", (event) => choose(nearest(event)));
    svg.addEventListener("click", (event) => table.goTo(nearest(event), true));
  }, {
    tabindex: "0", role: "group", "aria-label": label + " Arrow keys go from threshold to threshold, Enter to its row.",
    onkeydown: (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
      if (event.key === "Enter" && picked >= 0) table.goTo(picked, true);
      if (by === undefined) return;
      event.preventDefault();
      choose(order[Math.max(0, Math.min(order.length - 1, order.indexOf(picked) + by))]);
    },
  });
  return h("figure", {}, box, readout);
}

// The settings of Codex are TOML, those of the others JSON.
function pasteText(tune) {
  if (tune.coding_agent !== "codex") return JSON.stringify(tune.paste, null, 2);
  return Object.entries(tune.paste).map(([key, value]) => key + " = " + JSON.stringify(value)).join("\n");
}

function choiceSection(tune, id) {
  const choice = tune.choice;
  if (!choice) return section(id + "-choice", "Verdict", tune.sentence || "No session to choose on.");
  const told = (interval) => say.share(interval.share) + " [" + say.share(interval.low) + ", " + say.share(interval.high) + "]";
  const isSet = tune.verdict === "set";
  const notes = tune.advice ? tune.advice.map((sentence) => h("li", {}, sentence)) : (tune.client_settings || []).map((one) => h("li", {}, h("code", {}, one.key), ": ", one.note + " (reported, not proven)" + (one.warning ? ". Warning: " + one.warning : "")));
  const paste = isSet && tune.paste ? pasteText(tune) : null;
  const into = tune.paste_into && tune.coding_agent !== "claude" ? tune.paste_into : "the client's settings.json";
  return section(id + "-choice", "Verdict", null,
    h("p", { class: isSet ? "verdict good" : "verdict" }, tune.sentence),
    figures([
      ["On all sessions", say.share(choice.saved_on_all_sessions.share), "of cost and misses saved, " + told(choice.saved_on_all_sessions).replace(/^[^[]*/, "")],
      ["On held-out sessions", say.share(choice.saved_on_held_out_sessions.share), told(choice.saved_on_held_out_sessions).replace(/^[^[]*/, "") + " (95 %)"],
      ["If sessions get longer", say.share(choice.saved_if_sessions_get_longer), "of cost, as in published runs"],
      ["Folds that agree", choice.folds_that_agree + " of " + choice.folds],
    ]),
    intervalPlot(choice),
    paste ? h("div", { class: "paste" }, h("p", {}, "To paste into " + into + ":"), copyBox(paste)) : null,
    notes.length ? h("ul", { class: "list" }, notes) : null,
    h("p", { class: "about" }, tune.basis || say.several(tune.policies, "policy", "policies") + " on " + say.several(tune.sessions, "session") + ", of which " + say.count(tune.sessions_that_compact) + " compact under any of them.",
      " A miss is taken to cost $" + tune.miss_cost_usd + "."),
    (tune.grounds || []).map((sentence) => h("p", { class: "about" }, sentence)),
    h("p", { class: "about" }, "Open loop: recorded messages are taken as they came. Wrong edits and lost reasoning after a compaction are not in these dollars, which favors low thresholds."));
}

function intervalPlot(choice) {
  const rows = [["all sessions", choice.saved_on_all_sessions], ["held-out sessions", choice.saved_on_held_out_sessions]];
  const low = Math.min(0, ...rows.map(([, one]) => one.low));
  const high = Math.max(0.001, ...rows.map(([, one]) => one.high));
  const label = "Saved share with its interval of 95 %: " + rows.map(([name, one]) => name + " " + say.share(one.share) + " from " + say.share(one.low) + " to " + say.share(one.high)).join("; ");
  return drawing(label, 84, (svg, width, tall) => {
    const [left, right] = [118, width - 14];
    const x = scale(low - (high - low) * 0.04, high * 1.04, left, right);
    axes(svg, { x, y: () => 0, xTicks: ticks(low, high, width < 500 ? 3 : 6), yTicks: [], xText: (value) => minus((100 * value).toFixed(high - low < 0.05 ? 1 : 0)) + " %", yText: String, left, right, top: 0, bottom: tall - 22 });
    svg.append(s("line", { class: "zero", x1: x(0), x2: x(0), y1: 4, y2: tall - 22 }));
    rows.forEach(([name, one], at) => {
      const y = 16 + at * 24;
      svg.append(s("text", { class: "axis-text", x: left - 8, y: y + 4, "text-anchor": "end" }, name));
      svg.append(s("line", { class: "range", x1: x(one.low), x2: x(one.high), y1: y, y2: y }));
      svg.append(s("circle", { class: "dot", cx: x(one.share), cy: y, r: 4 }));
    });
  });
}

function copyBox(text) {
  const code = h("pre", { tabindex: "0" }, text);
  const button = h("button", { type: "button", onclick: async () => {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      announce("Copied");
    } catch {
      button.textContent = "Selected: press Ctrl+C";
    }
  } }, "Copy");
  return h("div", { class: "copy" }, code, button);
}

function boundsTable(tune, id) {
  const bounds = tune.bounds || {};
  const rows = [];
  if (bounds.never) rows.push(["Nothing is ever dropped", say.money(bounds.never.cost_micro_usd), say.count(bounds.never.misses), say.tokens(bounds.never.mean_window)]);
  if (bounds.oracle) rows.push(["Only what is used again is kept", say.none, say.count(bounds.oracle.misses), say.tokens(bounds.oracle.mean_window)]);
  if (!rows.length) return null;
  return section(id + "-bounds", "Bounds", "No policy keeps more than the first or, without a miss, less than the second.",
    smallTable("Bounds", [["", "text"], ["Cost", "number"], ["Misses", "number"], ["Mean window", "number"]], rows, { class: "plain" }));
}

function flipSection(tune, id, nameOf) {
  const flips = tune.flips || [];
  if (!flips.length) return null;
  const rows = [["nothing", nameOf(flips[0].from)], ...flips.map((flip) => ["more than $" + Math.max(0, flip.usd_per_miss).toFixed(2), nameOf(flip.to)])];
  return section(id + "-flips", "Where the choice flips", "What a miss is worth only you can say. As it gets dearer, this costs least:",
    smallTable("Choice by the price of a miss", [["A miss costs", "text"], ["Cheapest policy", "text"]], rows, { class: "plain" }));
}

// Misses against cost or mean window, with the bounds.
function tunePlot({ tune, rows, chosen, table, number }, kind) {
  const isCost = kind === "cost";
  const across = (row) => (isCost ? rows.get(row, "cost_micro_usd") / 1e6 : rows.get(row, "mean_window"));
  const how = isCost ? (value) => "$" + grouping.format(Math.round(value)) : say.tokens;
  const never = tune.bounds && tune.bounds.never;
  const oracle = tune.bounds && tune.bounds.oracle;
  const frame = [];
  if (never) frame.push({ name: "never", at: isCost ? never.cost_micro_usd / 1e6 : never.mean_window, misses: never.misses });
  if (oracle && !isCost && known(oracle.mean_window)) frame.push({ name: "oracle", at: oracle.mean_window, misses: oracle.misses });
  // A policy that ends sessions has no figures.
  const all = Array.from({ length: rows.count }, (_, row) => row).filter((row) => known(rows.get(row, "cost_micro_usd")));
  const xs = [...all.map(across), ...frame.map((one) => one.at)];
  const ys = [...all.map((row) => rows.get(row, "misses") || 0), ...frame.map((one) => one.misses || 0)];
  const [low, high] = [-largest(xs.map((value) => -value)), largest(xs)];
  const top = largest(ys, 1);
  const title = isCost ? "Misses and cost" : "Misses and mean window";
  const label = title + " of " + say.several(rows.count, "policy", "policies") + ". The table below has the numbers.";
  const readout = h("p", { class: "readout", "aria-live": "polite" }, title + ". Left and low is better.");
  let picked = -1;
  let mark = null;
  const tell = (row) => {
    readout.textContent = (rows.get(row, "label") || rows.get(row, "policy")) + ": " + say.money(rows.get(row, "cost_micro_usd")) + ", " + say.count(rows.get(row, "misses_credited")) + "–" + say.count(rows.get(row, "misses")) +
      " misses, mean window " + say.tokens(rows.get(row, "mean_window")) + ", " + say.several(rows.get(row, "compactions"), "compaction");
  };
  const choose = (row) => {
    picked = row;
    tell(row);
    if (mark) mark(row);
  };
  const order = [...all].sort((a, b) => across(a) - across(b) || a - b);
  const box = drawing(label, 300, (svg, width, tall) => {
    const yTicks = ticks(0, top, 4);
    const [left, right, above, bottom] = [widest(yTicks.map(say.count)), width - 14, 22, tall - 38];
    const pad = (high - low) * 0.05 || 1;
    const x = scale(low - pad, high + pad, left, right);
    const y = scale(0, top * 1.06, bottom, above);
    axes(svg, { x, y, xTicks: ticks(low, high, width < 420 ? 3 : 5), yTicks, xText: how, yText: say.count, left, right, top: above, bottom, xLabel: isCost ? "cost" : "mean window", yLabel: "misses" });
    for (const one of frame) {
      svg.append(s("line", { class: "bound", x1: x(one.at), x2: x(one.at), y1: above, y2: bottom }));
      svg.append(s("text", { class: "note", x: x(one.at) + (x(one.at) > right - 60 ? -4 : 4), y: above + 4, "text-anchor": x(one.at) > right - 60 ? "end" : "start" }, one.name));
      svg.append(s("path", { class: "bound-dot", d: "M" + x(one.at) + " " + (y(one.misses || 0) - 5) + "l5 5l-5 5l-5-5z" }));
    }
    const middle = (row) => ((rows.get(row, "misses") || 0) + (rows.get(row, "misses_credited") || 0)) / 2;
    // The front is one of five measures; the line joins what is best in the two that are drawn.
    const best = [];
    for (const row of [...all].sort((a, b) => across(a) - across(b) || middle(a) - middle(b))) {
      if (!best.length || middle(row) < middle(best[best.length - 1])) best.push(row);
    }
    svg.append(s("path", { class: "front", d: best.map((row, at) => (at ? "H" + x(across(row)).toFixed(1) + "V" : "M" + x(across(row)).toFixed(1) + " ") + y(middle(row)).toFixed(1)).join("") }));
    for (const row of [...all].sort((a, b) => Number(rows.get(a, "on_front")) - Number(rows.get(b, "on_front")))) {
      const is = rows.get(row, "on_front");
      svg.append(s("line", { class: is ? "range thin" : "range thin soft", x1: x(across(row)), x2: x(across(row)), y1: y(rows.get(row, "misses_credited") || 0), y2: y(rows.get(row, "misses") || 0) }));
      svg.append(s("circle", { class: is ? "dot" : "ring soft", cx: x(across(row)), cy: y(middle(row)), r: is ? 3.5 : 2.5 }));
    }
    const named = [[0, "now", 16], [chosen, chosen > 0 ? (tune.verdict === "set" ? "recommended" : "best on all sessions") : "", -9]];
    for (const [row, text, shift] of named) {
      if (row < 0 || !text || row >= rows.count) continue;
      svg.append(s("circle", { class: row === chosen ? "halo hot" : "halo", cx: x(across(row)), cy: y(middle(row)), r: 7 }));
      svg.append(s("text", { class: "note strong", x: x(across(row)) + (x(across(row)) > right - 90 ? -10 : 10), y: Math.min(bottom - 4, y(middle(row)) + shift), "text-anchor": x(across(row)) > right - 90 ? "end" : "start" }, text));
    }
    const halo = s("circle", { class: "halo picked off", cx: 0, cy: 0, r: 6 });
    svg.append(halo);
    mark = (row) => {
      halo.classList.remove("off");
      halo.setAttribute("cx", x(across(row)));
      halo.setAttribute("cy", y(middle(row)));
    };
    if (picked >= 0) mark(picked);
    const nearest = (event) => {
      const bounds = svg.getBoundingClientRect();
      const [px, py] = [event.clientX - bounds.left, event.clientY - bounds.top];
      let found = -1;
      let least = 900;
      for (const row of all) {
        const distance = (x(across(row)) - px) ** 2 + (y(middle(row)) - py) ** 2;
        if (distance < least) [found, least] = [row, distance];
      }
      return found;
    };
    svg.addEventListener("pointermove", (event) => {
      const row = nearest(event);
      if (row >= 0) choose(row);
    });
    svg.addEventListener("click", (event) => {
      const row = nearest(event);
      if (row >= 0) table.goTo(row, true);
    });
  }, {
    tabindex: "0", role: "group", "aria-label": label + " Arrow keys go from policy to policy, Enter to its row.",
    onkeydown: (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Enter" && picked >= 0) table.goTo(picked, true);
      if (by === undefined) return;
      event.preventDefault();
      const at = order.indexOf(picked);
      choose(order[Math.max(0, Math.min(order.length - 1, at + by))]);
    },
  });
  return { element: h("figure", {}, box, readout), choose };
}
