// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Nodes by topology, with the job in each slot.
import { html } from "./html.js";
import { jobName, number, plural } from "./format.js";
import { colourOf } from "./colours.js";
import { Filter, matches } from "./parts.js";

// MOST_NODES and MOST_CELLS bound the elements of the view.
const MOST_NODES = 200, MOST_CELLS = 16;

const bad = n => n.state !== "ready" || n.sick > 0;

// cells returns what is in each slot of a node.
function cells(n) {
  const out = [];
  for (const h of n.held) {
    const colour = h.id ? (h.elastic ? colourOf(h) : "plain") : "hidden-job";
    for (let i = 0; i < h.slots && out.length < MOST_CELLS; i++) out.push(colour);
  }
  const held = n.held.reduce((sum, h) => sum + h.slots, 0);
  for (let i = 0; i < n.sick && out.length < MOST_CELLS; i++) out.push("sick");
  while (out.length < Math.min(n.slots, MOST_CELLS)) out.push("free");
  return { out, held, more: Math.max(0, n.slots - out.length) };
}

// holders returns the jobs of a node with their slots, as text.
function holders(n) {
  const sums = new Map();
  for (const h of n.held) {
    const name = h.id ? jobName(h) : "a job of others";
    sums.set(name, (sums.get(name) || 0) + h.slots);
  }
  return [...sums].map(([name, slots]) => `${name} ${slots}`);
}

const Node = ({ node: n }) => {
  const { out, held, more } = cells(n), jobs = holders(n);
  return html`<tr class=${bad(n) ? "bad" : ""}>
    <th scope="row">${n.name}</th>
    <td><span class="cells" aria-hidden="true" title=${jobs.join("\n")}>${out.map((c, i) => html`<i key=${i} class=${c}></i>`)}${more > 0 && html`<small>+${number(more)}</small>`}</span></td>
    <td class="n">${number(held)} of ${number(n.slots)}</td>
    <td class="why">${jobs.slice(0, 4).join(", ")}${jobs.length > 4 && `, ${number(jobs.length - 4)} more`}</td>
    <td>${bad(n) ? html`<span class="state bad">${[n.state !== "ready" && n.state, n.sick > 0 && plural(n.sick, "unhealthy slot")].filter(Boolean).join(", ")}</span> <small>${(n.problems || []).join("; ")}</small>` : html`<span class="state">ready</span>`}</td>
  </tr>`;
};

export const Nodes = ({ store }) => {
  const { nodes } = store;
  if (!nodes) return html`<section class="card" aria-busy="true"><h1 tabindex="-1">Nodes</h1><p class="empty">Loading …</p></section>`;
  const found = nodes.filter(n => (!store.onlyBad || bad(n)) && matches([n.name, n.pool, n.class, ...(n.path || []), ...holders(n)].join(" "), store.nodeFilter));
  const groups = new Map();
  for (const n of found.slice(0, MOST_NODES)) {
    const path = [n.pool, ...(n.path || []).slice(0, -1).map(part => part || "no value")].join(" / ");
    if (!groups.has(path)) groups.set(path, []);
    groups.get(path).push(n);
  }
  const hidden = found.length - Math.min(found.length, MOST_NODES);
  return html`<section class="card nodes" aria-labelledby="nodes-title">
    <header><h1 id="nodes-title" tabindex="-1">Nodes <span class="count">${number(nodes.length)}</span></h1>
      <label class="check"><input type="checkbox" checked=${store.onlyBad} onChange=${e => store.set({ onlyBad: e.target.checked })}/> only with problems (${number(nodes.filter(bad).length)})</label>
      <${Filter} label="Filter nodes" value=${store.nodeFilter} onInput=${text => store.set({ nodeFilter: text })}/></header>
    <p class="key" aria-hidden="true"><i class="c0"></i><i class="c1"></i><i class="c2"></i> elastic job <i class="plain"></i> other job <i class="free"></i> free <i class="sick"></i> unhealthy</p>
    <div class="scroll" role="region" aria-label="Nodes by topology" tabindex="0">${[...groups].map(([path, list]) => html`<table key=${path}>
      <caption>${path} <span class="count">${plural(list.length, "node")}</span></caption>
      <thead><tr><th scope="col">Node</th><th scope="col">Slots</th><th scope="col" class="n">Held</th><th scope="col">Jobs</th><th scope="col">State</th></tr></thead>
      <tbody>${list.map(n => html`<${Node} key=${n.id} node=${n}/>`)}</tbody></table>`)}</div>
    ${found.length === 0 && html`<p class="empty">No node matches.</p>`}
    ${hidden > 0 && html`<p class="hidden-rows">${number(hidden)} more nodes are not shown; use the filter.</p>`}
  </section>`;
};
