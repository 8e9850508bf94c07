// Memories by type with their sources, what was turned down and why; and notes of sessions.

const KINDS = [["user", "About the user"], ["feedback", "Feedback"], ["project", "Project"], ["reference", "Where things are"], ["", "Without a type"]];

// Words of a line: bold and code are the only marks that are followed.
function inline(text) {
  return text.split(/(\*\*[^*]+\*\*|`[^`]+`)/).map((part) => {
    if (part.startsWith("**") && part.length > 4) return h("strong", {}, part.slice(2, -2));
    if (part.startsWith("`") && part.length > 2) return h("code", {}, part.slice(1, -1));
    return part;
  });
}

// Markdown as far as memories and notes need it; everything else stays as it was typed.
function prose(text, level) {
  const box = h("div", { class: "prose" });
  let list = null;
  let paragraph = null;
  let code = null;
  const close = () => {
    list = null;
    paragraph = null;
  };
  for (const line of String(text || "").split("\n")) {
    if (code) {
      if (/^\s*```/.test(line)) code = null;
      else code.append(line + "\n");
      continue;
    }
    const heading = line.match(/^(#{1,6})\s+(.*)$/);
    const item = line.match(/^\s*(?:[-*]|\d+[.)])\s+(.*)$/);
    if (/^\s*```/.test(line)) {
      close();
      code = h("pre", {});
      box.append(code);
    } else if (heading) {
      close();
      box.append(h("h" + Math.min(6, level + heading[1].length - 1), {}, inline(heading[2])));
    } else if (item) {
      paragraph = null;
      if (!list) box.append((list = h("ul", {})));
      list.append(h("li", {}, inline(item[1])));
    } else if (!line.trim()) {
      close();
    } else {
      list = null;
      if (!paragraph) box.append((paragraph = h("p", {})));
      else paragraph.append("\n");
      add(paragraph, inline(line));
    }
  }
  return box;
}

function viewMemories() {
  return h("div", {}, data.memories.map((part, number) => memoryPart(part, number)));
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
    h("h1", {}, data.memories.length > 1 ? "Memories: " + part.name : "Memories"),
    figures([
      ["Memories", say.count(list.length)],
      ...kinds.map(([kind, title]) => [title, say.count(list.filter((memory) => memory.kind === kind).length)]),
      "rejected" in part ? ["Turned down", say.count(rejected.length)] : null,
      known(part.secrets_dropped) ? ["Dropped for a secret", say.count(part.secrets_dropped)] : null,
      left.length ? ["Left", say.count(left.length)] : null,
    ]),
    list.length > 8 ? h("input", { type: "search", class: "wide", placeholder: "Find in memories…", "aria-label": "Find in memories", autocomplete: "off", oninput: (event) => find(event.target.value) }) : null,
    holder,
    rejected.length ? rejectedSection(rejected, id) : null,
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
  return h("article", { class: "card" },
    h("h3", {}, say.text(memory.title)),
    memory.hook ? h("p", { class: "hook" }, memory.hook) : null,
    memory.body ? prose(memory.body, 4) : null,
    h("p", { class: "about" }, facts.join(" · ")),
    sources.length ? h("details", {}, h("summary", {}, say.several(sources.length, "source")), h("ul", { class: "list" }, sources.slice(0, 20).map(shown), sources.length > 20 ? h("li", {}, (sources.length - 20) + " more") : null)) : null);
}

function rejectedSection(rejected, id) {
  const reasons = new Map();
  for (const one of rejected) reasons.set(one.rejected, (reasons.get(one.rejected) || 0) + 1);
  const rows = [...reasons].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([reason, count]) => [reason, say.count(count)]);
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
  const shown = notes.filter((one) => one.session === wanted);
  const table = new Table({
    caption: "Notes of sessions", count: notes.length, search: (row) => notes[row].session + " " + notes[row].text,
    columns: [
      { title: "Session", kind: "text", value: (row) => notes[row].session, cell: (row) => h("a", { href: "#notes/" + encodeURIComponent(notes[row].session), class: "mono" }, notes[row].session.slice(0, 13)) },
      { title: "Title", kind: "text wrap", value: (row) => notesTitle(notes[row].text) },
      { title: "File", kind: "text", value: (row) => notes[row].file, cell: (row) => pathText(notes[row].file) },
      { title: "Size", kind: "number", value: (row) => notes[row].text.length, cell: (row) => say.count(notes[row].text.length) },
    ],
  });
  return h("div", {},
    section("notes", "Notes of sessions", say.several(notes.length, "session") + " with notes.", table.element),
    (shown.length ? shown : notes.slice(0, 1)).map((one) => h("article", { class: "card notes" },
      h("h2", { class: "mono" }, sessionLink(one.session, null, one.session)), h("p", { class: "about" }, one.file), prose(one.text, 3))));
}

// The line under the first heading, or the first line that says anything.
function notesTitle(text) {
  const lines = String(text).split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("#") && !/^_.*_$/.test(line));
  return (lines[0] || "").slice(0, 120);
}
