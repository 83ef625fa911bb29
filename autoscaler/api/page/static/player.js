// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// The controls of a replay: play or pause, the recorded time, and the speed.
import { html } from "./html.js";
import { clock, zone } from "./format.js";

const SPEEDS = [1, 10, 60, 600];
const STEPS = 240; // of the slider, so that a key moves it visibly

export const Player = ({ replay: r, seek }) => {
  const from = Date.parse(r.from) / 1000, length = Math.max(1, Date.parse(r.to) / 1000 - from), at = new Date(r.at);
  const step = Math.max(1, Math.round(length / STEPS)), ended = at >= new Date(r.to);
  const speeds = SPEEDS.includes(r.speed) ? SPEEDS : [...SPEEDS, r.speed].sort((a, b) => a - b);
  return html`<section class="player" aria-label="Replay">
    <button class="primary" onClick=${() => seek({ playing: !r.playing })}>${r.playing ? "Pause" : ended ? "Play again" : "Play"}</button>
    <input type="range" aria-label="Recorded time" min="0" max=${Math.ceil(length / step) * step} step=${step} value=${Math.round((at / 1000 - from) / step) * step} aria-valuetext=${clock(at, true)}
      onInput=${e => seek({ at: new Date(Math.min(from + Number(e.target.value), from + length) * 1000).toISOString() })}/>
    <time datetime=${r.at} title=${zone}>${clock(at, true)}</time>
    <label><span>Speed</span> <select onChange=${e => seek({ speed: Number(e.target.value) })}>
      ${speeds.map(s => html`<option key=${s} value=${s} selected=${s === r.speed}>${s}×</option>`)}</select></label>
    <p class="hint">A recording: nothing here can be changed.</p>
  </section>`;
};
