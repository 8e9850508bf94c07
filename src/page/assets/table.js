// Tables: sorted by any column, searched, a page of rows at a time. Rows are made when they are shown.

const ROWS_A_PAGE = 50;

// A bar behind a share of the whole, beside its number.
function bar(share, colour) {
  const width = Math.max(0, Math.min(1, share || 0));
  return h("span", { class: "bar", "aria-hidden": "true" },
    h("span", { style: { width: (100 * width).toFixed(2) + "%", ...(colour ? { background: colour } : {}) } }));
}

const swatch = (layer) => h("span", { class: "swatch", "aria-hidden": "true", style: { background: "var(--c-" + layer + ")" } });

// A table of few rows, all shown. Columns: [title, "number" or "text"].
function smallTable(caption, columns, rows, options) {
  const more = options || {};
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { class: more.class },
      h("caption", { class: more.captioned ? null : "unseen" }, caption),
      h("thead", {}, h("tr", {}, columns.map(([title, kind]) => h("th", { scope: "col", class: kind }, title)))),
      h("tbody", {}, rows.map((row) => rowOf(row, columns)))));
}

function rowOf(row, columns) {
  return h("tr", {}, row.map((cell, at) => at === 0
    ? h("th", { scope: "row", class: columns[at][1] }, cell)
    : h("td", { class: columns[at][1] }, cell)));
}

// options: caption, count, columns [{title, about, kind, value(row), cell(row), wide}], sort {title, down}, size, search(row), empty, id(row), mark(row), best(row)
class Table {
  constructor(options) {
    this.options = options;
    this.columns = options.columns.filter(Boolean);
    this.order = Array.from({ length: options.count }, (_, row) => row);
    this.page = 0;
    this.size = options.size || ROWS_A_PAGE;
    const wanted = options.sort ? this.columns.findIndex((column) => column.title === options.sort.title) : -1;
    this.sorted = wanted < 0 ? null : { column: wanted, down: options.sort.down };
    this.marked = -1;
    this.words = "";
    this.element = h("div", { class: "paged" });
    this.build();
    this.arrange();
  }

  build() {
    const { caption, count, search } = this.options;
    this.heads = this.columns.map((column, at) =>
      h("th", { scope: "col", class: column.kind, title: column.about },
        h("button", { type: "button", onclick: () => this.sortBy(at) }, column.title)));
    this.body = h("tbody", {});
    this.place = h("span", { class: "place", role: "status" });
    const step = (by, text, label) => h("button", { type: "button", "aria-label": label, onclick: () => this.turn(by) }, text);
    this.steps = [step(-1, "‹ Back", "Page back"), step(1, "Next ›", "Next page")];
    const box = search && count > 8
      ? h("input", {
        type: "search", placeholder: "Find…", "aria-label": "Find in " + caption, autocomplete: "off", spellcheck: "false",
        oninput: (event) => this.find(event.target.value),
      })
      : null;
    this.pager = h("div", { class: "pager" }, box, h("span", { class: "grow" }), this.place, this.steps);
    add(this.element, [
      this.pager,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
        h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, this.heads)), this.body)),
    ]);
  }

  sortBy(at) {
    const numbers = !this.columns[at].kind.startsWith("text");
    const again = this.sorted && this.sorted.column === at;
    this.sorted = { column: at, down: again ? !this.sorted.down : numbers };
    this.page = 0;
    this.arrange();
    announce("Sorted by " + this.columns[at].title + (this.sorted.down ? ", largest first" : ", smallest first"));
  }

  find(words) {
    this.words = words.trim().toLowerCase();
    this.page = 0;
    this.arrange();
  }

  turn(by) {
    this.page += by;
    this.show();
  }

  arrange() {
    const { count, search } = this.options;
    this.order = [];
    for (let row = 0; row < count; row += 1) {
      if (!this.words || search(row).toLowerCase().includes(this.words)) this.order.push(row);
    }
    if (this.sorted) {
      const { column, down } = this.sorted;
      const values = new Map(this.order.map((row) => [row, this.columns[column].value(row)]));
      const rank = (row) => (known(values.get(row)) && values.get(row) !== "" ? 0 : 1);
      this.order.sort((a, b) => {
        if (rank(a) !== rank(b)) return rank(a) - rank(b);
        const [one, other] = [values.get(a), values.get(b)];
        const order = one < other ? -1 : one > other ? 1 : 0;
        return (down ? -order : order) || a - b;
      });
    }
    this.show();
  }

  show() {
    const pages = Math.max(1, Math.ceil(this.order.length / this.size));
    this.page = Math.max(0, Math.min(pages - 1, this.page));
    const first = this.page * this.size;
    const rows = this.order.slice(first, first + this.size);
    this.heads.forEach((head, at) => {
      const is = this.sorted && this.sorted.column === at;
      if (is) head.setAttribute("aria-sort", this.sorted.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    clear(this.body);
    for (const row of rows) this.body.append(this.row(row));
    if (!rows.length) {
      this.body.append(h("tr", {}, h("td", { colspan: this.columns.length, class: "empty" }, this.options.empty || "Nothing.")));
    }
    const all = this.order.length;
    this.place.textContent = all > this.size ? say.count(first + 1) + "–" + say.count(first + rows.length) + " of " + say.count(all) : "";
    this.steps[0].disabled = this.page === 0;
    this.steps[1].disabled = this.page === pages - 1;
    const isPaged = all > this.size;
    this.steps.forEach((step) => (step.hidden = !isPaged));
    this.pager.hidden = !isPaged && !this.pager.querySelector("input");
  }

  row(row) {
    const cells = this.columns.map((column, at) => {
      const content = column.cell ? column.cell(row) : column.value(row);
      return h(at === 0 ? "th" : "td", { scope: at === 0 ? "row" : null, class: column.kind }, content);
    });
    const { id, mark, best } = this.options;
    const classes = [row === this.marked ? "marked" : "", mark && mark(row) ? "notable" : "", best && best(row) ? "best" : ""].filter(Boolean).join(" ");
    return h("tr", { id: id ? id(row) : null, class: classes || null, "aria-current": row === this.marked ? "true" : null }, cells);
  }

  // Shows a row, wherever it is.
  goTo(row, moves) {
    this.marked = row;
    let at = this.order.indexOf(row);
    if (at < 0) {
      this.words = "";
      const box = this.pager.querySelector("input");
      if (box) box.value = "";
      this.arrange();
      at = this.order.indexOf(row);
    }
    if (at < 0) return;
    this.page = Math.floor(at / this.size);
    this.show();
    const shown = this.body.querySelector(".marked");
    if (shown && moves) shown.scrollIntoView({ block: "center" });
  }
}

// Columns that rows have under the names of their outputs.
const fieldColumn = (rows, name, title, how, about) =>
  rows.tells(name)
    ? {
      title,
      about,
      kind: how === say.text || how === say.time ? "text" : "number",
      value: (row) => rows.get(row, name),
      cell: (row) => (known(rows.get(row, name)) ? how(rows.get(row, name)) : say.none),
    }
    : null;
