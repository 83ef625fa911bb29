// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// The page: it polls the API, follows events, and draws the view that the address names.
import { html, render } from "./html.js";
import { Refused, events, get, put, token } from "./api.js";
import { clock, jobHref, jobName, setToday, zone } from "./format.js";
import { Overview } from "./overview.js";
import { Nodes } from "./nodes.js";
import { Plan } from "./plan.js";
import { JobView } from "./job.js";
import { Player } from "./player.js";

const POLL = 2000; // milliseconds; an event makes the page ask at once
const SHARES = 60_000; // milliseconds between two requests for usage shares
const SLOW = 5; // polls between two requests for data that changes slowly or is expensive

const store = {
  status: null, statusError: "", gone: false, login: false, asked: false, message: "", confirm: null,
  timeline: null, span: "2h", shares: null, filter: "",
  nodes: null, nodeFilter: "", onlyBad: false,
  plan: null, planError: "", policies: null, preview: null, draft: { pool: "", policy: "" },
  route: { view: "overview" }, detail: null, detailError: "", series: null,
  replay: null, // of a recording; null for an autoscaler
  onFilter: text => store.set({ filter: text }),
  // set changes the state and draws it. now asks the API at once.
  set(changes, now = false) {
    Object.assign(store, changes);
    draw();
    if (now) poll();
  },
};

// route returns the view that the address names.
function route() {
  const [, view, ...rest] = location.hash.split("/");
  let parts;
  try {
    parts = rest.map(decodeURIComponent);
  } catch { /* a malformed address shows the first view */
    return { view: "overview" };
  }
  switch (view) {
    case "job": return { view, namespace: parts[0] || "default", id: parts[1] || "" };
    case "pool": return { view: "overview", pool: parts[0] };
    case "nodes": case "plan": return { view };
    default: return { view: "overview" };
  }
}

function pool() {
  const { pools } = store.status, named = store.route.pool;
  return named ? pools.find(p => p.name === named) : pools.find(p => p.used > 0 || p.waiting > 0) || pools[0];
}

const actions = {
  async command(what, path, body) {
    try {
      await put(path, body);
      store.set({ message: `${what}: done.`, confirm: null, preview: null, login: false }, true);
    } catch (e) {
      store.set({ message: `${what}: ${e.message}`, confirm: null, login: e instanceof Refused && (e.status === 401 || e.status === 403) });
    }
  },
  pause(job, paused) {
    const of = job ? jobName(job) : "all jobs", body = job ? { namespace: job.namespace, id: job.id } : {};
    store.set({ confirm: {
      text: paused ? `Pause the scaling of ${of}? Training goes on at its present size.` : `Let Kolo scale ${of} again?`,
      yes: paused ? "Pause" : "Resume", act: () => actions.command(`${paused ? "Pause" : "Resume"} ${of}`, paused ? "v1/pause" : "v1/resume", body),
    } });
  },
  setPolicy(name, policy) {
    store.set({ confirm: {
      text: policy ? `Set the policy of pool ${name} to ${policy}? Jobs are resized at once.` : `Go back to the configured policy of pool ${name}? Jobs are resized at once.`,
      yes: "Set policy", act: () => actions.command(`Policy of ${name}`, "v1/policy", { pool: name, policy }),
    } });
  },
  async preview({ pool: name, policy }) {
    try {
      const all = await get("v1/plan", { policy });
      store.set({ preview: all.find(p => p.pool === name) || null, planError: "", message: "" });
    } catch (e) {
      store.set({ planError: e.message, login: e instanceof Refused && (e.status === 401 || e.status === 403) });
    }
  },
  async copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      store.set({ message: "Command copied." });
    } catch { // only pages of localhost or TLS may write to the clipboard
      store.set({ message: text });
    }
  },
};

// Confirm asks before a change. The browser's dialog keeps the focus inside and closes with
// Escape.
const Confirm = ({ confirm }) => html`<dialog ref=${d => d && !d.open && d.showModal()} aria-labelledby="confirm-text" onClose=${() => store.confirm && store.set({ confirm: null })}>
  <p id="confirm-text">${confirm.text}</p>
  <div class="buttons"><button onClick=${() => store.set({ confirm: null })}>Cancel</button><button class="primary" onClick=${confirm.act}>${confirm.yes}</button></div></dialog>`;

const Login = () => html`<form class="login" onSubmit=${e => {
  e.preventDefault();
  const text = new FormData(e.target).get("token").trim();
  if (!/^[\x21-\x7e]*$/.test(text)) { // a browser refuses to send it
    store.set({ message: "That is no Nomad token: it contains a space or a character outside ASCII." });
    return;
  }
  token.set(text);
  stale = true;
  e.target.reset();
  store.set({ login: false, statusError: "", message: "" }, true);
  follow();
}}><label>Nomad token <input name="token" type="password" autocomplete="off"/></label> <button class="primary">Use it</button> <span class="hint">Kept until you close this tab. To remove it, leave the field empty.</span></form>`;

// seek changes the replay. While a change is under way, later ones are joined.
let sought = null, seeking = false;
async function seek(change) {
  sought = { ...sought, ...change };
  store.set({ replay: { ...store.replay, ...change } });
  if (seeking) return;
  seeking = true;
  while (sought) {
    const next = sought;
    sought = null;
    try {
      const replay = await put("v1/replay", next);
      store.set({ replay: { ...replay, ...sought } });
    } catch (e) {
      store.set({ message: `Replay: ${e.message}` });
    }
  }
  seeking = false;
  [stale, slowAt, sharesAt] = [true, -Infinity, -Infinity];
  poll();
}

const NAV = [["overview", "#/", "Overview"], ["nodes", "#/nodes", "Nodes"], ["plan", "#/plan", "Plan"]];

function App() {
  const { status: s, route: r } = store, now = s ? Date.parse(s.time) : 0; // by the autoscaler's clock, like all times of the API
  const view = !s ? html`<section class="card"><h1 tabindex="-1">Kolo</h1><p class=${store.statusError ? "problem" : "empty"}>${store.statusError || "Loading …"}</p></section>`
    : r.view === "job" ? html`<${JobView} store=${store} actions=${actions} now=${now}/>`
    : r.view === "nodes" ? html`<${Nodes} store=${store}/>`
    : r.view === "plan" ? html`<${Plan} store=${store} actions=${actions}/>`
    : html`<${Overview} store=${store} pool=${pool()} now=${now}/>`;
  return html`
    <a class="skip" href="#main" onClick=${e => { e.preventDefault(); heading(); }}>Skip to the content</a>
    <header class="top">
      <a class="brand" href="#/">Kolo</a>
      <nav aria-label="Views">${NAV.map(([name, href, title]) => html`<a key=${name} href=${href} aria-current=${r.view === name ? "page" : undefined}>${title}</a>`)}
        ${r.view === "job" && html`<a href=${jobHref(r)} aria-current="page">${jobName(r)}</a>`}</nav>
      ${s && html`<p class="who"><i class="dot ${store.gone || s.problem ? "bad" : s.paused ? "held" : "good"}" aria-hidden="true"></i>
        autoscaler ${s.autoscaler}${s.leading ? "" : s.leader?.name ? `, standby of ${s.leader.name}` : ", standby"}${s.paused ? ", paused" : ""}${!store.replay && html`, updated <time datetime=${s.time} title=${zone}>${clock(new Date(s.time), true)}</time>`}</p>
      ${!s.replay && html`<button onClick=${() => actions.pause(null, !s.paused)}>${s.paused ? "Resume all scaling" : "Pause all scaling"}</button>`}`}
      ${!s?.replay && html`<button aria-expanded=${store.asked || store.login} onClick=${() => store.set({ asked: !store.asked })}>Sign in with token</button>`}
    </header>
    ${store.replay && html`<${Player} replay=${store.replay} seek=${seek}/>`}
    <main id="main">
      <div role="status" aria-live="polite" class="notices">
        ${store.gone && html`<p class="problem">The autoscaler does not answer. ${s ? `What you see is from ${clock(new Date(s.time), true)}.` : ""} Trying again …</p>`}
        ${s && store.statusError && !store.gone && html`<p class="problem">${store.statusError}</p>`}
        ${s && !store.gone && s.problem && html`<p class="problem">Nomad cannot be read: ${s.problem}</p>`}
        ${s && !store.gone && !s.ready && html`<p class="problem">The state of the cluster has not been read yet.</p>`}
        ${store.message && html`<p class="message">${store.message} <button class="plain" aria-label="Dismiss the message" onClick=${() => store.set({ message: "" })}>×</button></p>`}
      </div>
      ${(store.login || store.asked) && html`<${Login}/>`}
      ${view}
    </main>
    ${store.confirm && html`<${Confirm} confirm=${store.confirm}/>`}`;
}

const root = document.getElementById("app");
root.replaceChildren();

let queued = false;
// draw draws the state before the next frame, once for all changes until then.
function draw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => {
    queued = false;
    const began = performance.now();
    render(html`<${App}/>`, root);
    if (focusing) {
      heading();
      focusing = !!document.querySelector("main [aria-busy]"); // its title is drawn again
    }
    performance.measure("kolo-render", { start: began }); // for the tests
    performance.clearMeasures();
  });
}

// heading moves the focus to the title of the view, so that a screen reader reads it.
let focusing = false;
const heading = () => document.querySelector("main h1")?.focus();

let polls = 0, timer = 0, polling = false, again = false;
let stale = true, slowAt = -Infinity; // stale: an event may have changed the data that is requested rarely

async function poll() {
  if (polling) { again = true; return; } // one poll at a time
  polling = true;
  clearTimeout(timer);
  await ask();
  polling = false;
  clearTimeout(timer);
  timer = setTimeout(poll, again ? 200 : document.hidden ? 5 * POLL : POLL);
  again = false;
}

async function ask() {
  stale ||= !!store.replay || polls % SLOW === 0; // a replay is fast, and its answers cost little
  polls++;
  const slow = stale && performance.now() - slowAt >= POLL; // many events must not cause as many costly requests
  if (slow) [stale, slowAt] = [false, performance.now()];
  try {
    const status = await get("v1/status");
    if (status.replay) {
      setToday(new Date(status.time));
      const replay = await get("v1/replay");
      if (!seeking) store.replay = replay;
    } else store.replay = null;
    store.draft.pool ||= status.pools[0]?.name || "";
    if (store.gone) store.timeline = null; // it may be another autoscaler now
    store.set({ status, statusError: "", gone: false, login: false });
    document.title = title();
    await Promise.all([detail(slow), store.timeline && !slow ? null : timeline(), slow && performance.now() - sharesAt >= (store.replay ? POLL : SHARES) ? shares() : null]);
  } catch (e) {
    if (e instanceof Refused) store.set({ statusError: e.message, gone: false, login: e.status === 401 || e.status === 403 });
    else store.set({ gone: true });
  }
}

function title() {
  if (store.route.view === "job") return `${jobName(store.route)} – Kolo`;
  const name = NAV.find(([view]) => view === store.route.view);
  return store.route.view === "overview" ? "Kolo" : `${name[2]} – Kolo`;
}

async function timeline() {
  const { span } = store, got = await get("v1/timeline", { since: span });
  if (span === store.span) store.set({ timeline: got });
}

let sharesAt = -Infinity;
async function shares() {
  sharesAt = performance.now();
  const got = await get("v1/usage", { by: "pool", since: "7d" });
  store.set({ shares: new Map(got.rows.map(r => [r.pool, r.productive_share])) });
}

// detail requests the data of the present view. It drops answers for an earlier view.
async function detail(slow) {
  const of = store.route;
  const put1 = changes => { if (of === store.route) store.set(changes); };
  try {
    switch (of.view) {
      case "nodes":
        if (slow || !store.nodes) put1({ nodes: await get("v1/nodes") });
        break;
      case "plan": {
        const [plan, policies] = await Promise.all([slow || !store.plan ? get("v1/plan") : store.plan, slow || !store.policies ? get("v1/policy") : store.policies]);
        put1({ plan, policies, planError: store.preview ? store.planError : "" });
        break;
      }
      case "job": {
        const query = { namespace: of.namespace, id: of.id };
        const found = await get("v1/job", query);
        put1({ detail: found, series: found.job ? await get("v1/series", query) : null, detailError: "" });
      }
    }
  } catch (e) {
    if (!(e instanceof Refused)) throw e;
    put1(of.view === "job" ? { detailError: e.message } : of.view === "plan" ? { planError: e.message } : {});
  }
}

let stream = null;
// follow reads events until the autoscaler goes away, and then tries again.
async function follow() {
  stream?.abort();
  const mine = stream = new AbortController();
  while (!mine.signal.aborted) {
    try {
      await events(event => {
        if (store.timeline) store.set({ timeline: { ...store.timeline, events: [...store.timeline.events, event].slice(-500) } });
        stale = true;
        poll();
      }, mine.signal);
    } catch { /* polling reports that the autoscaler is gone */ }
    await new Promise(done => setTimeout(done, 3000));
  }
}

addEventListener("hashchange", () => {
  const r = route(), other = r.view !== store.route.view;
  store.set({ route: r, detail: null, series: null, detailError: "", preview: null, ...(r.view === "plan" ? { plan: null, policies: null } : {}) }, true);
  document.title = title();
  scrollTo(0, 0);
  focusing = other || r.view === "job";
});
document.addEventListener("visibilitychange", () => document.hidden || poll());

store.route = route();
draw();
poll();
follow();
