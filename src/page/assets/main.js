// Views and their addresses, light and dark, print.

const VIEWS = [
  ["overview", "Overview", () => data.overview || runs.some((run) => run.sessions.count), viewOverview],
  ["sessions", "Sessions", () => runs.some((run) => run.sessions.count), viewSessions],
  ["audit", "Audit", () => data.audits.length, viewAudit],
  ["tune", "Tune", () => data.tunes.length, viewTune],
  ["compare", "Compare", () => runs.some((run) => run.compare), viewCompare],
  ["memories", "Memories", () => data.memories.length, viewMemories],
  ["notes", "Notes", () => data.notes.length, viewNotes],
].filter(([, , has]) => has());

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
  show("sessions", "Session " + String(session).slice(0, 8), view.element, moves);
  opened.view = view;
  view.update(query, false);
}

function show(key, title, element, moves) {
  opened = { key };
  if (!element.querySelector("h1")) element.prepend(h("h1", { class: "unseen" }, title));
  clear(main).append(element);
  document.title = title + " · " + data.name;
  for (const link of document.querySelectorAll("#top nav a")) {
    if (link.getAttribute("href") === "#" + key) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
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
    h("nav", { "aria-label": "Views" }, VIEWS.map(([key, title]) => h("a", { href: "#" + key }, title))),
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
  for (const [, title, , view] of VIEWS) all.append(h("section", { class: "printed" }, h("h1", {}, title), view([], new URLSearchParams())));
  clear(main).append(all);
  for (const details of main.querySelectorAll("details")) details.open = false;
  for (const plot of main.querySelectorAll(".plot")) plot.render();
}

start();
