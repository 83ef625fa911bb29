// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Colours of jobs, from Paul Tol's muted palette, which people with colour blindness can
// tell apart. style.css holds the values, one set for light and one for dark.
import { jobKey } from "./format.js";

export const COLOURS = 9;

const taken = new Map(); // colour by job

// assign gives each of the jobs a colour. A job keeps the colour that it had. Otherwise it gets
// a free one that depends on its name, so that it often has the same after a reload.
export function assign(jobs) {
  const keys = jobs.slice(0, COLOURS).map(jobKey);
  for (const key of taken.keys()) if (!keys.includes(key)) taken.delete(key);
  const used = new Set(taken.values());
  for (const key of keys) {
    if (taken.has(key)) continue;
    let c = hash(key) % COLOURS;
    while (used.has(c)) c = (c + 1) % COLOURS;
    used.add(c);
    taken.set(key, c);
  }
}

// colourOf returns the class of a job's colour. Jobs without a colour share a grey.
export function colourOf(job) {
  const c = taken.get(jobKey(job));
  return c === undefined ? "cx" : `c${c}`;
}

// valueOf returns the CSS value of a class of colour, for a canvas.
export const valueOf = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function hash(text) {
  let h = 0;
  for (let i = 0; i < text.length; i++) h = (31 * h + text.charCodeAt(i)) >>> 0;
  return h;
}
