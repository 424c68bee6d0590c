// A document in, the same document translated out; how far it is, and the way to give it up.

import { button, element } from "./elements.js";
import { pairChooser } from "./pair.js";
import { request, requestJson } from "./server.js";
import { number, say } from "./language.js";

const WATCH = 500; // milliseconds between two looks at a document
const MEGABYTE = 1e6;
const entries = []; // the documents of this visit, the newest first

export function documentsPanel(served, messages) {
  const pair = pairChooser(served, { detects: false, changed: () => {} });
  const field = element("input", { type: "file", multiple: true, id: "files", class: "hidden-text", accept: served.files.join(","), onchange: () => { takeAll(field.files); field.value = ""; } });
  const megabytes = number(served.most_bytes / MEGABYTE);
  const consistent = element("input", { type: "checkbox", id: "consistent" });
  const zone = element("div", { class: "pane drop" },
    element("label", { for: "files", class: "main-button" }, say("Choose a file")), field, element("span", {}, say("or drop it here")),
    element("p", { class: "muted note" }, say("Kinds: {kinds}; up to {most} MB", { kinds: served.files.join(" "), most: megabytes }), " · ", say("Their layout, tags and placeholders stay.")),
    element("label", { for: "consistent" }, consistent, " ", say("One translation for each term of a file")));
  const list = element("ul", { class: "documents", "aria-label": say("Files") });
  for (const [name, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
    zone.addEventListener(name, (event) => {
      event.preventDefault();
      zone.classList.toggle("over", over);
      if (name === "drop") takeAll(event.dataTransfer.files);
    });
  }

  function takeAll(files) {
    messages.notice("");
    for (const file of files) take(file);
  }

  async function take(file) {
    const ending = file.name.slice(file.name.lastIndexOf(".")).toLowerCase();
    if (!served.files.includes(ending)) return messages.notice(say("{name}: this kind of file is not translated here", { name: file.name }));
    if (file.size > served.most_bytes) return messages.notice(say("{name}: larger than {most} MB", { name: file.name, most: megabytes }));
    const entry = { name: file.name, status: "reading", segments: 0, translated: 0 };
    entries.unshift(entry);
    draw();
    const { source, target, model } = pair.value();
    const named = model || served.models.find((entry) => entry.source === source && entry.target === target)?.name;
    const body = new FormData();
    body.append("model", named);
    body.append("consistent", consistent.checked);
    body.append("file", file, file.name);
    try {
      Object.assign(entry, await requestJson("/page/documents", { body }), { status: "queued" });
      watch(entry);
    } catch (problem) {
      Object.assign(entry, { status: "error", problem: problem.message });
    }
    draw();
  }

  async function watch(entry) {
    while (["queued", "translating"].includes(entry.status)) {
      await new Promise((done) => setTimeout(done, WATCH));
      if (!entries.includes(entry)) return;
      try {
        const { name, ...state } = await requestJson(address(entry), { method: "GET" });
        Object.assign(entry, state);
      } catch (problem) {
        if (!problem.retryAfter) Object.assign(entry, { status: "error", problem: problem.message });
      }
      draw();
      if (entry.status === "done") messages.status(say("{name}: {state}", { name: entry.name, state: say("done") }));
    }
  }

  async function download(entry) {
    try {
      const blob = await (await request(address(entry, "/file"), { method: "GET" })).blob();
      const url = URL.createObjectURL(blob);
      element("a", { href: url, download: entry.name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    } catch (problem) {
      messages.notice(problem.message);
    }
  }

  function giveUp(entry) {
    entries.splice(entries.indexOf(entry), 1);
    if (entry.id) request(address(entry), { method: "DELETE" }).catch(() => {});
    messages.status(say("Removed"));
    draw();
  }

  function draw() {
    list.hidden = !entries.length;
    list.replaceChildren(...entries.map((entry) => row(entry)));
  }

  function row(entry) {
    const isOver = ["done", "error"].includes(entry.status);
    const share = entry.segments ? entry.translated / entry.segments : undefined;
    const bar = element("progress", { max: 1, value: share, "aria-label": entry.name });
    const name = element("bdi", { class: "file-name" }, entry.name);
    const end = isOver ? say("Remove") : say("Cancel");
    const actions = [
      entry.status === "done" ? button(say("Download"), { class: "main-button", "aria-label": `${say("Download")}: ${entry.name}`, onclick: () => download(entry) }) : null,
      button(end, { class: "quiet", "aria-label": `${end}: ${entry.name}`, onclick: () => giveUp(entry) }),
    ].filter(Boolean);
    return element("li", { class: `document ${entry.status}` }, element("div", { class: "document-text" }, name, element("p", { class: "muted" }, stateOf(entry)), isOver ? null : bar),
      element("div", { class: "document-actions" }, ...actions));
  }

  return { node: element("div", {}, pair.node, zone, list), ready: draw };
}

const address = ({ id, key }, rest = "") => `/page/documents/${id}${rest}?key=${encodeURIComponent(key)}`;

function stateOf({ status, segments, translated, problem, remarks }) {
  if (status === "error") return say("not translated: {problem}", { problem });
  if (status === "translating" && segments) return say("{translated} of {segments} sentences", { translated: number(translated), segments: number(segments) });
  if (status === "done") return [say("done"), ...(remarks ?? [])].join(" · ");
  return status === "queued" ? say("waiting") : say("being read");
}
