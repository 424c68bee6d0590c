// Texts, numbers and names in the language of the page. The server makes messages.js of its catalogs.

import { MESSAGES } from "./messages.js";

let language = document.documentElement.lang === "tr" ? "tr" : "en";

export function say(template, values = {}) {
  const text = MESSAGES[language]?.[template] ?? template;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}

// A text that is said later.
export function msg(template) {
  return template;
}

export function pageLanguage() {
  return language;
}

export function speak(code) {
  language = code === "tr" ? "tr" : "en";
  document.documentElement.lang = language;
}

export function number(value, digits = 0) {
  return value.toLocaleString(language, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// The name of a language in the language of the page; browsers know more of them than we do.
export function languageName(code) {
  try {
    const name = new Intl.DisplayNames([language], { type: "language" }).of(code);
    return name[0].toLocaleUpperCase(language) + name.slice(1);
  } catch {
    return code;
  }
}
