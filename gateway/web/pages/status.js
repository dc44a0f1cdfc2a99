"use strict";
// Draws what the server's events say. All that clients made up goes in as text, never as HTML.

const MINUTES = 15;
const view = { upstreams: {}, history: { samples: [] }, exchanges: [] };
let paused = false;

const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...content) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...content);
  return node;
}

/** Sets text only where it differs, so that selections and screen readers are left in peace. */
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** One child per item, found again by its key; `draw` fills it. */
function list(parent, items, keyOf, create, draw) {
  const known = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  items.forEach((item, index) => {
    const key = String(keyOf(item, index));
    let node = known.get(key);
    known.delete(key);
    if (!node) {
      node = create(item);
      node.dataset.key = key;
    }
    draw(node, item, index);
    if (parent.children[index] !== node) parent.insertBefore(node, parent.children[index] ?? null);
  });
  for (const node of known.values()) node.remove();
}

/** With spaces that do not break, so that no unit stands alone on a line. */
function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 10) return `${seconds.toFixed(1)}\u00a0s`;
  if (seconds < 120) return `${Math.round(seconds)}\u00a0s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}\u00a0min ${Math.floor(seconds % 60)}\u00a0s`;
  return `${Math.floor(seconds / 3600)}\u00a0h ${Math.floor((seconds % 3600) / 60)}\u00a0min`;
}

const toGo = (seconds) =>
  seconds === null ? "time to go not known yet" : `about ${seconds < 10 ? `${Math.round(seconds)}\u00a0s` : span(seconds)} to go`;
const who = (item) => item.client || "unknown";
const times = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

// --- one upstream ---------------------------------------------------------------------------

function stateOf(upstream) {
  if (upstream.stalled || !upstream.reachable) return "stalled";
  if (upstream.removed) return "removed";
  if (upstream.waiting) return "waiting";
  return upstream.running ? "busy" : "idle";
}

function headline(upstream) {
  const slots = `${upstream.running} of ${times(upstream.slots, "slot")} taken`;
  if (upstream.removed) return ["Removed.", `No longer in the configuration; ${slots} until the last answer has ended.`];
  if (!upstream.reachable) return ["Store unreachable.", `Nobody new is granted a slot; ${slots}.`];
  if (upstream.stalled)
    return ["Stalled.", `No slot given back for ${span(upstream.seconds_since_release)}, ${upstream.waiting} waiting.`];
  if (!upstream.waiting) return [upstream.running ? "No line." : "Idle.", `${slots}.`];
  const last = upstream.tickets.at(-1);
  return [
    `${upstream.waiting} waiting.`,
    `${slots}. The first in line has waited ${span(upstream.oldest_wait_seconds)}, the last one: ` +
      `${toGo(last.estimated_wait_seconds)}. The line last moved ${span(upstream.seconds_since_release)} ago.`,
  ];
}

let created = 0;

function createUpstream([name]) {
  const id = `upstream-${++created}`; // a name may hold spaces, an id may not
  const node = make("section", { class: "card upstream", "aria-label": `Upstream ${name}` },
    make("h2", {}, name),
    make("p", { class: "headline" }, make("strong"), " ", make("span")),
    make("h3", { id: `${id}-slots` }, "Slots"),
    make("ul", { class: "slots", "aria-labelledby": `${id}-slots` }),
    make("h3", { id: `${id}-line`, class: "line-title" }, "Line"),
    make("ol", { class: "line", "aria-labelledby": `${id}-line` }),
    make("p", { class: "more quiet" }),
    make("h3", {}, `Last ${MINUTES} minutes`, make("span", { class: "key waiting" }), "waiting",
      make("span", { class: "key running" }), "running"));
  const plot = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  plot.setAttribute("class", "plot");
  plot.setAttribute("role", "img");
  plot.setAttribute("viewBox", "0 0 900 100");
  plot.setAttribute("preserveAspectRatio", "none");
  for (const [tag, kind] of [["path", "waiting"], ["path", "running"], ["line", "limit"]]) {
    const shape = document.createElementNS(plot.namespaceURI, tag);
    shape.setAttribute("class", kind);
    plot.append(shape);
  }
  node.append(plot, make("p", { class: "axis" }, make("span"), make("span", { class: "top" }), make("span", {}, "now")));
  write(node.querySelector(".axis span"), `${MINUTES} minutes ago`);
  return node;
}

function drawUpstream(node, [name, upstream]) {
  node.dataset.state = stateOf(upstream);
  const [bold, rest] = headline(upstream);
  write(node.querySelector(".headline strong"), bold);
  write(node.querySelector(".headline span"), rest);
  drawSlots(node.querySelector(".slots"), upstream);
  drawLine(node, upstream);
  drawPlot(node, name, upstream);
}

function drawSlots(node, upstream) {
  const free = Math.max(0, upstream.slots - upstream.running);
  const slots = [...upstream.leases, ...Array(free).fill(null)];
  list(node, slots, (_, index) => index, () => make("li", {}, make("span", { class: "time" }), make("span", { class: "who" }), make("div", { class: "quiet" })),
    (item, lease) => {
      item.className = lease ? "held" : "free";
      write(item.querySelector(".time"), lease ? span(lease.held_seconds) : "");
      write(item.querySelector(".who"), lease ? who(lease) : "free");
      write(item.querySelector(".quiet"), lease ? lease.model : "");
    });
}

function drawLine(node, upstream) {
  node.querySelector(".line-title").hidden = !upstream.waiting;
  list(node.querySelector(".line"), upstream.tickets, (ticket) => ticket.position,
    () => make("li", {}, make("span", { class: "position" }), make("span", { class: "who" }), make("span", { class: "when" })),
    (item, ticket) => {
      write(item.querySelector(".position"), String(ticket.position));
      write(item.querySelector(".who"), `${who(ticket)}, ${ticket.model}`);
      write(item.querySelector(".when"), `waited ${span(ticket.waited_seconds)}, ${toGo(ticket.estimated_wait_seconds)}`);
    });
  const more = upstream.waiting - upstream.tickets.length;
  write(node.querySelector(".more"), more > 0 ? `and ${more} more` : "");
}

function drawPlot(node, name, upstream) {
  const now = Date.now() / 1000 + skew;
  const samples = view.history.samples.filter((sample) => sample.upstreams[name] && sample.at > now - MINUTES * 60);
  const points = samples.map((sample) => ({ at: sample.at, ...sample.upstreams[name] }));
  points.push({ at: now, waiting: upstream.waiting, running: upstream.running });
  const top = Math.max(upstream.slots, ...points.map((point) => Math.max(point.waiting, point.running))) * 1.1;
  const x = (at) => (900 * (1 - (now - at) / (MINUTES * 60))).toFixed(1);
  const y = (value) => (99 - (98 * value) / top).toFixed(1);
  const steps = (kind) => points.map((point, i) => (i ? `H${x(point.at)}V${y(point[kind])}` : `M${x(point.at)} ${y(point[kind])}`)).join("");
  const plot = node.querySelector(".plot");
  plot.querySelector(".waiting").setAttribute("d", `${steps("waiting")}V99H${x(points[0].at)}Z`);
  plot.querySelector(".running").setAttribute("d", steps("running"));
  const limit = plot.querySelector(".limit");
  for (const [key, value] of Object.entries({ x1: 0, x2: 900, y1: y(upstream.slots), y2: y(upstream.slots) })) limit.setAttribute(key, value);
  const most = Math.max(...points.map((point) => point.waiting));
  plot.setAttribute("aria-label", `Waiting and running over ${MINUTES} minutes: at most ${most} waiting, now ${upstream.waiting} waiting and ${upstream.running} running.`);
  write(node.querySelector(".top"), `dashed: ${times(upstream.slots, "slot")}; most waiting: ${most}`);
}

// --- the whole page -------------------------------------------------------------------------

let skew = 0; // the server's clock less ours, in seconds

const FAILURES = ["upstream_failed", "interrupted", "failed"];
const clock = (exchange) => new Date(exchange.ended_at * 1000).toLocaleTimeString([], { hour12: false });
const outcome = (exchange) => exchange.outcome.replaceAll("_", " ") + (exchange.error ? ` (${exchange.error})` : "");

function drawExchanges() {
  byId("none").hidden = view.exchanges.length > 0;
  list(byId("exchanges"), view.exchanges, (exchange) => exchange.request_id + exchange.ended_at,
    (exchange) => {
      const cell = (text, attributes = {}) => make("td", attributes, text);
      const number = { class: "number" };
      return make("tr", {}, cell(clock(exchange)), cell(outcome(exchange), { "data-outcome": exchange.outcome }), cell(who(exchange)),
        cell(exchange.model || "–"), cell(exchange.request_id), cell(span(exchange.waited_seconds), number),
        cell(span(exchange.first_byte_seconds), number), cell(span(exchange.duration_seconds), number),
        cell(exchange.output_tokens === null ? "–" : String(exchange.output_tokens), number));
    }, () => {});
}

function drawSummary() {
  const all = Object.entries(view.upstreams);
  const waiting = all.reduce((sum, [, upstream]) => sum + upstream.waiting, 0);
  const stalled = all.filter(([, upstream]) => stateOf(upstream) === "stalled").map(([name]) => name);
  document.title = `${stalled.length ? "stalled! " : ""}${waiting} waiting · gateway`;
  write(byId("about"), `${view.version}, ${view.state}, up ${span(view.uptime_seconds)}`);
  byId("summary").hidden = !stalled.length;
  write(byId("summary"), stalled.length ? `Needs a look: ${stalled.join(", ")}.` : "");
  const failed = view.exchanges.filter((exchange) => FAILURES.includes(exchange.outcome));
  const last = failed.length && failed[0];
  byId("failures").hidden = !last;
  write(byId("failures"), last ? `${failed.length} of the last ${view.exchanges.length} failed, the latest at ${clock(last)}: ${outcome(last)}, ${last.upstream || "no upstream"}.` : "");
}

function draw() {
  if (paused) return;
  drawSummary();
  list(byId("upstreams"), Object.entries(view.upstreams), ([name]) => name, createUpstream, drawUpstream);
  drawExchanges();
}

function link(state, text) {
  byId("link").dataset.state = state;
  write(byId("link"), text);
}

byId("pause").addEventListener("click", (event) => {
  paused = !paused;
  event.target.setAttribute("aria-pressed", String(paused));
  draw();
});

const source = new EventSource("status/events");
source.onerror = () => link("lost", "connection lost, trying again …");
source.addEventListener("status", (event) => {
  Object.assign(view, JSON.parse(event.data));
  const newest = view.history.samples.at(-1);
  if (newest && newest.at - Date.now() / 1000 > skew) skew = newest.at - Date.now() / 1000;
  link("live", "● live");
  draw();
});
source.addEventListener("sample", (event) => {
  view.history.samples.push(JSON.parse(event.data));
  view.history.samples = view.history.samples.slice(-(MINUTES * 60) / view.history.every_seconds);
  draw();
});
source.addEventListener("exchange", (event) => {
  view.exchanges = [JSON.parse(event.data), ...view.exchanges].slice(0, 50);
  draw();
});
