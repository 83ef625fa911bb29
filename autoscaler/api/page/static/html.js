// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// html makes elements from templates. Values in a template become text or attributes, never
// markup, so the name of a job cannot add elements.
import { h, Component, render } from "./lib/preact.mjs";
import htm from "./lib/htm.mjs";

export const html = htm.bind(h);
export { Component, render };

// memo returns a component that is drawn again only if its properties have changed. An answer
// of the API is never changed in place, so its identity is enough.
export function memo(draw) {
  return class extends Component {
    shouldComponentUpdate(next) {
      return Object.keys(next).some(name => next[name] !== this.props[name]);
    }

    render(props) { return draw(props); }
  };
}
