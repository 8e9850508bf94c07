// Two policies on the same sessions.

function viewCompare() {
  return h("div", {}, runs.filter((run) => run.compare).map((run) => comparePart(run)));
}

// In a column of differences, all amounts are told to the cent.
const cents = (micro) => (known(micro) ? minus((micro / 1e6 < 0 ? "-$" : "$") + Math.abs(micro / 1e6).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })) : say.none);

const largestFirst = (column) => column && { ...column, value: (row) => Math.abs(column.value(row) || 0) };

function comparePart(run) {
  const { policies, totals, bounds, limits } = run.compare;
  const [first, second] = policies.map((policy) => (typeof policy === "string" ? policy : JSON.stringify(policy)));
  const rows = new Rows(run.compare.sessions);
  const measures = [["cost_micro_usd", "Cost", say.money], ["compactions", "Compactions", say.count], ["misses", "Misses, not credited", say.count],
    ["misses_credited", "Misses, credited", say.count], ["mean", "Mean window", say.tokens], ["peak", "Largest window", say.tokens], ["side_calls", "Model calls beside", say.count]];
  const never = (bounds && bounds.never) || {};
  const oracle = (bounds && bounds.oracle) || {};
  // The first bound is a policy, too, and may be the one that is compared.
  const isBound = second === "never";
  const table = measures.map(([key, title, how]) => [title, how(totals.a[key]), how(totals.b[key]), say.signed(totals.difference[key], how), isBound ? null : how(never[key]), known(oracle[key]) ? how(oracle[key]) : say.none]
    .filter((cell) => cell !== null));
  const id = "compare-" + run.number;
  // Most sessions never come near a threshold; a row of zeros says nothing.
  const CENT = 10000;
  const differs = (row) => Math.abs(rows.get(row, "cost_difference_micro_usd") || 0) >= CENT || rows.get(row, "misses_difference") ||
    (rows.get(row, "a_compactions") || 0) !== (rows.get(row, "b_compactions") || 0);
  const different = Array.from({ length: rows.count }, (_, row) => row).filter(differs);
  const alike = rows.count - different.length;
  const column = (name, title, how, about) => fieldColumn(rows, name, title, how, about);
  const difference = (how) => (value) => say.signed(value, how);
  const of = (column) => column && { ...column, value: (at) => column.value(different[at]), cell: column.cell && ((at) => column.cell(different[at])) };
  const sessions = new Table({
    caption: "Sessions that differ", count: different.length,
    sort: { title: "B − A", down: true },
    search: (at) => ["session", "project", "why_cost", "why_misses"].map((name) => rows.get(different[at], name)).join(" ") + sessionTitle(rows.get(different[at], "session")),
    columns: [
      { title: "Session", kind: "text title-cell", value: (row) => sessionTitle(rows.get(row, "session")).toLowerCase(), cell: (row) => sessionLink(rows.get(row, "session"), null, sessionTitle(rows.get(row, "session"))) },
      largestFirst(column("cost_difference_micro_usd", "B − A", difference(cents), "What B costs more than A; sorted by the size of the difference")),
      column("misses_difference", "Misses, B − A", difference(say.count), "Edits of what was no longer in the window"),
      column("a_compactions", "Comp. A", say.count, "Compactions under A"), column("b_compactions", "Comp. B", say.count, "Compactions under B"),
      { title: "Project", kind: "text", value: (row) => rows.get(row, "project"), cell: (row) => pathText(rows.get(row, "project")) },
      column("a_cost_micro_usd", "Cost A", cents), column("b_cost_micro_usd", "Cost B", cents),
      { title: "Why", kind: "text wrap", value: (row) => [rows.get(row, "why_cost"), rows.get(row, "why_misses")].filter(Boolean).join("; ") },
    ].filter(Boolean).map(of),
  });
  return h("div", {},
    h("p", { class: "lead" }, compareSentence(totals, first, second, different.length)),
    h("p", { class: "about" }, "A: ", h("strong", {}, first), " · B: ", h("strong", {}, second), " · ", say.several(totals.sessions, "session"),
      limits && known(limits.sessions_alike) ? ", " + say.count(limits.sessions_alike) + " come out alike" : null, ". Simulated: messages are taken as recorded, whatever a policy dropped."),
    section(id + "-totals", "Together", (isBound ? "B is a bound: nothing is ever dropped." : "Never is a bound: nothing is ever dropped.") + " The oracle is the other one: only what later edits need is kept.",
      smallTable("Totals of both policies", [["", "text"], ["A", "number"], ["B", "number"], ["B − A", "number"], isBound ? null : ["Never", "number"], ["Oracle", "number"]].filter(Boolean), table)),
    rows.count ? section(id + "-sessions", "Session by session",
      alike ? say.several(alike, "session") + " cost the same to a cent, with as many compactions and misses, and " + (alike === 1 ? "is" : "are") + " not listed." : null,
      differencePlot(rows), different.length ? sessions.element : null) : null);
}

// The answer in a few words.
function compareSentence(totals, first, second, count) {
  const cost = totals.difference.cost_micro_usd || 0;
  const misses = totals.difference.misses || 0;
  const share = totals.a.cost_micro_usd ? " (" + say.share(Math.abs(cost) / totals.a.cost_micro_usd) + ")" : "";
  if (!count) return h("strong", {}, "No session comes out differently.");
  return [h("strong", {}, "Under “" + second + "” these sessions would cost " + (Math.abs(cost) < 5000 ? "as much as" : say.money(Math.abs(cost)) + share + (cost < 0 ? " less than" : " more than")) + " under “" + first + "”. "),
    misses === 0 ? "As many edits would miss lines that are gone. " : say.several(Math.abs(misses), misses < 0 ? "edit fewer" : "edit more", misses < 0 ? "edits fewer" : "edits more") + " would need lines that are gone. ",
    say.several(count, "session differs", "sessions differ") + "."];
}

// Sessions by what B changes: cost across, misses up.
function differencePlot(rows) {
  const all = Array.from({ length: rows.count }, (_, row) => row).filter((row) => rows.get(row, "cost_difference_micro_usd") || rows.get(row, "misses_difference"));
  if (!all.length) return h("p", {}, "No session differs.");
  const cost = (row) => (rows.get(row, "cost_difference_micro_usd") || 0) / 1e6;
  const misses = (row) => rows.get(row, "misses_difference") || 0;
  const reach = (values) => [-largest(values.map((value) => -value), 0), largest(values, 0)];
  const [left0, right0] = reach(all.map(cost));
  const [low, high] = reach(all.map(misses));
  const label = "What B changes against A in " + say.several(all.length, "session") + " that differ: cost across, misses up. The table below has the numbers.";
  const readout = h("p", { class: "readout", "aria-live": "polite" }, "What B changes against A: left is cheaper, low is fewer misses.");
  const box = drawing(label, 260, (svg, width, tall) => {
    const yTicks = ticks(low, high, 4).filter(Number.isInteger);
    const [left, right, top, bottom] = [widest(yTicks.map(say.count)) + 6, width - 14, 20, tall - 38];
    const pad = (right0 - left0) * 0.05 || 1;
    const x = scale(left0 - pad, right0 + pad, left, right);
    const y = scale(low - (high - low) * 0.06 - 0.2, high + (high - low) * 0.06 + 0.2, bottom, top);
    const money = (value) => (value < 0 ? "−$" : "$") + Math.abs(value).toFixed(Math.max(Math.abs(left0), right0) < 5 ? 2 : 0);
    axes(svg, { x, y, xTicks: ticks(left0, right0, width < 420 ? 3 : 6), yTicks, xText: money, yText: (value) => say.signed(value, say.count), left, right, top, bottom, xLabel: "difference of cost", yLabel: "difference of misses" });
    svg.append(s("line", { class: "zero", x1: x(0), x2: x(0), y1: top, y2: bottom }), s("line", { class: "zero", x1: left, x2: right, y1: y(0), y2: y(0) }));
    for (const row of all) {
      const dot = s("circle", { class: cost(row) > 0 ? "dot hot" : "dot", cx: x(cost(row)), cy: y(misses(row)), r: 3.5 });
      dot.addEventListener("pointerenter", () => {
        clear(readout);
        add(readout, [sessionLink(rows.get(row, "session")), ": ", say.signed(rows.get(row, "cost_difference_micro_usd"), say.money), ", ", say.signed(misses(row), say.count), " misses. ", rows.get(row, "why_cost") || ""]);
      });
      svg.append(dot);
    }
  });
  return h("figure", {}, box, readout);
}
