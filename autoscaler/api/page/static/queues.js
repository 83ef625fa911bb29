// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// The queue tree of a divided pool.
import { html, memo } from "./html.js";
import { number, UNKNOWN } from "./format.js";
import { Bar, Table } from "./parts.js";

// tree returns the queues in the order of the tree, with their depths.
function tree(pool) {
  const rules = new Map((pool.queues || []).map(q => [q.name, q]));
  const rows = (pool.use || []).map(u => ({ ...u, rule: rules.get(u.queue) || {} })), out = [], seen = new Set();
  const visit = (parent, depth) => {
    for (const r of rows.filter(r => (r.rule.parent || "") === parent)) {
      if (seen.has(r)) continue;
      seen.add(r);
      out.push({ ...r, depth });
      if (depth < 32) visit(r.queue, depth + 1);
    }
  };
  visit("", 0);
  return out;
}

// balance states how the slots of a queue compare with its guarantee and with the slots that it is entitled to.
function balance(r) {
  const parts = [];
  if (r.borrowed > 0) parts.push(`${number(r.borrowed)} over its guarantee`);
  if (r.used > r.entitled) parts.push(`${number(r.used - r.entitled)} more than the ${number(r.entitled)} that it is entitled to`);
  if (r.used < r.entitled && r.waiting > 0) parts.push(`${number(r.entitled - r.used)} below the ${number(r.entitled)} that it is entitled to`);
  if (r.lent > 0) parts.push(`lends ${number(r.lent)} of its guarantee`);
  return parts.join("; ") || "even";
}

const REASONS = new Map([["in-queue", "behind another job"], ["over-limit", "over the limit"], ["no-room", "without room"]]);
const reasonText = reason => REASONS.get(reason) || reason.replaceAll("-", " ");

// waitingText counts the waiting jobs of a queue, by reason if the autoscaler states them.
const waitingText = r => Object.entries(r.reasons || {}).map(([reason, n]) => `${number(n)} ${reasonText(reason)}`).join(", ") || number(r.waiting);

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
      { name: "Balance, slots", className: "why", cell: balance },
      { name: "Entitled now", numeric: true, cell: r => number(r.entitled) },
      { name: "Guarantee", numeric: true, cell: r => positive(r.rule.guarantee) },
      { name: "Limit", numeric: true, cell: r => positive(r.rule.limit) },
    ] : []),
    ...(rows.some(r => r.budget) ? [{ name: "Budget, slot-hours", numeric: true, cell: r => r.budget ? `${number(r.budget.used, 1)} of ${number(r.budget.slot_hours)} per ${r.budget.per}` : UNKNOWN }] : []),
    { name: "Waiting", cell: r => waitingText(r) },
  ];
  return html`<section class="card queues" aria-labelledby="queues-title"><h2 id="queues-title">Queues</h2>
    <${Table} caption="Slots by queue; the mark in a bar is the guarantee" hideCaption columns=${columns} rows=${rows} rowKey=${r => r.queue} empty=""/>
    ${divided && html`<p class="hint">A bar shows the used part of the pool, and its mark the guarantee. A queue is entitled to the slots that its jobs may hold now: its guarantee, and its part of the slots that other queues do not need.</p>`}</section>`;
});
