// Views and their addresses, light and dark, print.

const VIEWS = [
  ["overview", "Overview", () => data.overview || runs.some((run) => run.sessions.count), viewOverview],
  ["sessions", "Sessions", () => runs.some((run) => run.sessions.count), viewSessions],
  ["audit", "Audit", () => data.audits.length, viewAudit],
  ["tune", "Tune", () => data.tunes.length, viewTune],
  ["compare", "Compare", () => runs.some((run) => run.compare), viewCompare],
  ["memories", "Memories", () => data.memories.length, viewMemories],
  ["notes", "Notes", () => data.notes.length, viewNotes],
].filter(([name, , has]) => has() || data.absent[name]).map((view) => (view[2]() ? view : [view[0], view[1], view[2], () => absentView(view[0])]));

// A view that was not asked for says how to get it. What stands in backquotes is a command.
function absentView(name) {
  return h("p", { class: "lead" }, inline(data.absent[name]));
}

const isAbsent = (name) => Boolean(data.absent[name]) && !VIEWS.find(([known]) => known === name)[2]();

const main = document.getElementById("main");
let opened = null;

function readPlace() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const parts = path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { name: parts[0], parts: parts.slice(1), query: new URLSearchParams(query || "") };
}

function replacePlace(place) {
  try {
    history.replaceState(null, "", place);
  } catch {
    // Some browsers refuse this for files; the page works without it.
  }
}

function openPlace(moves) {
  const { name, parts, query } = readPlace();
  if (FOLLOWING_VIEWS.includes(name) || !name) readChoice(query);
  if (name === "session" && runs[Number(parts[0])]) {
    openSession(runs[Number(parts[0])], parts[1], query, moves);
    return;
  }
  const [key, title, , view] = VIEWS.find(([known]) => known === name) || VIEWS[0] || ["", "Nothing to show", null, () => h("p", {}, "Nothing to show.")];
  show(key, title, view(parts, query), moves);
}

function openSession(run, session, query, moves) {
  const row = sessionRow(run, session);
  if (row < 0) {
    show("sessions", "Sessions", h("p", {}, "No session ", h("code", {}, session), " on this page."), moves);
    return;
  }
  const agent = query.get("agent") || "";
  if (opened && opened.view && opened.view.run === run && opened.view.row === row && opened.view.agent === agent) {
    opened.view.update(query, moves);
    return;
  }
  const view = new SessionView(run, row, agent);
  show("sessions", sessionTitle(session), view.element, moves);
  opened.view = view;
  view.update(query, false);
}

function show(key, title, element, moves) {
  opened = { key };
  if (!element.querySelector("h1")) element.prepend(h("h1", { class: "unseen" }, title));
  clear(main).append(element);
  document.title = title + " · " + data.name;
  for (const link of document.querySelectorAll("#top nav a")) {
    if (link.dataset.view === key) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    link.setAttribute("href", viewPlace(link.dataset.view));
    // On a phone the names of the views are wider than the screen.
    if (link.dataset.view === key) link.parentNode.scrollLeft = link.offsetLeft - link.parentNode.offsetLeft - 40;
  }
  if (moves) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

const THEMES = ["auto", "light", "dark"];
function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("backcast-theme", theme);
  } catch {
    // Not everywhere may a file keep anything; then the choice holds for this visit.
  }
  return theme;
}

function themeButton() {
  let theme = "auto";
  try {
    theme = THEMES.includes(localStorage.getItem("backcast-theme")) ? localStorage.getItem("backcast-theme") : "auto";
  } catch {
    // As above.
  }
  const picture = { auto: "◐", light: "○", dark: "●" };
  const tell = () => {
    button.textContent = picture[theme] + " " + theme;
    button.setAttribute("aria-label", "Colours: " + theme + ". Press to change.");
  };
  const button = h("button", { type: "button", class: "theme", onclick: () => {
    theme = setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
    tell();
  } });
  setTheme(theme);
  tell();
  return button;
}

function start() {
  add(document.getElementById("top"), [
    h("div", { class: "brand" }, h("strong", {}, "backcast"), h("span", { title: data.name }, data.name)),
    h("nav", { "aria-label": "Views" }, VIEWS.map(([key, title]) => h("a", { href: "#" + key, "data-view": key, class: isAbsent(key) ? "absent" : null }, title))),
    themeButton(),
  ]);
  add(document.getElementById("foot"), [
    "Made by backcast " + data.backcast + " from local files. This page loads nothing and sends nothing.",
  ]);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
    main.scrollIntoView();
  });
  addEventListener("hashchange", () => openPlace(true));
  addEventListener("beforeprint", printAll);
  addEventListener("afterprint", () => {
    opened = null;
    openPlace(false);
  });
  openPlace(false);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

// On paper there are no links to follow: a session prints as it is, anything else prints with all other views.
function printAll() {
  if (opened && opened.view) return;
  const all = h("div", {});
  for (const [, title, , view] of VIEWS.filter(([name]) => !isAbsent(name))) {
    const element = view([], new URLSearchParams());
    all.append(h("section", { class: "printed" }, element.querySelector("h1") ? null : h("h1", {}, title), element));
  }
  clear(main).append(all);
  for (const details of main.querySelectorAll("details")) details.open = false;
  for (const plot of main.querySelectorAll(".plot")) plot.render();
}

start();
