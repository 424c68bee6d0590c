// A language model goes on after a beginning; its text appears piece by piece, and can be stopped.

import { button, element, labelled, select } from "./elements.js";
import { request } from "./server.js";
import { number, say } from "./language.js";

const state = { prompt: "", model: "", written: "", most: 100, temperature: 0.8, topP: 0.95, seed: "" };

export function writePanel(served, messages) {
  const models = served.models.filter((model) => model.kind === "lm").map((model) => model.name);
  if (!models.includes(state.model)) [state.model] = models;
  let controller = null;
  const area = element("textarea", {
    rows: 4, dir: "auto", placeholder: say("How does the text begin?"), oninput: () => { state.prompt = area.value; },
    onkeydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && start(),
  });
  area.value = state.prompt;
  const output = element("div", { class: "output written", dir: "auto", id: "written", role: "group", "aria-label": say("What the model writes") });
  const count = element("span", { class: "muted" });
  const begin = button(say("Continue"), { class: "main-button", id: "start", onclick: () => start() });
  const stop = button(say("Stop"), { class: "quiet", id: "stop", disabled: true, onclick: () => controller?.abort() });
  const numeric = (name, label, properties) => {
    const field = element("input", { type: "number", inputmode: "decimal", ...properties, oninput: () => { state[name] = field.value; } });
    field.value = state[name];
    return labelled(label, field);
  };

  async function start() {
    controller?.abort();
    const own = (controller = new AbortController());
    state.written = "";
    let tokens = 0;
    draw(true);
    try {
      const fields = {
        model: state.model, prompt: state.prompt, max_tokens: Number(state.most) || 1, temperature: Number(state.temperature), top_p: Number(state.topP) || 1,
        seed: state.seed === "" ? null : Number(state.seed), stream: true, stream_options: { include_usage: true },
      };
      const answer = await request("/v1/completions", { fields, signal: own.signal });
      for await (const event of events(answer.body)) {
        if (event.error) throw new Error(event.error.message);
        state.written += event.choices?.[0]?.text ?? "";
        tokens = event.usage?.completion_tokens ?? tokens;
        if (own === controller) draw(true);
      }
      messages.notice("");
    } catch (problem) {
      if (problem.name !== "AbortError") messages.notice(problem.message);
    }
    if (own !== controller) return;
    controller = null;
    draw(false);
    if (tokens) count.textContent = say("{count} tokens", { count: number(tokens) });
  }

  function draw(isWriting) {
    output.replaceChildren(element("span", { class: "muted" }, state.written || isWriting ? state.prompt : ""), state.written, isWriting ? element("span", { class: "caret", "aria-hidden": "true" }) : "");
    output.setAttribute("aria-busy", String(isWriting));
    stop.disabled = !isWriting;
    count.textContent = isWriting ? say("writing…") : "";
  }

  const options = element("div", { class: "options" },
    models.length > 1 ? labelled(say("Model"), select(models.map((name) => [name, name]), state.model, { onchange: (event) => { state.model = event.target.value; } })) : null,
    numeric("most", say("Tokens at most"), { min: 1, max: served.most_tokens, step: 1 }),
    numeric("temperature", say("Temperature"), { min: 0, max: 5, step: 0.1 }),
    numeric("topP", say("Top p"), { min: 0.05, max: 1, step: 0.05 }),
    numeric("seed", say("Seed"), { min: 0, step: 1, placeholder: say("any") }));
  const node = element("div", {}, options, element("div", { class: "cards" },
    element("section", { class: "card" }, labelled(say("Beginning of the text"), area, true), element("div", { class: "foot" }, begin, stop)),
    element("section", { class: "card" }, output, element("div", { class: "foot" }, count))));
  return { node, close: () => controller?.abort(), ready: () => draw(false) };
}

// The events of a stream, each as the object that it holds.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "data: [DONE]") return;
      if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
    }
  }
}
