// All sessions in a table; a click opens one.

function runPicker(run, place) {
  const several = runs.filter((one) => one.sessions.count > 0);
  if (several.length < 2) return null;
  return h("p", { class: "picker" }, "Run: ", several.map((one) => h("a", {
    href: place(one), class: "choice", "aria-current": one === run ? "true" : null,
  }, one.name)));
}

function viewSessions(parts) {
  const run = runs[Number(parts[0]) || 0] || runs[0];
  const rows = run.sessions;
  const windows = (row) => {
    if (!run.drawn.has(row)) return null;
    const main = chainsOf(run, row)[0];
    return main && main.count ? main : null;
  };
  const column = (name, title, how, about) => fieldColumn(rows, name, title, how, about);
  const table = new Table({
    caption: "Sessions",
    count: rows.count,
    sort: { title: "Cost", down: true },
    search: (row) => [rows.get(row, "session"), rows.get(row, "project"), rows.get(row, "first_time")].join(" "),
    columns: [
      {
        title: "Session", kind: "text", value: (row) => rows.get(row, "session"),
        cell: (row) => h("a", { href: sessionPlace(run, rows.get(row, "session")), title: rows.get(row, "session"), class: "mono" }, String(rows.get(row, "session")).slice(0, 8)),
      },
      { title: "Project", kind: "text", value: (row) => rows.get(row, "project"), cell: (row) => pathText(rows.get(row, "project")) },
      { title: "Began", kind: "text", value: (row) => rows.get(row, "first_time"), cell: (row) => say.time(rows.get(row, "first_time")) },
      {
        title: "Window", kind: "text", about: "The window of the main agent over its calls; lines are simulated boundaries", value: (row) => rows.get(row, "peak"),
        cell: (row) => {
          const main = windows(row);
          if (!main) return "";
          const made = (bySession(run, "boundaries").get(rows.get(row, "session")) || []).filter((at) => !run.boundaries.get(at, "agent"));
          return spark(main.input, 120, 22, made.map((at) => run.boundaries.get(at, "call")));
        },
      },
      column("calls", "Calls", say.count, "Calls of the conversation, sub-agents included"),
      column("peak", "Peak", say.tokens, "Largest window of the main agent"),
      column("recorded_compactions", "Recorded", say.count, "Boundaries that the log has"),
      column("compactions", "Simulated", say.count, "Boundaries that the policy makes"),
      column("misses", "Misses", say.count, "Edits of what was no longer in the window, files that came back not credited"),
      column("cost_micro_usd", "Cost", say.money, "Simulated cost"),
    ].filter(Boolean),
  });
  return h("div", {}, section("sessions", "Sessions",
    say.several(rows.count, "session") + ", replayed with policy " + run.name + ".",
    runPicker(run, (one) => "#sessions/" + one.number), table.element));
}
