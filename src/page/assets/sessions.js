// All sessions in a table; a click opens one.

function runPicker(run, place) {
  const several = runs.filter((one) => one.sessions.count > 0);
  if (several.length < 2) return null;
  return h("p", { class: "picker" }, "Run: ", several.map((one) => h("a", {
    href: place(one), class: "choice", "aria-current": one === run ? "true" : null,
  }, one.name)));
}

// The window of the main agent in a few pixels, with simulated boundaries. A log may start in the middle of a session: then
// the number of a call is not its place.
function windowSpark(run, row) {
  if (!run || row < 0 || !run.drawn || !run.drawn.has(row)) return "";
  const main = chainsOf(run, row)[0];
  if (!main || !main.count) return "";
  const places = callPlaces(main);
  const session = run.sessions.get(row, "session");
  const made = (bySession(run, "boundaries").get(session) || []).filter((at) => (run.boundaries.get(at, "agent") || "") === main.agent);
  return spark(main.input, 120, 22, made.map((at) => places(run.boundaries.get(at, "call"))));
}

function viewSessions(parts) {
  const run = runs[Number(parts[0]) || 0] || runs[0];
  const all = run.sessions;
  const chosen = chosenSessions();
  const rows = [];
  for (let row = 0; row < all.count; row += 1) {
    const id = all.get(row, "session");
    // What counts as a session is decided by recorded usage, where there is any.
    if (chosen ? chosen.has(id) : !usage || usageRow(id) >= 0) rows.push(row);
  }
  const id = (at) => all.get(rows[at], "session");
  const cost = (at) => (usage ? recordedCost(id(at)) : all.get(rows[at], "cost_micro_usd"));
  const column = (name, title, how, about) => {
    const found = fieldColumn(all, name, title, how, about);
    return found && { ...found, value: (at) => found.value(rows[at]), cell: (at) => found.cell(rows[at]) };
  };
  // Recorded usage counts calls that a replay leaves out: those of rewound branches, and of the client for itself.
  const recordedColumn = (title, how, about, value) => ({ title, about, kind: "number", value: (at) => value(id(at)), cell: (at) => how(value(id(at))) });
  const calls = (session) => (recordedSums(session) || { calls: null }).calls;
  const compacted = (session) => (usageValue(session, "auto") || 0) + (usageValue(session, "manual") || 0) + (usageValue(session, "unknown") || 0);
  const begun = (at) => all.get(rows[at], "first_time");
  const table = new Table({
    caption: "Sessions",
    count: rows.length,
    sort: { title: "Cost", down: true },
    search: (at) => [id(at), sessionTitle(id(at)), all.get(rows[at], "project"), begun(at)].join(" "),
    columns: [
      {
        title: "Session", kind: "text title-cell", value: (at) => sessionTitle(id(at)).toLowerCase(),
        cell: (at) => h("a", { href: sessionPlace(run, id(at)), title: id(at), class: usageTitle(usageRow(id(at))) ? null : "mono" }, sessionTitle(id(at))),
      },
      { title: "Cost", kind: "number", about: usage ? "As recorded: every call once, those of sub-agents included" : "Simulated cost", value: cost, cell: (at) => say.money(cost(at)) },
      { title: "Project", kind: "text", value: (at) => all.get(rows[at], "project"), cell: (at) => pathText(all.get(rows[at], "project")) },
      { title: "Began", kind: "text", value: begun, cell: (at) => say.time(begun(at)) },
      {
        title: "Window", kind: "text", about: "The window of the main agent over its calls; lines are simulated boundaries", value: (at) => all.get(rows[at], "peak"),
        cell: (at) => windowSpark(run, rows[at]),
      },
      ...(usage ? [
        recordedColumn("Calls", say.count, "API calls, sub-agents included", calls),
        recordedColumn("Peak", say.tokens, "Largest window of the main agent", (session) => usageValue(session, "peak")),
        recordedColumn("Recorded", say.count, "Compactions that the log has, automatic and by hand", compacted),
      ] : [
        column("calls", "Calls", say.count, "Calls of the conversation, sub-agents included"),
        column("peak", "Peak", say.tokens, "Largest window of the main agent"),
        column("recorded_compactions", "Recorded", say.count, "Boundaries that the log has"),
      ]),
      column("compactions", "Simulated", say.count, "Boundaries that the policy makes"),
      column("misses", "Misses", say.count, "Edits of what was no longer in the window, files that came back not credited"),
      usage ? column("cost_micro_usd", "Simulated cost", say.money, "What the conversation costs under the policy") : null,
    ].filter(Boolean),
  });
  const left = all.count - rows.length;
  return h("div", {}, usage ? h("p", { class: "lead" }, h("strong", {}, say.several(rows.length, "session") + (chosen ? " in this choice." : "."))) : null, choiceBar("sessions"),
    section("session-list", "Sessions",
      "Cost, calls, peaks and compactions as recorded; small plots, simulated compactions and misses replayed with policy " + run.name + "." +
        (left && !chosen ? " " + say.several(left, "session") + " without an API call of " + (left === 1 ? "its" : "their") + " own " + (left === 1 ? "is" : "are") + " not listed." : ""),
      runPicker(run, (one) => viewPlace("sessions/" + one.number)), table.element));
}
