"use strict";
// Elements, and numbers as people read them. Whatever comes from a log becomes a text node or an attribute that cannot run.

const SVG = "http://www.w3.org/2000/svg";

// Attributes that a value may set; anything else is a mistake of this page.
const ATTRIBUTES = new Set(
  ("class id title role tabindex type value placeholder for scope colspan href x y x1 x2 y1 y2 cx cy r width height d " +
    "points transform viewBox fill stroke text-anchor dominant-baseline open hidden disabled download spellcheck " +
    "autocomplete preserveAspectRatio name min max selected start").split(" "),
);

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (name === "style") {
      for (const [property, setting] of Object.entries(value)) element.style.setProperty(property, setting);
    } else if (name === "href") {
      // Links lead to places on this page, never out of it.
      if (!String(value).startsWith("#")) throw new Error("a link out of the page");
      element.setAttribute("href", value);
    } else if (ATTRIBUTES.has(name) || name.startsWith("aria-") || name.startsWith("data-")) {
      element.setAttribute(name, value === true ? "" : String(value));
    } else {
      throw new Error("unknown attribute " + name);
    }
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

const h = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);

const clear = (element) => {
  element.textContent = "";
  return element;
};

const grouping = new Intl.NumberFormat("en-US");
// A minus is as wide as a plus.
const minus = (text) => String(text).replace("-", "−");

const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

const say = {
  none: "–",
  text: (value) => (known(value) && value !== "" ? String(value) : say.none),
  count: (value) => (known(value) ? minus(grouping.format(Math.round(value))) : say.none),
  range: (low, high) => (low === high ? say.count(low) : say.count(low) + "–" + say.count(high)),
  // Three digits are enough to compare by.
  tokens(value) {
    if (!known(value)) return say.none;
    const size = Math.abs(value);
    if (size < 1000) return minus(Math.round(value));
    const [unit, letter] = size < 999500 ? [1e3, "k"] : size < 999.5e6 ? [1e6, "M"] : size < 999.5e9 ? [1e9, "B"] : [1e12, "T"];
    const scaled = value / unit;
    return minus(scaled.toFixed(Math.abs(scaled) < 9.995 ? 2 : Math.abs(scaled) < 99.95 ? 1 : 0)) + letter;
  },
  money(micro) {
    if (!known(micro)) return say.none;
    const dollars = micro / 1e6;
    const digits = Math.abs(dollars) >= 1000 ? 0 : Math.abs(dollars) >= 0.095 || dollars === 0 ? 2 : 4;
    return (dollars < 0 ? "−$" : "$") +
      Math.abs(dollars).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  },
  // Single calls cost cents: as many digits for all of them.
  price: (micro) => (known(micro) ? "$" + (micro / 1e6).toFixed(3) : say.none),
  share: (value) => (known(value) ? minus((100 * value).toFixed(1)) + "\u00a0%" : say.none),
  signed: (value, how) => (known(value) ? (value > 0 ? "+" : "") + how(value) : say.none),
  time: (value) => (known(value) && value !== "" ? String(value).slice(0, 16).replace("T", " ") : say.none),
  second: (second) => (known(second) ? new Date(second * 1000).toISOString().slice(0, 19).replace("T", " ") : say.none),
  duration(seconds) {
    if (!known(seconds)) return say.none;
    if (seconds < 90) return Math.round(seconds) + " s";
    if (seconds < 5400) return Math.round(seconds / 60) + " min";
    if (seconds < 129600) return (seconds / 3600).toFixed(1) + " h";
    return (seconds / 86400).toFixed(1) + " d";
  },
  words: (name) => String(name).replace(/_/g, " "),
  several: (number, one, many) => say.count(number) + " " + (number === 1 ? one : many || one + "s"),
};

// The last parts of a path say most, whichever sign parts them.
function shortPath(path) {
  const text = say.text(path);
  const parts = text.split(/[/\\]/).filter(Boolean);
  const sign = text.includes("/") ? "/" : "\\";
  return parts.length > 2 ? "…" + sign + parts.slice(-2).join(sign) : text;
}

// The whole of a path is one hover away. Where even the last parts are too long, the style cuts them at the front.
const pathText = (path) => h("span", { title: say.text(path), class: "path" }, h("bdi", {}, shortPath(path)));

// Of lists of any length: spreading them over arguments has a limit.
function largest(values, least) {
  let most = least === undefined ? -Infinity : least;
  for (const value of values) if (value > most) most = value;
  return most;
}

// Told to people who cannot see it change.
function announce(text) {
  document.getElementById("said").textContent = text;
}

function figures(list) {
  return h("dl", { class: "figures" }, list.filter(Boolean).map(([label, value, note]) =>
    h("div", {}, h("dt", {}, label), h("dd", {}, value, note ? h("small", {}, note) : null))));
}

function section(id, title, about, ...children) {
  return h("section", { id, "aria-labelledby": id + "-title" },
    h("h2", { id: id + "-title" }, title),
    about ? h("p", { class: "about" }, about) : null,
    children);
}
