// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Small parts that several views use.
import { html } from "./html.js";
import { clock, jobHref, jobKey, jobName, number, UNKNOWN } from "./format.js";
import { colourOf } from "./colours.js";

// MOST_ROWS bounds the rows of a table, so that a cluster with thousands of jobs stays fast.
// A line below the table states how many rows are hidden.
export const MOST_ROWS = 100;

export const Job = ({ job, swatch }) => html`<a class="job" href=${jobHref(job)} title=${jobName(job)}>
  ${swatch && html`<i class="swatch ${colourOf(job)}" aria-hidden="true"></i>`}${jobName(job)}</a>`;

// Bar shows a part of a whole. The text next to it says the same.
export const Bar = ({ part, mark, tone = "" }) => {
  const width = n => `${Math.max(0, Math.min(100, 100 * (n || 0)))}%`;
  return html`<span class="bar ${tone}" aria-hidden="true"><i style=${{ width: width(part) }}></i>
    ${mark !== undefined && html`<b style=${{ left: width(mark) }}></b>`}</span>`;
};

export const Time = ({ at, precise }) => at
  ? html`<time datetime=${at.toISOString()} title=${at.toISOString()}>${clock(at, precise)}</time>`
  : UNKNOWN;

// Table shows rows with a caption. A column has a name, a cell, and whether it is a number.
export const Table = ({ caption, columns, rows, rowKey, empty, total, hideCaption, className = "" }) => {
  const hidden = (total ?? rows.length) - Math.min(rows.length, MOST_ROWS);
  if (rows.length === 0) return html`${!hideCaption && html`<h3>${caption}</h3>`}<p class="empty">${empty}</p>`;
  return html`<div class="scroll" role="region" aria-label=${caption} tabindex="0"><table class=${className}>
    <caption class=${hideCaption ? "quiet" : ""}>${caption}</caption>
    <thead><tr>${columns.map(c => html`<th scope="col" class="${c.numeric ? "n" : ""} ${c.className || ""}" key=${c.name}>${c.name}</th>`)}</tr></thead>
    <tbody>${rows.slice(0, MOST_ROWS).map(r => html`<tr key=${rowKey(r)}>${columns.map((c, i) => i === 0
      ? html`<th scope="row" class=${c.numeric ? "n" : ""} key=${c.name}>${c.cell(r)}</th>`
      : html`<td class="${c.numeric ? "n" : ""} ${c.className || ""}" key=${c.name}>${c.cell(r)}</td>`)}</tr>`)}</tbody>
  </table>
  ${hidden > 0 && html`<p class="hidden-rows">${number(hidden)} more are not shown; use the filter.</p>`}</div>`;
};

export const Filter = ({ label, value, onInput }) => html`<label class="filter"><span>${label}</span>
  <input type="search" value=${value} onInput=${e => onInput(e.target.value)} autocomplete="off" spellcheck=${false}/></label>`;

export const matches = (text, filter) => text.toLowerCase().includes(filter.trim().toLowerCase());

export const STATES = new Map([
  ["running", "Running"], ["waiting", "Waiting"], ["suspended", "Suspended"], ["complete", "Complete"], ["held", "Held"],
]);

// unused returns the jobs that hold slots and do not use them, by key.
export const unused = status => new Map(status.jobs.filter(j => j.running > 0 && (j.hangs > 0 || j.idle > 0)).map(j => [jobKey(j), j]));

// slotsOf returns the number of slots that a job holds.
export const slotsOf = j => j.running * (j.requests?.slots || 1);

// Linked shows a sentence of the autoscaler. The names of jobs in it are links.
export const byName = jobs => new Map(jobs.map(j => [jobName(j), j]));
export const Linked = ({ text, names, except }) => text.split(/([\s,;:()]+)/).map(word => names.has(word) && word !== except ? html`<${Job} job=${names.get(word)}/>` : word);

export const State = ({ job }) => job.hangs > 0 ? html`<span class="state bad">Hangs</span>` : html`<span class="state ${STATES.has(job.state) ? job.state : ""}">${STATES.get(job.state) || job.state}</span>`;

// expectedStart states when a waiting job starts.
export function expectedStart(w) {
  const e = w.expected_start, earliest = e && e.earliest && new Date(e.earliest), latest = e && e.latest && new Date(e.latest);
  if (!earliest) return { text: "unknown", why: e && e.unknown };
  if (!latest) return { text: `not before ${clock(earliest)}`, why: e.unknown };
  const from = clock(earliest), to = clock(latest);
  return { text: from === to ? from : `${from} – ${to}` };
}
