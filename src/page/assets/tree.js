// Projects as a tree of folders, with what each folder and everything below it cost.

// Folders that matter: where projects are, and where paths part. The others are joined to the one below them.
function projectTree(projects) {
  const root = { name: "", path: "", children: new Map(), sums: emptySums(), sessions: 0 };
  for (const project of projects) {
    const path = project.name || "";
    const sign = path.includes("/") || !path.includes("\\") ? "/" : "\\";
    const names = path ? path.split(sign) : ["(no folder in the logs)"];
    let node = root;
    let at = "";
    names.forEach((name, depth) => {
      at = depth ? at + sign + name : name;
      if (name === "" && depth === 0) return;
      if (!node.children.has(name)) node.children.set(name, { name, path: path ? at : "", sign, children: new Map(), sums: emptySums(), sessions: 0 });
      node = node.children.get(name);
      addSums(node.sums, project.sums);
      node.sessions += project.sessions;
    });
    node.isProject = Boolean(path);
  }
  const join = (node) => {
    let one = node;
    while (one.children.size === 1 && !one.isProject) {
      const [below] = one.children.values();
      one = { ...below, name: one.name + below.sign + below.name };
    }
    const children = [...one.children.values()].map(join);
    one.list = children.sort((a, b) => b.sums.nano - a.sums.nano || b.sums.calls - a.sums.calls || (a.name < b.name ? -1 : 1));
    return one;
  };
  const list = [...root.children.values()].map(join);
  return list.sort((a, b) => b.sums.nano - a.sums.nano || b.sums.calls - a.sums.calls || (a.name < b.name ? -1 : 1));
}

// Opens the costliest folders as long as not more rows come to be shown than fit.
function openFolders(list, most) {
  const open = new Set();
  const waiting = [...list];
  let shown = list.length;
  while (waiting.length) {
    waiting.sort((a, b) => b.sums.nano - a.sums.nano);
    const node = waiting.shift();
    if (!node.list.length || shown + node.list.length > most) continue;
    open.add(node);
    shown += node.list.length;
    waiting.push(...node.list);
  }
  return open;
}

function treeSection(found) {
  const list = projectTree(chosenProjects(found));
  const ROWS = 24;
  const open = openFolders(list, ROWS);
  const top = largest(list.map((node) => node.sums.nano), 1);
  const body = h("tbody", {});
  let most = ROWS;
  const absolute = (node, depth) => (depth === 0 && node.path.startsWith("/") && !node.name.startsWith("/") ? "/" : "") + node.name;
  const rowOfNode = (node, depth) => {
    const button = node.list.length ? h("button", {
      type: "button", class: "fold", "aria-expanded": open.has(node) ? "true" : "false", "aria-label": (open.has(node) ? "Fold " : "Unfold ") + node.name,
      onclick: () => {
        if (open.has(node)) open.delete(node);
        else open.add(node);
        most = Infinity;
        draw(node.path);
      },
    }, open.has(node) ? "▾" : "▸") : null;
    const name = absolute(node, depth);
    return h("tr", { "data-path": node.path },
      h("th", { scope: "row", class: "text branch", style: { "--depth": depth } }, button,
        node.path ? h("a", { href: placeWith("overview", { ...choice, project: node.path }), title: node.path }, h("bdi", {}, name)) : name),
      h("td", { class: "number" }, say.money(costOf(node.sums))), h("td", { class: "number roomy" }, say.count(node.sessions)), h("td", { class: "number" }, say.count(node.sums.calls)),
      h("td", { class: "bar-cell roomy" }, bar(node.sums.nano / top)));
  };
  const draw = (focused) => {
    clear(body);
    let rows = 0;
    let hidden = 0;
    const walk = (nodes, depth) => {
      for (const node of nodes) {
        if (rows >= most) {
          hidden += 1;
          continue;
        }
        rows += 1;
        body.append(rowOfNode(node, depth));
        if (open.has(node)) walk(node.list, depth + 1);
      }
    };
    walk(list, 0);
    more.hidden = !hidden;
    more.textContent = "Show " + say.count(hidden) + " more";
    if (focused) {
      const row = [...body.children].find((one) => one.dataset.path === focused);
      if (row && row.querySelector("button")) row.querySelector("button").focus();
    }
  };
  const more = h("button", { type: "button", onclick: () => {
    most = Infinity;
    draw();
  } });
  draw();
  return section("projects", "By project", "Folders with everything below them. A folder shows its own page of figures.",
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Cost by project" },
      h("table", { class: "tree" }, h("caption", { class: "unseen" }, "Cost by project"),
        h("thead", {}, h("tr", {}, [["Folder", "text"], ["Cost", "number"], ["Sessions", "number roomy"], ["Calls", "number"], ["", "bar-cell roomy"]].map(([title, kind]) => h("th", { scope: "col", class: kind }, title)))), body)),
    more);
}
