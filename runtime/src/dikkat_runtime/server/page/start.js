// From the page as it was sent to the page in use: what is served, the tabs, the language, light or dark.

import { answersAboutTexts, classifyPanel } from "./classify.js";
import { comparePanel } from "./compare.js";
import { documentsPanel } from "./documents.js";
import { button, element, labelled } from "./elements.js";
import { requestJson, remember, remembered, useKey } from "./server.js";
import { msg, pageLanguage, say, speak } from "./language.js";
import { translatePanel } from "./translate.js";
import { writePanel } from "./write.js";

const TABS = { translate: msg("Translate"), documents: msg("Documents"), classify: msg("Classify"), write: msg("Write"), compare: msg("Compare") };
const THEMES = { system: msg("Auto"), light: msg("Light"), dark: msg("Dark") };
// each speaks to those who read the other language
const OTHER_LANGUAGE = { en: ["tr", "Türkçe", "Sayfayı Türkçe göster"], tr: ["en", "English", "Show the page in English"] };
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
  if ([...kinds].some(answersAboutTexts)) shown.classify = classifyPanel;
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
  stage.setAttribute("aria-label", current ? say(TABS[current]) : "dikkat");
  stage.replaceChildren(panel ? panel.node : element("p", { class: "pane" }, say("No model is served.")));
  drawTabs(Object.keys(all));
  document.title = current ? `${say(TABS[current])} · dikkat` : "dikkat";
  panel?.ready?.();
}

function drawTabs(names) {
  tabList.setAttribute("aria-label", say("What to do"));
  const choose = (name) => {
    history.replaceState(null, "", `#${name}`);
    show(name);
    document.getElementById(`tab-${current}`).focus();
  };
  const tabs = names.map((name, index) => button(say(TABS[name]), {
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
  const theme = remembered(localStorage, "dikkat-theme") in THEMES ? remembered(localStorage, "dikkat-theme") : "system";
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const set = (id, text, label, click) => {
    const control = document.getElementById(id);
    if (text) control.textContent = text;
    control.setAttribute("aria-label", label);
    control.title = label;
    control.onclick = click;
  };
  const [other, ...shown] = OTHER_LANGUAGE[pageLanguage()];
  set("language", ...shown, () => {
    speak(other);
    remember(localStorage, "dikkat-language", pageLanguage());
    redraw();
  });
  set("theme", say(THEMES[theme]), `${say("Light or dark")}: ${say(THEMES[theme])}`, () => {
    const themes = Object.keys(THEMES);
    remember(localStorage, "dikkat-theme", themes[(themes.indexOf(theme) + 1) % themes.length]);
    redraw();
  });
  set("help", "", say("Keys and hints"), showHelp);
  for (const node of document.querySelectorAll("[data-say]")) node.textContent = say(node.dataset.say);
}

function redraw() {
  dress();
  if (served) show(current);
}

function showHelp() {
  const dialog = document.getElementById("dialog");
  const rows = [
    [["Ctrl", "↵"], msg("translate at once, continue writing")], [["←", "→"], msg("other tab")], [["←", "→"], msg("other sentence of the translation")],
    [["↑", "↓", "←", "→"], msg("other word of the attention")], [["Tab"], msg("accept what the model suggests")], [["Esc"], msg("close this")],
  ];
  dialog.replaceChildren(
    element("h2", { id: "dialog-title" }, say("Keys and hints")),
    element("dl", { class: "keys" }, ...rows.flatMap(([keys, meaning]) => [
      element("dt", {}, ...keys.map((key) => element("kbd", {}, key))), element("dd", {}, say(meaning)),
    ])),
    element("p", { class: "muted" }, say("Texts go to this server and nowhere else; it keeps none of them but corrections that you save.")),
    button(say("Close"), { class: "main-button", onclick: () => dialog.close() }),
  );
  dialog.showModal();
}

function askForKey(message) {
  const field = element("input", { type: "password", autocomplete: "off", required: true });
  const form = element("form", { class: "pane key-form" }, element("p", {}, say("This server asks for an API key.")), labelled(say("API key"), field),
    button(say("Use this key"), { class: "main-button", type: "submit" }));
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
