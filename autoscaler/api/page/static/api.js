// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Requests to the autoscaler that serves this page.

// A request without an answer for this long counts as failed, or the page would show old data
// without saying so.
const TIMEOUT = 10_000;

// The token is in the storage of this tab only, and is sent to this autoscaler only.
export const token = {
  get: () => sessionStorage.getItem("token") || "",
  set: text => text ? sessionStorage.setItem("token", text) : sessionStorage.removeItem("token"),
};

// Refused is an answer of the autoscaler other than 200.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function options(method, body, signal) {
  const headers = {};
  if (token.get()) headers["X-Nomad-Token"] = token.get();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return { method, headers, credentials: "omit", cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body), signal };
}

async function check(answer) {
  if (answer.ok) return answer;
  let message = `the autoscaler answered ${answer.status}`;
  try {
    message = (await answer.json()).error || message;
  } catch { /* a proxy's page, in place of JSON */ }
  throw new Refused(answer.status, message);
}

async function ask(method, path, query, body) {
  const text = query ? `?${new URLSearchParams(query)}` : "";
  const answer = await fetch(path + text, options(method, body, AbortSignal.timeout(TIMEOUT)));
  return (await check(answer)).json();
}

export const get = (path, query) => ask("GET", path, query);
export const put = (path, body) => ask("PUT", path, undefined, body);

// events calls `event` for each event, until the stream ends. An EventSource cannot send a
// token.
export async function events(event, signal) {
  const answer = await check(await fetch("v1/events", options("GET", undefined, signal)));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part; !(part = await reader.read()).done;) {
    const blocks = (text + part.value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").find(line => line.startsWith("data: "));
      if (data) event(JSON.parse(data.slice(6)));
    }
  }
}
