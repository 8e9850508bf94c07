// What the reader chose to see: days and a folder. The choice stands in the address, and views that follow it take it along.

const CHOICE_KEYS = ["since", "until", "project"];
const FOLLOWING_VIEWS = ["overview", "sessions"];

// Recorded usage: sessions, and cells of one session, day and model each.
const usage = data.overview && data.overview.usage
  ? { sessions: new Rows(data.overview.usage.sessions), cells: new Rows(data.overview.usage.cells) }
  : null;

let choice = {};

function readChoice(query) {
  choice = {};
  for (const key of CHOICE_KEYS) if (query.get(key)) choice[key] = query.get(key);
  return choice;
}

const isChosen = () => CHOICE_KEYS.some((key) => choice[key]);

// The address of a view with the choice, or with another one.
function placeWith(view, chosen) {
  const query = CHOICE_KEYS.filter((key) => chosen[key]).map((key) => key + "=" + encodeURIComponent(chosen[key]));
  return "#" + view + (query.length ? "?" + query.join("&") : "");
}

const viewPlace = (view) => placeWith(view, FOLLOWING_VIEWS.includes(view.split("/")[0]) ? choice : {});

// A folder, or anything below it.
function isBelow(path, folder) {
  if (!folder) return true;
  const text = String(path || "");
  return text === folder || (text.startsWith(folder) && (/[/\\]$/.test(folder) || /[/\\]/.test(text[folder.length])));
}

const isDay = (day) => /^\d{4}-\d\d-\d\d$/.test(day);

function isInTime(day) {
  if (!choice.since && !choice.until) return true;
  return isDay(day) && (!choice.since || day >= choice.since) && (!choice.until || day <= choice.until);
}

const emptySums = () => ({ calls: 0, subCalls: 0, unpriced: 0, sent: 0, cached: 0, output: 0, nano: 0 });

function addSums(sums, more) {
  for (const key of Object.keys(sums)) sums[key] += more[key];
  return sums;
}

// What no price is known for has no cost.
const costOf = (sums) => (sums.calls > 0 && sums.unpriced >= sums.calls ? null : Math.round(sums.nano / 1000));

// Usage by session, day and model, as far as it is chosen.
function chosenUsage() {
  const { sessions, cells } = usage;
  const found = { totals: emptySums(), days: new Map(), models: new Map(), sessions: new Map() };
  const add = (list, key, sums) => addSums(list.get(key) || list.set(key, emptySums()).get(key), sums);
  for (let row = 0; row < cells.count; row += 1) {
    const at = cells.get(row, "at");
    const day = cells.get(row, "day");
    if (!isInTime(day) || !isBelow(sessions.get(at, "project"), choice.project)) continue;
    const sums = {
      calls: cells.get(row, "calls"), subCalls: cells.get(row, "sub_calls"), unpriced: cells.get(row, "unpriced"),
      sent: cells.get(row, "sent"), cached: cells.get(row, "cached"), output: cells.get(row, "output"), nano: cells.get(row, "cost_nano"),
    };
    addSums(found.totals, sums);
    add(found.days, day, sums);
    add(found.models, cells.get(row, "model"), sums);
    add(found.sessions, at, sums);
  }
  return found;
}

// Rows of recorded usage by session id, made when first asked for.
let usageRows = null;
function usageRow(session) {
  if (!usage) return -1;
  usageRows = usageRows || usage.sessions.by("session");
  const rows = usageRows.get(session);
  return rows ? rows[0] : -1;
}

// Recorded calls and cost of a whole session, whatever is chosen; null if there is no usage of it.
let wholeCosts = null;
function recordedSums(session) {
  const at = usageRow(session);
  if (at < 0) return null;
  if (!wholeCosts) {
    wholeCosts = new Map();
    const { cells } = usage;
    for (let row = 0; row < cells.count; row += 1) {
      const key = cells.get(row, "at");
      const sums = wholeCosts.get(key) || { calls: 0, unpriced: 0, nano: 0 };
      sums.calls += cells.get(row, "calls");
      sums.unpriced += cells.get(row, "unpriced");
      sums.nano += cells.get(row, "cost_nano");
      wholeCosts.set(key, sums);
    }
  }
  return wholeCosts.get(at) || null;
}

function recordedCost(session) {
  const sums = recordedSums(session);
  return sums ? costOf(sums) : null;
}

// What recorded usage knows of a session.
function usageValue(session, name) {
  const at = usageRow(session);
  return at < 0 ? null : usage.sessions.get(at, name);
}

const usageTitle = (at) => (at >= 0 ? usage.sessions.get(at, "whole_title") || usage.sessions.get(at, "title") || "" : "");

// The name of a session: its title, else the beginning of its id.
const sessionTitle = (session) => usageTitle(usageRow(session)) || String(session).slice(0, 8);

// First and last day of all usage.
function usageRange() {
  const days = [];
  const { cells } = usage;
  for (let row = 0; row < cells.count; row += 1) if (isDay(cells.get(row, "day"))) days.push(cells.get(row, "day"));
  days.sort();
  return days.length ? [days[0], days[days.length - 1]] : null;
}

const dayBefore = (day, days) => new Date(Date.parse(day) - days * 864e5).toISOString().slice(0, 10);

// Fields for the choice. Every change is a new address.
function choiceBar(view) {
  if (!usage || usage.cells.count < 2) return null;
  const range = usageRange();
  const go = (more) => {
    location.hash = placeWith(view, { ...choice, ...more });
  };
  const field = (key, label) => h("label", {}, label, " ", h("input", {
    type: "date", name: key, value: choice[key] || "", min: range[0], max: range[1], onchange: (event) => go({ [key]: event.target.value }),
  }));
  const projects = new Set();
  for (let row = 0; row < usage.sessions.count; row += 1) if (usage.sessions.get(row, "project")) projects.add(usage.sessions.get(row, "project"));
  if (choice.project) projects.add(choice.project);
  const names = [...projects].sort((a, b) => (shortPath(a).toLowerCase() < shortPath(b).toLowerCase() ? -1 : 1));
  const times = new Map();
  for (const name of names) times.set(shortPath(name), (times.get(shortPath(name)) || 0) + 1);
  const select = h("select", { name: "project", "aria-label": "Project", onchange: (event) => go({ project: event.target.value }) },
    h("option", { value: "" }, "all projects"),
    names.map((name) => h("option", { value: name, selected: name === choice.project, title: name }, times.get(shortPath(name)) > 1 ? name : shortPath(name))));
  const last = (days) => placeWith(view, { ...choice, since: dayBefore(range[1], days - 1), until: "" });
  const isLast = (days) => range && choice.since === dayBefore(range[1], days - 1) && !choice.until;
  const preset = (days) => h("a", { class: "choice", href: last(days), "aria-current": isLast(days) ? "true" : null }, "last " + days + " days");
  return h("div", { class: "choices", role: "group", "aria-label": "What is shown" },
    range ? [field("since", "From"), field("until", "to"), preset(7), preset(30)] : null,
    projects.size > 1 ? select : null,
    isChosen() ? h("a", { class: "choice", href: placeWith(view, {}) }, "show all") : null);
}

// Sessions that have usage in the choice: all of them if nothing is chosen.
function chosenSessions() {
  if (!usage || !isChosen()) return null;
  const found = new Set();
  for (const at of chosenUsage().sessions.keys()) found.add(usage.sessions.get(at, "session"));
  return found;
}
