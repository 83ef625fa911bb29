// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// What the policies would do next, and switching a policy after a preview.
import { html } from "./html.js";
import { number, plural } from "./format.js";
import { Job, Table } from "./parts.js";

// changed returns the jobs of a proposal whose wanted count differs from the present one.
export const changed = proposal => proposal.jobs.filter(j => j.want !== j.count || j.move);

export const Changes = ({ proposal, caption }) => {
  const rows = changed(proposal), running = proposal.jobs.filter(j => j.count > 0).length, others = proposal.jobs.length - running;
  const columns = [
    { name: "Job", cell: j => html`<${Job} job=${j}/>` },
    { name: "Now", numeric: true, cell: j => number(j.count) },
    { name: "Wanted", numeric: true, cell: j => html`<b class=${j.want > j.count ? "grows" : "shrinks"}>${number(j.want)}</b>` },
    { name: "At once", numeric: true, cell: j => number(j.write) },
    { name: "What", cell: j => j.cause || (j.hold_reason ? "later" : "") },
    { name: "Why", className: "why", cell: j => [j.reason, j.move, j.hold_reason].filter(Boolean).join("; ") },
  ];
  return html`<${Table} caption=${caption} columns=${columns} rows=${rows} rowKey=${j => `${j.namespace}/${j.id}`}
    empty=${`No change: ${plural(running, "job")} with workers ${running === 1 ? "keeps its size" : "keep their sizes"}${others ? `, and ${plural(others, "job")} without workers ${others === 1 ? "gets" : "get"} none` : ""}.`}/>`;
};

export const Plan = ({ store, actions }) => {
  const { plan, policies, preview } = store;
  const names = policies ? [...policies.built_in, ...(policies.external || [])] : [];
  return html`<div class="plan">
    <section class="card" aria-labelledby="plan-title"><h1 id="plan-title" tabindex="-1">What the policies would do now</h1>
      ${store.planError && html`<p class="problem" role="alert">${store.planError}</p>`}
      ${plan ? plan.map(p => html`<${Changes} key=${p.pool} proposal=${p} caption=${`Pool ${p.pool}, policy ${p.policy}`}/>`) : html`<p class="empty">Loading …</p>`}
    </section>
    ${!store.replay && html`<section class="card" aria-labelledby="switch-title"><h2 id="switch-title">Another policy</h2>
      <form class="switch" onSubmit=${e => { e.preventDefault(); actions.preview(store.draft); }}>
        <label><span>Node pool</span><select value=${store.draft.pool} onChange=${e => store.set({ draft: { ...store.draft, pool: e.target.value }, preview: null })}>
          ${store.status.pools.map(p => html`<option key=${p.name} value=${p.name} selected=${p.name === store.draft.pool}>${p.name}</option>`)}</select></label>
        <label><span>Policy</span><input list="policies" required value=${store.draft.policy} placeholder="e.g. weighted-fair(shares={research=3})" spellcheck=${false} autocomplete="off"
          onInput=${e => store.set({ draft: { ...store.draft, policy: e.target.value }, preview: null })}/></label>
        <datalist id="policies">${names.map(n => html`<option key=${n} value=${n}></option>`)}</datalist>
        <button type="submit">Preview</button>
        ${policies && Object.hasOwn(policies.set, store.draft.pool) && html`<button type="button" onClick=${() => actions.setPolicy(store.draft.pool, "")}>Back to the configured ${Object.hasOwn(policies.configured, store.draft.pool) ? policies.configured[store.draft.pool] : policies.configured["*"] || ""}</button>`}
      </form>
      <p class="hint">A preview changes nothing, but requires a token.</p>
      ${preview && html`<div class="preview"><${Changes} proposal=${preview} caption=${`With ${preview.policy} in ${preview.pool}`}/>
        <p>${plural(changed(preview).length, "job")} would be resized. <button class="primary" onClick=${() => actions.setPolicy(preview.pool, store.draft.policy)}>Set this policy</button></p></div>`}
    </section>`}
  </div>`;
};
