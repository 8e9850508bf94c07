// What the page was given, unpacked when it is looked at.

const data = JSON.parse(document.getElementById("data").textContent);

// Rows that came as columns.
class Rows {
  constructor(packed) {
    this.count = packed ? packed.rows : 0;
    this.columns = packed ? packed.columns : {};
  }

  has(name) {
    return name in this.columns;
  }

  // Whether a column has any value.
  tells(name) {
    const column = this.columns[name];
    if (column === undefined || this.count === 0) return false;
    return Array.isArray(column) || (column.all !== null && column.all !== "");
  }

  get(row, name) {
    const column = this.columns[name];
    if (column === undefined) return null;
    if (Array.isArray(column)) return column[row];
    return "all" in column ? column.all : column.of[column.at[row]];
  }

  sum(name) {
    let sum = 0;
    for (let row = 0; row < this.count; row += 1) sum += this.get(row, name) || 0;
    return sum;
  }

  // Numbers of the rows for each value of a column.
  by(name) {
    const found = new Map();
    for (let row = 0; row < this.count; row += 1) {
      const value = this.get(row, name);
      if (!found.has(value)) found.set(value, []);
      found.get(value).push(row);
    }
    return found;
  }
}

// Reads columns of differences, see pack.rs.
class Unpacker {
  constructor(text) {
    const raw = atob(text);
    this.bytes = new Uint8Array(raw.length);
    for (let at = 0; at < raw.length; at += 1) this.bytes[at] = raw.charCodeAt(at);
    this.at = 0;
  }

  number() {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.bytes[this.at];
      this.at += 1;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  }

  column(count) {
    const values = new Float64Array(count);
    let last = 0;
    for (let at = 0; at < count; ) {
      const told = this.number();
      if (told === 0) {
        values[at] = NaN;
        at += 1;
      } else if (told === 1) {
        const end = at + this.number();
        values.fill(last, at, end);
        at = end;
      } else {
        const folded = told - 1;
        last += folded % 2 ? -(folded + 1) / 2 : folded / 2;
        values[at] = last;
        at += 1;
      }
    }
    return values;
  }
}

// The layers of a window from the ground up: what always is there first, what changes most on top.
const LAYERS = ["base", "summaries", "attachments", "local_commands", "other", "images", "human", "assistant_text",
  "thinking", "tool_calls", "tool_results", "unexplained"];
const LAYER_NAMES = { base: "system prompt and tools" };
const layerName = (layer) => LAYER_NAMES[layer] || say.words(layer);

function unpackChain(chain) {
  const unpacker = new Unpacker(chain.packed);
  const columns = {};
  for (const name of data.columns) columns[name] = unpacker.column(chain.rounds);
  const count = chain.rounds;
  const input = new Float64Array(count);
  const recorded = new Float64Array(count);
  const cacheRead = new Float64Array(count);
  const call = new Float64Array(count);
  for (let at = 0; at < count; at += 1) {
    let sum = columns.input_over[at];
    for (const layer of LAYERS) sum += columns[layer][at];
    input[at] = sum;
    recorded[at] = sum + columns.recorded_over[at];
    cacheRead[at] = columns.cache_unread[at] + (at > 0 ? cacheRead[at - 1] + columns.cache_write[at - 1] : 0);
    call[at] = at + columns.call_shift[at];
  }
  const named = (list, column) => Array.from(columns[column], (number) => list[number] || "");
  return {
    ...columns,
    agent: chain.agent,
    count,
    call,
    input,
    recorded,
    cacheRead,
    cacheWrite: columns.cache_write,
    models: named(chain.models, "model"),
    cacheMisses: named(chain.misses, "miss"),
    recordedBoundaries: named(chain.boundaries, "boundary"),
    events: new Map(chain.events),
  };
}

const runs = data.runs.map((run, number) => ({
  ...run,
  number,
  sessions: new Rows(run.sessions),
  boundaries: new Rows(run.boundaries),
  misses: new Rows(run.misses),
  drawn: new Set(run.drawn),
}));

// Rows of a run by session, made when first asked for.
function bySession(run, name) {
  run.indexes = run.indexes || {};
  run.indexes[name] = run.indexes[name] || run[name].by("session");
  return run.indexes[name];
}

function sessionRow(run, session) {
  const rows = bySession(run, "sessions").get(session);
  return rows ? rows[0] : -1;
}

// Finds the place of a call in a chain by its number. A boundary at the end of a chain has no call after it.
function callPlaces(chain) {
  const places = new Map();
  for (let at = 0; at < chain.count; at += 1) places.set(chain.call[at], at);
  const first = chain.count ? chain.call[0] : 0;
  return (call) => (places.has(call) ? places.get(call) : Math.min(chain.count, Math.max(0, call - first)));
}

// The chains of a session, unpacked; a few are remembered.
const remembered = new Map();
function chainsOf(run, row) {
  const id = "run" + run.number + "-" + row;
  if (remembered.has(id)) return remembered.get(id);
  const block = document.getElementById(id);
  const chains = block ? JSON.parse(block.textContent).map(unpackChain) : [];
  if (remembered.size > 200) remembered.clear();
  remembered.set(id, chains);
  return chains;
}

const sessionPlace = (run, session, more) => {
  const query = Object.entries(more || {}).filter(([, value]) => known(value) && value !== "");
  const tail = query.length ? "?" + query.map(([key, value]) => key + "=" + encodeURIComponent(value)).join("&") : "";
  return "#session/" + run.number + "/" + encodeURIComponent(session) + tail;
};

// A link to a session where some run has it, else only its name.
function sessionLink(session, more, text) {
  const shown = text || String(session || "").slice(0, 8) || say.none;
  const run = runs.find((one) => sessionRow(one, session) >= 0);
  if (!run) return h("span", { title: session }, shown);
  return h("a", { href: sessionPlace(run, session, more), title: session, class: text ? null : "mono" }, shown);
}
