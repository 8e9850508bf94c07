// One session: its window over calls, what happened at each boundary, every call.

const IDLE_SECONDS = 3600;

// Everything about a chain that has a place on the plot.
function chainFacts(run, session, chain) {
  const of = (name) => (bySession(run, name).get(session) || []).filter((row) => (run[name].get(row, "agent") || "") === chain.agent);
  const place = callPlaces(chain);
  const read = (name, row, fields) => Object.fromEntries(fields.map((field) => [field, run[name].get(row, field)]));
  const boundaryFields = ["call", "time", "trigger", "kind", "source", "tokens_before", "tokens_after", "tokens_counted", "summary_tokens",
    "restored_tokens", "restored_files", "dropped_tokens", "kept_tokens", "messages_summarized", "prompts_summarized", "threshold", "window",
    "window_grounds", "rounds_since", "turns_since", "is_recompaction", "kept", "retries", "text"];
  const boundaries = of("boundaries").map((row) => ({ ...read("boundaries", row, boundaryFields) }));
  const misses = of("misses").map((row) => read("misses", row, ["call", "path", "outcome", "distance", "boundary"]));
  for (const one of [...boundaries, ...misses]) one.at = place(one.call);
  boundaries.forEach((one, number) => {
    const next = boundaries[number + 1];
    one.after = misses.filter((miss) => miss.call >= one.call && (!next || miss.call < next.call));
  });
  const recorded = [];
  const micro = [];
  const idle = [];
  for (let at = 0; at < chain.count; at += 1) {
    const told = chain.recordedBoundaries[at];
    if (told && told !== "micro") recorded.push({ at, trigger: told });
    const happened = (chain.events.get(at) || "").split("; ").filter((text) => /^micro [a-z]+ \d+$/.test(text));
    if (told === "micro" || happened.length) micro.push({ at, text: [...happened, told === "micro" ? "recorded" : ""].filter(Boolean).join(", ") });
    const pause = at > 0 ? chain.second[at] - chain.second[at - 1] : 0;
    if (pause >= IDLE_SECONDS) idle.push({ at, seconds: pause });
  }
  return { boundaries, misses, recorded, micro, idle };
}

// What left at a boundary, as a bar of its parts.
function partsBar(parts, whole) {
  return h("span", { class: "parts", "aria-hidden": "true" }, LAYERS.filter((layer) => (parts || {})[layer]).map((layer) =>
    h("span", { title: layerName(layer) + " " + say.tokens(parts[layer]), style: { width: ((100 * parts[layer]) / whole).toFixed(2) + "%", background: "var(--c-" + layer + ")" } })));
}

// What a recorded boundary kept is in the window after it, but no log says which part it is.
const stayed = (one) => (one.source === "recorded" ? say.none : say.tokens(sumOf(one.kept_tokens)));

const sumOf = (parts) => Object.values(parts || {}).reduce((sum, value) => sum + value, 0);

function boundaryDetail(one, number) {
  const layers = LAYERS.filter((layer) => (one.dropped_tokens || {})[layer] || (one.kept_tokens || {})[layer]);
  const rows = layers.map((layer) => [[swatch(layer), layerName(layer)], say.tokens((one.dropped_tokens || {})[layer] || 0), one.source === "recorded" ? say.none : say.tokens((one.kept_tokens || {})[layer] || 0)]);
  const files = one.restored_files || [];
  const facts = [
    ["Before", say.tokens(one.tokens_before), "the client counts " + say.tokens(one.tokens_counted)],
    ["After", say.tokens(one.tokens_after), one.tokens_after > one.tokens_before ? "larger than before" : null],
    ["Threshold", say.tokens(one.threshold), "window " + say.tokens(one.window) + " (" + say.text(one.window_grounds) + ")"],
    ["Summary", say.tokens(one.summary_tokens), say.count(one.messages_summarized) + " messages, " + say.several(one.prompts_summarized, "prompt") + " of people"],
    ["Came back", say.tokens(one.restored_tokens), files.length ? say.several(files.length, "file") : null],
    ["Since the last", say.several(one.rounds_since, "call"), say.several(one.turns_since, "turn")],
  ];
  return h("article", { class: "boundary", id: "boundary-" + number, tabindex: "-1", "aria-label": "Boundary before call " + one.call },
    h("h3", {}, "Boundary " + (number + 1) + ": ", one.trigger, ", ", one.kind, ", before ", "call " + say.count(one.call),
      one.source === "recorded" ? h("span", { class: "tag" }, "as recorded") : null,
      one.is_recompaction ? h("span", { class: "tag" }, "again") : null),
    figures(facts),
    h("div", { class: "three" },
      h("div", {}, smallTable("What left and what stayed", [["What was in the window", "text"], ["Left", "number"], ["Stayed", "number"]], rows, { captioned: true })),
      h("div", {}, h("h4", {}, "Files that came back"), files.length
        ? h("ul", { class: "list" }, files.map((file) => h("li", {}, pathText(file.path), " ", h("small", {}, say.tokens(file.tokens)))))
        : h("p", { class: "about" }, "None.")),
      h("div", {}, h("h4", {}, "Misses until the next one"), one.after.length
        ? h("ul", { class: "list" }, one.after.slice(0, 30).map((miss) => h("li", {}, pathText(miss.path), " ", h("small", {}, miss.outcome + ", call " + miss.call + ", " + say.tokens(miss.distance) + " away"))),
          one.after.length > 30 ? h("li", {}, say.count(one.after.length - 30) + " more") : null)
        : h("p", { class: "about" }, "None."))),
    one.text ? textDetail(one.text) : null);
}

// What a written text carries of what the rest of the session needs.
function textDetail(text) {
  const rows = Object.entries(text.needs || {}).filter(([, need]) => need.needed).map(([kind, need]) => {
    const missing = ((text.missing || {})[kind] || []).join(", ");
    return [say.words(kind), say.count(need.needed), say.count(need.carried), say.share(need.share), missing || say.none];
  });
  return h("div", {},
    h("p", { class: "about" }, "Written text of " + say.tokens(text.tokens) + " tokens: of " + say.several(text.prompts, "prompt") + " it has " + say.count(text.prompts_in_full) + " in full, " +
      say.count(text.prompts_in_part) + " in part, " + say.count(text.prompts_lost) + " not."),
    rows.length ? smallTable("What the rest of the session needs, and what the text carries", [["Needed afterwards", "text"], ["Needed", "number"], ["Carried", "number"], ["Share", "number"], ["Not carried", "text wrap"]], rows, { captioned: true }) : null);
}

class SessionView {
  constructor(run, row, agent) {
    this.run = run;
    this.row = row;
    this.session = run.sessions.get(row, "session");
    this.chains = chainsOf(run, row);
    this.agent = agent;
    const chain = this.chains.find((one) => one.agent === agent) || this.chains[0];
    this.element = h("div", {}, this.head(chain));
    if (!chain || !chain.count) {
      this.element.append(h("p", {}, "No calls of this session are on the page."));
      return;
    }
    this.chain = chain;
    this.facts = chainFacts(run, this.session, chain);
    const others = runs.filter((one) => one !== run).flatMap((one) => {
      const at = sessionRow(one, this.session);
      const found = at < 0 ? null : chainsOf(one, at).find((other) => other.agent === chain.agent);
      return found && found.count === chain.count ? [{ name: one.name, chain: found }] : [];
    });
    this.plot = new Sawtooth(chain, this.facts, others, (plot, goes) => this.follow(goes));
    this.plot.onboundary = (number) => this.openBoundary(number, true);
    this.calls = this.callTable();
    this.boundaries = this.boundaryTable();
    this.detail = h("div", { class: "detail" });
    add(this.element, [
      section("window", "The window", "Stacked by what is in it; hover or use the arrow keys for numbers, drag to zoom.", this.plot.element),
      this.boundaries ? section("boundaries", "Boundaries", null, this.boundaries.element, this.detail)
        : section("boundaries", "Boundaries", "The policy compacts nowhere in this chain."),
      section("calls", "Calls", null, this.calls.element),
    ]);
  }

  head(chain) {
    const { run, row } = this;
    const rows = run.sessions;
    const get = (name) => rows.get(row, name);
    const beside = (by) => {
      const to = row + by;
      return to >= 0 && to < rows.count ? h("a", { href: sessionPlace(run, rows.get(to, "session")), class: "choice" }, by < 0 ? "‹ Session before" : "Session after ›") : null;
    };
    const agents = this.chains.length > 1
      ? h("p", { class: "picker" }, "Agent: ", this.chains.map((one) => h("a", {
        href: sessionPlace(run, this.session, { agent: one.agent }), class: "choice", "aria-current": one === chain ? "true" : null,
      }, one.agent ? one.agent.slice(0, 12) : "main", h("small", {}, " " + say.count(one.count)))))
      : null;
    const notes = data.notes.some((one) => one.session === this.session);
    const title = usageTitle(usageRow(this.session));
    const recorded = recordedCost(this.session);
    return [
      h("nav", { class: "crumbs", "aria-label": "Sessions" }, h("a", { href: viewPlace("sessions/" + run.number) }, "All sessions"), beside(-1), beside(1)),
      title ? h("h1", {}, title) : h("h1", { class: "mono" }, this.session),
      h("p", { class: "about" }, title ? [h("span", { class: "mono" }, this.session), h("br", {})] : null, say.text(get("project")), h("br", {}), say.time(get("first_time")), " to ", say.time(get("last_time")), " UTC",
        notes ? [" · ", h("a", { href: "#notes/" + encodeURIComponent(this.session) }, "notes")] : null),
      runPicker(run, (one) => sessionPlace(one, this.session)),
      figures([
        ["Calls", say.count((recordedSums(this.session) || { calls: get("calls") }).calls), get("subagent_calls") ? say.count(get("subagent_calls")) + " of sub-agents" : null],
        ["Turns", say.count(get("turns"))],
        usage ? ["Largest window", say.tokens(usageValue(this.session, "peak")), say.tokens(get("peak")) + " simulated, mean " + say.tokens(get("mean"))]
          : ["Largest window", say.tokens(get("peak")), "mean " + say.tokens(get("mean"))],
        ["Compactions", say.count(get("compactions")), say.count(get("recorded_compactions")) + " recorded"],
        get("micro") ? ["Micro-compactions", say.count(get("micro")), say.tokens(get("saved_tokens")) + " saved"] : null,
        known(get("misses")) ? ["Misses", say.range(get("misses_credited"), get("misses")), "of " + say.count(get("uses")) + " edits"] : null,
        usage ? ["Cost", say.money(recorded), "as recorded; " + say.money(get("cost_micro_usd")) + " simulated"]
          : ["Cost", say.money(get("cost_micro_usd")), "simulated; " + say.money(get("recorded_micro_usd")) + " by recorded usage"],
      ]),
      agents,
    ];
  }

  place(more) {
    return sessionPlace(this.run, this.session, { agent: this.chain.agent, ...more });
  }

  callTable() {
    const { chain } = this;
    const number = (title, values, how, about) => ({ title, about, kind: "number", value: (at) => values[at], cell: (at) => how(values[at]) });
    return new Table({
      caption: "Calls",
      count: chain.count,
      search: (at) => [chain.call[at], chain.models[at], chain.cacheMisses[at], chain.events.get(at) || ""].join(" "),
      columns: [
        { title: "Call", kind: "number", value: (at) => chain.call[at], cell: (at) => h("a", { href: this.place({ call: chain.call[at] }), "aria-label": "Call " + chain.call[at] + ", show in the plot" }, say.count(chain.call[at])) },
        number("Cost", chain.cost, say.price),
        number("Turn", chain.turn, say.count),
        { title: "Time", kind: "text", value: (at) => chain.second[at], cell: (at) => say.second(chain.second[at]) },
        { title: "Model", kind: "text", value: (at) => chain.models[at], cell: (at) => say.text(chain.models[at].replace(/^claude-/, "")) },
        number("Window", chain.input, say.count, "Tokens sent"),
        number("Recorded", chain.recorded, say.count, "Tokens sent, as the log has them"),
        number("Answered", chain.output, say.count),
        number("From cache", chain.cacheRead, say.count),
        number("To cache", chain.cacheWrite, say.count),
        chain.cacheMisses.some(Boolean) ? { title: "Cache missed", about: "Why less was read from the prompt cache than the call before left there", kind: "text", value: (at) => chain.cacheMisses[at] } : null,
        chain.events.size ? { title: "Events", kind: "text wrap", value: (at) => chain.events.get(at) || "" } : null,
      ],
    });
  }

  boundaryTable() {
    const list = this.facts.boundaries;
    if (!list.length) return null;
    const whole = largest(list.map((one) => sumOf(one.dropped_tokens)), 1);
    return new Table({
      caption: "Boundaries",
      count: list.length,
      mark: (at) => list[at].tokens_after > list[at].tokens_before,
      columns: [
        { title: "Call", kind: "number", value: (at) => list[at].call, cell: (at) => h("a", { href: this.place({ boundary: at }), "aria-label": "Boundary before call " + list[at].call + ", show" }, say.count(list[at].call)) },
        { title: "Trigger", kind: "text", value: (at) => list[at].trigger },
        { title: "Kind", kind: "text", value: (at) => list[at].kind },
        { title: "Source", kind: "text", about: "Recorded: the log has a boundary at the same place, and its sizes were taken", value: (at) => list[at].source },
        { title: "Before", kind: "number", value: (at) => list[at].tokens_before, cell: (at) => say.tokens(list[at].tokens_before) },
        { title: "After", kind: "number", value: (at) => list[at].tokens_after, cell: (at) => say.tokens(list[at].tokens_after) },
        { title: "Left", kind: "number", value: (at) => sumOf(list[at].dropped_tokens), cell: (at) => say.tokens(sumOf(list[at].dropped_tokens)) },
        { title: "What left", kind: "parts-cell", value: (at) => sumOf(list[at].dropped_tokens), cell: (at) => partsBar(list[at].dropped_tokens, whole) },
        { title: "Stayed", kind: "number", value: (at) => sumOf(list[at].kept_tokens), cell: (at) => stayed(list[at]) },
        { title: "Summary", kind: "number", value: (at) => list[at].summary_tokens, cell: (at) => say.tokens(list[at].summary_tokens) },
        { title: "Back", kind: "number", about: "Tokens that came back: files, skills, states", value: (at) => list[at].restored_tokens, cell: (at) => say.tokens(list[at].restored_tokens) },
        { title: "Misses", kind: "number", about: "Misses until the next boundary", value: (at) => list[at].after.length, cell: (at) => say.count(list[at].after.length) },
      ],
    });
  }

  openBoundary(number, moves) {
    const one = this.facts.boundaries[number];
    if (!one || !this.boundaries) return;
    this.boundaries.goTo(number, false);
    clear(this.detail).append(boundaryDetail(one, number));
    if (moves) {
      this.detail.scrollIntoView({ block: "nearest" });
      this.detail.firstChild.focus({ preventScroll: true });
      this.remember({ boundary: number });
    }
  }

  // The address follows what is chosen, without a new entry in the history for every step.
  remember(more) {
    const isZoomed = this.plot.to - this.plot.from < this.chain.count;
    const place = this.place({ ...(isZoomed ? { from: this.plot.from, to: this.plot.to } : {}), ...more });
    replacePlace(place);
  }

  follow(goes) {
    const { cursor } = this.plot;
    if (cursor >= 0) this.calls.goTo(cursor, goes);
    this.remember(cursor >= 0 ? { call: this.chain.call[cursor] } : {});
    if (goes) {
      const link = this.calls.body.querySelector(".marked a");
      if (link) link.focus({ preventScroll: true });
    }
  }

  // Brings the view to what the address says. `moves` if somebody followed a link on the page.
  update(query, moves) {
    if (!this.chain) return;
    if (query.has("from") && query.has("to")) this.plot.show(Number(query.get("from")), Number(query.get("to")));
    if (query.has("call")) {
      const at = this.chain.call.indexOf(Number(query.get("call")));
      if (at >= 0) {
        this.plot.choose(at, true);
        this.calls.goTo(at, false);
        if (moves) this.plot.element.scrollIntoView({ block: "center" });
      }
    }
    if (query.has("boundary")) {
      const number = Number(query.get("boundary"));
      const one = this.facts.boundaries[number];
      if (!one) return;
      this.plot.choose(one.at, true);
      this.openBoundary(number, false);
      if (moves) this.detail.scrollIntoView({ block: "nearest" });
    } else if (this.facts.boundaries.length && !this.detail.firstChild) {
      this.openBoundary(0, false);
    }
  }
}
