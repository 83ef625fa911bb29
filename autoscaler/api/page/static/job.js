// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// One job: what it does now, how it went, what resizes cost, and where it runs.
import { html } from "./html.js";
import { ago, jobName, number, parse, percent, plural, seconds, shell, short, UNKNOWN } from "./format.js";
import { Bar, Linked, State, Table, Time, byName, expectedStart } from "./parts.js";
import { Chart } from "./chart.js";

// A shaded stall in the charts is at least a minute and ten times the usual step time, like the
// autoscaler's hangs.
const HUNG_STEPS = 10, HUNG_SECONDS = 60;

// rates returns the step time and samples per second between reports. Reports without a new
// step add to the next one that has one.
export function rates(s) {
  const step = s.time.map(() => null), samples = s.time.map(() => null), stalls = [];
  let last = 0, usual = 0;
  for (let i = 1; i < s.time.length; i++) {
    const made = s.step[i] - s.step[last], took = s.time[i] - s.time[last];
    if (made < 0 || s.size[last] === 0) { last = i; continue; } // it went back to a checkpoint, or has just started
    if (made === 0) continue;
    step[i] = took / made;
    if (s.samples) samples[i] = Math.max(0, (s.samples[i] - s.samples[last]) / took);
    if (usual > 0 && step[i] > HUNG_STEPS * usual && took > HUNG_SECONDS) stalls.push([s.time[last], s.time[i]]);
    else usual = usual === 0 ? step[i] : 0.8 * usual + 0.2 * step[i];
    last = i;
  }
  const end = s.time.length - 1;
  if (end > last && s.time[end] - s.time[last] > Math.max(HUNG_SECONDS, HUNG_STEPS * usual)) stalls.push([s.time[last], s.time[end]]);
  return { step, samples, stalls, usual };
}

const Facts = ({ items }) => html`<dl class="facts">${items.filter(Boolean).map(([name, value, note]) => html`<div key=${name}><dt>${name}</dt><dd>${value}${note && html` <small>${note}</small>`}</dd></div>`)}</dl>`;

const stacksCommand = j => `kolo stacks ${shell(jobName(j))}`;

// slowest describes the rank that makes the others wait.
const slowest = s => html`rank ${number(s.rank)} on node ${s.node} comes last in ${percent(s.share)} of steps, ${seconds(s.behind_seconds)} after the median of the others`;

const showLogs = () => {
  const title = document.getElementById("allocs-title");
  title.scrollIntoView();
  title.focus({ preventScroll: true });
};

// Answers states what a viewer most often asks about this job, each in one line.
const Answers = ({ detail, series, now, jobs, copy }) => {
  const j = detail.job, t = detail.training, quiet = j.hangs || 0, silent = t && j.running > 0 ? (now - parse(t.heard)) / 1000 : 0;
  const last = series?.resizes.at(-1), lines = [];
  if (j.waits) {
    const e = expectedStart(j.waits);
    lines.push(["waits", html`<b>Waits</b> for ${plural(j.waits.slots, "slot")}${j.waits.position ? html`, number ${number(j.waits.position)} in ${j.waits.queue === "*" ? "the pool" : `queue ${j.waits.queue}`}` : ""}: <${Linked} text=${j.waits.sentence || j.waits.reason} names=${byName(jobs)} except=${jobName(j)}/>`]);
    lines.push(["start", html`<b>Expected start</b> ${e.text}${e.why && ` (${e.why})`}`]);
  }
  if (quiet) lines.push(["bad", html`<b>Hangs:</b> no step for ${seconds(quiet)}, although its ${plural(j.size || j.running, "rank")} still run${(j.size || j.running) === 1 ? "s" : ""}. Often one rank makes the others wait. <code>${stacksCommand(j)}</code> shows which. <button class="copy" onClick=${() => copy(stacksCommand(j))}>Copy command</button> <button class="copy" onClick=${showLogs}>Logs of its ranks</button>`]);
  if (j.straggler) lines.push(["bad", html`<b>Straggler:</b> ${slowest(j.straggler)}, since <${Time} at=${parse(j.straggler.since)} precise/>.`]);
  if (j.idle > 0 && !quiet) lines.push(["bad", html`<b>Idle:</b> ${j.idle_by === "gpus" ? "holds GPUs and did not use them" : "holds slots and made no step"} for ${seconds(j.idle)}.`]);
  if (!quiet && silent > HUNG_SECONDS) lines.push(["bad", html`<b>Silent:</b> its training has not answered for ${seconds(silent)}.`]);
  if (t?.hold) lines.push(["held", html`<b>Ring held:</b> ${t.hold}`]);
  if (j.hold_reason) lines.push(["held", html`<b>Not resized:</b> ${j.hold_reason}${parse(j.hold_until) && html`, until <${Time} at=${parse(j.hold_until)} precise/>`}`]);
  const change = detail.history?.[0];
  if (change?.message) lines.push(["change", html`<b>Last change</b> ${number(change.from)} → ${number(change.to)} workers at <${Time} at=${parse(change.time)} precise/>: ${change.message}`]);
  if (last) lines.push(["cost", html`<b>Last ${last.cause === "failure" ? "failure" : "resize"}</b> ${number(last.from)} → ${number(last.to)} at <${Time} at=${parse(last.time)} precise/> cost ${last.seconds === undefined ? "an unknown time" : seconds(last.seconds)} without training and ${last.lost === undefined ? "an unknown number of steps" : `${plural(last.lost, "step")} made again`}.`]);
  if (j.write_error) lines.push(["bad", html`<b>Last change failed:</b> ${j.write_error}`]);
  return lines.length > 0 && html`<ul class="answers" role="list">${lines.map(([kind, text]) => html`<li key=${kind} class=${kind}>${text}</li>`)}</ul>`;
};

const PARTS = [["productive", "Productive"], ["starting", "Starting"], ["resizing", "Resizing, all so far"], ["lost", "Lost steps"], ["spare", "Spare"], ["idle", "Idle"], ["unknown", "Unknown"]];

const Usage = ({ usage: u, leading }) => !u ? html`<p class="empty">${leading ? "Nothing is known yet." : "Only the leader knows this."}</p>` : html`<div class="usage">
  <span class="stack" aria-hidden="true">${PARTS.map(([key]) => html`<i key=${key} class="use-${key}" style=${{ flexGrow: Math.max(0, u[key] || 0) }}></i>`)}</span>
  <table><caption class="hint">Times are added up over its slots: 8 slots for 1 h are 8 h.</caption><tbody>${PARTS.filter(([key]) => u[key] > 0).map(([key, name]) => html`<tr key=${key}><th scope="row"><i class="swatch use-${key}" aria-hidden="true"></i>${name}</th>
    <td class="n">${seconds(u[key])}</td><td class="n">${percent(u.held > 0 ? u[key] / u.held : undefined)}</td></tr>`)}
    <tr class="sum"><th scope="row">Waited</th><td class="n">${seconds(u.waiting)}</td><td></td></tr></tbody></table></div>`;

const Charts = ({ series: s, job: j }) => {
  if (!s || s.time.length < 2) return html`<section class="card"><h2>Training over time</h2><p class="empty">No report of its training yet.</p></section>`;
  const failures = s.resizes.filter(m => m.cause === "failure");
  const r = rates(s), marks = s.resizes.map(m => ({ at: Date.parse(m.time) / 1000, failure: m.cause === "failure" }));
  const known = list => list.filter(v => v !== null && v !== undefined).at(-1), common = { marks, stalls: r.stalls };
  return html`<section class="card" aria-labelledby="charts-title"><h2 id="charts-title">Training over time</h2>
    <div class="charts">
      <${Chart} key="size" ...${common} title="Slots" summary=${plural(s.size.at(-1), "slot")} data=${[s.time, s.size]} lines=${[{ colour: "c0", stepped: true }]}/>
      <${Chart} key="step" ...${common} title="Step time" format=${seconds} summary=${seconds(known(r.step))} data=${[s.time, r.step]} lines=${[{ colour: "c1" }]}/>
      ${s.samples && html`<${Chart} key="samples" ...${common} title="Samples per second" summary=${short(known(r.samples))} data=${[s.time, r.samples]} lines=${[{ colour: "c3" }]}/>`}
      ${s.loss && html`<${Chart} key="loss" ...${common} title="Loss" summary=${short(known(s.loss))} data=${[s.time, s.loss]} lines=${[{ colour: "c6" }]}/>`}
      ${!s.samples && !s.loss && html`<p class="empty">Its script reports neither samples nor loss.</p>`}
    </div>
    <p class="hint">Lines mark resizes${failures.length ? html`; dashed: a process failed and the ring formed again, last at <${Time} at=${parse(failures.at(-1).time)} precise/>` : ""}${r.stalls.length ? "; shaded: no step was made" : ""}.</p>
  </section>`;
};

const Curve = ({ points, job: j }) => {
  if (!points?.length) return html`<p class="empty">No step time is measured yet.</p>`;
  const sizes = points.map(p => p.size), measured = points.map(p => p.measured ? p.step_time : null), believed = points.map(p => p.step_time);
  const next = j.want !== j.running && j.state !== "complete" ? html` Next: ${number(j.want)} workers, because it ${j.reason || "is the policy’s choice"}.` : "";
  return html`<${Chart} key=${sizes.join()} title="Step time by number of workers" format=${seconds} time=${false} xName="workers" summary="dots: measured, dashes: expected" label=${`Step time by workers: ${points.map(p => `${p.size} workers ${seconds(p.step_time)}${p.measured ? "" : " expected"}`).join(", ")}`}
    data=${[sizes, believed, measured]} lines=${[{ name: "expected", colour: "ink-soft", dash: [4, 4] }, { name: "measured", colour: "c0", points: true }]}/>
    <p class="hint">${plural(points.filter(p => p.measured).length, "size")} measured.${next}</p>`;
};

const Resizes = ({ series, history }) => {
  const rings = [...(series?.resizes || [])].reverse();
  return html`<section class="card" aria-labelledby="resizes-title"><h2 id="resizes-title">What changed its size</h2>
    <${Table} caption="Changes of its size, newest first" hideCaption rows=${history} rowKey=${c => `${c.time} ${c.group} ${c.to}`} empty="Never resized."
      columns=${[
        { name: "When", cell: c => html`<${Time} at=${parse(c.time)} precise/>` },
        { name: "Workers", numeric: true, cell: c => `${number(c.from)} → ${number(c.to)}` },
        { name: "By", cell: c => c.kolo ? "Kolo" : "hand" },
        { name: "Why", className: "why", cell: c => html`<span class=${c.error ? "bad" : ""}>${c.message}</span>` },
      ]}/>
    ${rings.length > 0 && html`<h3>What that cost</h3><${Table} caption="Changes of the ring, newest first" hideCaption rows=${rings} rowKey=${m => `${m.time} ${m.to}`} empty=""
      columns=${[
        { name: "When", cell: m => html`<${Time} at=${parse(m.time)} precise/>` },
        { name: "Slots", numeric: true, cell: m => `${number(m.from)} → ${number(m.to)}` },
        { name: "Cause", cell: m => html`<span class=${m.cause === "failure" ? "bad" : ""}>${m.cause}</span>` },
        { name: "Without training", numeric: true, cell: m => seconds(m.seconds) },
        { name: "Steps made again", numeric: true, cell: m => m.lost === undefined ? UNKNOWN : number(m.lost) },
      ]}/>`}</section>`;
};

const Allocations = ({ list, job: j, copy }) => html`<section class="card" aria-labelledby="allocs-title"><h2 id="allocs-title" tabindex="-1">Where it runs <span class="count">${number(list.length)}</span></h2>
  <${Table} caption="Allocations that hold slots" hideCaption rows=${list} rowKey=${a => a.id} empty="It has no allocation."
    columns=${[
      { name: "Ranks", cell: a => a.ranks?.length ? (a.ranks.length > 12 ? `${a.ranks[0]} … ${a.ranks.at(-1)}` : a.ranks.join(", ")) : UNKNOWN },
      { name: "Node", cell: a => a.node },
      { name: "Group", cell: a => a.group },
      { name: "Slots", numeric: true, cell: a => number(a.slots) },
      { name: "Devices", className: "why", cell: a => (a.devices || []).map(d => html`<code key=${d} class=${a.sick?.includes(d) ? "bad" : ""} title=${d}>${d.length > 14 ? `${d.slice(0, 12)}…` : d}${a.sick?.includes(d) ? " unhealthy" : ""}</code> `) },
      { name: "Since", cell: a => html`<${Time} at=${parse(a.created)}/>${a.ending ? " (is stopping)" : ""}` },
      { name: "Log", cell: a => { const command = `nomad alloc logs -f -namespace ${shell(j.namespace)} ${shell(a.id)}`;
        return html`<button class="copy" title=${command} aria-label=${`Copy command for the log of allocation ${a.id.slice(0, 8)}`} onClick=${() => copy(command)}>Copy command</button>`; } },
    ]}/></section>`;

// doing describes a process of a stall: its state, and the system call in which it was.
const doing = p => {
  const call = p.syscall ? ` in ${p.syscall}` : p.wchan ? ` in the kernel’s ${p.wchan}` : "";
  return new Map([["stopped", "stopped by a signal (SIGSTOP)"], ["traced", "stopped by a debugger"], ["uninterruptible", `in a sleep that no signal ends${call}`], ["sleeping", `sleeping${call}`]]).get(p.state) || p.state;
};

// stackText returns the stack of a process, one call per line.
const stackText = (p, indent) => {
  const main = p.threads?.find(t => t.main);
  if (!main) return `${indent}stack unknown: ${p.missing || "the process ran no Python code"}`;
  const calls = (main.frames || []).map(f => `${indent}${f.function}  ${f.file || ""}:${f.line || 0}`);
  if (main.cut) calls.push(`${indent}…`);
  return calls.join("\n") || `${indent}in no Python function`;
};

const groupText = g => [stackText(g, ""), ...(g.workers || []).map(w => `  child process ${w.pid} ${w.command || ""}: ${doing(w)}\n${stackText(w, "    ")}`)].join("\n");

// Stall shows the last stall, and what the ranks did before the ring was broken.
const Stall = ({ stall: s }) => html`<section class="card" aria-labelledby="stall-title"><h2 id="stall-title">Last stall</h2>
  <p>${parse(s.time) ? html`<${Time} at=${parse(s.time)} precise/>: its` : "Its"} ring of ${plural(s.size, "slot")} made no step for ${seconds(s.seconds)}.${s.stacks ? " This is where its ranks were before the ring was broken:" : ""}</p>
  ${(s.stacks?.groups || []).map(g => html`<details key=${g.ranks} open=${!!g.suspect}><summary>${g.count === 1 ? "Rank" : `${number(g.count)} ranks:`} ${g.ranks}${g.suspect ? html` <b class="bad">suspect</b>` : ""}: ${doing(g)}</summary>
    <pre role="region" tabindex="0" aria-label=${`Stack of ${g.count === 1 ? "rank" : "ranks"} ${g.ranks}`}>${groupText(g)}</pre></details>`)}
  ${s.stacks?.dropped > 0 && html`<p class="hint">${number(s.stacks.dropped)} more groups are not shown.</p>`}
  ${s.stacks?.silent && html`<p class="hint">Agents that did not answer have the ranks ${s.stacks.silent}.</p>`}</section>`;

export const JobView = ({ store, actions, now }) => {
  const { detail, series, detailError, route } = store, name = jobName(route);
  if (detailError) return html`<section class="card"><h1 tabindex="-1">${name}</h1><p class="problem" role="alert">${detailError}</p></section>`;
  if (!detail) return html`<section class="card" aria-busy="true"><h1 tabindex="-1">${name}</h1><p class="empty">Loading …</p></section>`;
  const j = detail.job;
  if (!j) return html`<section class="card"><h1 tabindex="-1">${name}</h1><p>Kolo does not scale this job${detail.ineligible?.off ? ": scaling is switched off." : " because of errors:"}</p>
    <ul class="problems">${(detail.ineligible?.problems || []).map(p => html`<li key=${p}>${p}</li>`)}</ul></section>`;
  const paused = j.hold_reason === "paused by a user", t = detail.training;
  return html`<div class="job-view">
    <section class="card" aria-labelledby="job-title">
      <header><h1 id="job-title" tabindex="-1">${name}</h1> <${State} job=${j}/>
        ${!store.replay && (paused || j.min !== j.max) && html`<button onClick=${() => actions.pause(j, !paused)}>${paused ? "Resume" : "Pause"} scaling</button>`}</header>
      <${Answers} detail=${detail} series=${series} now=${now} jobs=${store.status.jobs} copy=${actions.copy}/>
      <${Facts} items=${[
        ["Workers", html`<b>${number(j.running)}</b> of ${number(j.min)} – ${number(j.max)}`, j.want !== j.running && j.state !== "complete" ? `wants ${number(j.want)}` : ""],
        ["Progress", j.state === "complete" ? "complete" : j.total > 0 ? html`<${Bar} part=${j.progress || 0}/> ${percent(j.progress || 0)}` : j.step > 0 ? `step ${number(j.step)}` : UNKNOWN, j.total > 0 && j.state !== "complete" ? `${number(j.step || 0)} of ${number(j.total)} steps` : ""],
        ["Loss", short(j.loss)],
        j.state === "complete" ? ["Completed", html`<${Time} at=${parse(j.completed)}/>`] : ["Ends", html`<${Time} at=${j.hangs > 0 ? null : parse(j.eta)}/>`],
        ["Productive", percent(j.usage?.productive_share)],
        ["Last step", t ? ago(parse(t.stepped), now) : UNKNOWN],
        ["Pool, queue", `${j.pool}, ${j.queue || "none"}`],
        j.adaptive && ["Batch", `${number(j.adaptive.batch)} samples`, `${number(j.adaptive.accumulation)} ${j.adaptive.accumulation === 1 ? "pass" : "passes"}, efficiency ${percent(j.adaptive.efficiency)}, learning rate × ${short(j.adaptive.lr_factor)}${j.adaptive.kept ? ", kept by its pool" : ""}`],
        j.spread?.level && ["Crosses", `${number(j.spread.domains)} × ${j.spread.level}`],
      ]}/>
      ${j.reason && !j.waits && html`<p class="reason"><b>Why this size:</b> ${j.reason}</p>`}
      ${(j.notes || []).map(n => html`<p class="hint" key=${n}>${n}</p>`)}
    </section>
    ${t?.stall && html`<${Stall} stall=${t.stall}/>`}
    ${(!j.waits || series?.time.length > 1) && html`<${Charts} series=${series} job=${j}/>`}
    ${(!j.waits || j.usage?.held > 0 || detail.curve?.length > 0) && html`<div class="pair"><section class="card" aria-labelledby="usage-title"><h2 id="usage-title">Where the time of its slots went</h2><${Usage} usage=${j.usage} leading=${store.status.leading}/></section>
      <section class="card" aria-labelledby="curve-title"><h2 id="curve-title">How it scales</h2><${Curve} points=${detail.curve} job=${j}/></section></div>`}
    ${(!j.waits || detail.history?.length > 0) && html`<${Resizes} series=${series} history=${detail.history || []}/>`}
    ${(!j.waits || detail.allocations?.length > 0) && html`<${Allocations} list=${detail.allocations || []} job=${j} copy=${actions.copy}/>`}
  </div>`;
};

