// The first view: what was spent, on what, and what was wrong with the logs.

function viewOverview() {
  const run = runs.find((one) => one.sessions.count > 0) || null;
  const told = data.overview || (run && run.overview);
  if (!told) return h("p", {}, "No usage on this page.");
  return usage ? usageOverview(told, run) : listedOverview(told, run);
}

// Recorded usage, as far as it is chosen.
function usageOverview(told, run) {
  const found = chosenUsage();
  const bar = choiceBar("overview");
  if (!found.totals.calls) return h("div", {}, bar, h("p", { class: "lead" }, "No call was recorded in this choice. ", h("a", { href: placeWith("overview", {}) }, "Show all")));
  const list = (map) => [...map].map(([name, sums]) => ({ name, responses: sums.calls, cost_micro_usd: costOf(sums) }));
  const parts = [leadSentence(found), bar, usageFigures(found, run), daysSection(list(found.days), true),
    h("div", { class: "two" }, costliestSection(found, run), treeSection(found)),
    h("div", { class: "two" }, groupSection(list(found.models), "model", true), isChosen() ? null : compactionsSection(run))];
  if (isChosen()) {
    // Calls have to be unpacked for it, which takes too long for very many sessions.
    const hasFullness = run && found.sessions.size <= MOST_UNPACKED;
    if (hasFullness) parts.push(fullnessSection(run, chosenFullness(run, found)));
    parts.push(h("p", { class: "about aside" }, "What filled the window, " + (hasFullness ? "" : "how full windows were, ") + "the simulated compactions and problems with the logs are shown for all sessions together. ",
      h("a", { href: placeWith("overview", {}) }, "Show all sessions"), " to see them."));
  } else {
    if (told.ledger) parts.push(ledgerSection(told.ledger));
    if (run) parts.push(fullnessSection(run));
    if (told.recorded) parts.push(accountSection(told.recorded));
    if (told.problems) parts.push(problemsSection(told.problems));
  }
  return h("div", {}, parts);
}

// Usage that came as lists, from a document or a replay.
function listedOverview(told, run) {
  const isRecorded = told.basis === "recorded";
  const parts = [overviewFigures(told, run)];
  if (told.ledger) parts.push(ledgerSection(told.ledger));
  // What recorded usage is not known by, the replay may know.
  const list = (key) => ((told[key] || []).length ? [told[key], isRecorded] : [(run && run.overview[key]) || [], false]);
  const [days, areRecorded] = list("days");
  if (days.length) parts.push(daysSection(days, areRecorded));
  const groups = [["models", "model"], ["projects", "project"], ["branchs", "branch"]].map(([key, name]) => [name, ...list(key)]).filter(([, rows]) => rows.length);
  if (groups.length) {
    parts.push(h("div", { class: "two" }, groups.map(([name, rows, recorded]) => groupSection(rows, name, recorded))));
  }
  if (run) parts.push(h("div", { class: "two" }, fullnessSection(run), compactionsSection(run)));
  if (told.problems) parts.push(problemsSection(told.problems));
  return h("div", {}, parts);
}

function overviewFigures(told, run) {
  const totals = told.totals || {};
  const summary = run ? run.summary : {};
  const cost = known(totals.cost_micro_usd) ? totals.cost_micro_usd : summary.cost_micro_usd;
  const sessions = told.input ? told.input.sessions : summary.sessions;
  const calls = totals.responses || summary.calls;
  const sent = (totals.input_tokens || 0) + (totals.cache_read_tokens || 0) + (totals.cache_write_5m_tokens || 0) + (totals.cache_write_1h_tokens || 0);
  const list = [
    ["Sessions", say.count(sessions)],
    ["Calls", say.count(calls), known(totals.subagent_responses) && totals.subagent_responses ? say.count(totals.subagent_responses) + " of sub-agents" : null],
    ["Cost", say.money(cost), told.basis === "recorded" ? "as recorded" : "simulated"],
    sent ? ["Sent", say.tokens(sent), say.share((totals.cache_read_tokens || 0) / sent) + " read from the cache"] : null,
    totals.output_tokens ? ["Answered", say.tokens(totals.output_tokens)] : null,
  ];
  if (run) {
    const made = summary.boundaries || {};
    list.push(["Largest window", say.tokens(summary.window && summary.window.peak), "mean " + say.tokens(summary.window && summary.window.mean)]);
    list.push(["Compactions", say.count(made.recorded), "recorded; " + say.count((made.auto || 0) + (made.manual || 0) + (made.reactive || 0)) + " simulated"]);
    const uses = summary.working_set;
    if (uses) list.push(["Misses", say.range(uses.misses_credited, uses.misses), "of " + say.count(uses.uses) + " edits"]);
  }
  return figures(list);
}

// Costs and calls by project, the costliest first.
function chosenProjects(found) {
  const projects = new Map();
  for (const [at, sums] of found.sessions) {
    const name = usage.sessions.get(at, "project") || "";
    if (!projects.has(name)) projects.set(name, { name, sums: emptySums(), sessions: 0 });
    const project = projects.get(name);
    addSums(project.sums, sums);
    project.sessions += 1;
  }
  return [...projects.values()].sort((a, b) => b.sums.nano - a.sums.nano || b.sums.calls - a.sums.calls || (a.name < b.name ? -1 : 1));
}

const costliestFirst = (found) => [...found.sessions].sort((a, b) => b[1].nano - a[1].nano || b[1].calls - a[1].calls || a[0] - b[0]);

// The answer in a few words: when, how much, on what.
function leadSentence(found) {
  const { totals } = found;
  const days = [...found.days.keys()].filter(isDay).sort();
  const when = !days.length ? "" : days[0] === days[days.length - 1] ? "On " + days[0] + ", " : "From " + days[0] + " to " + days[days.length - 1] + ", ";
  const projects = chosenProjects(found);
  const where = choice.project ? " in " + shortPath(choice.project) : projects.length > 1 ? " in " + say.several(projects.length, "project") : "";
  const cost = costOf(totals);
  const count = say.several(found.sessions.size, "session") + where;
  const parts = [h("strong", {}, cost === null ? when + count + " made " + say.several(totals.calls, "call") + " whose price is not known. "
    : when + count + " cost " + say.money(cost) + ". ")];
  const share = (sums) => say.money(costOf(sums)) + ", " + Math.round((100 * sums.nano) / totals.nano) + " %";
  if (totals.nano > 0 && projects.length > 1 && projects[0].name) parts.push("Most of it went to ", pathText(projects[0].name), " (" + share(projects[0].sums) + "). ");
  const [top] = costliestFirst(found);
  if (totals.nano > 0 && found.sessions.size > 1) {
    const id = usage.sessions.get(top[0], "session");
    parts.push("The costliest session is ", sessionLink(id, null, sessionTitle(id)), " (" + share(top[1]) + "). ");
  }
  let compacted = 0;
  let automatic = 0;
  for (const at of found.sessions.keys()) {
    const [auto, others] = [usage.sessions.get(at, "auto"), usage.sessions.get(at, "manual") + usage.sessions.get(at, "unknown")];
    compacted += auto + others > 0 ? 1 : 0;
    automatic += auto;
  }
  parts.push(compacted ? say.several(compacted, "session") + " compacted, " + say.several(automatic, "time") + " automatically. " : "No session compacted. ");
  if (totals.unpriced && cost !== null) parts.push("No price is known for " + say.several(totals.unpriced, "call") + ", so that they are not in the cost.");
  return h("p", { class: "lead" }, parts);
}

function usageFigures(found, run) {
  const { totals } = found;
  const ids = [...found.sessions.keys()];
  const sum = (name) => ids.reduce((all, at) => all + (usage.sessions.get(at, name) || 0), 0);
  const list = [
    ["Cost", say.money(costOf(totals)), "as recorded"],
    ["Sessions", say.count(found.sessions.size)],
    ["Calls", say.count(totals.calls), totals.subCalls ? say.count(totals.subCalls) + " of sub-agents" : null],
    ["Sent", say.tokens(totals.sent), totals.sent ? say.share(totals.cached / totals.sent) + " read from the cache" : null],
    ["Answered", say.tokens(totals.output)],
    ["Largest window", say.tokens(largest(ids.map((at) => usage.sessions.get(at, "peak") || 0), 0))],
    ["Compactions", say.count(sum("auto") + sum("manual") + sum("unknown")), say.count(sum("auto")) + " automatic"],
  ];
  if (run && run.sessions.tells("misses")) {
    const rows = ids.map((at) => sessionRow(run, usage.sessions.get(at, "session"))).filter((row) => row >= 0);
    const of = (name) => rows.reduce((all, row) => all + (run.sessions.get(row, name) || 0), 0);
    list.push(["Misses", say.range(of("misses_credited"), of("misses")), "of " + say.several(of("uses"), "edit") + ", simulated"]);
  }
  return figures(list);
}

// The costliest sessions, with a way to all of them.
function costliestSection(found, run) {
  const SHOWN = 10;
  const top = costliestFirst(found).slice(0, SHOWN);
  const rows = top.map(([at, sums]) => {
    const id = usage.sessions.get(at, "session");
    return [
      h("span", { class: "title" }, sessionLink(id, null, sessionTitle(id)), h("small", {}, projectAndDay(at))),
      say.money(costOf(sums)), say.count(sums.calls), say.tokens(usage.sessions.get(at, "peak")), windowSpark(run, sessionRow(run || {}, id)),
    ];
  });
  return section("costliest", "Costliest sessions", null,
    smallTable("Costliest sessions", [["Session", "text wrap"], ["Cost", "number"], ["Calls", "number"], ["Peak", "number"], ["Window", "text"]], rows),
    found.sessions.size > SHOWN ? h("p", { class: "about" }, h("a", { href: viewPlace("sessions") }, "All " + say.count(found.sessions.size) + " sessions")) : null);
}

const projectAndDay = (at) => [usage.sessions.get(at, "project") ? shortPath(usage.sessions.get(at, "project")) : null, String(usage.sessions.get(at, "first_time") || "").slice(0, 10)].filter(Boolean).join(" · ");

// Tools, calls and results together.
function toolRows(ledger) {
  const tools = new Map();
  for (const [category, key] of [["tool_calls", "calls"], ["tool_results", "results"]]) {
    for (const [name, amount] of Object.entries((ledger.categories[category] || {}).by_name || {})) {
      if (!tools.has(name)) tools.set(name, { name, calls: 0, results: 0, count: 0 });
      const tool = tools.get(name);
      tool[key] += amount.tokens;
      if (key === "calls") tool.count += amount.blocks;
    }
  }
  return [...tools.values()].sort((a, b) => b.calls + b.results - a.calls - a.results || (a.name < b.name ? -1 : 1));
}

function ledgerSection(ledger) {
  const whole = ledger.total.tokens || 1;
  const categories = data.categories.map((name) => [name, ledger.categories[name]]).filter(([, amount]) => amount && amount.blocks);
  const top = Math.max(...categories.map(([, amount]) => amount.tokens), 1);
  const rows = categories.map(([name, amount]) => [
    [swatch(name), say.words(name)], say.count(amount.blocks), say.tokens(amount.tokens), say.share(amount.tokens / whole),
    bar(amount.tokens / top, "var(--c-" + name + ")"),
  ]);
  const total = ledger.total;
  const origin = known(total.recorded) ? "Sizes: " + say.share(total.recorded / whole) + " recorded, " + say.share(total.calibrated / whole) +
    " calibrated, " + say.share(total.estimated / whole) + " estimated." : null;
  const tools = toolRows(ledger);
  const topTool = largest(tools.map((tool) => tool.calls + tool.results), 1);
  const toolTable = new Table({
    caption: "Tokens by tool",
    count: tools.length,
    sort: { title: "Tokens", down: true },
    size: 12,
    search: (row) => tools[row].name,
    columns: [
      { title: "Tool", kind: "text", value: (row) => tools[row].name },
      { title: "Calls", kind: "number", value: (row) => tools[row].count, cell: (row) => say.count(tools[row].count) },
      { title: "Asked", kind: "number", about: "Tokens of the calls", value: (row) => tools[row].calls, cell: (row) => say.tokens(tools[row].calls) },
      { title: "Tokens", kind: "number", about: "Tokens of calls and results", value: (row) => tools[row].calls + tools[row].results, cell: (row) => say.tokens(tools[row].calls + tools[row].results) },
      { title: "", kind: "bar-cell", value: (row) => tools[row].calls + tools[row].results, cell: (row) => bar((tools[row].calls + tools[row].results) / topTool, "var(--c-tool_results)") },
    ],
  });
  return h("div", { class: "two" },
    section("ledger", "What filled the window", origin,
      smallTable("Tokens by category", [["Category", "text"], ["Blocks", "number"], ["Tokens", "number"], ["Share", "number"], ["", "bar-cell"]], rows)),
    section("tools", "By tool", "What was asked of a tool, and what it answered.", toolTable.element));
}

// Steps of time that a plot may have: how many days each covers, and the first day of the step that a day lies in.
const STEPS = [
  { name: "day", most: 370, first: (day) => day },
  { name: "week", most: 2600, first: (day) => dayBefore(day, (new Date(day).getUTCDay() + 6) % 7) },
  { name: "month", most: Infinity, first: (day) => day.slice(0, 7) + "-01" },
];

// Every step from the first to the last one, with or without a call, so that distances are times.
function timeSteps(dated, step) {
  const sums = new Map();
  for (const day of dated) {
    const first = step.first(day.name);
    const sum = sums.get(first) || { cost: 0, calls: 0 };
    sum.cost += day.cost_micro_usd || 0;
    sum.calls += (known(day.responses) ? day.responses : day.calls) || 0;
    sums.set(first, sum);
  }
  const bars = [];
  const last = step.first(dated[dated.length - 1].name);
  for (let at = step.first(dated[0].name); at <= last && bars.length < 20000; at = step.first(dayBefore(at, step.name === "month" ? -32 : step.name === "week" ? -7 : -1))) {
    const { cost, calls } = sums.get(at) || { cost: 0, calls: 0 };
    const name = step.name === "month" ? at.slice(0, 7) : at;
    bars.push({ name, value: cost / 1e6, isEmpty: !calls, title: (step.name === "week" ? "week of " : "") + name + ": " + (calls ? say.money(cost) + ", " + say.several(calls, "call") : "no calls") });
  }
  return bars;
}

// Stretches without a call that are long enough to be told apart from a low day.
function longGaps(bars, step) {
  const gaps = [];
  let from = -1;
  bars.forEach((one, at) => {
    if (one.isEmpty && from < 0) from = at;
    if (!one.isEmpty && from >= 0) {
      gaps.push({ from, to: at, text: "no calls for " + say.several(at - from, step.name) });
      from = -1;
    }
  });
  return gaps.filter((gap) => gap.to - gap.from >= Math.max(3, bars.length / 40));
}

function daysSection(days, isRecorded) {
  const dated = days.filter((day) => isDay(day.name) && (day.responses || day.calls)).sort((a, b) => (a.name < b.name ? -1 : 1));
  const calls = (day) => (known(day.responses) ? day.responses : day.calls);
  if (!dated.length) return null;
  const [first, last] = [dated[0].name, dated[dated.length - 1].name];
  const step = STEPS.find((one) => (Date.parse(last) - Date.parse(first)) / 864e5 <= one.most);
  const bars = timeSteps(dated, step);
  const total = dated.reduce((sum, day) => sum + (day.cost_micro_usd || 0), 0);
  const title = "Cost by " + step.name;
  const label = title + ", " + first + " to " + last + ": " + say.money(total) + " on " + say.several(dated.length, "day");
  const high = largest(bars.map((one) => one.value), 0);
  const how = (dollars) => "$" + (high < 5 ? dollars.toFixed(2) : grouping.format(Math.round(dollars)));
  const table = new Table({
    caption: "Cost by day",
    count: dated.length,
    sort: { title: "Day", down: true },
    size: 14,
    columns: [
      { title: "Day", kind: "text", value: (row) => dated[row].name },
      { title: "Cost", kind: "number", value: (row) => dated[row].cost_micro_usd, cell: (row) => say.money(dated[row].cost_micro_usd) },
      { title: "Calls", kind: "number", value: (row) => calls(dated[row]), cell: (row) => say.count(calls(dated[row])) },
    ],
  });
  return section("days", title, isRecorded ? "Every call counted once, in UTC." : "Simulated cost of the conversation, in UTC.",
    columnPlot(label, bars, { how, height: 190, every: 82, gaps: longGaps(bars, step) }),
    h("details", {}, h("summary", {}, "As a table"), table.element));
}

function groupSection(rows, name, isRecorded) {
  const calls = (row) => (known(rows[row].responses) ? rows[row].responses : rows[row].calls);
  const top = largest(rows.map((row) => row.cost_micro_usd || 0), 1);
  const title = "By " + name;
  const show = (row) => (name === "project" ? pathText(rows[row].name) : say.text(rows[row].name));
  const table = new Table({
    caption: "Cost by " + name,
    count: rows.length,
    sort: { title: "Cost", down: true },
    size: 12,
    search: (row) => String(rows[row].name || ""),
    columns: [
      { title: name[0].toUpperCase() + name.slice(1), kind: "text", value: (row) => rows[row].name, cell: show },
      { title: "Cost", kind: "number", value: (row) => rows[row].cost_micro_usd, cell: (row) => say.money(rows[row].cost_micro_usd) },
      { title: "Calls", kind: "number", value: calls, cell: (row) => say.count(calls(row)) },
      { title: "", kind: "bar-cell", value: (row) => rows[row].cost_micro_usd, cell: (row) => bar((rows[row].cost_micro_usd || 0) / top) },
    ],
  });
  return section(name + "s", title, isRecorded ? null : "Simulated.", table.element);
}

const MOST_UNPACKED = 500;

// How full the windows of the chosen calls were, counted as for all of them.
function chosenFullness(run, found) {
  const last = (run.overview.fullness || []).length - 1;
  const told = { fullness: new Array(last + 1).fill(0), windowless: 0 };
  const isAnyTime = !choice.since && !choice.until;
  for (const at of found.sessions.keys()) {
    const row = sessionRow(run, usage.sessions.get(at, "session"));
    if (row < 0 || !run.drawn.has(row)) continue;
    for (const chain of chainsOf(run, row)) {
      for (let call = 0; call < chain.count; call += 1) {
        if (!isAnyTime && !isInTime(say.second(chain.second[call]).slice(0, 10))) continue;
        const window = chain.window[call];
        if (window > 0) told.fullness[Math.min(last, Math.floor((Math.max(0, chain.input[call]) * last) / window))] += 1;
        else told.windowless += 1;
      }
    }
  }
  return told;
}

function fullnessSection(run, told = run.overview) {
  const counts = told.fullness || [];
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (!all) return null;
  const step = 100 / (counts.length - 1);
  const bars = counts.map((count, at) => ({
    name: at < counts.length - 1 ? Math.round(at * step) + " %" : "over",
    value: (100 * count) / all,
    class: at >= counts.length - 1 ? "hot" : "",
    title: (at < counts.length - 1 ? "Windows " + Math.round(at * step) + " to " + Math.round((at + 1) * step) + " % full: " : "Fuller than the window is taken to be: ") +
      say.several(count, "call") + ", " + say.share(count / all),
  }));
  const half = counts.slice(Math.floor(counts.length / 2)).reduce((sum, count) => sum + count, 0);
  const label = "How full windows were: " + say.share(half / all) + " of " + say.several(all, "call") + " at half or more";
  const rows = counts.map((count, at) => [bars[at].name, say.count(count), say.share(count / all)]);
  return section("fullness", "How full windows were", "Calls by the share of the model's window that they were sent" + (told.windowless ? "; " + say.several(told.windowless, "call") + " without a known window." : "."),
    columnPlot(label, bars, { how: (share) => Math.round(share) + " %", height: 190, every: 44 }),
    h("details", {}, h("summary", {}, "As a table"), smallTable("Calls by fullness", [["From", "text"], ["Calls", "number"], ["Share", "number"]], rows)));
}

function compactionsSection(run) {
  if (!run) return null;
  const summary = run.summary;
  const made = summary.boundaries || {};
  const rows = [
    ["Recorded in the logs", say.count(made.recorded)],
    ["Simulated, at the threshold", say.count(made.auto)],
    ["Simulated, asked for by a person", say.count(made.manual)],
    ["Simulated, after a refused prompt", say.count(made.reactive)],
    ["of the simulated: by notes, without a model call", say.count(made.by_notes)],
    ["of the simulated: at the place of a recorded one", say.count(made.at_recorded_places)],
    ["of the simulated: not the first of their session", say.count(made.again)],
    ["Tokens that they freed", say.tokens(made.freed_tokens)],
  ];
  for (const [kind, count] of Object.entries(summary.micro || {})) if (count) rows.push(["Micro-compactions, " + kind, say.count(count)]);
  if (summary.micro_cleared) rows.push(["Results that these cleared", say.count(summary.micro_cleared) + " (" + say.tokens(summary.micro_saved_tokens) + ")"]);
  if (summary.failures) rows.push(["Compactions that failed", say.count(summary.failures)]);
  if (summary.blocked_calls) rows.push(["Calls that could not have been made", say.count(summary.blocked_calls)]);
  return section("compactions", "Compactions", "Policy " + run.name + ". Open loop: messages are taken as recorded, whatever was dropped.",
    smallTable("Compactions", [["", "text wrap"], ["", "number"]], rows, { class: "plain" }));
}

// What explains figures of this page that are smaller or larger than others: the same amounts as in the terminal.
function accountSection(found) {
  if (!found) return null;
  const rows = [["In conversations: what is replayed", found.conversations], ["Within the response of another call", found.within_responses],
    ["On branches that were rewound", found.rewound], ["Of the client for itself, such as summaries", found.of_client], ["Beside conversations", found.elsewhere]]
    .filter(([, amount]) => amount && amount.responses).map(([name, amount]) => [name, say.count(amount.responses), say.money(amount.cost_micro_usd)]);
  rows.push([h("strong", {}, "All calls"), say.count(found.responses), say.money(found.cost_micro_usd)]);
  const apart = [["Not in the logs: estimated rest of the output", found.output_rest], ["Seen in progress records alone", found.progress_only]];
  for (const [name, amount] of apart) if (amount && amount.responses) rows.push([name, say.count(amount.responses), say.money(amount.cost_micro_usd)]);
  const left = (found.left_out.without_calls || 0) + (found.left_out.only_copies || 0);
  const notes = [left ? say.several(left, "session") + " without an API call of " + (left === 1 ? "its" : "their") + " own " + (left === 1 ? "is" : "are") + " left out." : "",
    found.compactions.off_chain ? say.several(found.compactions.off_chain, "boundary", "boundaries") + " in no conversation (on rewound branches, or of the client itself) " + (found.compactions.off_chain === 1 ? "is" : "are") + " in the sum and not under Audit." : ""];
  if (rows.length < 3 && !left) return null;
  return section("account", "What is counted", "Amounts below the sum are in no other figure. Clients up to 2.1.44 wrote counts of output from the middle of the stream.",
    smallTable("Calls by place", [["", "text wrap"], ["Calls", "number"], ["Cost", "number"]], rows, { class: "plain" }),
    notes.some(Boolean) ? h("p", { class: "about" }, notes.filter(Boolean).join(" ")) : null);
}

function problemsSection(problems) {
  if (!problems.total) return section("problems", "Problems", "None: every line of every log was read.");
  const rows = problems.kinds.map((kind) => [[kind.kind, kind.lost ? h("span", { class: "tag" }, "lost") : null], say.count(kind.count), kind.about]);
  const list = problems.list || [];
  const table = list.length ? new Table({
    caption: "Problems one by one",
    count: list.length,
    search: (row) => Object.values(list[row]).join(" "),
    columns: [
      { title: "Kind", kind: "text", value: (row) => list[row].kind },
      { title: "File", kind: "text", value: (row) => list[row].path, cell: (row) => pathText(list[row].path) },
      { title: "Line", kind: "number", value: (row) => list[row].line, cell: (row) => say.count(list[row].line) },
      { title: "Detail", kind: "text", value: (row) => list[row].detail },
    ],
  }) : null;
  return section("problems", "Problems", say.several(problems.total, "problem") + " with the input; the rest was read.",
    smallTable("Problems by kind", [["Kind", "text"], ["Count", "number"], ["Meaning", "text wrap"]], rows),
    table ? h("details", {}, h("summary", {}, list.length < problems.total ? "The first " + list.length + ", with file and line" : "With file and line"), table.element) : null);
}
