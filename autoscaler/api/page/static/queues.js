// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// The queue tree of a divided pool.
import { html, memo } from "./html.js";
import { number, UNKNOWN } from "./format.js";
import { Bar, Table } from "./parts.js";

// tree returns the queues in the order of the tree, with their depths.
function tree(pool) {
  const rules = new Map((pool.queues || []).map(q => [q.name, q]));
  const rows = (pool.use || []).map(u => ({ ...u, rule: rules.get(u.queue) || {} })), out = [];
  const visit = (parent, depth) => {
    for (const r of rows.filter(r => (r.rule.parent || "") === parent)) {
      out.push({ ...r, depth });
      if (depth < 32) visit(r.queue, depth + 1);
    }
  };
  visit("", 0);
  return out;
}

const positive = n => n > 0 ? number(n) : UNKNOWN;

export const Queues = memo(({ pool }) => {
  const rows = tree(pool);
  if (rows.length < 2) return null; // all jobs are in no queue
  const divided = rows.some(r => r.entitled !== undefined);
  const columns = [
    { name: "Queue", cell: r => html`<span class="depth" style=${{ paddingLeft: `${1.1 * r.depth}em` }}>${r.queue === "*" ? "no queue" : r.queue}</span>` },
    { name: "", cell: r => html`<${Bar} part=${pool.capacity ? r.used / pool.capacity : 0} mark=${r.rule.guarantee > 0 && pool.capacity ? r.rule.guarantee / pool.capacity : undefined}/>` },
    { name: "Used", numeric: true, cell: r => number(r.used) },
    ...(divided ? [
      { name: "Entitled now", numeric: true, cell: r => number(r.entitled) },
      { name: "Guarantee", numeric: true, cell: r => positive(r.rule.guarantee) },
      { name: "Limit", numeric: true, cell: r => positive(r.rule.limit) },
      { name: "Borrowed", numeric: true, cell: r => number(r.borrowed || 0) },
      { name: "Lent", numeric: true, cell: r => number(r.lent || 0) },
    ] : []),
    ...(rows.some(r => r.budget) ? [{ name: "Budget, slot-hours", numeric: true, cell: r => r.budget ? `${number(r.budget.used, 1)} of ${number(r.budget.slot_hours)} per ${r.budget.per}` : UNKNOWN }] : []),
    { name: "Waiting", cell: r => r.waiting ? html`<b>${number(r.waiting)}</b> ${Object.entries(r.reasons || {}).map(([reason, n]) => `${reason}: ${number(n)}`).join(", ")}` : "0" },
  ];
  return html`<section class="card queues" aria-labelledby="queues-title"><h2 id="queues-title">Queues</h2>
    <${Table} caption="Slots by queue; the mark in a bar is the guarantee" hideCaption columns=${columns} rows=${rows} rowKey=${r => r.queue} empty=""/></section>`;
});
