// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// The first view: one pool with its strip, waiting jobs, events, queues and jobs.
import { html, memo } from "./html.js";
import { jobKey, jobName, number, parse, percent, plural, seconds, short, since, UNKNOWN } from "./format.js";
import { Bar, Filter, Job, Linked, MOST_ROWS, State, Table, Time, byName, expectedStart, matches, slotsOf } from "./parts.js";
import { Strip } from "./strip.js";
import { Queues } from "./queues.js";

const PoolHead = ({ pool, pools, store }) => html`<section class="card pool" aria-labelledby="pool-title">
  <div><h1 id="pool-title" tabindex="-1">Pool ${pool.name}</h1>
    ${pools.length > 1 && html`<label class="pools"><span class="quiet">Node pool</span><select onChange=${e => { location.hash = `#/pool/${encodeURIComponent(e.target.value)}`; }}>
      ${pools.map(p => html`<option key=${p.name} value=${p.name} selected=${p.name === pool.name}>${p.name}</option>`)}</select></label>`}</div>
  <dl>
    <div><dt>Slots held</dt><dd><b>${number(pool.used)}</b> of ${number(pool.capacity)} <${Bar} part=${pool.capacity ? pool.used / pool.capacity : 0}/></dd></div>
    <div><dt>Waiting</dt><dd><b>${number(pool.waiting)}</b> ${pool.waiting === 1 ? "job" : "jobs"}</dd></div>
    ${pool.reserved > 0 && html`<div><dt>Kept free</dt><dd><b>${number(pool.reserved)}</b> for other jobs</dd></div>`}
    <div><dt>Policy</dt><dd><a href="#/plan">${pool.policy || UNKNOWN}</a></dd></div>
    <div><dt>Productive, 7 days</dt><dd>${percent(store.shares?.get(pool.name))}</dd></div>
  </dl>
  ${pool.problem && html`<p class="problem" role="status">${pool.problem}</p>`}
</section>`;

const MOST_HANGING = 5;

// Hanging names the jobs that hang, in all pools.
const Hanging = ({ jobs }) => jobs.length > 0 && html`<section class="hanging problem" aria-label="Jobs that hang"><b>${plural(jobs.length, "job")} ${jobs.length === 1 ? "hangs" : "hang"}:</b>
  <ul role="list">${jobs.slice(0, MOST_HANGING).map(j => html`<li key=${jobKey(j)}><${Job} job=${j}/> holds ${plural(slotsOf(j), "slot")} and has made no step for ${seconds(j.hangs)}</li>`)}
    ${jobs.length > MOST_HANGING && html`<li>${number(jobs.length - MOST_HANGING)} more</li>`}</ul></section>`;

// Fit states why slots stay free although jobs wait, if that is because none of them fits.
const Fit = ({ pool, jobs }) => {
  const free = pool.capacity - pool.used - (pool.reserved || 0), least = Math.min(...jobs.map(j => j.waits.slots));
  return free > 0 && jobs.length > 0 && free < least && html`<p class="hint">${free === 1 ? "1 slot is" : `${number(free)} slots are`} free, but each of these jobs needs at least ${number(least)}.</p>`;
};

export const waitingJobs = (status, pool) => status.jobs.filter(j => j.waits && (!pool || j.pool === pool))
  .sort((a, b) => (a.waits.position || Infinity) - (b.waits.position || Infinity) || (a.waits.queue < b.waits.queue ? -1 : a.waits.queue > b.waits.queue ? 1 : 0) || Date.parse(a.waits.since) - Date.parse(b.waits.since));

const Expected = ({ waits }) => {
  const e = expectedStart(waits);
  return html`<span title=${e.why || ""}>${e.text}</span>`;
};

const Waiting = memo(({ status, pool, now }) => {
  const jobs = waitingJobs(status, pool.name), names = byName(status.jobs);
  const blocked = (status.blocked || []).filter(b => b.pool === pool.name);
  const rows = [...jobs.map(j => ({ job: j, w: j.waits })), ...blocked.map(b => ({ job: b, w: { slots: b.slots, sentence: b.sentence, reason: b.reason, queue: b.queue || "" }, plain: true }))];
  const queued = jobs.some(j => j.waits.queue !== "*");
  const columns = [
    { name: "Job", cell: r => r.plain ? html`<span class="job" title=${jobName(r.job)}>${jobName(r.job)}</span>` : html`<${Job} job=${r.job}/><small class="narrow">${plural(r.w.slots, "slot")}${queued && `, ${r.w.queue}`}${r.w.since && `, waited ${since(new Date(r.w.since), now)}`}</small>` },
    { name: "Place", numeric: true, className: "spare", cell: r => r.w.position ? number(r.w.position) : UNKNOWN },
    ...(queued ? [{ name: "Queue", className: "spare", cell: r => r.w.queue }] : []),
    { name: "Slots", numeric: true, className: "spare", cell: r => number(r.w.slots) },
    { name: "Why it waits", className: "why", cell: r => html`<span title=${r.w.reason}><${Linked} text=${r.w.sentence || r.w.reason} names=${names} except=${jobName(r.job)}/></span>` },
    { name: "Waited", numeric: true, className: "spare", cell: r => r.w.since ? since(new Date(r.w.since), now) : UNKNOWN },
    { name: "Expected start", cell: r => r.plain ? UNKNOWN : html`<${Expected} waits=${r.w}/>` },
  ];
  return html`<section class="card waiting" aria-labelledby="waiting-title"><h2 id="waiting-title">Waiting <span class="count">${number(rows.length)}</span></h2>
    <${Table} caption="Jobs that wait, in order" hideCaption columns=${columns} rows=${rows} rowKey=${r => jobKey(r.job)} empty="No job waits."/><${Fit} pool=${pool} jobs=${jobs}/></section>`;
});

// describe returns an event as a sentence without its job.
export function describe(e) {
  if (e.type === "resize") {
    const verb = new Map([["start", "started"], ["resume", "resumed"], ["grow", "grew"], ["shrink", "shrank"], ["suspend", "was suspended"], ["migrate", "moves workers"], ["rollback", "went back"], ["repair", "was repaired"], ["move", "moved workers"]]).get(e.cause) || e.cause || "changed";
    return `${verb}: ${number(e.from)} → ${number(e.to)}`;
  }
  return new Map([["complete", "is complete"], ["idle", "is idle"], ["late", "is late"], ["stalled", "stalls"], ["straggler", "has a straggler"], ["problem", "has a problem"], ["trouble", "could not be changed"], ["moved", "was moved"], ["pause", "pause"], ["policy", "policy"], ["reload", "configuration reloaded"], ["leader", "leader"]]).get(e.type) || e.type;
}

const Events = memo(({ events, most = 40 }) => html`<section class="card events" aria-labelledby="events-title"><h2 id="events-title">What happened</h2>
  <ol role="list" tabindex="0" aria-labelledby="events-title">${events.slice(-most).reverse().map((e, i) => html`<li key=${`${e.time} ${e.job} ${i}`}>
    <${Time} at=${parse(e.time)} precise/><div>${e.id ? html`<${Job} job=${e}/> ` : ""}<span>${describe(e)}</span>${e.reason && html`<small>${e.reason}</small>`}</div></li>`)}</ol>
  ${events.length === 0 && html`<p class="empty">Nothing yet since this autoscaler started.</p>`}</section>`);

export const stepTime = j => j.step_times?.find(p => p.size === j.running)?.step_time;

const Progress = ({ job: j }) => {
  if (j.state === "complete") return html`<span>complete</span>`;
  if (j.total > 0) return html`<${Bar} part=${j.progress || 0}/> <span title="${number(j.step || 0)} of ${number(j.total)} steps">${percent(j.progress || 0)}</span>`;
  return j.step > 0 ? `step ${number(j.step)}` : UNKNOWN;
};

const ORDER = ["running", "waiting", "suspended", "held", "complete"];

const Jobs = memo(({ status, pool, filter, onFilter }) => {
  const all = status.jobs.filter(j => j.pool === pool.name);
  const found = all.filter(j => matches(`${jobName(j)} ${j.state} ${j.queue}`, filter)).sort((a, b) => (b.hangs > 0) - (a.hangs > 0) || ORDER.indexOf(a.state) - ORDER.indexOf(b.state));
  const columns = [
    { name: "Job", cell: j => html`<${Job} job=${j} swatch=${j.running > 0}/>` },
    { name: "State", cell: j => html`<${State} job=${j}/>${j.hangs > 0 ? html` <small>no step for ${seconds(j.hangs)}</small>` : j.idle > 0 && html` <span class="state bad">idle ${seconds(j.idle)}</span>`}${j.straggler && html` <small class="bad" title=${`Rank ${j.straggler.rank} comes last in ${percent(j.straggler.share)} of steps`}>straggler on ${j.straggler.node}</small>`}` },
    { name: "Workers", numeric: true, cell: j => html`${number(j.running)}${j.want !== j.running && j.state !== "complete" ? ` → ${number(j.want)}` : ""}` },
    { name: "Bounds", numeric: true, cell: j => `${number(j.min)} – ${number(j.max)}` },
    { name: "Progress", cell: j => html`<${Progress} job=${j}/>` },
    { name: "Step", numeric: true, cell: j => seconds(stepTime(j)) },
    { name: "Loss", numeric: true, cell: j => short(j.loss) },
    { name: "Ends", numeric: true, cell: j => html`<${Time} at=${j.hangs > 0 ? null : parse(j.eta) || parse(j.completed)}/>` },
    { name: "Productive", numeric: true, cell: j => percent(j.usage?.productive_share) },
    { name: "Why this size", className: "why", cell: j => [j.reason, j.hold_reason].filter(Boolean).join("; ") },
  ];
  return html`<section class="card jobs" aria-labelledby="jobs-title">
    <header><h2 id="jobs-title">Jobs <span class="count">${number(all.length)}</span></h2>
      <${Filter} label="Filter jobs" value=${filter} onInput=${onFilter}/></header>
    <${Table} caption="Elastic jobs of the pool" hideCaption columns=${columns} rows=${found.slice(0, MOST_ROWS)} total=${found.length} rowKey=${jobKey} empty=${all.length ? "No job matches." : "There is no elastic job in this pool."}/>
    ${(status.ineligible || []).length > 0 && html`<h3>Not scaled</h3><ul class="problems">${status.ineligible.slice(0, MOST_ROWS).map(j => html`<li key=${jobKey(j)}>
      <b>${jobName(j)}</b> ${j.off ? "switched off" : (j.problems || []).join(" ")}</li>`)}</ul>`}
  </section>`;
});

const none = [];

export const Overview = ({ store, pool, now }) => {
  const { status } = store;
  if (!pool) return html`<section class="card"><h1 tabindex="-1">No node pool</h1><p class="empty">No node of the cluster is known yet, or the pool does not exist.</p></section>`;
  return html`<div class="overview">
    <${Hanging} jobs=${status.jobs.filter(j => j.hangs > 0)}/>
    <${PoolHead} pool=${pool} pools=${status.pools} store=${store}/>
    <${Strip} timeline=${store.timeline} pool=${pool.name} span=${store.span} onSpan=${span => store.set({ span, timeline: null }, true)}/>
    <${Waiting} status=${status} pool=${pool} now=${now}/>
    <${Events} events=${store.timeline?.events || none}/>
    <${Queues} pool=${pool}/>
    <${Jobs} status=${status} pool=${pool} filter=${store.filter} onFilter=${store.onFilter}/>
  </div>`;
};

