// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Nodes by topology, with the job in each slot.
import { html } from "./html.js";
import { jobKey, jobName, number, plural } from "./format.js";
import { colourOf } from "./colours.js";
import { Filter, Job, matches, unused } from "./parts.js";

// MOST_NODES and MOST_CELLS bound the elements of the view.
const MOST_NODES = 200, MOST_CELLS = 16;

const bad = n => n.state !== "ready" || n.sick > 0;

// cells returns what is in each slot of a node.
function cells(n, quiet) {
  const out = [];
  for (const h of n.held) {
    const colour = h.id ? (h.elastic ? `${colourOf(h)}${quiet.has(jobKey(h)) ? " unused" : ""}` : "plain") : "hidden-job";
    for (let i = 0; i < h.slots && out.length < MOST_CELLS; i++) out.push(colour);
  }
  const held = n.held.reduce((sum, h) => sum + h.slots, 0);
  for (let i = 0; i < n.sick && out.length < MOST_CELLS; i++) out.push("sick");
  while (out.length < Math.min(n.slots, MOST_CELLS)) out.push("free");
  return { out, held, more: Math.max(0, n.slots - out.length) };
}

// holders returns the jobs of a node with their slots.
function holders(n) {
  const sums = new Map();
  for (const h of n.held) {
    const name = h.id ? jobName(h) : "a job of others";
    sums.set(name, { name, job: h, slots: (sums.get(name)?.slots || 0) + h.slots });
  }
  return [...sums.values()];
}

const holderText = h => `${h.name} ${h.slots}`;

// idlers returns the holders of a node that do not use their slots.
const idlers = (n, quiet) => holders(n).filter(h => h.job.id && quiet.has(jobKey(h.job)));

const Node = ({ node: n, quiet }) => {
  const { out, held, more } = cells(n, quiet), jobs = holders(n), idle = idlers(n, quiet), faulty = bad(n);
  return html`<tr class=${faulty || idle.length ? "bad" : ""}>
    <th scope="row">${n.name}</th>
    <td><span class="cells" aria-hidden="true" title=${jobs.map(holderText).join("\n")}>${out.map((c, i) => html`<i key=${i} class=${c}></i>`)}${more > 0 && html`<small>+${number(more)}</small>`}</span></td>
    <td class="n">${number(held)} of ${number(n.slots)}</td>
    <td class="why">${jobs.slice(0, 4).map((h, i) => html`<span key=${h.name}>${i > 0 && ", "}${h.job.elastic && h.job.id ? html`<${Job} job=${h.job}/>` : h.name} ${h.slots}</span>`)}${jobs.length > 4 && `, ${number(jobs.length - 4)} more`}</td>
    <td>${idle.map(h => html`<span key=${h.name} class="state bad">${plural(h.slots, "slot")} unused: ${h.name} ${quiet.get(jobKey(h.job)).hangs > 0 ? "hangs" : "is idle"} </span>`)}
      ${faulty && html`<span class="state bad">${[n.state !== "ready" && n.state, n.sick > 0 && plural(n.sick, "unhealthy slot")].filter(Boolean).join(", ")}</span> <small>${(n.problems || []).join("; ")}</small>`}
      ${!faulty && idle.length === 0 && html`<span class="state">ready</span>`}</td>
  </tr>`;
};

export const Nodes = ({ store }) => {
  const { nodes } = store, quiet = unused(store.status), troubled = n => bad(n) || idlers(n, quiet).length > 0;
  if (!nodes) return html`<section class="card" aria-busy="true"><h1 tabindex="-1">Nodes</h1><p class="empty">Loading …</p></section>`;
  const found = nodes.filter(n => (!store.onlyBad || troubled(n)) && matches([n.name, n.pool, n.class, ...(n.path || []), ...holders(n).map(holderText)].join(" "), store.nodeFilter));
  const groups = new Map();
  for (const n of found.slice(0, MOST_NODES)) {
    const path = [n.pool, ...(n.path || []).slice(0, -1).map(part => part || "no value")].join(" / ");
    if (!groups.has(path)) groups.set(path, []);
    groups.get(path).push(n);
  }
  const colours = [...new Set(found.slice(0, MOST_NODES).flatMap(n => n.held.filter(h => h.elastic && h.id).map(colourOf)))].slice(0, 3);
  const hidden = found.length - Math.min(found.length, MOST_NODES);
  return html`<section class="card nodes" aria-labelledby="nodes-title">
    <header><h1 id="nodes-title" tabindex="-1">Nodes <span class="count">${number(nodes.length)}</span></h1>
      <label class="check"><input type="checkbox" checked=${store.onlyBad} onChange=${e => store.set({ onlyBad: e.target.checked })}/> only with problems (${number(nodes.filter(troubled).length)})</label>
      <${Filter} label="Filter nodes" value=${store.nodeFilter} onInput=${text => store.set({ nodeFilter: text })}/></header>
    <p class="key" aria-hidden="true">${colours.map(c => html`<i key=${c} class=${c}></i>`)} elastic jobs, a colour each <i class="plain"></i> other job <i class="free"></i> free <i class="sick"></i> unhealthy <i class="cx unused"></i> held, but unused: the job hangs or is idle</p>
    <div class="scroll" role="region" aria-label="Nodes by topology" tabindex="0">${[...groups].map(([path, list]) => html`<table key=${path}>
      <caption>${path} <span class="count">${plural(list.length, "node")}</span></caption>
      <thead><tr><th scope="col">Node</th><th scope="col">Slots</th><th scope="col" class="n">Held</th><th scope="col">Jobs</th><th scope="col">State</th></tr></thead>
      <tbody>${list.map(n => html`<${Node} key=${n.id} node=${n} quiet=${quiet}/>`)}</tbody></table>`)}</div>
    ${found.length === 0 && html`<p class="empty">No node matches.</p>`}
    ${hidden > 0 && html`<p class="hidden-rows">${number(hidden)} more nodes are not shown; use the filter.</p>`}
  </section>`;
};
