// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Numbers, times and names as people read them. A number that is not known is shown as
// UNKNOWN and never as 0.

export const UNKNOWN = "–";

const known = n => typeof n === "number" && Number.isFinite(n);

// Formatters are kept: making one takes longer than the rest of a row of a table.
const decimals = [0, 1, 2].map(digits => new Intl.NumberFormat("en", { maximumFractionDigits: digits }));
const significant = [3, 4].map(digits => new Intl.NumberFormat("en", { maximumSignificantDigits: digits }));

// number returns a number with at most `digits` (0 to 2) digits after the point.
export function number(n, digits = 0) {
  return known(n) ? decimals[digits].format(n) : UNKNOWN;
}

// short returns a number with three significant digits, or four from 1,000 on.
export function short(n) {
  if (!known(n)) return UNKNOWN;
  if (n !== 0 && (Math.abs(n) < 0.001 || Math.abs(n) >= 1e7)) return n.toExponential(2);
  return significant[Math.abs(n) >= 1000 ? 1 : 0].format(n);
}

export function percent(share) {
  if (!known(share)) return UNKNOWN;
  const p = 100 * share;
  return `${p > 0 && p < 10 ? p.toFixed(1) : Math.floor(p)} %`; // 99.9 % is not 100 %
}

// seconds returns a duration with one or two units.
export function seconds(s) {
  if (!known(s)) return UNKNOWN;
  if (s < 0) s = 0;
  if (s === 0) return "0 s";
  if (s < 1) return `${Math.round(1000 * s)} ms`;
  if (s < 10) return `${Number.isInteger(s) ? s : s.toFixed(1)} s`;
  const whole = Math.round(s);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return units(whole, 60, "min", 1, "s", 10 * 60);
  if (whole < 48 * 3600) return units(whole, 3600, "h", 60, "min", 24 * 3600);
  return units(whole, 86400, "d", 3600, "h", 10 * 86400);
}

function units(s, big, bigName, small, smallName, without) {
  const n = Math.floor(s / big), rest = Math.floor((s % big) / small);
  return s >= without || rest === 0 ? `${n} ${bigName}` : `${n} ${bigName} ${rest} ${smallName}`;
}

// parse returns the Date of a time of the API, or null. Go writes a zero time as year 1.
export function parse(text) {
  if (!text || text.startsWith("0001-")) return null;
  const d = new Date(text);
  return Number.isNaN(d.getTime()) ? null : d;
}

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const secondFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

// today is the day whose times need no date. In a replay, that is the recorded one.
let today = () => new Date();
export const setToday = d => { today = () => d; };

// clock returns the time of day in the viewer's time zone, with the date unless it is today.
export function clock(d, precise = false) {
  if (!d) return UNKNOWN;
  return today().toDateString() === d.toDateString() ? (precise ? secondFormat : clockFormat).format(d) : dayFormat.format(d);
}

// zone names the viewer's time zone.
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";

// since returns the time from d to now in whole seconds, since both come from polls.
export const since = (d, now) => d ? seconds(Math.max(0, Math.floor((now - d) / 1000))) : UNKNOWN;

// ago returns how long ago a time was.
export const ago = (d, now) => d ? `${since(d, now)} ago` : UNKNOWN;

// jobName returns the name of a job, with its namespace unless that is "default".
export function jobName(j) {
  if (!j || !j.id) return "other jobs";
  return !j.namespace || j.namespace === "default" ? j.id : `${j.namespace}/${j.id}`;
}

// jobKey identifies a job in a Map. The separator is in no name.
export const jobKey = j => `${j.namespace}\u0000${j.id}`;

export const jobHref = j => `#/job/${encodeURIComponent(j.namespace)}/${encodeURIComponent(j.id)}`;

export const plural = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

// shell quotes a word for a POSIX shell.
export const shell = word => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
