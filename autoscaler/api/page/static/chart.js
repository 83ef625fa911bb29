// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// A chart of one quantity over time, or of one over another, with uPlot.
import { html, Component } from "./html.js";
import uPlot from "./lib/uPlot.mjs";
import { clock, short, UNKNOWN } from "./format.js";
import { valueOf } from "./colours.js";

// All charts of a view share a cursor, so that a resize is found in each of them.
const sync = uPlot.sync("job");

// marked draws vertical lines where the ring changed, dashed for failures, and shades the
// time in which no step was made.
function marked(chart) {
  return u => {
    const { marks = [], stalls = [] } = chart.props, g = u.ctx, { left, top, width, height } = u.bbox;
    g.save();
    g.beginPath();
    g.rect(left, top, width, height);
    g.clip();
    g.fillStyle = valueOf("bad");
    g.globalAlpha = 0.16;
    for (const [from, to] of stalls) {
      const x = u.valToPos(from, "x", true);
      g.fillRect(x, top, Math.max(2, u.valToPos(to, "x", true) - x), height);
    }
    g.globalAlpha = 1;
    g.lineWidth = devicePixelRatio || 1;
    for (const m of marks) {
      const x = Math.round(u.valToPos(m.at, "x", true));
      g.strokeStyle = valueOf(m.failure ? "bad" : "ink-soft");
      g.setLineDash(m.failure ? [4, 3] : []);
      g.globalAlpha = m.failure ? 1 : 0.5;
      g.beginPath();
      g.moveTo(x, top);
      g.lineTo(x, top + height);
      g.stroke();
    }
    g.restore();
  };
}

export class Chart extends Component {
  el = null;
  own = el => { this.el = el; };

  componentDidMount() {
    this.make();
    this.observer = new ResizeObserver(() => this.plot.setSize({ width: this.host().clientWidth, height: this.props.height || 150 }));
    this.observer.observe(this.host());
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => { this.plot.destroy(); this.make(); };
    this.scheme.addEventListener("change", this.onScheme);
  }

  componentDidUpdate() {
    this.plot.setData(this.props.data);
  }

  componentWillUnmount() {
    this.observer.disconnect();
    this.scheme.removeEventListener("change", this.onScheme);
    this.plot.destroy();
  }

  host() { return this.el.querySelector(".chart-host"); }

  make() {
    const { data, lines, height = 150, time = true, xName = "", format = short } = this.props, ink = valueOf("ink-soft"), rule = valueOf("rule");
    const axis = { stroke: ink, font: "11px system-ui, sans-serif", grid: { stroke: rule, width: 1 }, ticks: { show: false } };
    const value = v => v === null || v === undefined ? UNKNOWN : format(v);
    this.plot = new uPlot({
      width: this.host().clientWidth || 300, height, legend: { show: false },
      cursor: { y: false, points: { size: 6 }, ...(time ? { sync: { key: sync.key } } : {}) },
      scales: { x: { time, ...(time ? {} : { range: (u, min, max) => [Math.max(0, min - 0.5), max + 0.5] }) }, y: { range: (u, min, max) => [Math.min(0, min ?? 0), (max ?? 1) > 0 ? 1.1 * (max ?? 1) : 1] } },
      axes: [
        { ...axis, size: 28, space: 60, values: (u, v) => v.map(x => time ? clock(new Date(1000 * x), v[1] - v[0] < 60) : Number.isInteger(x) ? short(x) : "") },
        { ...axis, size: 48, values: (u, v) => v.map(value) },
      ],
      series: [{}, ...lines.map(l => ({
        stroke: valueOf(l.colour), width: 1.75, points: l.points ? { show: true, size: 6, fill: valueOf(l.colour) } : { show: false },
        dash: l.dash, spanGaps: true, paths: l.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
      }))],
      hooks: {
        draw: [marked(this)],
        setCursor: [u => {
          const i = u.cursor.idx, out = this.el.querySelector(".chart-value");
          if (i === null || i === undefined) { out.textContent = this.props.summary; return; }
          const at = time ? clock(new Date(1000 * u.data[0][i]), true) : `${xName} ${u.data[0][i]}`;
          out.textContent = `${at}: ${lines.map((l, k) => u.data[k + 1][i] === null || u.data[k + 1][i] === undefined ? "" : `${l.name ? `${l.name} ` : ""}${value(u.data[k + 1][i])}`).filter(Boolean).join(", ") || UNKNOWN}`;
        }],
      },
    }, data, this.host());
  }

  render({ title, summary, label }) {
    return html`<figure class="chart" ref=${this.own}><figcaption><b>${title}</b> <span class="chart-value">${summary}</span></figcaption>
      <div class="chart-host" role="img" aria-label=${label || `${title}: ${summary}`}></div></figure>`;
  }
}
