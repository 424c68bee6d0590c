// From the page as it was sent to the page in use: what is served, the tabs, the language, light or dark.

import { classifyPanel } from "./classify.js";
import { comparePanel } from "./compare.js";
import { documentsPanel } from "./documents.js";
import { button, element, labelled } from "./elements.js";
import { requestJson, remember, remembered, useKey } from "./server.js";
import { pageLanguage, say, speak } from "./strings.js";
import { translatePanel } from "./translate.js";
import { writePanel } from "./write.js";

const THEMES = ["system", "light", "dark"];
const stage = document.getElementById("stage");
const tabList = document.getElementById("tabs");
let served = null;
let current = "";
let panel = null;

// The panels that make sense for what is served, by the names of their tabs.
function panels() {
  const kinds = new Set(served.models.map((model) => model.kind));
  const shown = {};
  if (kinds.has("translator")) Object.assign(shown, { translate: translatePanel, documents: documentsPanel });
  if (kinds.has("classifier")) shown.classify = classifyPanel;
  if (kinds.has("lm")) shown.write = writePanel;
  if (kinds.size) shown.compare = comparePanel;
  return shown;
}

export function notice(text) {
  const box = document.getElementById("notice");
  box.textContent = text;
  box.hidden = !text;
}

function show(name) {
  const all = panels();
  current = all[name] ? name : Object.keys(all)[0];
  panel?.close?.();
  notice("");
  panel = current ? all[current](served, { notice, status }) : null;
  stage.setAttribute("aria-label", current ? say(current) : "dikkat");
  stage.replaceChildren(panel ? panel.node : element("p", { class: "pane" }, say("nothingServed")));
  drawTabs(Object.keys(all));
  document.title = current ? `${say(current)} · dikkat` : "dikkat";
  panel?.ready?.();
}

function drawTabs(names) {
  tabList.setAttribute("aria-label", say("tabs"));
  const choose = (name) => {
    history.replaceState(null, "", `#${name}`);
    show(name);
    document.getElementById(`tab-${current}`).focus();
  };
  const tabs = names.map((name, index) => button(say(name), {
    role: "tab", id: `tab-${name}`, "aria-controls": "stage", "aria-selected": String(name === current), tabindex: name === current ? 0 : -1,
    onclick: () => choose(name),
    onkeydown: (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0;
      if (step) choose(names[(index + step + names.length) % names.length]);
    },
  }));
  tabList.replaceChildren(...(names.length > 1 ? tabs : []));
}

// What changed without anything to look at is read out.
function status(text) {
  document.getElementById("status").textContent = text;
}

function dress() {
  const theme = THEMES.includes(remembered(localStorage, "dikkat-theme")) ? remembered(localStorage, "dikkat-theme") : "system";
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const set = (id, text, label, click) => {
    const control = document.getElementById(id);
    if (text) control.textContent = text;
    control.setAttribute("aria-label", label);
    control.title = label;
    control.onclick = click;
  };
  set("language", say("languageButton"), say("languageLabel"), () => {
    speak(pageLanguage() === "en" ? "tr" : "en");
    remember(localStorage, "dikkat-language", pageLanguage());
    redraw();
  });
  set("theme", say(theme), `${say("theme")}: ${say(theme)}`, () => {
    remember(localStorage, "dikkat-theme", THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
    redraw();
  });
  set("help", "", say("help"), showHelp);
  for (const node of document.querySelectorAll("[data-say]")) node.textContent = say(node.dataset.say);
}

function redraw() {
  dress();
  if (served) show(current);
}

function showHelp() {
  const dialog = document.getElementById("dialog");
  const rows = [
    [["Ctrl", "↵"], "keyEnter"], [["←", "→"], "keyTabs"], [["←", "→"], "keySentences"], [["↑", "↓", "←", "→"], "keyWords"], [["Tab"], "keyTab"], [["Esc"], "keyEscape"],
  ];
  dialog.replaceChildren(
    element("h2", { id: "dialog-title" }, say("help")),
    element("dl", { class: "keys" }, ...rows.flatMap(([keys, name]) => [
      element("dt", {}, ...keys.map((key) => element("kbd", {}, key))), element("dd", {}, say(name)),
    ])),
    element("p", { class: "muted" }, say("privacy")),
    button(say("close"), { class: "main-button", onclick: () => dialog.close() }),
  );
  dialog.showModal();
}

function askForKey(message) {
  const field = element("input", { type: "password", autocomplete: "off", required: true });
  const form = element("form", { class: "pane key-form" }, element("p", {}, say("keyNeeded")), labelled(say("key"), field),
    button(say("useKey"), { class: "main-button", type: "submit" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    useKey(field.value);
    load();
  });
  stage.replaceChildren(form);
  notice(message);
  field.focus();
}

async function load() {
  notice("");
  try {
    served = await requestJson("/page/models", { method: "GET" });
  } catch (problem) {
    if (problem.status === 401 || problem.status === 403) askForKey(remembered(sessionStorage, "dikkat-key") ? problem.message : "");
    else notice(problem.message);
    return;
  }
  show(location.hash.slice(1));
}

speak(remembered(localStorage, "dikkat-language") ?? pageLanguage());
dress();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
load();
