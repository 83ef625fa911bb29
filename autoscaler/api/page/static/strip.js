// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// The strip: slots over time, coloured by job. It is a canvas, because thousands of changes
// would be too many elements; a table next to it has the present numbers as text.
import { html, Component } from "./html.js";
import { clock, jobKey, jobName, number, plural } from "./format.js";
import { COLOURS, assign, colourOf, valueOf } from "./colours.js";
import { Job } from "./parts.js";

// slotTime returns the slot-seconds of a line between two times.
function slotTime(points, from, to) {
  let sum = 0;
  for (let i = 0; i < points.length; i++) {
    const end = i + 1 < points.length ? points[i + 1][0] : to;
    sum += Math.max(0, Math.min(end, to) - Math.max(points[i][0], from)) * points[i][1];
  }
  return sum;
}

// present returns the number of slots at the end of a line.
const present = points => points.length ? points[points.length - 1][1] : 0;

// rank returns the lines of a pool, those with the most slot-time first. Jobs that the viewer
// may not read, and lines beyond the number of colours, share the grey.
let last = {}; // a timeline stays for several draws

function ranked(timeline, pool) {
  if (last.timeline !== timeline || last.pool !== pool) last = { timeline, pool, result: rank(timeline, pool) };
  return last.result;
}

function rank(timeline, pool) {
  const from = Date.parse(timeline.from) / 1000, to = Date.parse(timeline.to) / 1000;
  const lines = timeline.jobs.filter(l => l.pool === pool)
    .map(l => ({ ...l, used: slotTime(l.slots, from, to), now: present(l.slots), first: l.slots[0]?.[0] ?? to }))
    .sort((a, b) => !a.id - !b.id || b.used - a.used);
  const named = lines.filter(l => l.id).slice(0, COLOURS);
  assign(named);
  return { from, to, named: named.sort((a, b) => a.first - b.first), rest: lines.filter(l => !named.includes(l)) };
}

// add adds the changes of a line to out, which has one element per pixel. accumulate then
// sums them up to slots. So the cost grows with the changes, not with lines times pixels.
function add(points, from, step, out) {
  let before = 0;
  for (const [t, n] of points) {
    const x = Math.max(0, Math.ceil((t - from) / step - 0.5));
    if (x >= out.length) break;
    out[x] += n - before;
    before = n;
  }
}

function accumulate(out) {
  for (let x = 1; x < out.length; x++) out[x] += out[x - 1];
}

class Canvas extends Component {
  el = null;
  own = el => { this.el = el; };

  componentDidMount() {
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.el);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => this.draw();
    this.scheme.addEventListener("change", this.onScheme);
    this.draw();
  }

  componentDidUpdate(before) {
    if (before.named !== this.props.named) this.draw(); // of another timeline
  }

  componentWillUnmount() {
    this.observer.disconnect();
    this.scheme.removeEventListener("change", this.onScheme);
  }

  draw() {
    const { from, to, named, rest, capacity } = this.props, canvas = this.el.querySelector("canvas");
    const ratio = devicePixelRatio || 1, width = this.el.clientWidth, height = this.el.clientHeight;
    if (!width || !(to > from)) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const g = canvas.getContext("2d"), step = (to - from) / width;
    g.scale(ratio, ratio);
    const limit = new Float64Array(width);
    add(capacity, from, step, limit);
    accumulate(limit);
    const series = named.map(l => ({ colour: valueOf(colourOf(l)), name: jobName(l), lines: [l] }));
    if (rest.length) series.push({ colour: valueOf("cx"), name: "other jobs", lines: rest });
    for (const s of series) {
      s.at = new Float64Array(width);
      for (const l of s.lines) add(l.slots, from, step, s.at);
      accumulate(s.at);
    }
    const sums = new Float64Array(width);
    for (const s of series) for (let x = 0; x < width; x++) sums[x] += s.at[x];
    let most = 1;
    for (let x = 0; x < width; x++) most = Math.max(most, sums[x], limit[x]);
    this.shown = { series, most, from, step, limit };

    const base = new Float64Array(width), y = n => height - Math.round(n / most * (height - 1));
    for (const s of series) {
      g.fillStyle = s.colour;
      for (let x = 0; x < width;) {
        let end = x + 1;
        while (end < width && s.at[end] === s.at[x] && base[end] === base[x]) end++;
        const top = y(base[x] + s.at[x]), bottom = y(base[x]);
        // A line in the background's colour separates neighbours of similar colours.
        if (bottom > top) g.fillRect(x, top + (bottom - top > 2 ? 1 : 0), end - x, bottom - top - (bottom - top > 2 ? 1 : 0));
        x = end;
      }
      for (let x = 0; x < width; x++) base[x] += s.at[x];
    }
    g.fillStyle = valueOf("ink-soft");
    for (let x = 0; x < width; x++) if (limit[x] > 0) g.fillRect(x, Math.min(height - 1, y(limit[x])), 1, 1);
    this.marks(g, width, height);
  }

  // marks draws a line at round times of the viewer's clock.
  marks(g, width, height) {
    g.fillStyle = valueOf("ink-soft");
    g.globalAlpha = 0.25;
    for (const [, part] of ticks(this.props.from, this.props.to)) g.fillRect(Math.round(part * width), 0, 1, height);
    g.globalAlpha = 1;
  }

  // hover states what the strip shows under the pointer.
  hover(e) {
    const s = this.shown, box = this.el.getBoundingClientRect();
    if (!s) return;
    const x = Math.max(0, Math.min(s.limit.length - 1, Math.floor(e.clientX - box.left)));
    const level = (1 - (e.clientY - box.top) / box.height) * s.most;
    let sum = 0, hit = null;
    for (const one of s.series) {
      sum += one.at[x];
      if (!hit && one.at[x] > 0 && level <= sum) hit = one;
    }
    const at = clock(new Date((s.from + x * s.step) * 1000), true);
    this.setState({ note: hit ? `${at}  ${hit.name}: ${plural(Math.round(hit.at[x]), "slot")}` : `${at}  ${plural(Math.max(0, Math.round(s.limit[x] - sum)), "slot")} free`, x });
  }

  render({ label }, { note, x }) {
    return html`<div class="strip-canvas" ref=${this.own} onPointerMove=${e => this.hover(e)} onPointerLeave=${() => this.setState({ note: null })}>
      <canvas role="img" aria-label=${label}></canvas>
      ${note && html`<span class="strip-note" style=${{ left: `${Math.min(x, this.el.clientWidth - 260)}px` }}>${note}</span>`}
    </div>`;
  }
}

// ticks returns round times of the viewer's clock with their places on the axis, 0 to 1.
function ticks(from, to) {
  const span = to - from, every = [10, 60, 300, 600, 900, 1800, 3600, 7200].find(s => span / s <= 8) || Math.max(14400, span / 8);
  const offset = new Date(from * 1000).getTimezoneOffset() * 60, out = [];
  for (let t = Math.ceil((from - offset) / every) * every + offset; t < to; t += every) out.push([t, (t - from) / span]);
  return out.filter(([, part]) => part > 0.03 && part < 0.9);
}

export const Strip = ({ timeline, pool, span, onSpan }) => {
  if (!timeline) return html`<section class="card strip"><h2>Slots over time</h2><p class="empty">Loading …</p></section>`;
  const { from, to, named, rest } = ranked(timeline, pool);
  const capacity = timeline.pools.find(p => p.pool === pool)?.capacity || [];
  const used = [...named, ...rest].reduce((n, l) => n + l.now, 0), room = present(capacity);
  const label = `Slots of pool ${pool} from ${clock(new Date(from * 1000))} to ${clock(new Date(to * 1000))} by job. Now ${used} of ${room} are held.`;
  const others = rest.reduce((n, l) => n + l.now, 0);
  return html`<section class="card strip" aria-labelledby="strip-title">
    <header><h2 id="strip-title">Slots over time <span class="count">by job; line: all usable slots, now ${number(room)}</span></h2>
      <fieldset class="choice"><legend class="quiet">Period</legend>${[["30m", "30 min"], ["2h", "2 h"], ["6h", "6 h"]].map(([value, name]) =>
        html`<label key=${value}><input type="radio" name="span" checked=${span === value} onChange=${() => onSpan(value)}/><span>${name}</span></label>`)}</fieldset></header>
    <div class="strip-body">
      <div class="strip-plot"><${Canvas} ...${{ from, to, named, rest, capacity, label }}/>
        <div class="axis" aria-hidden="true">${ticks(from, to).map(([t, part]) => html`<span key=${t} style=${{ left: `${100 * part}%` }}>${clock(new Date(t * 1000), to - from < 240)}</span>`)}<span class="axis-now">now</span></div></div>
      <table class="legend"><caption class="quiet">Slots held now</caption><tbody>
        ${[...named].sort((a, b) => b.now - a.now || b.used - a.used).map(l => html`<tr key=${jobKey(l)}><th scope="row"><${Job} job=${l} swatch/></th><td class="n">${number(l.now)}</td></tr>`)}
        ${rest.length > 0 && html`<tr><th scope="row"><i class="swatch cx" aria-hidden="true"></i>${rest.some(l => l.id) ? plural(rest.filter(l => l.id).length, "other job") : "jobs of others"}</th><td class="n">${number(others)}</td></tr>`}
        <tr class="sum"><th scope="row">free</th><td class="n">${number(Math.max(0, room - used))}</td></tr>
      </tbody></table>
    </div>
  </section>`;
};
