// What the page asks of its server: nothing else is ever asked.

import { say } from "./language.js";

const KEY = "dikkat-key";
let key = remembered(sessionStorage, KEY) ?? "";

export class Problem extends Error {
  constructor(message, status, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

export function useKey(text) {
  key = text.trim();
  remember(sessionStorage, KEY, key);
}

// The answer itself; a request that is given up by its signal raises AbortError.
export async function request(path, { method = "POST", fields, body, signal } = {}) {
  const headers = { Accept: "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  if (fields) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: fields ? JSON.stringify(fields) : body, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(say("The server does not answer. Trying again."), 0, 2);
  }
  if (!answer.ok) throw new Problem(await reason(answer), answer.status, Number(answer.headers.get("Retry-After")) || 0);
  return answer;
}

export async function requestJson(path, options) {
  return (await request(path, options)).json();
}

async function reason(answer) {
  try {
    const { error, message } = await answer.json();
    return String(error?.message ?? error ?? message ?? answer.status);
  } catch {
    return `HTTP ${answer.status}`;
  }
}

// Browsers may forbid to remember anything; then the page forgets.
export function remember(store, name, value) {
  try {
    store.setItem(name, value);
  } catch {
    return false;
  }
  return true;
}

export function remembered(store, name) {
  try {
    return store.getItem(name);
  } catch {
    return null;
  }
}

// One question at a time: a newer one gives up the older one.
export class Latest {
  #controller = null;

  async request(path, fields) {
    this.stop();
    const controller = (this.#controller = new AbortController());
    try {
      return await requestJson(path, { fields, signal: controller.signal });
    } catch (error) {
      if (error.name === "AbortError") return null;
      throw error;
    } finally {
      if (this.#controller === controller) this.#controller = null;
    }
  }

  stop() {
    this.#controller?.abort();
    this.#controller = null;
  }

  get isAsking() {
    return this.#controller !== null;
  }
}
