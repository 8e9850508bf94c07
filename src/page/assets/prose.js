// Markdown as far as memories and notes need it, as elements with text in them. What is no Markdown stays as it was typed.

// Words of a line: bold, slanted, code, and links, of which only the words are shown.
const INLINE = /(\*\*[^*\n]+\*\*|`[^`\n]+`|\[[^\]\n]+\]\([^)\s]*\)|(?<![\w*])\*[^*\s][^*\n]*\*(?![\w*])|(?<![\w_])_[^_\s][^_\n]*_(?![\w_]))/;

function inline(text) {
  return String(text).split(INLINE).map((part) => {
    if (part.startsWith("**") && part.length > 4) return h("strong", {}, inline(part.slice(2, -2)));
    if (part.startsWith("`") && part.length > 2) return h("code", {}, part.slice(1, -1));
    const link = part.match(/^\[([^\]]+)\]\(([^)\s]*)\)$/);
    if (link) return link[1] === link[2] ? link[1] : h("span", { title: link[2], class: "reference" }, link[1]);
    if (/^(\*[^*]+\*|_[^_]+_)$/.test(part)) return h("em", {}, inline(part.slice(1, -1)));
    // Text that was cut may have lost the other half of a mark.
    return part.replace(/(?<=\S)\*\*(?=\s|$)|(?<=^|\s)\*\*(?=\S)/g, "");
  });
}

// The words of a line alone, for places with room for nothing else.
function plainText(text) {
  return String(text).replace(/\*\*([^*\n]+)\*\*/g, "$1").replace(/`([^`\n]+)`/g, "$1").replace(/\[([^\]\n]+)\]\([^)\s]*\)/g, "$1")
    .replace(/^\s*(?:#{1,6}|[-*+]|\d+[.)]|>)\s+/, "").replace(/(?<![\w_])_([^_\s][^_\n]*)_(?![\w_])/g, "$1").trim();
}

// Lists by how far their items are moved in.
class ListStack {
  constructor(box) {
    this.box = box;
    this.open = [];
  }

  close() {
    this.open = [];
  }

  // Puts an item where its indent says, and returns it.
  item(indent, isNumbered, start, words) {
    while (this.open.length && this.open[this.open.length - 1].indent > indent) this.open.pop();
    let top = this.open[this.open.length - 1];
    if (!top || top.indent < indent || top.isNumbered !== isNumbered) {
      if (top && top.indent === indent) this.open.pop();
      const above = this.open[this.open.length - 1];
      const list = h(isNumbered ? "ol" : "ul", { start: isNumbered && start !== 1 ? start : null });
      (above && above.last ? above.last : this.box).append(list);
      top = { indent, isNumbered, list, last: null };
      this.open.push(top);
    }
    const task = words.match(/^\[([ xX])\]\s+(.*)$/);
    top.last = h("li", task ? { class: "task" } : {}, task ? [h("span", { class: "tick", "aria-label": task[1] === " " ? "open" : "done" }, task[1] === " " ? "☐ " : "☑ "), inline(task[2])] : inline(words));
    top.list.append(top.last);
    return top.last;
  }

  // The last item, or where there is none the text itself.
  last() {
    const top = this.open[this.open.length - 1];
    return top && top.last ? top.last : this.box;
  }

  // Adds a line to the last item.
  follow(line) {
    const top = this.open[this.open.length - 1];
    if (!top || !top.last) return false;
    add(top.last, ["\n", inline(line.trim())]);
    return true;
  }
}

const cellsOf = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
const isRuler = (line) => /^\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*$/.test(line || "") && line.includes("|");

function proseTable(lines) {
  const [head, , ...rows] = lines;
  return h("div", { class: "scroll" }, h("table", { class: "plain" },
    h("caption", { class: "unseen" }, "Table"),
    h("thead", {}, h("tr", {}, cellsOf(head).map((cell) => h("th", { scope: "col" }, inline(cell))))),
    h("tbody", {}, rows.map((row) => h("tr", {}, cellsOf(row).map((cell) => h("td", { class: "wrap" }, inline(cell))))))));
}

function prose(text, level) {
  const box = h("div", { class: "prose" });
  const lists = new ListStack(box);
  const lines = String(text || "").replace(/<!--[\s\S]*?-->/g, "").split("\n");
  let paragraph = null;
  const close = () => {
    lists.close();
    paragraph = null;
  };
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at];
    const fence = line.match(/^\s*(```+|~~~+)/);
    const heading = line.match(/^(#{1,6})\s+(.*?)\s*#*$/);
    const item = line.match(/^(\s*)(?:([-*+])|(\d+)[.)])\s+(.*)$/);
    const quoted = line.match(/^\s*>\s?(.*)$/);
    if (fence) {
      const code = h("pre", {});
      for (at += 1; at < lines.length && !lines[at].trim().startsWith(fence[1]); at += 1) code.append(lines[at] + "\n");
      close();
      box.append(code);
    } else if (heading) {
      close();
      box.append(h("h" + Math.min(6, level + heading[1].length - 1), {}, inline(heading[2])));
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      close();
      box.append(h("hr", {}));
    } else if (line.includes("|") && isRuler(lines[at + 1])) {
      const from = at;
      while (at + 1 < lines.length && lines[at + 1].includes("|")) at += 1;
      close();
      box.append(proseTable(lines.slice(from, at + 1)));
    } else if (item) {
      paragraph = null;
      lists.item(item[1].length, Boolean(item[3]), Number(item[3] || 1), item[4]);
    } else if (quoted) {
      // What is quoted has marks of its own, and may belong to the item above it.
      const said = [quoted[1]];
      for (let next; (next = (lines[at + 1] || "").match(/^\s*>\s?(.*)$/)); at += 1) said.push(next[1]);
      paragraph = null;
      lists.last().append(h("blockquote", {}, [...prose(said.join("\n"), Math.max(level, 5)).childNodes]));
    } else if (!line.trim()) {
      close();
    } else if (!paragraph && /^\s{2,}/.test(line) && lists.follow(line)) {
      continue;
    } else {
      lists.close();
      if (!paragraph) box.append((paragraph = h("p", {})));
      else paragraph.append("\n");
      add(paragraph, inline(line));
    }
  }
  return box;
}
