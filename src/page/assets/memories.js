// Memories by type with their sources, what was turned down and why; and notes of sessions.

const KINDS = [["user", "About the user"], ["feedback", "Feedback"], ["project", "Project"], ["reference", "Where things are"], ["", "Without a type"]];

// The newest day that the page knows of: ages count back from it, not from today.
let newest = null;
function newestDay() {
  if (newest !== null) return newest;
  const days = usage ? [(usageRange() || [])[1]] : [];
  for (const run of runs) for (let row = 0; row < run.sessions.count; row += 1) days.push(run.sessions.get(row, "last_time"));
  for (const part of data.memories) for (const memory of part.memories || []) days.push(lastSaid(memory));
  for (const one of data.notes) days.push(one.last_time);
  newest = days.filter(Boolean).map((day) => String(day).slice(0, 10)).filter(isDay).reduce((a, b) => (a > b ? a : b), "");
  return newest;
}

// When a memory was last said: as its directory has it, else by its newest source.
function lastSaid(memory) {
  const times = (memory.sources || []).map((source) => source.time);
  return [memory.last_said, ...times].filter(Boolean).map((time) => String(time).slice(0, 10)).reduce((a, b) => (a > b ? a : b), "");
}

function ageText(day) {
  const days = (Date.parse(newestDay()) - Date.parse(String(day).slice(0, 10))) / 864e5;
  if (!(days >= 0)) return say.none;
  return days < 1 ? "newest day" : days < 60 ? say.several(days, "day") : days < 730 ? say.several(days / 30.4, "month") : (days / 365.25).toFixed(1) + " years";
}

const kindTitle = (kind) => (KINDS.find(([known]) => known === (kind || "")) || ["", say.text(kind)])[1];

function viewMemories() {
  const count = data.memories.reduce((sum, part) => sum + (part.memories || []).length, 0);
  const projects = new Set(data.memories.flatMap((part) => (part.memories || []).map((memory) => memory.project || part.name)));
  const lead = h("strong", {}, say.several(count, "memory", "memories") + (projects.size > 1 ? " of " + say.several(projects.size, "project") : "") + ".");
  if (data.with_text) {
    // Projects without a memory have nothing to show but what was turned down, which is told of all together.
    const full = data.memories.filter((part) => (part.memories || []).length || !("rejected" in part));
    const rejected = data.memories.flatMap((part) => part.rejected || []);
    return h("div", {}, h("p", { class: "lead" }, lead), full.map((part, number) => memoryPart(part, number)), rejected.length ? rejectedSection(rejected, "memories") : null);
  }
  return h("div", {},
    h("p", { class: "lead" }, lead, " Titles and figures only; ", h("code", {}, "--with-text"), " adds what was said."),
    memoryTable(), turnedDownSection());
}

// Memories of all projects without their texts.
function memoryTable() {
  const rows = data.memories.flatMap((part) => (part.memories || []).map((memory) => ({ ...memory, project: memory.project || part.name })));
  if (!rows.length) return h("p", {}, "No memories.");
  const sessions = (memory) => new Set((memory.sources || []).map((source) => source.session)).size;
  const has = (key) => rows.some((memory) => known(memory[key]));
  const table = new Table({
    caption: "Memories", count: rows.length, sort: { title: "Last said", down: true },
    search: (row) => [rows[row].title, rows[row].project, rows[row].type].join(" "),
    columns: [
      { title: "Title", kind: "text wrap", value: (row) => say.text(rows[row].title) },
      { title: "Type", kind: "text", value: (row) => kindTitle(rows[row].type) },
      { title: "Project", kind: "text", value: (row) => rows[row].project, cell: (row) => pathText(rows[row].project) },
      { title: "Last said", kind: "text", value: (row) => lastSaid(rows[row]), cell: (row) => say.text(lastSaid(rows[row])) },
      { title: "Age", kind: "number", about: "Before the newest day on this page", value: (row) => -Date.parse(lastSaid(rows[row]) || "1970-01-01"), cell: (row) => ageText(lastSaid(rows[row])) },
      { title: "Sessions", kind: "number", about: "Sessions that it was said in", value: (row) => sessions(rows[row]), cell: (row) => say.count(sessions(rows[row])) },
      has("confidence") ? { title: "Confidence", kind: "number", value: (row) => rows[row].confidence, cell: (row) => (known(rows[row].confidence) ? rows[row].confidence.toFixed(2) : say.none) } : null,
      { title: "Source", kind: "text", value: (row) => ((rows[row].sources || [])[0] || {}).session, cell: (row) => ((rows[row].sources || []).length ? sessionLink(rows[row].sources[0].session) : say.none) },
    ].filter(Boolean),
  });
  return section("memory-list", "Memories", null, table.element);
}

// How many candidates were turned down, by reason.
function turnedDownSection() {
  const rejected = data.memories.flatMap((part) => part.rejected || []);
  return rejected.length ? section("turned-down", "Turned down", "Statements that were looked at and are no memories.",
    smallTable("Reasons", [["Why", "text"], ["Count", "number"]], reasonRows(rejected), { class: "plain" })) : null;
}

function reasonRows(rejected) {
  const reasons = new Map();
  for (const one of rejected) reasons.set(one.rejected, (reasons.get(one.rejected) || 0) + 1);
  return [...reasons].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([reason, count]) => [reason, say.count(count)]);
}

function memoryPart(part, number) {
  const list = (part.memories || []).map((memory) => ({ ...memory, kind: memory.type || "", title: memory.title || memory.name || memory.file, hook: memory.hook || memory.description }));
  const rejected = part.rejected || [];
  const left = part.left || [];
  const passed = part.passed || [];
  const kinds = KINDS.filter(([kind]) => list.some((memory) => memory.kind === kind));
  const id = "memories-" + number;
  const holder = h("div", {});
  const find = (words) => {
    clear(holder);
    const wanted = words.trim().toLowerCase();
    const shown = list.filter((memory) => !wanted || [memory.title, memory.hook, memory.body, memory.file].join(" ").toLowerCase().includes(wanted));
    for (const [kind, title] of kinds) {
      const some = shown.filter((memory) => memory.kind === kind);
      if (some.length) holder.append(section(id + "-" + (kind || "none"), title, say.several(some.length, "memory", "memories"), h("div", { class: "cards" }, some.map(memoryCard))));
    }
    if (!shown.length) holder.append(h("p", {}, list.length ? "Nothing found." : "No memories."));
  };
  find("");
  return h("div", {},
    data.memories.length > 1 ? h("h2", { class: "part" }, pathText(part.name)) : null,
    figures([
      ["Memories", say.count(list.length)],
      ...kinds.map(([kind, title]) => [title, say.count(list.filter((memory) => memory.kind === kind).length)]),
      rejected.length ? ["Turned down", say.count(rejected.length)] : null,
      part.secrets_dropped ? ["Dropped for a secret", say.count(part.secrets_dropped)] : null,
      left.length ? ["Left", say.count(left.length)] : null,
    ]),
    list.length > 8 ? h("input", { type: "search", class: "wide", placeholder: "Find in memories…", "aria-label": "Find in memories", autocomplete: "off", oninput: (event) => find(event.target.value) }) : null,
    holder,
    left.length ? section(id + "-left", "What left, and why", null, new Table({
      caption: "Memories that left", count: left.length, search: (row) => Object.values(left[row]).join(" "),
      columns: [
        { title: "File", kind: "text", value: (row) => left[row].file },
        { title: "Action", kind: "text", value: (row) => left[row].action },
        { title: "Why", kind: "text wrap", value: (row) => left[row].reason },
        { title: "When", kind: "text", value: (row) => left[row].time, cell: (row) => say.time(left[row].time) },
      ],
    }).element) : null,
    passed.length ? section(id + "-passed", "Files that were not read", null, smallTable("Files that were not read", [["File", "text"], ["Why", "text wrap"]], passed.map((one) => [one.file, one.reason]))) : null);
}

function memoryCard(memory) {
  const sources = memory.sources || [];
  const shown = (source) => h("li", {}, sessionLink(source.session), " ", say.time(source.time));
  const facts = [memory.file, known(memory.confidence) ? "confidence " + memory.confidence.toFixed(2) : null,
    memory.confirmed > 1 ? "said " + memory.confirmed + " times" : null, memory.last_said ? "last " + String(memory.last_said).slice(0, 10) : null].filter(Boolean);
  // The hook ends with the title, and the body often says nothing else.
  const bare = (text) => plainText(String(text || "")).replace(/[.!:\s]+$/, "").toLowerCase();
  const isMore = (text) => bare(text) !== "" && bare(text) !== bare(memory.title);
  const hook = String(memory.hook || "");
  const when = bare(hook).endsWith(bare(memory.title)) ? hook.trim().slice(0, Math.max(0, bare(hook).length - bare(memory.title).length)).replace(/[:\s]+$/, "") : hook;
  return h("article", { class: "card" },
    h("h3", {}, inline(say.text(memory.title))),
    when ? h("p", { class: "hook" }, inline(when)) : null,
    isMore(memory.body) ? prose(memory.body, 4) : null,
    h("p", { class: "about" }, facts.join(" · ")),
    sources.length ? h("details", {}, h("summary", {}, say.several(sources.length, "source")), h("ul", { class: "list" }, sources.slice(0, 20).map(shown), sources.length > 20 ? h("li", {}, (sources.length - 20) + " more") : null)) : null);
}

function rejectedSection(rejected, id) {
  const rows = reasonRows(rejected);
  const table = new Table({
    caption: "Turned down", count: rejected.length, search: (row) => rejected[row].rejected + " " + rejected[row].text,
    columns: [
      { title: "Why", kind: "text", value: (row) => rejected[row].rejected },
      { title: "What was said", kind: "text wrap", value: (row) => rejected[row].text, cell: (row) => String(rejected[row].text || "").slice(0, 300) },
      { title: "Session", kind: "text", value: (row) => ((rejected[row].sources || [])[0] || {}).session, cell: (row) => sessionLink(((rejected[row].sources || [])[0] || {}).session) },
    ],
  });
  return section(id + "-rejected", "Turned down, and why", null,
    smallTable("Reasons", [["Why", "text"], ["Count", "number"]], rows, { class: "plain" }),
    h("details", {}, h("summary", {}, "One by one"), table.element));
}

function viewNotes(parts) {
  const wanted = parts[0] || "";
  const notes = data.notes;
  const shown = data.with_text ? notes.filter((one) => one.session === wanted) : [];
  const title = (row) => plainText(notes[row].title) || sessionTitle(notes[row].session);
  const place = (row) => (data.with_text ? "#notes/" + encodeURIComponent(notes[row].session) : null);
  const has = (key) => notes.some((one) => known(one[key]) && one[key] !== "");
  const number = (key, name, how, about) => (has(key) ? { title: name, about, kind: "number", value: (row) => notes[row][key], cell: (row) => how(notes[row][key]) } : null);
  const table = new Table({
    caption: "Notes of sessions", count: notes.length, search: (row) => [notes[row].session, notes[row].title, notes[row].project, notes[row].text].join(" "),
    sort: has("last_time") ? { title: "Ended", down: true } : null, mark: null,
    columns: [
      { title: "Notes of", kind: "text title-cell", value: (row) => title(row).toLowerCase(), cell: (row) => (place(row) ? h("a", { href: place(row), title: notes[row].session }, title(row)) : sessionLink(notes[row].session, null, title(row))) },
      has("project") ? { title: "Project", kind: "text", value: (row) => notes[row].project, cell: (row) => pathText(notes[row].project) } : null,
      has("last_time") ? { title: "Ended", kind: "text", value: (row) => notes[row].last_time, cell: (row) => say.time(notes[row].last_time) } : null,
      has("last_time") ? { title: "Age", kind: "number", about: "Before the newest day on this page", value: (row) => -Date.parse(notes[row].last_time || "1970-01-01"), cell: (row) => ageText(notes[row].last_time) } : null,
      number("prompts", "Prompts", say.count, "Messages of a person"), number("messages", "Messages", say.count, "Messages of the main conversation"),
      number("tokens", "Size", say.tokens, "Tokens of the notes"),
      has("file") ? { title: "File", kind: "text", value: (row) => notes[row].file, cell: (row) => pathText(notes[row].file) } : null,
    ].filter(Boolean),
  });
  const article = (one) => h("article", { class: "card notes", id: "notes-of-session" },
    h("h2", {}, plainText(one.title) || sessionTitle(one.session)),
    h("p", { class: "about" }, sessionLink(one.session, null, one.session), one.file ? " · " + one.file : null, one.last_time ? " · ended " + say.time(one.last_time) : null), prose(one.text, 3));
  return h("div", {},
    h("p", { class: "lead" }, h("strong", {}, "Notes of " + say.several(new Set(notes.map((one) => one.session)).size, "session") + "."),
      data.with_text ? null : [" Titles and figures only; ", h("code", {}, "--with-text"), " adds the notes themselves."]),
    shown.length ? [h("p", { class: "crumbs" }, h("a", { href: "#notes" }, "All notes")), shown.map(article)] : section("notes-list", "Notes of sessions", null, table.element));
}
